"""A warehouse, or one run's logs, in notebooks and programs: `import straggler`. No Spark, no JVM.

>>> import straggler
>>> fleet = straggler.open("demo/warehouse")
>>> fleet.table("job_slowdown").pandas()[["job_id", "status"]]
     job_id    status
0  gpt-175b  analysed
>>> fleet.sql("SELECT round(slowdown, 2) AS slowdown FROM job_slowdown").arrow["slowdown"].to_pylist()
[1.18]
>>> unit = fleet.unit("gpt-175b")
>>> unit.simulate_job()["job_slowdown"].arrow["status"].to_pylist()
['analysed']
>>> unit.what_if("op_type = 'forward-compute'").arrow.column_names[:3]
['scenario', 'ops', 'ops_share']
>>> unit.what_if("stage_imbalance").arrow["scenario"].to_pylist()
['stage_imbalance', 'all causes']
>>> unit.figure()  # in a notebook: the map of its workers
<Figure: slowdown by each worker of gpt-175b>

Without a warehouse, from the logs themselves:

>>> run = straggler.analyse("tests/data/traces/ST")
>>> round(run.slowdown, 4)
1.1787
>>> run.table("job_causes").polars().height
7
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

import jobs.reading
from jobs.landing.one_run import NoRunError, runs_in
from jobs.reading.analysis import Analysis, analysis
from jobs.reading.database import Database
from jobs.reading.duckdb_reader import DuckDbReader
from jobs.reading.question import NAMES
from jobs.reading.reader import on_units
from jobs.reading.scenarios import read_fix, replay_fixes
from jobs.reading.unit import find_unit, read_causes, read_unit
from jobs.runtime.arguments import WAREHOUSE_VARIABLE
from jobs.runtime.settings import load_settings
from schemas.unit import Unit as UnitKey
from schemas.vocabulary import WORKER_SLOWDOWN
from udfs.custom_scenario import Answer
from udfs.simulate.unit_batches import UnitRows, simulate_unit
from udfs.what_if import SimulationSettings

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["Figure", "FigureError", "Rows", "Run", "Unit", "Warehouse", "analyse", "open"]

_ALSO: Final = {"straggler", "jobs.reading.straggler"} - {__name__}
for _name in _ALSO:  # one module by both names, else what one raises is no error that the other names
    sys.modules[_name] = sys.modules[__name__]
jobs.reading.straggler = sys.modules[__name__]

_SHOWN: Final = 20
"""Rows that a notebook shows."""
_HOTTEST: Final = 30
"""Where the scale of a map ends, as on the pages of the report. [%]"""


@dataclass(frozen=True, repr=False)
class Rows:
    """Rows of a table or an answer; `arrow` has them as they are."""

    arrow: pa.Table

    def pandas(self) -> "pd.DataFrame":
        """Return the rows as a frame of pandas."""
        found: pd.DataFrame = self.arrow.to_pandas()
        return found

    def polars(self) -> "pl.DataFrame":
        """Return the rows as a frame of polars, which has to be installed."""
        import polars as pl  # noqa: PLC0415  # optional

        found = pl.from_arrow(self.arrow)
        if not isinstance(found, pl.DataFrame):
            raise TypeError("polars made no frame of a table")
        return found

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def __repr__(self) -> str:
        return f"<{len(self):,} rows of {', '.join(self.arrow.column_names)}>"

    def _repr_html_(self) -> str:
        return f"{Rows(self.arrow.slice(0, _SHOWN)).pandas().to_html()}<p>{len(self):,} rows</p>"


_DRAW: Final = "import json, sys, vl_convert as v; sys.stdout.write(v.vegalite_to_svg(json.load(sys.stdin)))"


def _converted(spec: str) -> "subprocess.CompletedProcess[str]":
    """Run the converter in a process of its own.

    It panics where standard input is closed, as under a daemon, and hangs in a fork.
    """
    command = [sys.executable, "-X", "utf8", "-c", _DRAW]
    return subprocess.run(  # noqa: S603  # our own command
        command, input=spec, capture_output=True, encoding="utf-8", errors="replace", check=False
    )


class FigureError(RuntimeError):
    """Raised where a chart cannot be drawn; the message has the converter's own."""


@dataclass(frozen=True, repr=False)
class Figure:
    """A chart: `spec` is Vega-Lite, and a notebook shows it as SVG, without network."""

    title: str
    spec: Mapping[str, Any]

    def svg(self) -> str:
        """Return the chart as SVG. Raises FigureError where the converter fails, with what it said."""
        spec = json.dumps(dict(self.spec))
        drawn = _converted(spec)
        if drawn.returncode < 0:  # V8 ends its process by a signal where memory is short for a moment
            drawn = _converted(spec)
        if drawn.returncode:
            raise FigureError(
                f"{self.title} was not drawn, status {drawn.returncode}: {drawn.stderr.strip()}"
            )
        return drawn.stdout

    def __repr__(self) -> str:
        return f"<Figure: {self.title}>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, object]:
        return {"image/svg+xml": self.svg(), "text/plain": escape(repr(self))}


def open(path: str | os.PathLike[str] | None = None) -> "Warehouse":  # noqa: A001  # straggler.open reads well
    """Open a warehouse, a folder of this machine or in a store.

    path : its folder or URL; left out: what STRAGGLER_WAREHOUSE names, else the settings
    Raises QuestionError, a SettingsError, where no tables lie there.
    """
    named = str(path) if path is not None else os.environ.get(WAREHOUSE_VARIABLE)
    paths = load_settings(warehouse=named).paths
    database = Database(paths.warehouse, paths.ingested)
    database.check_exists()
    return Warehouse(DuckDbReader(database))


class Warehouse:
    """Tables and views of a warehouse, all as of the publication that was the latest when it was opened."""

    tables: Final = NAMES
    """Names of all tables and views."""

    def __init__(self, reader: DuckDbReader) -> None:
        self._reader = reader

    def __repr__(self) -> str:
        return f"<Warehouse {self._reader.root}>"

    def sql(self, question: str) -> Rows:
        """Answer one SELECT in Spark's SQL over tables and views.

        Raises QuestionError where it cannot be asked, AnswerError where it fails on the data.
        """
        return Rows(self._reader.rows(question))

    def table(self, name: str) -> Rows:
        """Return all rows of a table or view. Raises QuestionError with the closest name for another."""
        return self.sql(f"SELECT * FROM {name}")

    def unit(self, job_id: str, run_id: str | None = None, log_date: date | None = None) -> "Unit":
        """Return one run of a job on one day: the latest, unless a day is named.

        Raises NoSuchUnitError if none fits, or if several runs fit and none is named.
        """
        return Unit(self._reader, find_unit(self._reader, job_id, run_id, log_date))


class Unit:
    """One run of one job on one log date, in a warehouse."""

    def __init__(self, reader: DuckDbReader, key: UnitKey) -> None:
        self._reader, self.key = reader, key

    def __repr__(self) -> str:
        return f"<Unit {self.key.job_id}, run {self.key.run_id}, {self.key.log_date}>"

    def simulate_job(self, **settings: Any) -> dict[str, Rows]:  # noqa: ANN401  # of SimulationSettings
        """Simulate the unit again, with other settings where named; returns result tables by name.

        Raises NothingToReplayError where the unit's manifest is of no use.
        """
        how = {**load_settings().simulation.model_dump(), **settings}
        rows, manifest = read_unit(self._reader, self.key)
        found = simulate_unit(UnitRows(self.key, manifest, rows), SimulationSettings(**how))
        return {name: Rows(table) for name, table in found.items()}

    def what_if(self, *fixes: str, factor: float | None = None) -> Rows:
        """Replay the unit with each fix: a cause, or the ops of a predicate ideal, or `factor` times as long.

        A row for each, as `straggler what-if --fix` prints them. Raises PredicateError for what is neither,
        QuestionError for a predicate that no op matches, and what replay_scenarios raises.
        """
        rows, manifest = read_unit(self._reader, self.key)
        understood = [read_fix(each) for each in fixes]
        stored = read_causes(self._reader, self.key)
        found = replay_fixes(rows, manifest, understood, factor, load_settings().simulation, stored)
        answers = [answer for each in found for answer in each.answers]
        columns = {name: [getattr(each, name) for each in answers] for name in Answer.__annotations__}
        return Rows(pa.table(columns))

    def figure(self) -> Figure:
        """Return the map of the unit's workers: how much of the ideal step each alone adds."""
        is_unit = on_units([self.key.log_date], [self.key])
        found = self._reader.rows(f"SELECT * FROM {WORKER_SLOWDOWN} WHERE {is_unit}")
        return _map_of_workers(self.key.job_id, found.to_pylist())


class Run:
    """One run, analysed straight from its logs."""

    def __init__(self, found: Analysis) -> None:
        self._found, self.key = found, found.unit
        self.status: str = found.tables.job["status"]
        self.slowdown: float | None = found.tables.job["slowdown"]

    def __repr__(self) -> str:
        return f"<Run {self.key.job_id}, run {self.key.run_id}: {self.status}>"

    def table(self, name: str) -> Rows:
        """Return a result table, rank_steps or rejects. Raises KeyError for another."""
        read = {"rank_steps": self._found.read.rows, "rejects": self._found.read.rejects}
        return Rows({**self._found.results, **read}[name])

    def figure(self) -> Figure:
        """Return the map of the run's workers: how much of the ideal step each alone adds."""
        return _map_of_workers(self.key.job_id, self._found.tables.workers)


def analyse(folder: str | os.PathLike[str]) -> Run:
    """Simulate and diagnose the run in a folder, of any format that a landing takes.

    Raises NoRunError where the folder holds no run, or several.
    """
    runs = runs_in(Path(folder))
    if len(runs) > 1:
        raise NoRunError(
            f"{folder} holds {len(runs)} runs; name the folder of one, such as {runs[-1].folder}"
        )
    return Run(analysis(runs[0]))


def _map_of_workers(job_id: str, workers: Sequence[Mapping[str, Any]]) -> Figure:
    names = ("pp_rank", "dp_rank", "rank", "host")
    rows = [{name: row[name] for name in names} | {"adds": 100 * (row["slowdown"] - 1)} for row in workers]
    title = f"slowdown by each worker of {job_id}"
    scale = {"domain": [0, _HOTTEST], "clamp": True, "scheme": "oranges"}
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": title,
        "data": {"values": rows},
        "mark": "rect",
        "encoding": {
            "x": {"field": "dp_rank", "type": "ordinal", "title": "dp rank"},
            "y": {"field": "pp_rank", "type": "ordinal", "title": "stage (from 0)"},
            "color": {
                "field": "adds", "type": "quantitative", "scale": scale,
                "title": f"adds to the ideal step [%], {_HOTTEST} and more",
            },
            "tooltip": [{"field": name} for name in (*names, "adds")],
        },
    }  # fmt: skip
    return Figure(title, spec)
