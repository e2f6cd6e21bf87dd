"""All tables and views are exported into one DuckDB file, and a failed export leaves the file as it was."""

import os
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.export_database import OF_OPS, main
from schemas.tables import TABLES
from schemas.views import VIEWS
from schemas.vocabulary import JOB_SLOWDOWN, RANK_STEPS
from tests.jobs.conftest import Ask
from tests.jobs.reading.warehouses import warehouse_of
from tests.support.examples import table_rows


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = {name: table_rows(name) for name in (JOB_SLOWDOWN, RANK_STEPS)}
    return warehouse_of(tmp_path_factory.mktemp("warehouse"), **rows).root


@pytest.mark.parametrize("with_ops", [False, True])
def test_the_file_has_tables_and_views_with_their_meanings(
    ask: Ask, tmp_path: Path, *, with_ops: bool
) -> None:
    target = tmp_path / "fleet.duckdb"
    target.write_text("what an earlier export left")
    status, said, _ = ask(main, target, *(["--with-ops"] if with_ops else []))
    assert (status, said.startswith(f"{target}: ")) == (0, True)
    assert [*tmp_path.iterdir()] == [target]
    wanted = {name: each.meaning for name, each in TABLES.items()}
    wanted |= {name: each.meaning for name, each in VIEWS.items()}
    if not with_ops:
        wanted = {name: meaning for name, meaning in wanted.items() if name not in OF_OPS}
    with duckdb.connect(str(target), read_only=True) as file:
        found = file.execute(
            "SELECT table_name, comment FROM duckdb_tables() UNION ALL "
            "SELECT view_name, comment FROM duckdb_views() WHERE NOT internal"
        ).fetchall()
        assert dict(found) == wanted
        assert file.execute("SELECT job_id, slowdown FROM job_history").fetchall() == [("gpt-175b", 1.25)]
        for name in wanted:
            file.execute(f"SELECT * FROM {name}")
        comment = (
            "SELECT comment FROM duckdb_columns() WHERE table_name = 'job_slowdown' AND column_name = 'ideal'"
        )
        assert file.execute(comment).fetchone() == (
            next(each.meaning for each in TABLES[JOB_SLOWDOWN].columns if each.name == "ideal"),
        )
        if with_ops:
            assert file.execute("SELECT count(*) FROM ops").fetchone() == (3,)


def test_the_old_file_stays_where_the_new_cannot_be_written(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: object) -> None:
        raise OSError("disk full")

    target = tmp_path / "fleet.duckdb"
    target.write_text("before")
    monkeypatch.setattr("jobs.reading.database.create_views", full)
    status, _, said = ask(main, target)
    assert (status, said) == (1, f"export_database: error: {target} could not be written: disk full\n")
    assert [(file, file.read_text()) for file in tmp_path.iterdir()] == [(target, "before")]


@pytest.mark.parametrize("kind", ["fifo", "link", "folder"])
def test_only_a_new_or_a_regular_file_is_replaced(ask: Ask, tmp_path: Path, kind: str) -> None:
    """An export writes a new file or replaces a regular one, and refuses links, folders and devices."""
    target, other = tmp_path / "fleet.duckdb", tmp_path / "other"
    other.write_text("before")
    {"fifo": os.mkfifo, "link": lambda at: at.symlink_to(other), "folder": Path.mkdir}[kind](target)
    before = target.lstat()
    status, out, said = ask(main, target)
    assert (status, out) == (2, "")
    only = "only a new or a regular file can be written, not a link, folder or device"
    assert said == f"export_database: error: {target}: {only}\n"
    assert (target.lstat().st_ino, target.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert {*tmp_path.iterdir()} == {target, other}
    assert other.read_text() == "before"


def test_a_folder_named_like_a_pattern_is_exported_and_not_what_it_matches(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    matched = warehouse_of(tmp_path / "w1", **{JOB_SLOWDOWN: table_rows(JOB_SLOWDOWN)})
    shutil.copytree(matched.root, tmp_path / "w[1]")
    (file,) = Path(matched.root, JOB_SLOWDOWN).glob("log_date=*/*.parquet")
    rows = pq.ParquetFile(file).read()
    place = rows.schema.get_field_index("job_id")
    pq.write_table(rows.set_column(place, "job_id", pa.array(["of another warehouse"] * len(rows))), file)
    monkeypatch.setenv("STRAGGLER_WAREHOUSE", str(tmp_path / "w[1]"))
    assert ask(main, tmp_path / "fleet.duckdb")[0] == 0
    with duckdb.connect(str(tmp_path / "fleet.duckdb"), read_only=True) as made:
        assert made.execute("SELECT job_id FROM job_slowdown").fetchall() == [("gpt-175b",)]
