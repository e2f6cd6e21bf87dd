"""DuckDB and Spark give equal results for this project's SQL, and for expressions translated to DuckDB."""

import math
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.reading.database import Database
from jobs.reading.duckdb_reader import DuckDbReader
from jobs.reading.question import NAMES, question
from jobs.reading.spark_reader import SparkReader
from jobs.reading.unit import find_unit, read_unit
from jobs.report.read import read_fleet
from jobs.runtime.printing import Result
from jobs.warehouse.reader import BATCH, AnswerError, QuestionError, Reader
from jobs.warehouse.tables import Warehouse
from schemas.cookbook import RECIPES
from schemas.queries import QUERIES
from schemas.tables import TABLES
from schemas.views import VIEWS
from schemas.vocabulary import JOB_CAUSES, JOB_SLOWDOWN
from tests.jobs.conftest import Demo
from tests.jobs.reading.warehouses import warehouse_of
from tests.support.examples import NEXT_DAY, table_rows

CLOSE = 1e-9
"""Relative tolerance: the engines add numbers in different orders."""

UNREPLAYED = {column.name: None for column in TABLES[JOB_SLOWDOWN].columns if column.nullable}

OF_ROWS = r"""
    cast(slowdown AS int); cast(-slowdown AS bigint); int(slowdown); cast(true AS int); steps / 3;
    steps div 3; -7 % 3; try_divide(steps, 0); greatest(slowdown, 2); least(slowdown, null); round(2.5);
    round(-2.5); round(slowdown, 1); floor(slowdown); isnan(slowdown); date_add(log_date, 3);
    date_sub(log_date, 3); add_months(log_date, 1); trunc(log_date, 'MONTH'); dayofweek(log_date);
    weekofyear(log_date); datediff(log_date, date'2026-01-01'); last_day(log_date);
    date_format(log_date, 'yyyy-MM-dd EEE'); log_date > '2026-01-05'; date_trunc('WEEK', log_date);
    job_id LIKE 'a\_%'; job_id LIKE '%b'; substr(job_id, -2); split(job_id, '-'); concat(job_id, null);
    regexp_extract(job_id, '([a-z]+)-(\\d+)', 2); concat_ws(',', job_id, null, run_id);
    array_position(array(1, 2), 9); array_position(array('x', job_id), job_id); array(1, 2)[0];
    element_at(array(1, 2), -1); transform(array(5, 6), (x, i) -> x * i); array_sort(array(3, 1, null));
    filter(array(5, 6, 7), (x, i) -> i > 0); aggregate(array(1, 2), 0, (a, x) -> a + x); sequence(1, 3);
    sequence(3, 1); size(array()); map('a', 1)['z']; slowdown <=> null
"""
OF_GROUPS = r"""
    count(*); count(slowdown); count(DISTINCT job_id, run_id); count_if(slowdown > 1); count_if(null);
    sum(steps); avg(slowdown); median(slowdown); percentile(slowdown, 0.9); stddev(slowdown);
    max_by(job_id, slowdown); min_by(job_id, slowdown); sum(slowdown) FILTER (WHERE slowdown > 2);
    max_by(slowdown, status); min_by(slowdown, length(status));
    max_by(run_id, slowdown) FILTER (WHERE slowdown > 9);
    array_sort(collect_list(slowdown)); array_sort(collect_set(run_id)); bool_or(slowdown > 1);
    sum(cast(slowdown > 1 AS int)); cast(avg(slowdown) AS bigint); sum(slowdown) / count(*)
"""


def _expressions(text: str) -> list[str]:
    return [each.strip() for each in text.split(";")]


def _listed(text: str) -> str:
    return ", ".join(_expressions(text))


QUESTIONS = (
    f"SELECT job_id, {_listed(OF_ROWS)} FROM job_slowdown ORDER BY job_id",
    f"SELECT {_listed(OF_GROUPS)} FROM job_slowdown",
    f"SELECT {_listed(OF_GROUPS)} FROM job_slowdown WHERE false",
    "SELECT job_id FROM job_slowdown ORDER BY slowdown",
    "SELECT job_id FROM job_slowdown ORDER BY slowdown DESC",
    "SELECT job_id, lag(job_id) OVER (ORDER BY job_id) FROM job_slowdown ORDER BY 1",
    "SELECT job_id, rank() OVER (ORDER BY slowdown) FROM job_slowdown ORDER BY 1",
    "SELECT job_id, c.host FROM job_causes LATERAL VIEW OUTER explode(culprits) e AS c ORDER BY 1, c.pp_rank",
    "SELECT job_id, place FROM job_causes LATERAL VIEW posexplode(culprits) e AS place, c ORDER BY 1, 2",
    "SELECT job_id, evidence['effect'], evidence['none'] FROM job_causes ORDER BY job_id",
    "SELECT slowdown * 2 AS twice, twice + 1 FROM job_slowdown ORDER BY job_id",
    "SELECT status, run_id, count(*) FROM job_slowdown GROUP BY ROLLUP (status, run_id) ORDER BY 1, 2",
    "SELECT job_id FROM job_slowdown MINUS SELECT job_id FROM job_causes ORDER BY 1",
    "SELECT a.job_id FROM job_slowdown a LEFT ANTI JOIN job_causes b ON a.job_id = b.job_id ORDER BY 1",
    "SELECT * EXCEPT (labels) FROM (SELECT job_id, map('a', 1) AS labels FROM job_slowdown) ORDER BY ALL",
)
NOT_PUT_OVER = r"""
    culprits[steps]; weekday(log_date); typeof(steps); format_string('%d', steps); skewness(slowdown);
    max(struct(slowdown, job_id)); array_distinct(array(2, 1)); WEEKDAY(log_date); PRINTF('%d', steps);
    extract(dow FROM log_date); date_part('dow', log_date); hash(job_id)
"""


@pytest.fixture(scope="module")
def readers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Reader, Reader]:
    units: list[dict[str, Any]] = [
        {},
        UNREPLAYED | {"job_id": "b", "status": "no_ops"},
        {"job_id": "a_%c", "slowdown": 1.75, "log_date": NEXT_DAY},
        {"job_id": "d", "slowdown": 2.5},
    ]
    none: dict[str, Any] = {"job_id": "e", "culprits": [], "evidence": []}
    causes = table_rows(JOB_CAUSES, [{}, none])
    root = tmp_path_factory.mktemp("warehouse")
    made = warehouse_of(root, job_slowdown=table_rows(JOB_SLOWDOWN, units), job_causes=causes)
    return both(spark, made.root)


def both(spark: SparkSession, root: str) -> tuple[Reader, Reader]:
    return DuckDbReader(Database(root)), SparkReader(spark, Warehouse(spark, root))


def test_what_looks_like_a_variable_is_text(
    readers: tuple[Reader, Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text in a question that looks like a variable of Spark, such as ${env:SECRET}, is not replaced."""
    monkeypatch.setenv("SECRET", "hidden")
    asked = ["${env:SECRET}", "${system:user.home}", "${spark.app.name}"]
    sql = f"SELECT {', '.join(map(repr, asked))}, '${{env:SECRET}}' FROM job_slowdown WHERE job_id = 'b'"
    for reader in readers:
        assert list(reader.ask(sql).rows) == [(*asked, asked[0])]


def test_spark_reads_a_table_for_the_first_of_its_questions(
    readers: tuple[Reader, Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_spark = readers[1]
    by_spark.ask("SELECT count(*) FROM job_causes")
    monkeypatch.setattr(Warehouse, "read", lambda *_: pytest.fail("again"))
    assert list(by_spark.ask("SELECT count(*) FROM job_causes").rows) == [(2,)]


def same(left: object, right: object) -> bool:
    """Return whether two values are equal up to rounding, also within lists and maps."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, Sequence) and isinstance(right, Sequence) and not isinstance(left, str):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, bool) or isinstance(right, bool) or left is None or right is None:
        return left is right
    if isinstance(left, str) or not hasattr(left, "__float__") or not hasattr(right, "__float__"):
        return left == right
    return math.isclose(left, right, rel_tol=CLOSE)


def plain(kind: pa.DataType) -> pa.DataType | None:
    """Return the type, with int64 for all integer types; None for nested types."""
    if pa.types.is_nested(kind):
        return None
    return pa.int64() if pa.types.is_integer(kind) else kind


def differing(found: Result, wanted: Result) -> list[tuple[str, object, object]]:
    """Return (column, left value, right value) of each cell in which two results differ."""
    assert len(found.rows) == len(wanted.rows)
    return [
        (name, left, right)
        for row, other in zip(found.rows, wanted.rows, strict=True)
        for name, left, right in zip(found.columns, row, other, strict=True)
        if not same(left, right)
    ]


@pytest.mark.parametrize("sql", QUESTIONS)
def test_a_question_means_the_same_to_both(readers: tuple[Reader, Reader], sql: str) -> None:
    duckdb, spark = (reader.ask(sql) for reader in readers)
    assert differing(duckdb, spark) == []
    assert duckdb.rows or "false" in sql


@pytest.mark.parametrize(
    ("rows", "limit", "sizes", "is_cut"),
    [
        (0, 0, [0], False),
        (3, 0, [3], False),
        (8, 0, [4, 4, 0], False),
        (9, 0, [4, 4, 1], False),
        (9, 2, [2], True),
        (9, 4, [4, 0], True),
        (4, 4, [4, 0], False),
        (9, 6, [4, 2], True),
    ],
)
def test_an_answer_comes_in_batches(
    readers: tuple[Reader, Reader],
    monkeypatch: pytest.MonkeyPatch,
    rows: int,
    limit: int,
    sizes: list[int],
    *,
    is_cut: bool,
) -> None:
    for module in ("jobs.warehouse.reader", "jobs.reading.spark_reader"):
        monkeypatch.setattr(f"{module}.BATCH", 4)
    sql = f"SELECT n FROM (SELECT explode(sequence(1, 9)) AS n) WHERE n <= {rows} ORDER BY n"
    for reader in readers:
        batches = list(reader.batches(sql, limit))
        assert [len(batch.rows) for batch in batches] == sizes
        assert [row for batch in batches for row in batch.rows] == list(reader.ask(sql, limit).rows)
        assert [batch.is_cut for batch in batches] == [False] * (len(batches) - 1) + [is_cut]
        assert {tuple(batch.columns) for batch in batches} == {("n",)}


def test_no_more_rows_are_read_than_are_taken(readers: tuple[Reader, Reader]) -> None:
    """A question for 10^10 rows computes only the batches that are taken, so that it fits into memory."""
    counts = "(SELECT explode(sequence(1, 100000)) AS {0}) AS of_{0}"
    sql = f"SELECT a, b FROM {counts.format('a')}, {counts.format('b')}"
    batches = readers[0].batches(sql)
    assert [len(next(batches).rows) for _ in range(3)] == [BATCH] * 3


@pytest.mark.parametrize("asked", _expressions(NOT_PUT_OVER))
def test_sql_that_means_something_else_in_duckdb_is_refused(
    readers: tuple[Reader, Reader], asked: str
) -> None:
    with pytest.raises(QuestionError, match="--engine spark"):
        readers[0].ask(f"SELECT {asked} FROM {JOB_CAUSES if 'culprits' in asked else JOB_SLOWDOWN}")


@pytest.mark.parametrize("name", ["max_by", "min_by"])
def test_several_greatest_rows_are_refused_by_both(readers: tuple[Reader, Reader], name: str) -> None:
    for reader in readers:
        with pytest.raises(QuestionError, match=f"{name} takes two arguments here"):
            reader.ask(f"SELECT {name}(job_id, steps, 2) FROM {JOB_SLOWDOWN}")


@pytest.mark.parametrize("asked", ["1 / (steps - steps)", "cast(job_id AS int)"])
def test_an_answer_that_fails_fails_in_both(readers: tuple[Reader, Reader], asked: str) -> None:
    for reader in readers:
        with pytest.raises(AnswerError):
            reader.ask(f"SELECT {asked} FROM job_slowdown")


@pytest.mark.parametrize("asked", ["log_date > 'yesterday'", "log_date = DATE'2026-13-01'", "steps > 'x'"])
def test_a_text_of_the_question_that_is_no_value_is_a_mistake_of_the_question(
    readers: tuple[Reader, Reader], asked: str
) -> None:
    with pytest.raises(QuestionError, match=f"a text of the question: .*{asked.split(chr(39))[1]}"):
        readers[0].ask(f"SELECT job_id FROM job_slowdown WHERE {asked}")


def test_both_give_the_same_names_and_types_to_all_sql_of_this_project(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = warehouse_of(tmp_path, job_slowdown=table_rows(JOB_SLOWDOWN))
    reader = DuckDbReader(Database(made.root))
    Warehouse(spark, made.root).register_views()
    asked = [*(f"SELECT * FROM {name}" for name in NAMES), *(each.over() for each in QUERIES.values())]
    for sql in (*asked, *(recipe.sql for recipe in RECIPES)):
        found = reader.rows(sql).schema
        wanted = to_arrow_schema(spark.sql(question(sql).for_spark).schema, timezone="UTC")
        assert found.names == wanted.names, sql
        assert list(map(plain, found.types)) == list(map(plain, wanted.types)), sql


def test_both_give_the_same_answers_of_the_demo(spark: SparkSession, demo: Demo) -> None:
    duckdb, by_spark = both(spark, str(demo.warehouse))
    unlike = {
        "ops": None,
        "rank_steps": None,
        "job_days": "log_date, job_id, run_id",
    }  # columns of maps cannot be sorted by
    orders = {name: unlike.get(name, "ALL") for name in VIEWS}
    orders |= {name: ", ".join(table.grain) for name, table in TABLES.items() if name not in unlike}
    ordered = [f"SELECT * FROM {name} ORDER BY {order}" for name, order in orders.items() if order]
    asked = [*ordered, *(each.over() for each in QUERIES.values()), *(recipe.sql for recipe in RECIPES)]
    for sql in asked:
        assert differing(duckdb.ask(sql), by_spark.ask(sql)) == [], sql
    ops = "SELECT op_type, count(*), sum(start_us), max(end_us), sum(position) FROM ops GROUP BY 1 ORDER BY 1"
    assert differing(duckdb.ask(ops), by_spark.ask(ops)) == []
    fleets = [read_fleet(reader, date(2026, 1, 1), date(2026, 1, 31)) for reader in (duckdb, by_spark)]
    for name in ("units", "parts", "op_types", "hosts"):
        assert same(*(getattr(fleet, name).to_pylist() for fleet in fleets)), name
    unit = find_unit(duckdb, "gpt-175b", None, None)
    assert unit == find_unit(by_spark, "gpt-175b", None, None)
    (rows, manifest), (others, other) = (read_unit(reader, unit) for reader in (duckdb, by_spark))
    key = [("step", "ascending"), ("rank", "ascending")]
    assert rows.sort_by(key) == others.sort_by(key)
    assert same(manifest, other)
