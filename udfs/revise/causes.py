"""Causes of one unit, revised by what other jobs and earlier days say; rows of job_causes in, and out.

Only what the unit's steps could not decide is revised. Each revised row keeps its values before.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from schemas.job_causes import UNREVISED
from schemas.vocabulary import CULPRIT_PATTERNS, JUDGED_BY_HISTORY
from udfs.kernel.cause import ALWAYS
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
"""Flags of rows about which history may decide, whatever it says."""


class Measured(NamedTuple):
    """A unit whose causes are revised.

    run           : itself, as others see it.
    actual_step_s : T_actual. [s]
    gpu_hours     : None where its manifest does not say. [GPU h]
    workers       : dp_rank, pp_rank, rank and host of each worker.
    """

    run: Run
    actual_step_s: float
    gpu_hours: float | None
    workers: Sequence[Mapping[str, Any]]


class History(NamedTuple):
    """What is known beside the unit: runs of the same model, and hosts that were slow in other jobs."""

    runs: Sequence[Run]
    slow_hosts: Mapping[str, SlowHost]


def revise(causes: Sequence[Row], unit: Measured, history: History, minimum_runs: int) -> list[Row]:
    """Rows of job_causes of one unit, some of them revised; the order is kept.

    causes       : with the evidence as a dict.
    minimum_runs : of the same model; from fewer nothing is concluded.
    """
    rows = {row["cause"]: row for row in causes}
    runs = comparable(unit.run, history.runs)
    if _is_open(rows[SLOW_WORKER], WANT_OF_PEERS) and _is_open(rows[STAGE_IMBALANCE], WANT_OF_PEERS):
        stages = slow_stages(unit.run, runs, history.slow_hosts, minimum_runs)
        if stages is not None:
            rows |= _by_stages(rows, unit, stages)
    if _is_open(rows[COMMUNICATION], WANT_OF_A_NORM) and not _is_revised(rows[SLOW_WORKER]):
        transfers = slow_transfers(unit.run, runs, minimum_runs)
        if transfers is not None:
            rows |= _by_transfers(rows, unit, transfers)
    return [rows[row["cause"]] for row in causes]


def _is_open(row: Row, flags: Sequence[str]) -> bool:
    """Whether history can help: not with too few steps, or if the replay does not match them."""
    return row["flag_reason"] is None or row["flag_reason"] in flags


def _is_revised(row: Row) -> bool:
    return bool(row["flag_reason"] == JUDGED_BY_HISTORY and row["evidence"]["history_factor"] > 1.0)


def _by_stages(rows: Mapping[str, Row], unit: Measured, found: SlowStages) -> dict[str, Row]:
    """Move to slow_worker what the hosts do, leave to stage_imbalance what the work does."""
    saved = found.saved_s / unit.actual_step_s
    worker, stage = rows[SLOW_WORKER], rows[STAGE_IMBALANCE]
    evidence = {
        "history_runs": float(found.runs),
        "history_jobs": float(found.jobs),
        "history_factor": found.largest,
    }
    if not found.factors or saved < LEAST_CLAIM:
        was_open = (row for row in (worker, stage) if row["flag_reason"] in WANT_OF_PEERS)
        is_answered = not found.factors
        return {row["cause"]: _revised(row, unit, {}, evidence) for row in was_open if is_answered}
    # A fix that shared its saving with those of other causes shares it under its new name too.
    shared = _share(stage) if found.kept < 1.0 else 1.0
    # Without a slow stage the culprits were only candidates; on these stages they are known better now.
    known = worker["culprits"] if worker["is_cause"] else []
    elsewhere = [each for each in known if each["pp_rank"] not in found.factors]
    culprits = sorted(
        [*elsewhere, *_workers(unit, found.factors)],
        key=lambda culprit: -culprit["effect"] * culprit["share_of_steps"],
    )
    changes = {
        "time_saved_fraction": worker["time_saved_fraction"] + saved,
        "attributed_fraction": worker["attributed_fraction"] + saved * shared,
        "culprits": culprits[:MOST_CULPRITS],
    }
    effect = {"effect": culprits[0]["effect"]}
    revised = {SLOW_WORKER: _revised(worker, unit, changes, evidence | effect)}
    if found.kept < 1.0:
        changes = {
            "time_saved_fraction": stage["time_saved_fraction"] * found.kept,
            "attributed_fraction": stage["attributed_fraction"] * found.kept,
            "culprits": _heavy(unit, found.factors),
        }
        revised[STAGE_IMBALANCE] = _revised(stage, unit, changes, evidence)
    elif stage["flag_reason"] in WANT_OF_PEERS:
        revised[STAGE_IMBALANCE] = _revised(stage, unit, {}, evidence)
    return revised


def _by_transfers(rows: Mapping[str, Row], unit: Measured, found: SlowTransfers) -> dict[str, Row]:
    """Add what usual transfers would save beyond what was found against the unit's own usual ones."""
    row = rows[COMMUNICATION]
    saved = found.saved_s / unit.actual_step_s
    evidence = {"history_runs": float(found.runs), "history_factor": found.factor}
    if saved < LEAST_CLAIM:
        is_answered = row["flag_reason"] in WANT_OF_A_NORM and found.saved_s == 0.0
        return {COMMUNICATION: _revised(row, unit, {}, evidence)} if is_answered else {}
    changes = {name: row[name] + saved for name in ("time_saved_fraction", "attributed_fraction")}
    return {COMMUNICATION: _revised(row, unit, changes, evidence)}


def _revised(row: Row, unit: Measured, changes: Row, evidence: Mapping[str, float]) -> Row:
    """Return the row with changes, its hours and label as they follow, and its values before."""
    new = row | changes
    saved = new["time_saved_fraction"]
    hours = unit.gpu_hours
    return new | {
        "is_cause": saved >= LEAST_SAVED,
        "recoverable_gpu_hours": None if hours is None else hours * saved,
        "attributed_gpu_hours": None if hours is None else hours * new["attributed_fraction"],
        "flag_reason": JUDGED_BY_HISTORY,
        "evidence": row["evidence"] | evidence | {"revised_from": row["time_saved_fraction"]},
        "unrevised": {name: row[name] for name in UNREVISED.names},
    }


def _share(row: Row) -> float:
    saved = row["time_saved_fraction"]
    return min(max(row["attributed_fraction"] / saved, 0.0), 1.0) if saved >= LEAST_CLAIM else 1.0


def _workers(unit: Measured, factors: Mapping[int, float]) -> list[Row]:
    """Workers of slow stages as culprits."""
    return [
        {
            **{name: worker[name] for name in ("pp_rank", "dp_rank", "rank", "host")},
            "effect": factors[worker["pp_rank"]] - 1.0,
            "share_of_steps": 1.0,
            "pattern": CULPRIT_PATTERNS[ALWAYS],
        }
        for worker in unit.workers
        if worker["pp_rank"] in factors
    ]


def _heavy(unit: Measured, factors: Mapping[int, float]) -> list[Row]:
    """Stages that are heavier than the mean stage, were all hosts as fast as elsewhere."""
    work_s = [stage.compute_s / factors.get(number, 1.0) for number, stage in enumerate(unit.run.stages)]
    mean_s = sum(work_s) / len(work_s)
    heavy = [
        {
            "pp_rank": number,
            "dp_rank": None,
            "rank": None,
            "host": None,
            "effect": time_s / mean_s - 1.0,
            "share_of_steps": 1.0,
            "pattern": CULPRIT_PATTERNS[ALWAYS],
        }
        for number, time_s in enumerate(work_s)
        if time_s / mean_s - 1.0 > LEAST_HEAVY
    ]
    return sorted(heavy, key=lambda culprit: -culprit["effect"])
