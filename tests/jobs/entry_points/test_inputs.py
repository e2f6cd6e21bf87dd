"""A command checks its input before it starts Spark, and a day without logs needs no Spark."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from jobs import (
    backfill,
    compare_versions,
    ingest_rank_logs,
    refresh_changed_days,
    run_nightly,
    simulate_what_if,
    watch_landing,
)
from jobs.runtime.nearest import missing_folder
from jobs.runtime.session import log_file, log_on_error
from jobs.runtime.settings import load_settings
from jobs.warehouse.stored import create
from jobs.warehouse.table_log import has_rows_of
from schemas.tables import TABLES
from schemas.vocabulary import JOBS, PIPELINE_RUNS
from tests.jobs.conftest import Ask
from tests.support.examples import table_rows
from tests.support.night import Landing

DAY = ["--log-date", "2026-02-05"]
Main = Callable[[Sequence[str]], int]
RANGE = ["--from", "2026-01-05", "--to", "2026-01-06"]


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("jobs.entry_points.cli.session", "jobs.entry_points.writing.session"):
        monkeypatch.setattr(name, lambda *_: pytest.fail("a session was made"))


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    for day in (date(2026, 1, 5), date(2026, 2, 1), date(2026, 2, 7), date(2026, 3, 1)):
        Landing(tmp_path / "landing").manifest("llm", day=day)
    return tmp_path / "landing"


def folders(*, landing: Path, warehouse: Path) -> list[str]:
    return ["--landing", str(landing), "--warehouse", str(warehouse)]


@pytest.mark.parametrize(
    ("command", "arguments"),
    [(run_nightly.main, DAY), (ingest_rank_logs.main, DAY), (backfill.main, RANGE)],
    ids=["night", "ingest", "backfill"],
)
def test_a_landing_that_does_not_exist_is_an_error_before_anything_is_made(
    call: Ask, command: Main, arguments: Sequence[str], landing: Path, tmp_path: Path
) -> None:
    where = folders(landing=tmp_path / "landng", warehouse=tmp_path / "warehouse")
    status, _, said = call(command, *arguments, *where)
    assert status == 2
    assert said.endswith(f"the landing {tmp_path}/landng does not exist: did you mean landing?\n")
    assert not (tmp_path / "warehouse").exists()


def test_a_warehouse_to_read_that_does_not_exist_is_an_error(
    call: Ask, landing: Path, tmp_path: Path
) -> None:
    (tmp_path / "warehouse").mkdir()
    where = folders(landing=landing, warehouse=tmp_path / "warehose")
    for command, *arguments in (
        (simulate_what_if.main, *DAY),
        (backfill.main, *RANGE, "--phases", "simulate"),
        (compare_versions.main, "--warehouse-new", tmp_path / "warehouse"),
    ):
        status, _, said = call(command, *arguments, *where)
        assert (status, said.count("\n")) == (2, 1)
        assert f"the warehouse {tmp_path}/warehose does not exist: did you mean warehouse?" in said


def test_a_warehouse_within_a_table_is_an_error_before_anything_is_made(
    call: Ask, landing: Path, tmp_path: Path
) -> None:
    table = tmp_path / "warehouse" / JOBS
    create(str(table), TABLES[JOBS])
    before = sorted(table.rglob("*"))
    for inner, place in ((table, "is"), (table / "inner", f"lies in {table}, which is")):
        for command, *arguments in (
            (run_nightly.main, "--log-date", "2026-02-01"),
            (backfill.main, *RANGE),
            (refresh_changed_days.main, "--log-date", "2026-02-01"),
            *([(simulate_what_if.main, *DAY)] if inner == table else []),
        ):
            status, _, said = call(command, *arguments, *folders(landing=landing, warehouse=inner))
            assert (status, said.count("\n")) == (2, 1)
            assert f"the warehouse {inner} {place} a table of the warehouse {table.parent}" in said
    assert sorted(table.rglob("*")) == before


@pytest.mark.parametrize(
    ("landing_at", "warehouse_at"),
    [
        ("landing", "landing"),
        ("landing", "landing/"),
        ("landing", "link"),
        ("landing", "file://{tmp_path}/landing/"),
        ("file://{tmp_path}/link", "landing"),
        ("landing", "landing/log_date=2026-02-01"),
        ("landing", "link/log_date=2026-02-05/warehouse"),
        ("s3a://logs/landing/", "s3://logs/landing"),
        ("s3://logs/landing", "s3://logs/landing/log_date=2026-02-05/tables"),
    ],
)
def test_a_warehouse_among_the_logs_is_refused(
    call: Ask, landing: Path, tmp_path: Path, landing_at: str, warehouse_at: str
) -> None:
    (tmp_path / "link").symlink_to(landing)
    before = sorted(landing.rglob("*"))
    at = [each.format(tmp_path=tmp_path) for each in (landing_at, warehouse_at)]
    where = ["--landing", at[0], "--warehouse", at[1]]
    with contextlib.chdir(tmp_path):
        status, _, said = call(run_nightly.main, *DAY, *where)
    assert (status, said.count("\n"), "tables would lie among the producers' logs" in said) == (2, 1, True)
    assert sorted(landing.rglob("*")) == before


@pytest.mark.parametrize(
    ("landing", "warehouse"),
    [
        ("/fleet/landing", "/fleet/warehouse"),
        ("/fleet/landing", "/fleet/landing-warehouse"),
        ("s3://fleet/landing", "s3://fleet/warehouse"),
        ("s3://fleet/landing", "/fleet/landing"),
        ("s3://fleet/landing", "gs://fleet/landing"),
    ],
)
def test_a_warehouse_beside_the_landing_is_fine(landing: str, warehouse: str) -> None:
    paths = load_settings(None, landing, warehouse).paths
    assert (paths.landing, paths.warehouse) == (landing, warehouse)


def test_a_first_night_makes_its_warehouse_but_not_the_folder_above(
    call: Ask, landing: Path, tmp_path: Path
) -> None:
    where = folders(landing=landing, warehouse=tmp_path / "dta" / "warehouse")
    status, _, said = call(run_nightly.main, *DAY, *where)
    assert (status, f"cannot be made: {tmp_path}/dta does not exist" in said) == (2, True)
    assert [each.name for each in tmp_path.iterdir()] == ["landing"]


@pytest.mark.parametrize("command", [run_nightly.main, ingest_rank_logs.main], ids=["night", "ingest"])
def test_a_day_without_logs_is_done_at_once_and_leaves_its_row(
    command: Main, landing: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse = tmp_path / "warehouse"
    create(str(warehouse / PIPELINE_RUNS), TABLES[PIPELINE_RUNS])
    assert command([*DAY, *folders(landing=landing, warehouse=warehouse)]) == 0
    near = "the nearest days are 2026-02-01, 2026-02-07"
    assert f"no run folder of 2026-02-05 in {landing}; {near}" in caplog.text
    (row,) = DeltaTable(str(warehouse / PIPELINE_RUNS)).to_pyarrow_table().to_pylist()
    assert (row["outcome"], row["log_date"]) == ("done", date(2026, 2, 5))


@pytest.mark.parametrize("is_made", [True, False], ids=["empty-folder", "no-folder"])
def test_a_night_without_logs_makes_no_warehouse_but_its_ingest_does(
    landing: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, is_made: bool
) -> None:
    """For a day without logs, a night makes no warehouse; ingest alone does, because later phases read it."""
    warehouse = tmp_path / "warehouse"
    if is_made:
        warehouse.mkdir()
    before = sorted(tmp_path.rglob("*"))
    where = folders(landing=landing, warehouse=warehouse)
    assert run_nightly.main([*DAY, *where]) == 0
    assert sorted(tmp_path.rglob("*")) == before
    assert f"2026-02-07, 2026-03-01; no warehouse was begun in {warehouse}" in caplog.text
    assert ingest_rank_logs.main([*DAY, *where]) == 0
    assert (warehouse / PIPELINE_RUNS).is_dir()


def test_a_night_without_logs_refuses_a_file_as_warehouse(call: Ask, landing: Path, tmp_path: Path) -> None:
    (tmp_path / "warehouse").touch()
    status, _, said = call(
        run_nightly.main, *DAY, *folders(landing=landing, warehouse=tmp_path / "warehouse")
    )
    assert (status, said.endswith("warehouse is a file, not a folder\n")) == (2, True)


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (run_nightly.main, DAY),
        (backfill.main, [*RANGE, "--dry-run"]),
        (refresh_changed_days.main, DAY),
        (watch_landing.main, ["--once"]),
    ],
    ids=["night", "backfill", "refresh", "watch"],
)
@pytest.mark.parametrize(
    "below", ["", "landing/log_date=2026-02-01", "landing/log_date=2026-02-01/job_id=llm"]
)
def test_a_folder_above_or_below_the_landing_is_refused_and_the_landing_named(
    call: Ask, below: str, landing: Path, tmp_path: Path, command: Main, arguments: Sequence[str]
) -> None:
    """If the given folder is above or below the landing, the command's error suggests the landing."""
    where = folders(landing=tmp_path / below, warehouse=tmp_path / "warehouse")
    status, _, said = call(command, *arguments, *where)
    assert (status, said.count("\n")) == (2, 1)
    assert f"has no folder log_date=DATE at all: did you mean {landing}?" in said


def test_a_backfill_of_an_unknown_job_suggests_one_of_those_days(
    call: Ask, landing: Path, tmp_path: Path
) -> None:
    """For an unknown job, a backfill suggests jobs that its days have in the landing or the warehouse."""
    warehouse = tmp_path / "warehouse"
    create(str(warehouse / JOBS), TABLES[JOBS])
    row = {"log_date": date(2026, 1, 6), "job_id": "old", "run_id": "r1"}
    write_deltalake(str(warehouse / JOBS), table_rows(JOBS, [row]), mode="append")
    Landing(landing).manifest("elsewhere", day=date(2026, 2, 1))
    where = folders(landing=landing, warehouse=warehouse)
    for dry_run in ([], ["--dry-run"]):
        for wrong, said in (("lmm", "did you mean llm?"), ("elsewhere", "choose from llm, old")):
            status, _, err = call(
                backfill.main, *RANGE, *where, "--job-id", "llm", "--job-id", wrong, *dry_run
            )
            assert (status, err.count("\n")) == (2, 1)
            assert f"no job {wrong} from 2026-01-05 to 2026-01-06: {said}" in err
    assert call(backfill.main, *RANGE, *where, "--job-id", "old", "--dry-run").status == 0


def test_a_backfill_of_days_without_logs_names_the_nearest(call: Ask, landing: Path, tmp_path: Path) -> None:
    where = folders(landing=landing, warehouse=tmp_path / "warehouse")
    days = ("--from", "2026-02-04", "--to", "2026-02-06")
    near = "the nearest days are 2026-02-01, 2026-02-07, 2026-03-01"
    said = f"no day from 2026-02-04 to 2026-02-06 has logs in {landing}: {near}"
    for job in ([], ["--job-id", "llm"]):
        status, out, _ = call(backfill.main, *days, *where, "--dry-run", *job)
        assert (status, said in out) == (0, True)
    out = call(backfill.main, *RANGE, *where, "--dry-run").out
    assert "has logs in" not in out
    assert "1 job on 1 day to do; no run was measured here yet, so the time is not known" in out


def test_an_empty_landing_is_an_empty_night(
    call: Ask, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    where = folders(landing=tmp_path, warehouse=tmp_path / "warehouse")
    assert call(run_nightly.main, *DAY, *where).status == 0
    assert "it has no folder log_date=DATE at all" in caplog.text


def test_rows_of_a_day_go_only_where_its_folder_is_empty(call: Ask, landing: Path, tmp_path: Path) -> None:
    """A night is refused, and rows stay, if a day has rows in the warehouse but no folder in the landing."""
    path = str(tmp_path / "warehouse" / JOBS)
    create(path, TABLES[JOBS])
    assert not has_rows_of(path, date(2026, 2, 5))
    row = {"log_date": date(2026, 2, 5), "job_id": "llm", "run_id": "r1"}
    write_deltalake(path, table_rows(JOBS, [row]), mode="append")
    assert has_rows_of(path, date(2026, 2, 5))
    where = folders(landing=landing, warehouse=tmp_path / "warehouse")
    status, _, said = call(run_nightly.main, *DAY, *where)
    assert (status, said.count("\n")) == (2, 1)
    assert (
        f"the landing {landing} has no folder of 2026-02-05, but the warehouse has rows of that day" in said
    )
    assert "leave log_date=2026-02-05/_SUCCESS there" in said, "a store has no empty folders"
    marker = landing / "log_date=2026-02-05" / "_SUCCESS"
    marker.parent.mkdir()
    marker.touch()
    with pytest.raises(pytest.fail.Exception, match="a session was made"):
        run_nightly.main([*DAY, *where])


def test_a_missing_folder_says_how_far_the_path_leads(tmp_path: Path) -> None:
    (tmp_path / "fleet" / "landing").mkdir(parents=True)
    assert missing_folder(f"{tmp_path}/flet/landing") == (
        f"{tmp_path}/flet/landing does not exist, because {tmp_path}/flet does not: did you mean fleet?"
    )
    assert missing_folder(f"{tmp_path}/fleet/xyz").endswith(f"{tmp_path}/fleet has landing")
    (tmp_path / "file").touch()
    (tmp_path / "fleet" / "wh").mkdir()
    assert missing_folder(f"{tmp_path}/fleet/nowhere").endswith("has landing, wh")
    assert missing_folder(f"{tmp_path}/file") == f"{tmp_path}/file is not a folder"


def test_sparks_log_stays_where_a_run_fails(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    named = tmp_path / "spark.log"
    named.write_text("WARNING: Using incubator modules: x\n")
    with pytest.raises(ValueError, match="no"), log_on_error(str(named), "night"):
        raise ValueError("no")
    assert not caplog.records
    named.write_text("WARN a\nERROR b\n")
    with pytest.raises(ValueError, match="no"), log_on_error(str(named), "night"):
        raise ValueError("no")
    assert f"Spark's output: {named}" in caplog.text


def test_a_temporary_log_outlives_a_process_that_fails() -> None:
    code = (
        "from jobs.runtime.session import *\n"
        "with log_on_error(None, 'night'):\n"
        "    log_file(None).write_text('ERROR b')\n    raise ValueError"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    copy = Path(next(line for line in done.stderr.splitlines() if "Spark's output" in line).split(": ")[1])
    assert copy.read_text() == "ERROR b"
    assert log_file(None) != copy
    copy.unlink()
