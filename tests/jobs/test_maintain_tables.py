"""Maintenance deletes expired ops, merges small files and removes unused files.

Readers see the same rows in all tables whose rows do not expire.
"""

import os
import shutil
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs import maintain_tables
from jobs.entry_points.command import opened
from jobs.entry_points.writing import no_round
from jobs.reading.duckdb_reader import DuckDbReader
from jobs.runtime.settings import Settings
from jobs.warehouse.lock import LockedError
from jobs.warehouse.publication import publication
from jobs.warehouse.tables import Warehouse
from jobs.warehouse.upkeep import compact
from schemas.table import Table
from schemas.tables import TABLES
from schemas.vocabulary import (
    JOB_SLOWDOWN,
    JOBS,
    LIVE_TABLES,
    PUBLICATIONS,
    RANK_STEPS,
    RESULT_TABLES,
    STAGE_SLOWDOWN,
    TABLE_NAMES,
    UNIT_FINGERPRINTS,
    Phase,
)
from tests.support.examples import DAY, NEXT_DAY, table_rows
from tests.support.history import DAYS, History

Done = dict[str, tuple[int, int, int, int]]
NOTHING = (0, 0, 0, 0)


@pytest.fixture
def settings(test_settings: Settings, tmp_path: Path) -> Settings:
    """Settings in which recorded ops expire after ten days."""
    paths = test_settings.paths.model_copy(update={"warehouse": str(tmp_path / "warehouse")})
    maintenance = test_settings.maintenance.model_copy(update={"rank_steps_days": 10})
    return test_settings.model_copy(update={"paths": paths, "maintenance": maintenance})


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with two days of a unit, in which the first day of stage_slowdown has three files."""
    root = tmp_path_factory.mktemp("maintained")
    warehouse = Warehouse(spark, str(root))
    for name in (RANK_STEPS, JOBS):
        rows = table_rows(name, [{"log_date": DAY}, {"log_date": NEXT_DAY}])
        warehouse.replace(TABLES[name], rows, [DAY, NEXT_DAY])
    for rank in range(3):
        warehouse.append(TABLES[STAGE_SLOWDOWN], table_rows(STAGE_SLOWDOWN, [{"pp_rank": rank}]))
    prints = [
        {"log_date": day, "stage": stage} for day in (DAY, NEXT_DAY) for stage in ("ingest", "simulate")
    ]
    warehouse.append(TABLES[UNIT_FINGERPRINTS], table_rows(UNIT_FINGERPRINTS, prints))
    return root


@pytest.fixture
def warehouse(made: Path, spark: SparkSession, settings: Settings) -> Warehouse:
    """A copy of `made` that a test may maintain."""
    shutil.copytree(made, settings.paths.warehouse)
    return Warehouse(spark, settings.paths.warehouse)


def maintain(warehouse: Warehouse, settings: Settings, age: int) -> Done:
    """Run maintenance as of `age` days after DAY.

    Returns by table: expired rows, files before and after merging, and deleted files.
    """
    done = maintain_tables.run(warehouse.spark, settings, DAY + timedelta(days=age))
    warehouse.__dict__.pop("published", None)
    return {name: (expired, before, after, deleted) for name, expired, before, after, deleted in done}


def days_of(warehouse: Warehouse, name: str) -> list[object]:
    return sorted(row["log_date"] for row in warehouse.read(TABLES[name]).collect())


def newest(warehouse: Warehouse, age: int) -> None:
    """Publish another day, which is `age` days after DAY."""
    day = DAY + timedelta(days=age)
    with publication(warehouse, "ingest", [day], [JOBS]):
        warehouse.replace(TABLES[JOBS], table_rows(JOBS, [{"log_date": day}]), [day])


def test_recorded_ops_expire_and_results_stay(warehouse: Warehouse, settings: Settings) -> None:
    assert maintain(warehouse, settings, 36_500)[RANK_STEPS] == NOTHING, (
        "a day's age counts from the newest published day"
    )
    newest(warehouse, 30)
    assert maintain(warehouse, settings, 11)[RANK_STEPS][0] == 1
    assert days_of(warehouse, RANK_STEPS) == [NEXT_DAY]
    assert days_of(warehouse, JOBS)[:2] == [DAY, NEXT_DAY]
    assert days_of(warehouse, STAGE_SLOWDOWN) == 3 * [DAY]
    prints = warehouse.read(TABLES[UNIT_FINGERPRINTS]).collect()
    assert sorted((row.log_date, row.stage) for row in prints) == [
        (DAY, "simulate"),
        (NEXT_DAY, "ingest"),
        (NEXT_DAY, "simulate"),
    ]


def test_rows_of_live_tables_expire_when_no_round_writes_them(
    warehouse: Warehouse, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in LIVE_TABLES:
        rows = table_rows(name, [{"log_date": day} for day in (DAY, NEXT_DAY, NEXT_DAY + timedelta(days=6))])
        warehouse.append(TABLES[name], rows)
    newest(warehouse, 30)

    def beside(made: Warehouse, table: Table) -> tuple[int, int]:
        with pytest.raises(LockedError), no_round(settings, "watch_landing", wait=False):
            pass
        return compact(made, table)

    monkeypatch.setattr(maintain_tables, "compact", beside)
    done = maintain(warehouse, settings, 8)
    assert {name: expired for name, (expired, *_) in done.items() if expired} == dict.fromkeys(LIVE_TABLES, 1)
    for name in LIVE_TABLES:
        assert days_of(warehouse, name) == [NEXT_DAY, NEXT_DAY + timedelta(days=6)]


def test_small_files_become_one_and_say_the_same(warehouse: Warehouse, settings: Settings) -> None:
    before = warehouse.read(TABLES[STAGE_SLOWDOWN]).toArrow().sort_by("pp_rank")
    done = maintain(warehouse, settings, 1)
    assert done[STAGE_SLOWDOWN] == (0, 3, 1, 0)
    after = warehouse.read(TABLES[STAGE_SLOWDOWN])
    assert len(warehouse.files(TABLES[STAGE_SLOWDOWN], [DAY, NEXT_DAY])) == 1
    assert after.toArrow().sort_by("pp_rank") == before
    again = maintain(warehouse, settings, 1)
    assert set(again) == set(TABLE_NAMES)
    assert again.pop(PUBLICATIONS)[1:3] == (2, 1), "merges the file of the first maintenance's publication"
    assert set(again.values()) == {NOTHING}


def test_files_of_a_writer_that_died_are_deleted_after_their_time(
    warehouse: Warehouse, settings: Settings
) -> None:
    folder = Path(warehouse.path(STAGE_SLOWDOWN)) / f"log_date={DAY}"
    old, new = folder / "part-old.parquet", folder / "part-new.parquet"
    for file, hours in ((old, 200), (new, 1)):
        file.write_bytes(b"half a file")
        then = file.stat().st_mtime - 3600 * hours
        os.utime(file, (then, then))
    database = opened(settings)
    with closing(DuckDbReader(database)) as reader:
        planned = maintain_tables.plan(reader, database, settings, DAY)
    assert {name: files for name, _, files in planned if files} == {STAGE_SLOWDOWN: 1}
    assert old.exists()
    assert maintain(warehouse, settings, 1)[STAGE_SLOWDOWN][-1] == 1
    assert not old.exists()
    assert new.exists()


def test_tables_of_another_warehouse_are_maintained_there(warehouse: Warehouse, settings: Settings) -> None:
    beside = {"ingested": settings.paths.warehouse, "warehouse": f"{settings.paths.warehouse}-new"}
    changed = settings.model_copy(update={"paths": settings.paths.model_copy(update=beside)})
    done = maintain(warehouse, changed, 11)
    assert RANK_STEPS not in done
    assert STAGE_SLOWDOWN in done
    assert days_of(warehouse, RANK_STEPS) == [DAY, NEXT_DAY]


def test_a_dry_run_prints_and_changes_nothing(
    warehouse: Warehouse, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    newest(warehouse, 300)
    arguments = [
        "--warehouse",
        settings.paths.warehouse,
        "--log-date",
        (DAY + timedelta(days=200)).isoformat(),
    ]
    assert maintain_tables.main([*arguments, "--dry-run"]) == 0
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [RANK_STEPS, "2", "0"] in printed
    assert days_of(warehouse, RANK_STEPS) == [DAY, NEXT_DAY]


def test_units_whose_ops_have_expired_keep_their_results(history: History) -> None:
    last_day = {"rank_steps_days": 0}
    maintenance = history.settings.maintenance.model_copy(update=last_day)
    settings = history.settings.model_copy(update={"maintenance": maintenance})
    before = {name: history.rows(name) for name in RESULT_TABLES}
    done = maintain_tables.run(history.spark, settings, DAYS[-1] + timedelta(days=1))
    assert {name for name, expired, *_ in done if expired} == {RANK_STEPS}
    assert {row["log_date"] for row in history.rows(RANK_STEPS)} == {DAYS[-1]}
    assert {name: history.rows(name) for name in RESULT_TABLES} == before
    other = history.with_settings(minimum_steps=13)
    assert {day for day, _ in other.fill([Phase.SIMULATE])[Phase.SIMULATE]} == {DAYS[-1].isoformat()}
    first = [row for row in history.rows(JOB_SLOWDOWN) if row["log_date"] == DAYS[0]]
    assert first == [row for row in before[JOB_SLOWDOWN] if row["log_date"] == DAYS[0]]
