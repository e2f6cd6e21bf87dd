"""Python interface for notebooks and programs, `import straggler`: a warehouse, or one run's logs.

The six things that one does first, here with the demo's warehouse (`make demo`). Each answer shows itself as
a table; `.df()`, `.pl()` and `.arrow` are its rows for pandas, polars and Arrow.

>>> import straggler
>>> fleet = straggler.open("demo/warehouse")
>>> fixes = fleet.sql("SELECT cause, host, job_ids, lost_gpu_hours FROM fix_first")  # what to fix first
>>> jobs = fleet.table("job_slowdown").df()  # a table or view; fleet.tables has their names
>>> unit = fleet.unit("gpt-175b")  # a job on its latest day, or "gpt-175b/RUN@2026-01-05"
>>> causes, culprits = unit.causes, unit.culprits  # why it is slow, and where
>>> saved, returned = unit.what_if("stage_imbalance"), unit.mitigate()  # what fixes save, what can be done
>>> unit.figure()  # the map of its workers; unit.figures has all charts
<Figure: slowdown by each worker of gpt-175b>

Without a warehouse, from the logs themselves:

>>> run = straggler.analyse("tests/data/traces/ST")
>>> round(run.slowdown, 4)
1.1787
>>> run.table("job_causes").polars().height
7
>>> run.causes.df()["cause"][0]
'stage_imbalance'
>>> run.what_if("op_type = 'forward-compute'", set=0.9).arrow["ops"].to_pylist()
[1024]
>>> run.figures
<Figures of ST: workers, steps, causes, waterfall>
"""

import os
import sys
from collections.abc import Mapping
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

if (_said := import_module("straggler_command").hidden()) is not None:
    raise ImportError(_said)

import jobs.reading
from jobs.landing.one_run import NoRunError, runs_in
from jobs.reading.analysis import Analysis, analysis
from jobs.reading.database import Database
from jobs.reading.duckdb_reader import DuckDbReader
from jobs.reading.figures import WATERFALL, Figure, FigureError, Figures
from jobs.reading.one_unit import OneUnit, Timeline
from jobs.reading.question import NAMES
from jobs.reading.rows import Rows
from jobs.reading.unit import StoredCauses, find_unit, read_causes, read_unit
from jobs.report.loss import headline
from jobs.runtime.arguments import WAREHOUSE_VARIABLE
from jobs.runtime.settings import load_settings
from jobs.warehouse.reader import on_units
from schemas.unit import Unit as UnitKey
from schemas.vocabulary import JOB_SLOWDOWN
from udfs.simulate.unit_batches import SIMULATED_COLUMNS, UnitRows, simulate_unit
from udfs.what_if import SimulationSettings

__all__ = [
    "Figure",
    "FigureError",
    "Figures",
    "Rows",
    "Run",
    "Timeline",
    "Unit",
    "Warehouse",
    "analyse",
    "open",
]

_ALSO: Final = {"straggler", "jobs.reading.straggler"} - {__name__}
for _name in _ALSO:  # one module under both names, as two modules would have different error classes
    sys.modules[_name] = sys.modules[__name__]
jobs.reading.straggler = sys.modules[__name__]


def open(path: str | os.PathLike[str] | None = None) -> "Warehouse":  # noqa: A001  # straggler.open reads well
    """Open a warehouse, given as a local folder or the URL of a store.

    path : folder or URL; by default that in the environment's STRAGGLER_WAREHOUSE, else in the settings
    Raises QuestionError, which is a SettingsError, if it has no tables.
    """
    named = str(path) if path is not None else os.environ.get(WAREHOUSE_VARIABLE)
    paths = load_settings(warehouse=named).paths
    database = Database(paths.warehouse, paths.ingested)
    database.check_exists("run a night first, or name another: straggler.open(path)")
    return Warehouse(DuckDbReader(database))


class Warehouse:
    """Tables and views of a warehouse, as of the publication that was latest when it was opened."""

    tables: Final = NAMES
    """Names of all tables and views."""

    def __init__(self, reader: DuckDbReader) -> None:
        self._reader = reader

    def __repr__(self) -> str:
        return f"<Warehouse {self._reader.root}>"

    def sql(self, question: str) -> Rows:
        """Answer one SELECT in Spark SQL over tables and views.

        Raises QuestionError for an invalid question, AnswerError if the computation of the answer fails.
        """
        return Rows(self._reader.rows(question))

    def table(self, name: str) -> Rows:
        """Return all rows of a table or view.

        Raises QuestionError for an unknown name; the message suggests the closest known name.
        """
        return self.sql(f"SELECT * FROM {name}")

    def unit(self, job_id: str, run_id: str | None = None, log_date: date | str | None = None) -> "Unit":
        """Return one run of a job on one day, by default on the job's latest day.

        log_date : a date, or a text such as "2026-01-05"
        Raises NoSuchUnitError if no run matches, or if several runs do; ValueError if log_date is no date.
        """
        day = date.fromisoformat(log_date) if isinstance(log_date, str) else log_date
        return Unit(self._reader, find_unit(self._reader, job_id, run_id, day))


class Unit(OneUnit):
    """One run of one job on one log date, in a warehouse."""

    def __init__(self, reader: DuckDbReader, key: UnitKey) -> None:
        self._reader, self.key = reader, key

    def __repr__(self) -> str:
        return f"<Unit {self.key.words}>"

    @property
    def status(self) -> str | None:
        """Return the status of the unit's analysis; None if it is not simulated yet."""
        found: str | None = self._result("status")
        return found

    @property
    def slowdown(self) -> float | None:
        """Return the replayed time divided by the ideal time; None for a unit without a replay."""
        found: float | None = self._result("slowdown")
        return found

    def _result(self, column: str) -> Any:  # noqa: ANN401  # of any column
        found = self.table(JOB_SLOWDOWN).arrow[column].to_pylist()
        return found[0] if found else None

    def table(self, name: str) -> Rows:
        """Return the unit's rows of a table or view. Raises QuestionError for an unknown name."""
        is_unit = on_units([self.key.log_date], [self.key])
        return Rows(self._reader.rows(f"SELECT * FROM {name} WHERE {is_unit}"))

    def _recorded(self) -> tuple[pa.Table, Mapping[str, Any]]:
        return read_unit(self._reader, self.key)

    def _stored(self) -> StoredCauses | None:
        return read_causes(self._reader, self.key)

    def simulate_job(self, **settings: Any) -> dict[str, Rows]:  # noqa: ANN401  # of SimulationSettings
        """Simulate the unit again, optionally with other settings; return the result tables by name.

        Raises NothingToReplayError if the unit has no valid manifest.
        """
        how = {**load_settings().simulation.model_dump(), **settings}
        rows, manifest = read_unit(self._reader, self.key)
        found = simulate_unit(UnitRows(self.key, manifest, rows), SimulationSettings(**how))
        return {name: Rows(table) for name, table in found.items()}


class Run(OneUnit):
    """One run, analysed straight from its logs."""

    def __init__(self, found: Analysis) -> None:
        self._found, self.key = found, found.unit
        self.status: str = found.tables.job["status"]
        self.slowdown: float | None = found.tables.job["slowdown"]

    def __repr__(self) -> str:
        said = headline(self._found.tables.job)
        return f"<Run {self.key.job_id}, run {self.key.run_id}: {said}>"

    def table(self, name: str) -> Rows:
        """Return a result table, waterfall, rank_steps or rejects. Raises KeyError for any other name."""
        if name == WATERFALL:  # the only view that a run without a warehouse has
            return Rows(pa.Table.from_pylist([dict(row) for row in self._found.tables.waterfall]))
        read = {"rank_steps": self._found.read.rows, "rejects": self._found.read.rejects}
        return Rows({**self._found.results, **read}[name])

    def _recorded(self) -> tuple[pa.Table, Mapping[str, Any]]:
        return self._found.read.rows.select(SIMULATED_COLUMNS), self._found.read.account.job or {}

    def _stored(self) -> StoredCauses | None:
        causes = [dict(row) for row in self._found.tables.causes]
        return StoredCauses(dict(self._found.tables.job), causes)


def analyse(folder: str | os.PathLike[str]) -> Run:
    """Simulate and diagnose the run in a folder, in any format that a landing accepts.

    Raises NoRunError if the folder has no run, or several.
    """
    runs = runs_in(Path(folder))
    if len(runs) > 1:
        raise NoRunError(
            f"{folder} holds {len(runs)} runs; name the folder of one, such as {runs[-1].folder}"
        )
    return Run(analysis(runs[0]))
