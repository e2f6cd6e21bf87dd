"""Revise the causes of many units by comparison with earlier runs, and with hosts slow in other jobs.

Takes tables and returns a table. Units are compared by a few numbers per stage and op type (job_baseline);
only units whose transfers became slow are replayed again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from itertools import chain
from math import fsum, isclose
from statistics import median
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from schemas import vocabulary
from schemas.columns import SAME_FORMULA, SAME_SUM
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import JOB_BASELINE, JOB_CAUSES, JOB_SLOWDOWN, UNIT_KEY, WORKER_SLOWDOWN, Status
from udfs.intervals import in_gpu_hours
from udfs.lost import lost_columns
from udfs.revise.causes import History, Measured, Revised, Row, revise, with_usual_transfers
from udfs.revise.history import Run, SlowHost, Stage, kind_of
from udfs.revise.rows_of_units import RowsOfUnits

RUNS_A_DAY: Final = 8
"""Most compared runs of each model and day, because more runs of one day add nothing."""

MOST_RUNS: Final = 32
"""Most runs with which a unit is compared; the latest are taken."""

REVISED_FROM: Final = (JOB_BASELINE, JOB_SLOWDOWN, JOB_CAUSES, WORKER_SLOWDOWN)
"""Tables that a revision reads of every unit; none has a row per op or per step."""

# Units are compared only if these agree, because ideal durations depend on them.
_KIND: Final = (
    *("gpu_type", "dp_size", "pp_size", "cp_size", "vpp_size", "world_size"),
    *("ideal", "simulator_version"),
)
_WORKER: Final = ("dp_rank", "pp_rank", "rank", "host")
_MEASURED: Final = ("time_saved_fraction", "attributed_fraction")

_Key = tuple[Any, ...]


class _Slow(NamedTuple):
    """A host that one job found slow on one day."""

    log_date: date
    job_id: str
    effect: float


Replay = Callable[[Mapping[Unit, Mapping[str, float]]], Mapping[Unit, Sequence[Row]]]
"""Replays units, each with usual transfers by op type [s], and returns their rows of job_causes.

A unit that cannot be replayed as before is missing from the result.
"""


class _Concluded(NamedTuple):
    """A unit whose rows are revised except for slow transfers, which may need a replay."""

    key: Unit
    places: Sequence[int]
    unit: Measured
    found: Revised
    stored: Sequence[Row]
    is_analysed: bool

    @property
    def usual_s(self) -> Mapping[str, float]:
        """Usual transfer time by op type in other runs, if a replay needs it; otherwise empty. [s]"""
        return self.found.transfers.usual_s if self.found.transfers is not None else {}

    def changed(self, replayed: Sequence[Row]) -> dict[int, Row]:
        """Return the changed rows by position, with losses recomputed."""
        rows = with_usual_transfers(*self.found, self.unit, replayed)
        lost_before = [row["lost_fraction"] for row in self.stored]
        fixed = max(0.0, fsum(row["attributed_fraction"] for row in self.stored))
        counted = rows
        if None not in lost_before and isclose(fsum(lost_before), fixed, rel_tol=SAME_SUM):
            # As in the stored rows: before 0.4.0, loss beyond all fixes was not counted.
            counted = [
                {**row, "time_saved_fraction": 0.0} if row["cause"] == vocabulary.CAUSE_UNEXPLAINED else row
                for row in rows
            ]
        lost = lost_columns(counted, self.unit.gpu_hours, is_analysed=self.is_analysed)
        new = map(_with_columns, rows, lost)
        triples = zip(self.places, new, self.stored, strict=True)
        return {place: row for place, row, before in triples if row is not before}


def revised_causes(
    results: Mapping[str, pa.Table], earlier: pa.Table, days: int, minimum_runs: int, replay: Replay
) -> pa.Table:
    """Revise rows of job_causes by comparison with other jobs and earlier days.

    results : the tables REVISED_FROM, of the same units; causes as measured, or as an earlier revision left
              them.
    earlier : rows of job_baseline of other days.
    days    : number of earlier days with which a unit is compared.
    minimum_runs : fewest runs of the same model from which anything is concluded.
    replay  : called once, for all units whose transfers became slow; the communication row of a unit that it
              cannot replay stays as measured.
    returns : the rows of job_causes, without units that are missing from one of the tables.
    """
    baselines = {Unit.of(row): row for row in _rows(results[JOB_BASELINE])}
    known = _Known(chain(baselines.values(), _rows(earlier)), days)
    hours = {Unit.of(row): row["gpu_hours"] for row in _rows(results[JOB_SLOWDOWN], "gpu_hours")}
    workers = RowsOfUnits(results[WORKER_SLOWDOWN].select([*UNIT_KEY, *_WORKER]), "dp_rank", "pp_rank")
    causes = results[JOB_CAUSES]
    waiting: list[_Concluded] = []
    changed: dict[int, Row] = {}
    dropped: list[int] = []
    for key, stored, places in RowsOfUnits(causes):
        baseline = baselines.get(key)
        if baseline is None or key not in hours:  # left half written; its day is done again
            dropped += places
            continue
        unit = Measured(_run(baseline), baseline["actual_step_s"], hours[key], partial(workers.of, key))
        measured = [_as_measured(row, hours[key]) for row in stored]
        found = revise(measured, unit, known.beside(baseline, unit.run), minimum_runs)
        is_analysed = baseline["status"] == Status.ANALYSED
        concluded = _Concluded(key, places, unit, found, stored, is_analysed)
        if concluded.usual_s:
            waiting.append(concluded)
        else:
            changed |= concluded.changed(())
    replayed = replay({each.key: each.usual_s for each in waiting}) if waiting else {}
    for each in waiting:
        changed |= each.changed(replayed.get(each.key, ()))
    is_kept = np.ones(causes.num_rows, dtype=bool)
    is_kept[[*changed, *dropped]] = False
    schema = TABLES[JOB_CAUSES].arrow_schema
    anew = pa.Table.from_pylist([changed[place] for place in sorted(changed)], schema)
    return pa.concat_tables([causes.filter(pa.array(is_kept)).select(schema.names).cast(schema), anew])


class _Known:
    """Baselines for look-up: analysed runs by model and layout, and slow hosts."""

    def __init__(self, baselines: Iterator[Row], days: int) -> None:
        self._days = days
        self._slow: defaultdict[str, list[_Slow]] = defaultdict(list)
        by_day: defaultdict[tuple[_Key, date], list[Row]] = defaultdict(list)
        for row in baselines:
            for each in row["slow_hosts"] or ():
                self._slow[each["host"]].append(_Slow(row["log_date"], row["job_id"], each["effect"]))
            if row["status"] == Status.ANALYSED:
                by_day[kind_of(row, _KIND), row["log_date"]].append(row)
        self._runs: defaultdict[_Key, list[tuple[Unit, Run]]] = defaultdict(list)
        for (kind, _), rows in sorted(by_day.items(), key=lambda each: each[0][1], reverse=True):
            some = sorted(rows, key=Unit.of)[:RUNS_A_DAY]
            self._runs[kind] += [(Unit.of(row), _run(row)) for row in reversed(some)]

    def beside(self, baseline: Row, run: Run) -> History:
        """Return the runs and slow hosts of the days before a unit's day, with which the unit is compared.

        Units of its own day do not count, because its rows would then depend on which of them came late.
        """
        own_day, job_id = baseline["log_date"], baseline["job_id"]
        alike = self._runs[kind_of(baseline, _KIND)]
        runs = [each for key, each in alike if self._counts(key.log_date, own_day)]
        slow: dict[str, SlowHost] = {}
        for host in run.hosts:
            others = [each for each in self._slow.get(host, ()) if each.job_id != job_id]
            found = [each for each in others if self._counts(each.log_date, own_day)]
            if found:
                jobs, effect = {each.job_id for each in found}, median(each.effect for each in found)
                slow[host] = SlowHost(len(jobs), effect)
        return History(runs[:MOST_RUNS], slow)

    def _counts(self, day: date, own_day: date) -> bool:
        return 1 <= (own_day - day).days <= self._days


def _as_measured(row: Row, gpu_hours: float | None) -> Row:
    """Undo the revision of a row of job_causes, and compute the row's hours from its fractions again."""
    before = row["unrevised"]
    new = row if before is None else {**row, **before, "unrevised": None}
    hours = [in_gpu_hours(new, name, gpu_hours) for name in _MEASURED]
    return _with_columns(new, hours[0] | hours[1])


def _with_columns(row: Row, columns: Row) -> Row:
    """Return the row with the given columns added, or the same object if it has all of them."""
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


def _rows(table: pa.Table, *columns: str) -> list[Row]:
    chosen = table.select([*UNIT_KEY, *columns]) if columns else table
    return list(chosen.to_pylist(maps_as_pydicts="strict"))
