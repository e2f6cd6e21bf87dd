"""Audit: check rows against their table's declaration before they become visible.

One plain query over all tables of a phase finds whether anything is wrong. Only then does Great
Expectations count each expectation: importing it takes seven seconds.
"""

from collections.abc import Collection, Sequence
from datetime import date
from functools import reduce
from importlib import import_module
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.gates.checks import KEY_EXPECTATION, LOG_DATE, SCHEMA_EXPECTATION, Check, GateError, known_days
from schemas.table import Expectation, Table

_RUNNER: Final = "jobs.gates.expectation_runner"


def all_hold(
    frames: Sequence[tuple[Table, DataFrame]],
    extra: Sequence[Expectation] = (),
    sound: Collection[str] = (),
) -> bool:
    """Whether all rows pass the expectations of their tables and `extra`, in one query.

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


def audit(table: Table, frame: DataFrame, extra: Sequence[Expectation] = ()) -> list[Check]:
    """Return every expectation of a table, and of `extra`, that rows break; persist the DataFrame first.

    Raises GateError if one could not be evaluated.
    Only one audit at a time: Great Expectations gives every batch the same view name.
    """
    wrong = "; ".join(differences(table, frame))
    if wrong:
        return [Check(table.name, SCHEMA_EXPECTATION, frame.count(), wrong)]
    return [] if all_hold([(table, frame)], extra) else _detail(table, frame, extra)


def warnings(frames: Sequence[tuple[Table, DataFrame]]) -> list[Check]:
    """Return warning-only expectations that published rows break, day by day, in one query."""
    rules = [
        (table.name, frame, each)
        for table, frame in frames
        for each in table.all_expectations()
        if each.severity == "warns"
    ]
    broken = [
        frame.where(_broken([each])).select(F.lit(number).alias("rule"), LOG_DATE)
        for number, (_, frame, each) in enumerate(rules)
    ]
    found = reduce(DataFrame.union, broken).groupBy("rule", LOG_DATE).count().collect() if broken else []
    return [
        Check(rules[number][0], rules[number][2].name, rows, rules[number][2].meaning, (day,), "warns")
        for number, day, rows in sorted(found)
    ]


def broken_rows(table: Table, frame: DataFrame, extra: Sequence[Expectation] = ()) -> DataFrame:
    """Rows that break an expectation, with its name in `broken`; all rows if the schema differs."""
    if differences(table, frame):
        return frame
    same_keys = F.count("*").over(Window.partitionBy(*table.grain))
    is_broken = {each.name: F.expr(_broken([each])) for each in (*table.all_expectations(), *extra)}
    is_broken[KEY_EXPECTATION] = same_keys > 1
    names = [F.when(rule, F.lit(name)) for name, rule in is_broken.items()]
    rows = frame.withColumn("broken", F.array_compact(F.array(*names)))
    return rows.where(F.size("broken") > 0)


def _detail(table: Table, frame: DataFrame, extra: Sequence[Expectation]) -> list[Check]:
    """Count the rows that each expectation refuses."""
    of_keys = Expectation(KEY_EXPECTATION, "", f"({', '.join(table.grain)}) is unique")
    expectations = {each.name: each for each in (*table.all_expectations(), *extra, of_keys)}
    queries = {
        name: f"SELECT 1 FROM {{batch}} WHERE {_broken([each])}" for name, each in expectations.items()
    }
    queries[KEY_EXPECTATION] = _rows_with_equal_keys(table)
    runner = import_module(_RUNNER)  # imports Great Expectations, so only when needed
    counts: dict[str, int] = runner.count_rows(table.name, frame, queries)
    if not any(counts.values()):
        raise GateError(f"{table.name}: not the same rows at a second look; persist the frame")
    days = _days_by_name(broken_rows(table, frame, extra))
    return [
        Check(
            table.name,
            name,
            rows,
            expectations[name].meaning,
            known_days(days.get(name, ())),
            expectations[name].severity,
        )
        for name, rows in counts.items()
        if rows
    ]


def _days_by_name(broken: DataFrame) -> dict[str, set[date | None]]:
    """Log dates of the rows that break each expectation."""
    found: dict[str, set[date | None]] = {}
    if LOG_DATE in broken.columns:
        for day, name in broken.select(LOG_DATE, F.explode("broken")).distinct().collect():
            found.setdefault(name, set()).add(day)
    return found


def differences(table: Table, frame: DataFrame) -> list[str]:
    """Return one sentence for each difference between the DataFrame's columns and the table's."""
    return table.differences(to_arrow_schema(frame.schema, timezone="UTC"))


def _violations(
    table: Table, frame: DataFrame, extra: Sequence[Expectation], sound: Collection[str]
) -> tuple[DataFrame, DataFrame]:
    """Rows that break any expectation, and one row per duplicate key."""
    several = frame.groupBy(*table.grain).count().where("count > 1")
    expectations = table.expectations_of_scalars() if table.name in sound else table.all_expectations()
    return frame.where(_broken([*expectations, *extra])), several


def _broken(expectations: Sequence[Expectation]) -> str:
    """SQL condition for rows that break any of these expectations; null counts as broken."""
    holds = " AND ".join(f"coalesce(({each.condition}), false)" for each in expectations)
    return f"NOT ({holds})"


def _rows_with_equal_keys(table: Table) -> str:
    keys = ", ".join(table.grain)
    equals = f"SELECT count(*) OVER (PARTITION BY {keys}) AS equals FROM {{batch}}"
    return f"SELECT 1 FROM ({equals}) WHERE equals > 1"
