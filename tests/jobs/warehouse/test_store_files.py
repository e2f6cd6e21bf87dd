"""A warehouse in a store answers like one in a folder. A `file://` URL is read like a store."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.reading.database import Database
from jobs.reading.duckdb_reader import DuckDbReader
from jobs.reading.question import NAMES
from jobs.warehouse.reader import AnswerError, on_units
from jobs.warehouse.stored import opened
from jobs.warehouse.tables import Warehouse
from jobs.warehouse.upkeep import vacuum
from schemas.cookbook import RECIPES
from schemas.queries import QUERIES
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import JOBS, PIPELINE_RUNS, RANK_STEPS
from tests.jobs.reading.warehouses import warehouse_of
from tests.jobs.warehouse.test_publication import NO_SPARK
from tests.support.examples import DAY, NEXT_DAY, table_rows
from tests.support.stores import BUCKET, Server

SQL = (
    "SHOW TABLES",
    *(f"SELECT * FROM {name}" for name in NAMES),
    *(each.over() for each in QUERIES.values()),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two days of every table that a publication has."""
    made = tmp_path_factory.mktemp("stored")
    rows = [{"log_date": DAY}, {"log_date": NEXT_DAY}]
    of_days = [name for name, table in TABLES.items() if table.partition_by]
    warehouse = warehouse_of(made, **{name: table_rows(name, rows) for name in of_days})
    warehouse.append(TABLES[PIPELINE_RUNS], table_rows(PIPELINE_RUNS))
    return made


@pytest.fixture(scope="module")
def readers(folder: Path) -> tuple[DuckDbReader, DuckDbReader]:
    """The folder by its URL, and by its path."""
    return DuckDbReader(Database(folder.as_uri())), DuckDbReader(Database(str(folder)))


@pytest.mark.parametrize("sql", [*SQL, *(recipe.sql for recipe in RECIPES)])
def test_it_gives_the_answers_of_a_folder(readers: tuple[DuckDbReader, DuckDbReader], sql: str) -> None:
    store, folder = readers
    found, wanted = store.rows(sql), folder.rows(sql)
    assert found.schema == wanted.schema
    assert sorted(found.to_pylist(), key=repr) == sorted(wanted.to_pylist(), key=repr)


def test_a_unit_is_found_among_others(readers: tuple[DuckDbReader, DuckDbReader]) -> None:
    """Days come from the folders' names, jobs and runs from the files."""
    store, folder = readers
    sql = f"SELECT * FROM {RANK_STEPS} WHERE {on_units([DAY], [Unit(DAY, 'gpt-175b', 'r3')])}"
    assert store.rows(sql) == folder.rows(sql)
    assert store.rows(sql)["log_date"].to_pylist() == [DAY]


def test_a_column_of_which_the_log_says_nothing_is_found(readers: tuple[DuckDbReader, DuckDbReader]) -> None:
    """Delta's log has least and greatest values only of keys: no reason to skip files."""
    found = readers[0].ask("SELECT DISTINCT team FROM jobs WHERE team >= 'a'")
    assert list(found.rows) == [("language",)]


@pytest.mark.parametrize("ask", [Database.check_exists, lambda database: database.unused_files(JOBS)])
def test_a_store_that_cannot_be_asked_is_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[Database], object]
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(AnswerError, match=r"^az://fleet/warehouse: .* Account must be specified.*; give"):
        ask(Database("az://fleet/warehouse"))


@pytest.mark.slow
def test_upkeep_does_not_open_a_table_of_a_store_again(server: Server, tmp_path: Path) -> None:
    warehouse = Warehouse(NO_SPARK, f"s3://{BUCKET}/{tmp_path.name}")
    warehouse.replace(TABLES[JOBS], table_rows(JOBS), [DAY])
    log = f"{tmp_path.name}/{JOBS}/_delta_log/0"
    opened(warehouse.path(JOBS))
    server.requests()
    assert vacuum(warehouse, TABLES[JOBS]) == 0
    reads = Counter(each.path for each in server.requests() if log in each.path)
    assert reads == dict.fromkeys((f"/{BUCKET}/{name}" for name in server.names(log)), 1)
