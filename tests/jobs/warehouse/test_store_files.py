"""A warehouse in a store, or one named by a file:// URL, gives the answers of a warehouse in a folder."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from jobs.reading.database import Database
from jobs.reading.duckdb_reader import DuckDbReader
from jobs.reading.question import NAMES
from jobs.runtime import objects
from jobs.runtime.places import storage_options
from jobs.warehouse.delta_tables import KEPT_HOURS
from jobs.warehouse.reader import AnswerError, on_units
from jobs.warehouse.stored import committed, forget, opened, restore
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
    """Folder of a warehouse in which every published table has two days."""
    made = tmp_path_factory.mktemp("stored")
    rows = [{"log_date": DAY}, {"log_date": NEXT_DAY}]
    of_days = [name for name, table in TABLES.items() if table.partition_by]
    warehouse = warehouse_of(made, **{name: table_rows(name, rows) for name in of_days})
    warehouse.append(TABLES[PIPELINE_RUNS], table_rows(PIPELINE_RUNS))
    return made


@pytest.fixture(scope="module")
def readers(folder: Path) -> tuple[DuckDbReader, DuckDbReader]:
    """Readers of the same folder: by its URL, and by its path."""
    return DuckDbReader(Database(folder.as_uri())), DuckDbReader(Database(str(folder)))


@pytest.mark.parametrize("sql", [*SQL, *(recipe.sql for recipe in RECIPES)])
def test_it_gives_the_answers_of_a_folder(readers: tuple[DuckDbReader, DuckDbReader], sql: str) -> None:
    store, folder = readers
    found, wanted = store.rows(sql), folder.rows(sql)
    assert found.schema == wanted.schema
    assert sorted(found.to_pylist(), key=repr) == sorted(wanted.to_pylist(), key=repr)


def test_a_unit_is_found_among_others(readers: tuple[DuckDbReader, DuckDbReader]) -> None:
    """A filter on (day, job, run) finds the day by the names of folders, and job and run in the files."""
    store, folder = readers
    sql = f"SELECT * FROM {RANK_STEPS} WHERE {on_units([DAY], [Unit(DAY, 'gpt-175b', 'r3')])}"
    assert store.rows(sql) == folder.rows(sql)
    assert store.rows(sql)["log_date"].to_pylist() == [DAY]


def test_a_column_of_which_the_log_says_nothing_is_found(readers: tuple[DuckDbReader, DuckDbReader]) -> None:
    """A filter skips no file if the log has no statistics of its column."""
    found = readers[0].ask("SELECT DISTINCT team FROM jobs WHERE team >= 'a'")
    assert list(found.rows) == [("language",)]


@pytest.mark.parametrize(
    "ask", [Database.check_exists, lambda database: database.home(JOBS).unused_files(JOBS)]
)
def test_a_store_that_cannot_be_asked_is_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[Database], object]
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(AnswerError, match=r"^az://fleet/warehouse: .* Account must be specified.*; give"):
        ask(Database("az://fleet/warehouse"))


@pytest.mark.slow
def test_upkeep_in_a_store_removes_old_files_that_no_version_needs_and_reads_no_log_again(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = Warehouse(NO_SPARK, f"s3://{BUCKET}/{tmp_path.name}")
    for _ in range(2):
        warehouse.replace(TABLES[JOBS], table_rows(JOBS), [DAY])
    path = warehouse.path(JOBS)
    needed = server.names(f"{tmp_path.name}/{JOBS}")
    objects.write(path, f"log_date={DAY}/of-a-killed-run.parquet", b"")
    server.requests()
    assert vacuum(warehouse, TABLES[JOBS]) == 0
    listed = objects.listed
    old_us = (KEPT_HOURS + 1) * 3_600_000_000

    def aged(root: str) -> Iterator[objects.Object]:
        yield from (each._replace(modified_us=each.modified_us - old_us) for each in listed(root))

    monkeypatch.setattr(objects, "listed", aged)
    assert vacuum(warehouse, TABLES[JOBS]) == 1
    assert not any(f"{JOBS}/_delta_log" in each.path for each in server.requests())
    assert server.names(f"{tmp_path.name}/{JOBS}") == needed


@pytest.mark.slow
def test_a_table_of_a_store_opens_by_few_requests_however_many_commits_it_has(
    server: Server, tmp_path: Path
) -> None:
    warehouse = Warehouse(NO_SPARK, f"s3://{BUCKET}/{tmp_path.name}")
    path = warehouse.path(JOBS)
    for commits in range(1, 13):
        warehouse.replace(TABLES[JOBS], table_rows(JOBS), [DAY])
        forget()
        server.requests()
        log = opened(path)
        assert len(server.requests()) <= 8
        delta_rs = DeltaTable(path, storage_options=storage_options(path))
        assert log.version() == delta_rs.version() == commits
        assert log.get_add_actions() == delta_rs.get_add_actions()
    late = DeltaTable(path, storage_options=storage_options(path))
    late.create_write_transaction([], "append", late.schema(), [])
    for version in (3, 7, 11, 4):  # also versions older than the listed commits
        assert opened(path, version).version() == version
    assert opened(path).version() == 12, "another writer's commit is not known before it is listed"
    with pytest.raises(CommitFailedError):
        warehouse.replace(TABLES[JOBS], table_rows(JOBS), [DAY])
    forget()
    assert restore(path, 3)
    assert opened(path).get_add_actions() == opened(path, 3).get_add_actions()
    assert DeltaTable(path, storage_options=storage_options(path)).version() == 14


@pytest.mark.slow
def test_what_ended_with_an_error_is_not_committed_with_the_next(server: Server, tmp_path: Path) -> None:
    """The next commit does not include the changes of a failed one, even if the log's copy has them."""
    warehouse = Warehouse(NO_SPARK, f"s3://{BUCKET}/{tmp_path.name}")
    path = warehouse.path(JOBS)
    warehouse.replace(TABLES[JOBS], table_rows(JOBS), [DAY])

    def fails_behind_its_commit() -> None:
        log = opened(path)
        log.create_write_transaction([], "append", log.schema(), [*TABLES[JOBS].partition_by])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        committed(path, fails_behind_its_commit, is_alone=True)
    assert opened(path).version() == 1
    warehouse.replace(TABLES[JOBS], table_rows(JOBS), [DAY])
    assert DeltaTable(path, storage_options=storage_options(path)).version() == 2
    assert server.names(f"{tmp_path.name}/{JOBS}/_delta_log/{3:020}") == []
