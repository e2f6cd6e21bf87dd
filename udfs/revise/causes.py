"""Revise the causes of one unit by comparison with other jobs and earlier days, as rows of job_causes.

Only rows that the unit's own steps could not decide are revised. A revised row also keeps its earlier values.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import fsum
from typing import Any, Final, NamedTuple

from schemas import vocabulary
from schemas.causes import JUDGED_BY_HISTORY
from schemas.job_causes import CULPRIT, UNREVISED
from udfs.intervals import around, half_width, in_gpu_hours
from udfs.kernel.cause import ALWAYS, HOST, STAGE, WORKER
from udfs.kernel.diagnosis.culprits import LEAST_HEAVY, MOST_CULPRITS
from udfs.kernel.diagnosis.diagnose import LEAST_SAVED
from udfs.kernel.diagnosis.flags import LEAST_CLAIM
from udfs.revise.history import (
    Run,
    SlowHost,
    SlowStages,
    SlowTransfers,
    comparable,
    slow_stages,
    slow_transfers,
)

Row = dict[str, Any]

SLOW_WORKER: Final = "slow_worker"
STAGE_IMBALANCE: Final = "stage_imbalance"
COMMUNICATION: Final = "communication"

WANT_OF_PEERS: Final = ("few_peers", "slow_worker_or_stage_imbalance")
WANT_OF_A_NORM: Final = ("no_usual_transfer",)
"""Flags of rows that a comparison with other runs may revise; their causes may then hold, or no longer
hold."""


class Measured(NamedTuple):
    """A unit whose causes may be revised.

    run           : figures of the unit that are compared with other runs.
    actual_step_s : T_actual. [s]
    gpu_hours     : None if its manifest does not state them. [GPU h]
    workers       : function that reads dp_rank, pp_rank, rank and host of each worker.
    """

    run: Run
    actual_step_s: float
    gpu_hours: float | None
    workers: Callable[[], Sequence[Mapping[str, Any]]]


class History(NamedTuple):
    """Runs of the same model, and hosts that were slow in other jobs, with which a unit is compared."""

    runs: Sequence[Run]
    slow_hosts: Mapping[str, SlowHost]


class Revised(NamedTuple):
    """A unit's rows of job_causes, revised except for slow transfers, which are compared with other runs.

    transfers : None if other runs cannot decide whether transfers are slow.
    """

    rows: list[Row]
    transfers: SlowTransfers | None


def revise(causes: Sequence[Row], unit: Measured, history: History, minimum_runs: int) -> Revised:
    """Revise a unit's rows of job_causes as far as this needs no replay; see with_usual_transfers.

    causes       : with the evidence as a dict.
    minimum_runs : fewest runs of the same model from which anything is concluded.
    """
    rows = {row["cause"]: row for row in causes}
    runs = comparable(unit.run, history.runs)
    if _is_open(rows[SLOW_WORKER], WANT_OF_PEERS) and _is_open(rows[STAGE_IMBALANCE], WANT_OF_PEERS):
        stages = slow_stages(unit.run, runs, history.slow_hosts, minimum_runs)
        if stages is not None:
            rows |= _by_stages(rows, unit, stages)
    transfers, worker = None, rows[SLOW_WORKER]
    is_slower = worker["flag_reason"] == JUDGED_BY_HISTORY and worker["evidence"]["history_factor"] > 1.0
    if _is_open(rows[COMMUNICATION], WANT_OF_A_NORM) and not is_slower:
        transfers = slow_transfers(unit.run, runs, minimum_runs)
    return Revised([rows[row["cause"]] for row in causes], transfers)


def with_usual_transfers(
    rows: Sequence[Row], found: SlowTransfers | None, unit: Measured, replayed: Sequence[Row]
) -> list[Row]:
    """Revise the row of slow communication by a replay with the usual transfer times of other runs.

    replayed : the unit's rows from a replay with the usual times found.usual_s; empty if no type of transfer
               became slow, or if the unit can no longer be replayed.
    """
    if found is None or (found.usual_s and not replayed):
        return list(rows)
    (row,) = (each for each in rows if each["cause"] == COMMUNICATION)
    evidence = {"history_runs": float(found.runs), "history_factor": found.factor}
    changes: Row = {}
    if found.usual_s:
        (new,) = (each for each in replayed if each["cause"] == COMMUNICATION)
        if new["time_saved_fraction"] - row["time_saved_fraction"] >= LEAST_CLAIM:
            # Only the saving of communication changes the saving of all fixes together.
            others = fsum(each["attributed_fraction"] for each in rows if each is not row)
            together = min(fsum(each["attributed_fraction"] for each in replayed), 1.0 - _beside(rows))
            changes = {name: new[name] for name in ("time_saved_fraction", "culprits")}
            changes |= _around(new, "time_saved_fraction", new["time_saved_fraction"])
            changes["attributed_fraction"] = together - others
            changes |= _around(new, "attributed_fraction", together - others)
            evidence = new["evidence"] | evidence
    if not changes and row["flag_reason"] not in WANT_OF_A_NORM:
        return list(rows)
    revised = _revised(row, unit, changes, evidence)
    return [revised if each is row else each for each in rows]


def _beside(rows: Iterable[Row]) -> float:
    """Return the share of T_actual that fixing all causes does not save, which no revision may claim."""
    return fsum(
        max(0.0, row["time_saved_fraction"]) for row in rows if row["cause"] == vocabulary.CAUSE_UNEXPLAINED
    )


def _is_open(row: Row, flags: Sequence[str]) -> bool:
    """Return whether other runs may revise a row: only if it has no flag, or one of the given flags."""
    return row["flag_reason"] is None or row["flag_reason"] in flags


def _by_stages(rows: Mapping[str, Row], unit: Measured, found: SlowStages) -> dict[str, Row]:
    """Move losses between causes by stage: slow hosts to slow_worker, uneven work to stage_imbalance."""
    worker, stage = rows[SLOW_WORKER], rows[STAGE_IMBALANCE]
    # The unit's own fixes save a part of the step already; no more than the rest can be saved.
    together = fsum(row["attributed_fraction"] for row in rows.values())
    left = 1.0 - max(together + _beside(rows.values()), worker["time_saved_fraction"])
    saved = min(found.saved_s / unit.actual_step_s, left)
    evidence = {
        "history_runs": float(found.runs),
        "history_jobs": float(found.jobs),
        "history_factor": found.largest,
    }
    if not found.factors or saved < LEAST_CLAIM:
        was_open = (row for row in (worker, stage) if row["flag_reason"] in WANT_OF_PEERS)
        is_answered = not found.factors
        return {row["cause"]: _revised(row, unit, {}, evidence) for row in was_open if is_answered}
    # The moved saving overlaps those of other causes as much as the saving of the stages did.
    shared = _share(stage) if found.kept < 1.0 else 1.0
    # Culprits on slow stages are replaced; culprits of a row that is no cause were only candidates.
    known = worker["culprits"] if worker["is_cause"] else []
    elsewhere = [
        each
        for each in known
        if not any(place["pp_rank"] in found.factors for place in (each, *(each["workers"] or ())))
    ]
    culprits = sorted(
        [*elsewhere, *_workers(unit, found.factors)],
        key=lambda culprit: -culprit["effect"] * culprit["share_of_steps"],
    )
    changes = {
        **_moved(worker, "time_saved_fraction", saved, stage),
        **_moved(worker, "attributed_fraction", saved * shared, stage),
        "culprits": culprits[:MOST_CULPRITS],
    }
    effect = {"effect": culprits[0]["effect"]}
    revised = {SLOW_WORKER: _revised(worker, unit, changes, evidence | effect)}
    if found.kept < 1.0:
        changes = {
            **_moved(stage, "time_saved_fraction", stage["time_saved_fraction"] * (found.kept - 1.0)),
            **_moved(stage, "attributed_fraction", stage["attributed_fraction"] * (found.kept - 1.0)),
            "culprits": _heavy(unit, found.factors),
        }
        revised[STAGE_IMBALANCE] = _revised(stage, unit, changes, evidence)
    elif stage["flag_reason"] in WANT_OF_PEERS:
        revised[STAGE_IMBALANCE] = _revised(stage, unit, {}, evidence)
    return revised


def _moved(row: Row, name: str, moved: float, origin: Row | None = None) -> Row:
    """Return a fraction plus `moved`, and bounds with the half widths of `row` and `origin` added.

    Half widths of both rows are added, because their errors come from the same steps.
    """
    return {name: row[name] + moved, **_around(row, name, row[name] + moved, origin)}


def _around(row: Row, name: str, value: float, origin: Row | None = None) -> Row:
    """Return bounds around a new value; their half width is the row's plus that of the row `origin`."""
    halves = [half_width(each, name) for each in (row, origin) if each is not None]
    known = [half for half in halves if half is not None]
    return around(name, value, fsum(known) if len(known) == len(halves) else None)


def _revised(row: Row, unit: Measured, changes: Row, evidence: Mapping[str, float]) -> Row:
    """Return the row with changes, new GPU-hours, a flag for the revision, and the values from before it."""
    new = row | changes
    return new | {
        "is_cause": new["time_saved_fraction"] >= LEAST_SAVED,
        **in_gpu_hours(new, "time_saved_fraction", unit.gpu_hours),
        **in_gpu_hours(new, "attributed_fraction", unit.gpu_hours),
        "flag_reason": JUDGED_BY_HISTORY,
        "evidence": row["evidence"] | evidence | {"revised_from": row["time_saved_fraction"]},
        "unrevised": {name: row[name] for name in UNREVISED.names},
    }


def _share(row: Row) -> float:
    """Return the attributed part of a row's saving; 1 if the saving is too small for a ratio."""
    saved = row["time_saved_fraction"]
    return min(max(row["attributed_fraction"] / saved, 0.0), 1.0) if saved >= LEAST_CLAIM else 1.0


def _workers(unit: Measured, factors: Mapping[int, float]) -> list[Row]:
    """Return the workers of slow stages as culprits; if all of a host is slow, the host is one culprit."""
    by_host: defaultdict[object, list[Row]] = defaultdict(list)
    for worker in unit.workers():
        named = {name: worker[name] for name in ("pp_rank", "dp_rank", "rank", "host")}
        by_host[worker["host"]].append(named)
    culprits = []
    for host, workers in by_host.items():
        slow = [each for each in workers if each["pp_rank"] in factors]
        if host is not None and len(slow) == len(workers) > 1:
            effect = sum(factors[each["pp_rank"]] for each in slow) / len(slow) - 1.0
            culprits.append(_culprit(effect, HOST) | {"slow_host": host, "workers": slow})
        else:
            culprits += [_culprit(factors[each["pp_rank"]] - 1.0, WORKER) | each for each in slow]
    return culprits


def _culprit(effect: float, reach: int) -> Row:
    """Return a culprit that is slow in all steps; its step numbers stay null."""
    return dict.fromkeys(CULPRIT.names) | {
        "effect": effect,
        "share_of_steps": 1.0,
        "pattern": vocabulary.CULPRIT_PATTERNS[ALWAYS],
        "direction": vocabulary.DIRECTION_BOTH,
        "course": vocabulary.CULPRIT_COURSES[ALWAYS],
        "reach": vocabulary.CULPRIT_REACHES[reach],
        "workers": [],
    }


def _heavy(unit: Measured, factors: Mapping[int, float]) -> list[Row]:
    """Return the stages that would be heavier than the mean stage if all hosts were equally fast."""
    work_s = [stage.compute_s / factors.get(number, 1.0) for number, stage in enumerate(unit.run.stages)]
    mean_s = sum(work_s) / len(work_s)
    heavy = [
        _culprit(time_s / mean_s - 1.0, STAGE) | {"pp_rank": number}
        for number, time_s in enumerate(work_s)
        if time_s / mean_s - 1.0 > LEAST_HEAVY
    ]
    return sorted(heavy, key=lambda culprit: -culprit["effect"])
