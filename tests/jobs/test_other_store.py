"""Everything in a store, from the landing to the report: the tables are those of a folder."""

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from jobs import backfill, maintain_tables, refresh_changed_days
from jobs.entry_points.command import reader_of
from jobs.report.write import write_report
from jobs.warehouse.stored import forget
from schemas.vocabulary import RANK_STEPS, SOURCE_FILES
from tests.support.history import DAYS, History, assert_same_tables
from tests.support.stores import BUCKET, Server, s3_server, upload

OF_FILES = ("modified_at", "owner_uid", "hard_links")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with s3_server() as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        yield running


@pytest.fixture
def remote(server: Server, filled: History, tmp_path: Path) -> Iterator[History]:
    """The landing of a filled history in a bucket, and no warehouse yet."""
    prefix = tmp_path.name
    upload(server, filled.landing, f"{prefix}/landing")
    root = f"s3a://{BUCKET}/{prefix}".replace("s3a", "s3")
    paths = {"landing": f"{root}/landing", "warehouse": f"{root}/warehouse"}
    settings = filled.settings.model_copy(update={"paths": filled.settings.paths.model_copy(update=paths)})
    environment = filled.spark.sparkContext.environment
    before = dict(environment)
    environment.update(server.environment)  # of the workers of a session that runs already
    forget()
    yield History(filled.spark, settings)
    environment.clear()
    environment.update(before)


def told(history: History) -> dict[str, list[dict[str, object]]]:
    """All tables, without what a store does not say of its objects, or says otherwise."""
    found = history.tables()
    found[SOURCE_FILES] = [row | dict.fromkeys(OF_FILES) for row in found[SOURCE_FILES]]
    return found


def test_a_history_in_a_store_is_that_of_a_folder(server: Server, filled: History, remote: History) -> None:
    todo = remote.plan()
    assert [len(batch.log_dates) for batch in todo.batches] == [len(DAYS)]
    backfill.run(remote.spark, remote.settings, todo)
    assert_same_tables(told(remote), told(filled))
    assert remote.plan().batches == []
    after = DAYS[-1] + timedelta(days=1)
    assert refresh_changed_days.run(remote.spark, remote.settings, after) == {}
    maintain_tables.run(remote.spark, remote.settings, after)
    assert_same_tables(told(remote), told(filled))
    with reader_of(remote.settings, "test") as reader:
        where = write_report(reader, remote.settings, DAYS[-1])
    prefix = where.removeprefix(f"s3://{BUCKET}/")
    assert {f"{prefix}/index.html", f"{prefix}/headline.txt"} <= {*server.names(prefix)}


def test_one_changed_unit_of_a_day_leaves_the_others(
    server: Server, filled: History, remote: History, tmp_path: Path
) -> None:
    backfill.run(remote.spark, remote.settings, remote.plan())
    before = {row["job_id"]: row for row in remote.rows(RANK_STEPS) if row["log_date"] == DAYS[0]}
    late = tmp_path / "late"
    shutil.copytree(filled.folder("beta", DAYS[0]), late)
    (log, *_) = sorted(late.glob("rank-*.jsonl"))
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-1]))
    place = filled.folder("beta", DAYS[0]).relative_to(filled.landing)
    upload(server, late, f"{remote.settings.paths.landing.removeprefix(f's3://{BUCKET}/')}/{place}")
    done = remote.fill()
    assert {job for _, job in done["ingest"]} == {"beta"}
    after = [row for row in remote.rows(RANK_STEPS) if row["log_date"] == DAYS[0]]
    assert before["alpha"] in after
    assert sum(row["job_id"] == "beta" for row in after) == 2 * 12 - 1
