"""Readers see all tables of a warehouse as of one publication, whichever engine wrote the files."""

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import write_deltalake

from jobs.reading.database import Database
from jobs.reading.duckdb_reader import DuckDbReader
from jobs.runtime.printing import Result
from jobs.warehouse.publication import publication
from jobs.warehouse.reader import AnswerError, QuestionError
from schemas.tables import TABLES
from schemas.vocabulary import FLEET_DAY, JOB_SLOWDOWN, JOBS, PIPELINE_RUNS, Phase
from tests.jobs.reading.warehouses import warehouse_of
from tests.support.examples import DAY, NEXT_DAY, table_rows

Spelled = Callable[[Path], str]
JOB_IDS = "SELECT job_id FROM job_slowdown ORDER BY job_id"


@pytest.fixture(params=[str, Path.as_uri], ids=["folder", "store"])
def spelled(request: pytest.FixtureRequest) -> Spelled:
    """Function that names a folder by its path, or by its file:// URL, which is read like a store."""
    found: Spelled = request.param
    return found


def ask(root: str | Path, sql: str, ingested: str | None = None) -> Result:
    return DuckDbReader(Database(str(root), ingested)).ask(sql)


def values(root: str | Path, sql: str) -> list[object]:
    return [value for row in ask(root, sql).rows for value in row]


def test_all_tables_are_read_as_of_the_latest_publication(tmp_path: Path, spelled: Spelled) -> None:
    made = warehouse_of(tmp_path)
    for job in ("first", "second"):
        with publication(made, Phase.SIMULATE, [DAY], [JOB_SLOWDOWN]):
            made.replace(TABLES[JOB_SLOWDOWN], table_rows(JOB_SLOWDOWN, [{"job_id": job}]), [DAY])
    made.replace(TABLES[JOB_SLOWDOWN], table_rows(JOB_SLOWDOWN, [{"job_id": "unpublished"}]), [DAY])
    made.replace(TABLES[FLEET_DAY], table_rows(FLEET_DAY), [DAY])
    made.append(TABLES[PIPELINE_RUNS], table_rows(PIPELINE_RUNS))
    assert values(spelled(tmp_path), JOB_IDS) == ["second"]
    assert values(spelled(tmp_path), "SELECT count(*) FROM fleet_day") == [0]
    assert values(spelled(tmp_path), "SELECT count(*) FROM pipeline_runs") == [1]
    assert values(spelled(tmp_path), "SELECT max(publication) FROM publications") == [made.published.number]


def test_a_reader_stays_with_its_publication_while_another_is_written(tmp_path: Path) -> None:
    made = warehouse_of(tmp_path)
    readers = []
    for job in ("first", "second"):
        with publication(made, Phase.SIMULATE, [DAY], [JOB_SLOWDOWN]):
            made.replace(TABLES[JOB_SLOWDOWN], table_rows(JOB_SLOWDOWN, [{"job_id": job}]), [DAY])
        reader = DuckDbReader(Database(str(tmp_path)))
        reader.ask("SELECT count(*) FROM job_slowdown")
        readers.append(reader)
    assert [list(reader.ask(JOB_IDS).rows) for reader in readers] == [[("first",)], [("second",)]]


def test_a_table_whose_name_is_only_a_word_of_the_questions_is_not_opened(tmp_path: Path) -> None:
    warehouse_of(tmp_path, jobs=table_rows(JOBS), job_slowdown=table_rows(JOB_SLOWDOWN))
    for log in (tmp_path / JOB_SLOWDOWN / "_delta_log").glob("*.json"):
        log.write_text("not to be read")
    reader = DuckDbReader(Database(str(tmp_path)))
    named = f"SELECT '{JOB_SLOWDOWN}' AS {JOB_SLOWDOWN} FROM jobs"
    reader.prepare([named])
    assert list(reader.ask(named).rows) == [(JOB_SLOWDOWN,)]


def no_tables(root: str | Path) -> str:
    """Return the hint in the error for a warehouse without tables; for a URL, the whole error."""
    with pytest.raises(QuestionError) as said:
        Database(str(root)).check_exists("run a night")
    return str(said.value).partition(": ")[2] if "://" not in str(root) else str(said.value)


def test_a_folder_within_a_warehouse_is_said_to_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "wh"
    warehouse_of(root, jobs=table_rows(JOBS))
    table = f"it is a table of the warehouse {root}"
    assert no_tables(root / "jobs") == no_tables(f"{root}/jobs/") == table
    assert no_tables((root / "jobs").as_uri()).endswith(f": it is a table of the warehouse {root.as_uri()}")
    (root / "rejects").mkdir()
    assert no_tables((root / "rejects").as_uri()).endswith(": run a night"), (
        "only a folder with a Delta log is a table"
    )
    inner = next((root / "jobs").glob("log_date=*"))
    assert no_tables(inner) == f"it lies in the warehouse {root}"
    assert no_tables(root / "jobz") == "run a night", "there is no such folder"
    monkeypatch.chdir(root)
    assert no_tables("jobs") == table
    monkeypatch.chdir(root / "jobs")
    assert no_tables(".") == table


def test_warehouses_in_a_folder_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "alone"
    (folder / "jobs").mkdir(parents=True)
    assert no_tables(folder) == "run a night", "a folder with a table's name is no warehouse"
    names = ["a", "b", "c", "d", "e", "f"]
    says = []
    for name in names:
        warehouse_of(folder / name, jobs=table_rows(JOBS))
        says.append(no_tables(folder))
    assert says == [
        "the folder a in it is a warehouse",
        "the folders a and b in it are warehouses",
        "the folders a, b and c in it are warehouses",
        "the folders a, b, c and d in it are warehouses",
        "the folders a, b, c, d and e in it are warehouses",
        "6 folders in it are warehouses, such as a, b, c, d, e",
    ]


def test_a_warehouse_without_publications_is_read_as_it_is_now(tmp_path: Path) -> None:
    made = warehouse_of(tmp_path, job_slowdown=table_rows(JOB_SLOWDOWN))
    made.replace(TABLES[JOB_SLOWDOWN], table_rows(JOB_SLOWDOWN, [{"job_id": "new"}]), [DAY])
    assert values(tmp_path, JOB_IDS) == ["new"]


def test_a_column_that_files_were_written_without_is_null(tmp_path: Path, spelled: Spelled) -> None:
    old = table_rows(JOBS).drop_columns(["team", "labels"])
    write_deltalake(tmp_path / JOBS, old, partition_by=["log_date"])
    assert values(spelled(tmp_path), "SELECT team, labels FROM jobs") == [None, None]
    new = table_rows(JOBS, [{"log_date": NEXT_DAY}]).drop_columns("labels")
    write_deltalake(tmp_path / JOBS, new, mode="append", schema_mode="merge", partition_by=["log_date"])
    found = ask(spelled(tmp_path), "SELECT log_date, team, labels FROM jobs ORDER BY log_date")
    assert list(found.rows) == [(DAY, None, None), (NEXT_DAY, "language", None)]


def test_ingested_tables_may_lie_elsewhere_with_publications_of_their_own(tmp_path: Path) -> None:
    ingested = warehouse_of(tmp_path / "ingested")
    with publication(ingested, Phase.SIMULATE, [DAY], [JOBS]):
        ingested.replace(TABLES[JOBS], table_rows(JOBS), [DAY])
    own = warehouse_of(tmp_path / "own", job_slowdown=table_rows(JOB_SLOWDOWN))
    found = ask(own.root, "SELECT team, slowdown FROM job_days", ingested.root)
    assert list(found.rows) == [("language", 1.25)]


@pytest.mark.parametrize("name", ["it's a [warehouse]*?", "cluster=b", "Zoë"])
def test_a_warehouse_may_lie_in_a_folder_of_any_name(tmp_path: Path, name: str) -> None:
    made = warehouse_of(tmp_path / name, job_slowdown=table_rows(JOB_SLOWDOWN))
    found = ask(made.root, "SELECT log_date, job_id FROM job_slowdown WHERE log_date = '2026-01-05'")
    assert list(found.rows) == [(DAY, "gpt-175b")]


def test_a_missing_file_gives_one_line(tmp_path: Path, spelled: Spelled) -> None:
    warehouse_of(tmp_path, job_slowdown=table_rows(JOB_SLOWDOWN))
    (file,) = (tmp_path / JOB_SLOWDOWN).glob("*/*.parquet")
    file.unlink()
    with pytest.raises(AnswerError, match=file.name):
        ask(spelled(tmp_path), JOB_IDS)


def test_what_a_store_answers_in_xml_becomes_its_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def content(*_: str) -> bytes:
        raise OSError(
            'S3 error: 404: <?xml version="1.0"?>\n<Error>\n  <Message>no such bucket</Message></Error>'
        )

    monkeypatch.setattr("jobs.runtime.objects.content", content)
    with pytest.raises(AnswerError, match=r"^s3://none/warehouse: S3 error: 404: no such bucket; give "):
        Database("s3://none/warehouse").stated()


def test_times_are_text_in_utc(tmp_path: Path) -> None:
    made = warehouse_of(tmp_path)
    made.append(TABLES[PIPELINE_RUNS], table_rows(PIPELINE_RUNS))
    sql = "SELECT started_at, started_at + INTERVAL 1500 MILLISECONDS FROM pipeline_runs"
    assert values(tmp_path, sql) == ["2026-01-06 01:00:00", "2026-01-06 01:00:01.5"]


def test_a_folder_that_would_pass_for_a_partition_is_refused(tmp_path: Path) -> None:
    made = warehouse_of(tmp_path / "log_date=2020-01-01", job_slowdown=table_rows(JOB_SLOWDOWN))
    with pytest.raises(QuestionError, match="no folder above a table may be named log_date="):
        ask(made.root, JOB_IDS)
