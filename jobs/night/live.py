"""One round of watching runs in progress: live_slowdown, live_causes, and warnings about causes.

The last window of each run passes the night's reader, simulator and gates. The rows of a round depend only on
the landing and on the rows of the last round. They are written in an order that lets the next round complete
one that was killed: the causes, then the sizes of the logs that were read, then which causes were warned of.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import psutil
import pyarrow as pa
from pyspark.sql import SparkSession

from jobs.entry_points.run_summary import Summary, leave
from jobs.entry_points.writing import jvm_process, no_round, writer_of
from jobs.gates.watch import Notice
from jobs.gates.write_audit_publish import check_rows
from jobs.history.phases import simulation
from jobs.landing.accounts import whole_unit
from jobs.landing.files import Landing
from jobs.landing.formats.rows import Bounds
from jobs.landing.growing import Where, grown, rank_logs, windows_of
from jobs.report.culprit_words import where
from jobs.report.wording import minute, percent
from jobs.runtime.settings import Settings
from jobs.warehouse.lock import LockedError
from jobs.warehouse.reader import rows_by_unit
from jobs.warehouse.tables import Warehouse
from schemas.causes import OF_CAUSE
from schemas.tables import TABLES
from schemas.unit import Unit, runs_among
from schemas.vocabulary import LIVE_CAUSES, LIVE_SLOWDOWN
from udfs.live import Row, causes_after

_LOG: Final = logging.getLogger(__name__)
_MOST_CULPRITS: Final = 3


@dataclass
class RoundDone:
    """Result of one round of `watch`: its warnings, its cost, and the numbers of runs read and in progress.

    gpu_hours : GPU-hours of the runs in `read`, since each was last read
    """

    notices: list[Notice] = field(default_factory=list)
    read: int = 0
    runs: int = 0
    bytes_read: int = 0
    cpu_s: float = 0.0
    gpu_hours: float = 0.0

    @property
    def summary(self) -> Summary:
        """Return the round's result for a DAG, which posts the warnings."""
        warnings = [notice._asdict() for notice in self.notices]
        figures = {name: getattr(self, name) for name in ("read", "runs", "bytes_read", "cpu_s", "gpu_hours")}
        return {"kind": "live", "warnings": warnings, **figures}

    def __str__(self) -> str:
        """Return a sentence with runs, bytes and CPU time."""
        share = f", {self.cpu_s / self.gpu_hours:.2f} per GPU-hour of these runs" if self.gpu_hours else ""
        return (
            f"{self.read} of {self.runs} runs have grown: {self.bytes_read / 1e6:.1f} MB read, "
            f"{self.cpu_s:.1f} s of CPU{share}"
        )


def run(spark: SparkSession, settings: Settings, summary: str | None = None) -> RoundDone:
    """Do one round of `watch`; do nothing if another process writes the warehouse or its live tables.

    summary : file to which the round's figures and warnings are written, as JSON
    """
    warehouse, done = Warehouse.of(spark, settings), RoundDone()
    leave(done.summary, summary)
    if (writer := writer_of(warehouse.root)) is not None:
        _LOG.warning("this round is left out: %s is being written by %s", warehouse.root, writer)
        return done
    try:
        with no_round(settings, "watch_landing", wait=False):
            _round(warehouse, settings, done, summary)
    except LockedError as error:
        _LOG.warning("this round is left out: %s", error)
        return done
    _LOG.info(done)
    return done


def _round(warehouse: Warehouse, settings: Settings, done: RoundDone, summary: str | None) -> None:
    started_s = _own_cpu_s(warehouse.spark)
    root, live = settings.paths.landing, settings.live
    days = Landing(root, []).all_days[-live.days :]
    going_on = set(days) - Landing(root, days).finished_days()
    landing = Landing(root, sorted(going_on))
    before = rows_by_unit(warehouse.rows(TABLES[LIVE_SLOWDOWN], days))
    known = {unit: dict(row["log_bytes"]) for unit, (row,) in before.items()}
    causes = rows_by_unit(warehouse.rows(TABLES[LIVE_CAUSES], days))
    some = grown(landing.units, known)
    how = Where(root, Bounds(**settings.landing.model_dump()), live.window_steps, simulation(settings))
    parts = [whole_unit(unit, files, how.bounds) for unit, files in some.items()]
    windows = dict(zip(some, windows_of(warehouse.spark, how, parts), strict=True))
    slowdowns: dict[Unit, list[Row]] = {}
    after: dict[Unit, list[Row]] = {}
    for unit, window in windows.items():
        sizes = {file.name: file.size for file in rank_logs(some[unit])}
        row = {**unit._asdict(), **window.slowdown, "log_bytes": list(sizes.items())}
        slowdowns[unit] = [row]
        so_far = causes.get(unit, [])
        if not so_far and unit not in before:
            # Warnings on a day's first window are based on the causes at the end of the run's previous day.
            earlier = causes | after
            of_run = [each for each in earlier if each[1:] == unit[1:] and each.log_date < unit.log_date]
            rows = earlier[max(of_run)] if of_run else []
            so_far = [each | {"is_warned": True} for each in rows if each["is_now"]]
        after[unit] = [each | unit._asdict() for each in causes_after(row, window.causes, so_far)]
        done.gpu_hours += _gpu_hours(row, before.get(unit, [None])[0])
        done.bytes_read += window.bytes_read
        done.cpu_s += window.cpu_s
    _write(warehouse, {LIVE_CAUSES: after, LIVE_SLOWDOWN: slowdowns})
    done.read, done.runs = len(windows), runs_among(landing.units)
    done.cpu_s += _own_cpu_s(warehouse.spark) - started_s
    _warn(warehouse, causes | after, done, summary)  # including the warnings that a killed round has not sent


def _gpu_hours(row: Row, before: Row | None) -> float:
    """Return the GPU-hours of a run since it was last read; if never read before, over its window."""
    times = [row["first_time"], *([before["last_time"]] if before else [])]
    known = [each for each in times if each is not None]
    if row["last_time"] is None or not known or row["world_size"] is None:
        return 0.0
    hours: float = max((row["last_time"] - max(known)).total_seconds(), 0.0) / 3600
    return hours * int(row["world_size"])


def _write(warehouse: Warehouse, tables: Mapping[str, Mapping[Unit, Sequence[Row]]]) -> None:
    """Replace the rows of some runs, one table after another, once all rows pass their gates."""
    units: set[Unit] = set().union(*tables.values())
    if not units:
        return
    rows = {
        name: pa.Table.from_pylist([*chain.from_iterable(of_units.values())], TABLES[name].arrow_schema)
        for name, of_units in tables.items()
    }
    check_rows(rows, units)
    for name, some in rows.items():
        warehouse.replace(TABLES[name], some, sorted({unit.log_date for unit in units}), units)


def _warn(
    warehouse: Warehouse, causes: Mapping[Unit, Sequence[Row]], done: RoundDone, summary: str | None
) -> None:
    """Warn of causes that began or ended since the last warning, then record these warnings."""
    new = {unit: rows for unit, rows in causes.items() if not all(row["is_warned"] for row in rows)}
    notices = [_notice(row) for rows in new.values() for row in rows if not row["is_warned"]]
    for notice in notices:
        _LOG.warning(notice.text)
    done.notices += notices
    leave(done.summary, summary)
    for rows in new.values():
        for row in rows:
            row["is_warned"] = True
    _write(warehouse, {LIVE_CAUSES: new})


def _notice(row: Row) -> Notice:
    named = [where(each) for each in row["culprits"]]
    more = [f"{len(named) - _MOST_CULPRITS} more"] if len(named) > _MOST_CULPRITS else []
    places = f": {', '.join([*named[:_MOST_CULPRITS], *more])}," if named else ""
    which = "first" if row["is_now"] else "last"
    at = row[f"{which}_time"]
    step = f"step {row[f'{which}_step']}" + (f", {minute(at):%H:%M} UTC" if at is not None else "")
    what = (
        f"{row['log_date']}: job {row['job_id']}, run {row['run_id']}: {OF_CAUSE[row['cause']].words}{places}"
    )
    if row["is_now"]:
        return Notice(
            "cause_began", f"{what} since {step}, loses {percent(row['lost_fraction'])} of its time"
        )
    return Notice("cause_ended", f"{what} has ended: last seen in {step}")


def _own_cpu_s(spark: SparkSession) -> float:
    """Return the CPU time so far of this process and of its JVM, without Spark's workers. [s]"""
    times = [psutil.Process(each).cpu_times() for each in (os.getpid(), jvm_process(spark))]
    return float(sum(each.user + each.system for each in times))
