"""Quality gates: rows are checked against the declaration of their table before they become visible.

One plain query over all tables of a phase finds whether anything is wrong. Only then does Great
Expectations count each expectation: importing it takes seven seconds.
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

from jobs.runtime.errors import PlainError
from schemas.table import Expectation, Severity, Table
from schemas.vocabulary import EXIT_GATE_REFUSED

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
    """One broken expectation, the number of rows that break it, and whether it refuses or only warns.

    log_dates : days of these rows; empty if unknown, so that it may be any day
    """

    table: str
    expectation: str
    rows: int
    meaning: str
    log_dates: tuple[date, ...] = ()
    severity: Severity = "refuses"

    @property
    def name(self) -> str:
        """Its name in a release."""
        return f"{self.table}.{self.expectation}"

    def __str__(self) -> str:
        """Names table, expectation and rows."""
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        return f"table {self.table}, expectation {self.expectation}, {rows}: {self.meaning}"


class Rule(NamedTuple):
    """A rule across rows: its name, an identifier, and the rows that break it."""

    name: str
    rows: pa.Table
    table: str = "several"
    meaning: str = "no row breaks this rule"
    severity: Severity = "refuses"

    @property
    def refusal(self) -> Refusal:
        """Return the refusal of the rows that break it."""
        days = self.rows[_LOG_DATE].to_pylist() if _LOG_DATE in self.rows.column_names else []
        known = _known(set(days))
        return Refusal(self.table, self.name, self.rows.num_rows, self.meaning, known, self.severity)


class GateRefusedError(PlainError):
    """Raised when rows break an expectation: what was refused is not published, exit 3.

    kept_in : folder of the refused rows
    published : text of the message for what was published; empty if nothing was
    counts : of what the same run did publish, as entry points return them
    """

    exit_status = EXIT_GATE_REFUSED

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
        """Days of what was refused; empty if one refusal may be of any day."""
        known = all(refusal.log_dates for refusal in self.refusals)
        return {day for refusal in self.refusals for day in refusal.log_dates} if known else set()


class GateError(Exception):
    """Raised when an expectation could not be evaluated, which is never a pass."""


class GateWork(NamedTuple):
    """The work of the gates of a phase: seconds, expectations checked, refusals released by hand."""

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
    """Whether every frame passes the expectations of its table and `extra`: in one query.

    sound : tables whose lists of numbers their writer has checked already (arrays_valid).

    What cannot be evaluated does not pass: checking each alone then finds which one it is.
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
    """Return every expectation of a table, and of `extra`, that a frame breaks; persist the frame first.

    Raises GateError if one could not be evaluated.
    Only one audit at a time: Great Expectations gives every batch the same view name.
    """
    wrong = "; ".join(differences(table, frame))
    if wrong:
        return [Refusal(table.name, SCHEMA_EXPECTATION, frame.count(), wrong)]
    return [] if all_hold([(table, frame)], extra) else _detail(table, frame, extra)


def warnings(frames: Sequence[tuple[Table, DataFrame]]) -> list[Refusal]:
    """Return the warning-only expectations that published rows break, day by day: in one query."""
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
    """Rows of a frame that break an expectation, with its name in `broken`; all rows of another schema."""
    if differences(table, frame):
        return frame
    same_keys = F.count("*").over(Window.partitionBy(*table.grain))
    is_broken = {each.name: F.expr(_broken([each])) for each in (*table.all_expectations(), *extra)}
    is_broken[KEY_EXPECTATION] = same_keys > 1
    names = [F.when(rule, F.lit(name)) for name, rule in is_broken.items()]
    rows = frame.withColumn("broken", F.array_compact(F.array(*names)))
    return rows.where(F.size("broken") > 0)


def _detail(table: Table, frame: DataFrame, extra: Sequence[Expectation]) -> list[Refusal]:
    """Count the rows that each expectation refuses."""
    expectations = (*table.all_expectations(), *extra)
    queries = {each.name: f"SELECT 1 FROM {{batch}} WHERE {_broken([each])}" for each in expectations}
    queries[KEY_EXPECTATION] = _rows_with_equal_keys(table)
    meanings = {each.name: each.meaning for each in expectations}
    meanings[KEY_EXPECTATION] = f"({', '.join(table.grain)}) is unique"
    severities = {each.name: each.severity for each in expectations}
    runner = import_module(_RUNNER)  # imports Great Expectations, so only when needed
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
    """Log dates of the rows that break each expectation; empty if one row has no date."""
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
    """List how the frame's columns differ from the table's, one sentence each."""
    return table.differences(to_arrow_schema(frame.schema, timezone="UTC"))


def _violations(
    table: Table, frame: DataFrame, extra: Sequence[Expectation], sound: Collection[str]
) -> tuple[DataFrame, DataFrame]:
    """Rows that break an expectation, and one row for each duplicate key."""
    several = frame.groupBy(*table.grain).count().where("count > 1")
    expectations = table.expectations_of_scalars() if table.name in sound else table.all_expectations()
    return frame.where(_broken([*expectations, *extra])), several


def _broken(expectations: Sequence[Expectation]) -> str:
    """SQL that is true for a row that breaks one of the expectations; null counts as broken."""
    holds = " AND ".join(f"coalesce(({each.condition}), false)" for each in expectations)
    return f"NOT ({holds})"


def _rows_with_equal_keys(table: Table) -> str:
    keys = ", ".join(table.grain)
    equals = f"SELECT count(*) OVER (PARTITION BY {keys}) AS equals FROM {{batch}}"
    return f"SELECT 1 FROM ({equals}) WHERE equals > 1"
