"""Quality gates: rows are held against the declaration of their table before they become visible.

One plain query over all tables of a phase tells whether anything is wrong at all. Only then does Great
Expectations count every expectation on its own: to import it takes seven seconds of every night's task.
"""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date
from functools import reduce
from importlib import import_module
from operator import add
from typing import Final, NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from schemas.table import Expectation, Severity, Table

SCHEMA_EXPECTATION: Final = "schema"
KEY_EXPECTATION: Final = "key_is_unique"
ON_TIME_EXPECTATION: Final = "log_date_of_this_run"
_LOG_DATE: Final = "log_date"
_RUNNER: Final = "jobs.gates.expectation_runner"
_NOTHING: Final = "nothing of this phase was published"
_MOST_LISTED: Final = 5
"""Refusals that a message spells out: one wrong column often breaks a dozen expectations."""


@dataclass(frozen=True)
class Refusal:
    """One expectation that does not hold, for how many rows, and whether that refuses them or only warns.

    log_dates : of these rows; none where they do not tell, and any day may be meant
    """

    table: str
    expectation: str
    rows: int
    meaning: str
    log_dates: tuple[date, ...] = ()
    severity: Severity = "refuses"

    @property
    def name(self) -> str:
        """What it is called where somebody releases it."""
        return f"{self.table}.{self.expectation}"

    def __str__(self) -> str:
        """Name table, expectation and rows."""
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        return f"table {self.table}, expectation {self.expectation}, {rows}: {self.meaning}"


class Rule(NamedTuple):
    """What no single row can show: its name, an identifier, and the rows that break it."""

    name: str
    rows: pa.Table
    table: str = "several"
    meaning: str = "no row breaks this rule"
    severity: Severity = "refuses"

    @property
    def refusal(self) -> Refusal:
        """What to say of the rows that break it."""
        days = self.rows[_LOG_DATE].to_pylist() if _LOG_DATE in self.rows.column_names else []
        known = _known(set(days))
        return Refusal(self.table, self.name, self.rows.num_rows, self.meaning, known, self.severity)


class GateRefusedError(Exception):
    """Raised when rows break an expectation: what was refused is not published, exit 3.

    kept_in : folder of the refused rows
    published : what the message says of what was published all the same; that nothing was, where it is empty
    counts : of what the same run did publish, as entry points tell them
    """

    def __init__(self, refusals: Sequence[Refusal], kept_in: str = "", published: str = "") -> None:
        self.refusals = tuple(refusals)
        self.kept_in, self.published = kept_in, published
        self.counts: Mapping[str, int] = {}
        listed = "; ".join(map(str, self.refusals[:_MOST_LISTED]))
        more = len(self.refusals) - _MOST_LISTED
        and_more = f"; and {more} more" if more > 0 else ""
        where = f" (refused rows are kept in {kept_in})" if kept_in else ""
        super().__init__(f"gate refused, {published or _NOTHING}: {listed}{and_more}{where}")

    @property
    def log_dates(self) -> set[date]:
        """Days of what was refused; none where one refusal does not tell, and any day may be meant."""
        known = all(refusal.log_dates for refusal in self.refusals)
        return {day for refusal in self.refusals for day in refusal.log_dates} if known else set()


class GateError(Exception):
    """Raised when an expectation could not be evaluated, which is never a pass."""


class GateWork(NamedTuple):
    """What the gates of a phase did: seconds, expectations held, refusals released by hand."""

    seconds: float = 0.0
    expectations: int = 0
    released: int = 0

    def and_also(self, other: "GateWork") -> "GateWork":
        """Both together."""
        return GateWork(*map(add, self, other))


def all_hold(
    frames: Sequence[tuple[Table, DataFrame]],
    extra: Sequence[Expectation] = (),
    sound: Collection[str] = (),
) -> bool:
    """Whether every frame is as its table and `extra` say: in one query.

    sound : tables whose lists of numbers whoever wrote them has found to be as they must (arrays_hold).

    What could not be evaluated does not hold: a look at each alone then tells which one it is.
    """
    if any(differences(table, frame) for table, frame in frames):
        return False
    try:
        broken = [rows for table, frame in frames for rows in _violations(table, frame, extra, sound)]
        found = [rows.select(F.lit(1).alias("broken")) for rows in broken]
        return not found or not reduce(DataFrame.union, found).count()
    except (PySparkException, Py4JError):
        return False


def audit(table: Table, frame: DataFrame, extra: Sequence[Expectation] = ()) -> list[Refusal]:
    """Return every expectation of a table, and of `extra`, that a frame, best a persisted one, breaks.

    Raises GateError where one could not be evaluated.
    Only one audit at a time: Great Expectations gives every batch the same view name.
    """
    wrong = "; ".join(differences(table, frame))
    if wrong:
        return [Refusal(table.name, SCHEMA_EXPECTATION, frame.count(), wrong)]
    return [] if all_hold([(table, frame)], extra) else _detail(table, frame, extra)


def warnings(frames: Sequence[tuple[Table, DataFrame]]) -> list[Refusal]:
    """Return what published rows break of the expectations that only warn, day by day: in one query."""
    rules = [
        (table, frame, each)
        for table, frame in frames
        for each in table.all_expectations()
        if each.severity == "warns"
    ]
    counts = [
        frame.where(_broken([each])).select(F.lit(number).alias("rule"), _LOG_DATE)
        for number, (_, frame, each) in enumerate(rules)
    ]
    found = reduce(DataFrame.union, counts).groupBy("rule", _LOG_DATE).count().collect() if counts else []
    return [
        Refusal(rules[number][0].name, rules[number][2].name, rows, rules[number][2].meaning, (day,), "warns")
        for number, day, rows in sorted(found)
    ]


def broken_rows(table: Table, frame: DataFrame, extra: Sequence[Expectation] = ()) -> DataFrame:
    """Rows of a frame that break an expectation, and in `broken` which ones; all rows of another schema."""
    if differences(table, frame):
        return frame
    same_keys = F.count("*").over(Window.partitionBy(*table.grain))
    is_broken = {each.name: F.expr(_broken([each])) for each in (*table.all_expectations(), *extra)}
    is_broken[KEY_EXPECTATION] = same_keys > 1
    names = [F.when(rule, F.lit(name)) for name, rule in is_broken.items()]
    rows = frame.withColumn("broken", F.array_compact(F.array(*names)))
    return rows.where(F.size("broken") > 0)


def _detail(table: Table, frame: DataFrame, extra: Sequence[Expectation]) -> list[Refusal]:
    """Count what each expectation alone refuses."""
    expectations = (*table.all_expectations(), *extra)
    queries = {each.name: f"SELECT 1 FROM {{batch}} WHERE {_broken([each])}" for each in expectations}
    queries[KEY_EXPECTATION] = _rows_with_equal_keys(table)
    meanings = {each.name: each.meaning for each in expectations}
    meanings[KEY_EXPECTATION] = f"({', '.join(table.grain)}) is unique"
    severities = {each.name: each.severity for each in expectations}
    runner = import_module(_RUNNER)  # which imports Great Expectations, only when it is first needed
    counts: dict[str, int] = runner.count_rows(table.name, frame, queries)
    if not any(counts.values()):
        raise GateError(f"{table.name}: not the same rows at a second look; persist the frame")
    days = _days_by_name(broken_rows(table, frame, extra))
    return [
        Refusal(table.name, name, rows, meanings[name], days.get(name, ()), severities.get(name, "refuses"))
        for name, rows in counts.items()
        if rows
    ]


def _days_by_name(broken: DataFrame) -> dict[str, tuple[date, ...]]:
    """Log dates of the rows that break each expectation; none where one of them does not tell."""
    if _LOG_DATE not in broken.columns:
        return {}
    found: dict[str, set[date | None]] = {}
    for day, name in broken.select(_LOG_DATE, F.explode("broken")).distinct().collect():
        found.setdefault(name, set()).add(day)
    return {name: _known(days) for name, days in found.items()}


def _known(days: Set[date | None]) -> tuple[date, ...]:
    known = [day for day in days if day is not None]
    return tuple(sorted(known)) if len(known) == len(days) else ()


def differences(table: Table, frame: DataFrame) -> list[str]:
    """Tell how the frame's columns differ from the table's, a sentence each."""
    return table.differences(to_arrow_schema(frame.schema, timezone="UTC"))


def _violations(
    table: Table, frame: DataFrame, extra: Sequence[Expectation], sound: Collection[str]
) -> tuple[DataFrame, DataFrame]:
    """Rows that break an expectation, and one row for each key that several have."""
    several = frame.groupBy(*table.grain).count().where("count > 1")
    expectations = table.expectations_of_scalars() if table.name in sound else table.all_expectations()
    return frame.where(_broken([*expectations, *extra])), several


def _broken(expectations: Sequence[Expectation]) -> str:
    """SQL that holds for a row that breaks one of the expectations; a null is a break."""
    holds = " AND ".join(f"coalesce(({each.condition}), false)" for each in expectations)
    return f"NOT ({holds})"


def _rows_with_equal_keys(table: Table) -> str:
    keys = ", ".join(table.grain)
    equals = f"SELECT count(*) OVER (PARTITION BY {keys}) AS equals FROM {{batch}}"
    return f"SELECT 1 FROM ({equals}) WHERE equals > 1"
