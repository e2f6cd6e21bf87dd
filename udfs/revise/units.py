"""Revise the causes of many units by earlier runs of their models and by hosts slow in other jobs.

Tables in, a table out. A few numbers per stage and op type of each unit and day (job_baseline) are all
that is looked at; ops are replayed once more only of units whose transfers became slow. That recorded steps
grew longer over earlier days is said without any replay.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from itertools import chain
from math import fsum, isclose
from statistics import median
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from schemas.columns import SAME_FORMULA, SAME_SUM
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import (
    CAUSE_UNEXPLAINED,
    JOB_BASELINE,
    JOB_CAUSES,
    JOB_SLOWDOWN,
    UNIT_KEY,
    WORKER_SLOWDOWN,
    Status,
)
from udfs.intervals import in_gpu_hours
from udfs.lost import lost_columns
from udfs.revise.causes import History, Measured, Revised, Row, revise, with_usual_transfers
from udfs.revise.history import SAME_OPS, Run, SlowHost, Stage

RUNS_A_DAY: Final = 8
"""Most runs of each model and day that are compared: hundreds of the same model add nothing."""

MOST_RUNS: Final = 32
"""Most runs that a unit is compared with, the latest."""

REVISED_FROM: Final = (JOB_BASELINE, JOB_SLOWDOWN, JOB_CAUSES, WORKER_SLOWDOWN)
"""Tables that a revision reads of every unit: no ops, nothing by step."""

# Ideal durations of another layout, ideal or simulator are not comparable.
_KIND: Final = (
    *("gpu_type", "dp_size", "pp_size", "cp_size", "vpp_size", "world_size"),
    *("ideal", "simulator_version"),
)
_WORKER: Final = ("dp_rank", "pp_rank", "rank", "host")
_MEASURED: Final = ("time_saved_fraction", "attributed_fraction")

_Key = tuple[Any, ...]


class _Slow(NamedTuple):
    """A host found slow by one job on one day."""

    log_date: date
    job_id: str
    effect: float


Replay = Callable[[Mapping[Unit, Mapping[str, float]]], Mapping[Unit, Sequence[Row]]]
"""Replays units, each with usual transfers by op type [s], and returns their rows of job_causes.

A unit that cannot be replayed as it was before is missing from what it returns.
"""


class _Concluded(NamedTuple):
    """A unit revised by other runs, before its transfers are replayed."""

    places: list[int]
    unit: Measured
    found: Revised
    stored: Sequence[Row]
    is_analysed: bool


def revised_causes(
    results: Mapping[str, pa.Table], earlier: pa.Table, days: int, minimum_runs: int, replay: Replay
) -> pa.Table:
    """Revise rows of job_causes by other jobs and earlier days.

    results : the tables REVISED_FROM, of the same units; causes as measured, or as revised before.
    earlier : rows of job_baseline of other days.
    returns : units missing from one of these tables are left out.
    days    : how many earlier days a unit is compared with.
    minimum_runs : of the same model; from fewer nothing is concluded.
    replay  : called once, for units whose transfers became slow; one that it cannot replay stays as measured.
    """
    baselines = {_key(row): row for row in _rows(results[JOB_BASELINE])}
    known = _Known(chain(baselines.values(), _rows(earlier)), days)
    hours = {_key(row): row["gpu_hours"] for row in _rows(results[JOB_SLOWDOWN], "gpu_hours")}
    workers = _workers(results[WORKER_SLOWDOWN])
    causes = results[JOB_CAUSES]
    rows = _rows(causes)
    concluded: dict[Unit, _Concluded] = {}
    dropped: list[int] = []
    for key, places in _by_unit(rows).items():
        baseline = baselines.get(key)
        if baseline is None or key not in hours:  # left half written; its day is done again
            dropped += places
            continue
        unit = Measured(_run(baseline), baseline["actual_step_s"], hours[key], workers[key])
        measured = [_as_measured(rows[place], hours[key]) for place in places]
        found = revise(measured, unit, known.beside(baseline, unit.run), minimum_runs)
        is_analysed = baseline["status"] == Status.ANALYSED
        concluded[key] = _Concluded(places, unit, found, [rows[place] for place in places], is_analysed)
    changed = {at: row for at, row in _with_transfers(concluded, replay) if row is not rows[at]}
    is_kept = np.ones(len(rows), dtype=bool)
    is_kept[[*changed, *dropped]] = False
    schema = TABLES[JOB_CAUSES].arrow_schema
    anew = pa.Table.from_pylist(list(changed.values()), schema)
    return pa.concat_tables([causes.filter(pa.array(is_kept)).select(schema.names).cast(schema), anew])


def _with_transfers(concluded: Mapping[Unit, _Concluded], replay: Replay) -> Iterator[tuple[int, Row]]:
    """Yield the final rows of all units with their positions, losses recomputed."""
    wanted = {
        key: each.found.transfers.usual_s
        for key, each in concluded.items()
        if each.found.transfers is not None and each.found.transfers.usual_s
    }
    replayed = replay(wanted) if wanted else {}
    for key, (places, unit, found, stored, is_analysed) in concluded.items():
        rows = with_usual_transfers(*found, unit, replayed.get(key, ()))
        lost = lost_columns(_as_counted(rows, stored), unit.gpu_hours, is_analysed=is_analysed)
        yield from zip(places, map(_with_columns, rows, lost), strict=True)


class _Known:
    """Index of baselines: analysed runs by model and layout, and slow hosts."""

    def __init__(self, baselines: Iterator[Row], days: int) -> None:
        self._days = days
        self._slow: defaultdict[str, list[_Slow]] = defaultdict(list)
        by_day: defaultdict[tuple[_Key, date], list[Row]] = defaultdict(list)
        for row in baselines:
            for each in row["slow_hosts"] or ():
                self._slow[each["host"]].append(_Slow(row["log_date"], row["job_id"], each["effect"]))
            if row["status"] == Status.ANALYSED:
                by_day[_kind(row), row["log_date"]].append(row)
        self._runs: defaultdict[_Key, list[tuple[Unit, Run]]] = defaultdict(list)
        for (kind, _), rows in sorted(by_day.items(), key=lambda each: each[0][1], reverse=True):
            some = sorted(rows, key=_key)[:RUNS_A_DAY]
            self._runs[kind] += [(_key(row), _run(row)) for row in reversed(some)]

    def beside(self, baseline: Row, run: Run) -> History:
        """History for a unit from the days before its own.

        Not of its own: a unit's rows would then depend on which others of its day were late, or corrected.
        """
        own_day, job_id = baseline["log_date"], baseline["job_id"]
        runs = [each for key, each in self._runs[_kind(baseline)] if self._counts(key.log_date, own_day)]
        slow = {
            host: [
                each
                for each in self._slow.get(host, ())
                if each.job_id != job_id and self._counts(each.log_date, own_day)
            ]
            for host in run.hosts
        }
        return History(runs[:MOST_RUNS], {host: _slow_host(found) for host, found in slow.items() if found})

    def _counts(self, day: date, own_day: date) -> bool:
        return 1 <= (own_day - day).days <= self._days


def _slow_host(found: Sequence[_Slow]) -> SlowHost:
    """Summarise how other jobs found a host: number of jobs, and median effect."""
    return SlowHost(len({each.job_id for each in found}), median(each.effect for each in found))


def _as_measured(row: Row, gpu_hours: float | None) -> Row:
    """Undo a revision of a job_causes row; hours follow from its fractions."""
    before = row["unrevised"]
    new = row if before is None else {**row, **before, "unrevised": None}
    hours = [in_gpu_hours(new, name, gpu_hours) for name in _MEASURED]
    return _with_columns(new, hours[0] | hours[1])


def _as_counted(revised: list[Row], stored: Sequence[Row]) -> list[Row]:
    """Count losses as the stored rows do: before 0.4.0, none beyond the fixes."""
    lost = [row["lost_fraction"] for row in stored]
    fixed = max(0.0, fsum(row["attributed_fraction"] for row in stored))
    if None in lost or not isclose(fsum(lost), fixed, rel_tol=SAME_SUM):
        return revised
    return [
        {**row, "time_saved_fraction": 0.0} if row["cause"] == CAUSE_UNEXPLAINED else row for row in revised
    ]


def _with_columns(row: Row, columns: Row) -> Row:
    """Return a row with these columns; the same object if it has them already."""
    return row if all(_agree(row[name], columns[name]) for name in columns) else {**row, **columns}


def _agree(left: float | None, right: float | None) -> bool:
    if left is None or right is None:
        return left is right
    return isclose(left, right, rel_tol=SAME_FORMULA)


def _run(row: Row) -> Run:
    return Run(
        ops_per_step=row["ops_per_step"],
        ideal_step_s=row["ideal_step_s"],
        stages=[
            Stage(stage["usual_compute_s"], frozenset(stage["hosts"] or ())) for stage in row["stages"] or ()
        ],
        op_types_s={each["op_type"]: each["ideal_duration_s"] for each in row["op_types"] or ()},
    )


def _kind(row: Row) -> _Key:
    """Model and layout, which must agree for two units to be compared."""
    return (row["job_id"] if row["model"] is None else row["model"], *(row[name] for name in _KIND))


def _workers(table: pa.Table) -> defaultdict[Unit, list[Row]]:
    """Workers of each unit, sorted by dp_rank and pp_rank: tied culprits are named in this order."""
    found: defaultdict[Unit, list[Row]] = defaultdict(list)
    for row in _rows(table.sort_by([("dp_rank", "ascending"), ("pp_rank", "ascending")]), *_WORKER):
        found[_key(row)].append(row)
    return found


def _by_unit(rows: Sequence[Row]) -> dict[Unit, list[int]]:
    """Positions of each unit's rows."""
    found: defaultdict[Unit, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        found[_key(row)].append(place)
    return found


def _rows(table: pa.Table, *columns: str) -> list[Row]:
    chosen = table.select([*UNIT_KEY, *columns]) if columns else table
    return list(chosen.to_pylist(maps_as_pydicts="strict"))


def _key(row: Row) -> Unit:
    return Unit(*(row[name] for name in UNIT_KEY))


_COLUMN: Final = "slower_than_usual"
_OF_THE_PAST: Final = ("actual_step_s", "ops_per_step")
_ALIKE: Final = ("gpu_type", "dp_size", "pp_size", "cp_size", "vpp_size", "world_size")
_MOST_RUNS: Final = 32
"""Most earlier units that one is compared with, the latest."""


def with_slower(slowdowns: pa.Table, baselines: pa.Table, earlier: pa.Table, days: int) -> pa.Table:
    """Add to job_slowdown the ratio of each step time to its usual one; null without earlier days.

    Usual is the lower median of earlier days of the same model, layout and ops per step; where there are
    none, that of the same run.

    baselines, earlier : rows of job_baseline, of these days and of days before.
    days               : how many earlier days count.
    """
    columns = list(dict.fromkeys((*UNIT_KEY, "model", *_ALIKE, *_OF_THE_PAST)))
    own = baselines.select(columns).to_pylist()
    past: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in sorted([*own, *earlier.select(columns).to_pylist()], key=_unit, reverse=True):
        past[_alike(row)].append(row)
        past[row["job_id"], row["run_id"]].append(row)
    found = {_unit(row): _ratio(row, past, days) for row in own}
    units = zip(*(slowdowns.column(name).to_pylist() for name in UNIT_KEY), strict=True)
    ratios = pa.array([found.get(Unit(*unit)) for unit in units], pa.float64())
    return slowdowns.set_column(slowdowns.column_names.index(_COLUMN), _COLUMN, ratios)


def _ratio(unit: Row, past: dict[tuple[Any, ...], list[Row]], days: int) -> float | None:
    def before(rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if 1 <= (unit["log_date"] - row["log_date"]).days <= days]

    alike = [row for row in before(past[_alike(unit)]) if _is_same_work(row, unit)]
    compared = (alike or before(past[unit["job_id"], unit["run_id"]]))[:_MOST_RUNS]
    times_s = sorted(row["actual_step_s"] for row in compared)
    usual_s = times_s[(len(times_s) - 1) // 2] if times_s else 0.0
    return unit["actual_step_s"] / usual_s if usual_s > 0.0 else None


def _is_same_work(row: Row, unit: Row) -> bool:
    return bool(abs(row["ops_per_step"] - unit["ops_per_step"]) <= SAME_OPS * unit["ops_per_step"])


def _alike(row: Row) -> tuple[Any, ...]:
    return (row["job_id"] if row["model"] is None else row["model"], *(row[name] for name in _ALIKE))


def _unit(row: Row) -> Unit:
    return Unit(*(row[name] for name in UNIT_KEY))
