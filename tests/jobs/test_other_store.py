"""With landing, warehouse and report in a store, the tables equal those of a landing on this machine."""

import json
import shutil
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from jobs import backfill, compare_versions, maintain_tables, refresh_changed_days, release_night
from jobs.entry_points.command import reader_of
from jobs.entry_points.run_log import recorded_run
from jobs.gates.checks import GateRefusedError
from jobs.report.write import write_report
from jobs.runtime.places import storage_options
from jobs.warehouse.stored import forget
from jobs.warehouse.tables import Warehouse
from schemas.vocabulary import JOB_SLOWDOWN, PUBLICATIONS, RANK_STEPS, STAGE_SLOWDOWN
from tests.jobs.test_release_night import publish_bad
from tests.support.examples import DAY
from tests.support.history import (
    DAYS,
    JOB_IDS,
    NOTHING,
    History,
    assert_same_tables,
    units_of,
)
from tests.support.stores import BUCKET, Server, upload

pytestmark = pytest.mark.slow


def test_a_history_in_a_store_is_that_of_a_folder(
    server: Server, filled: History, remote: History, tmp_path: Path
) -> None:
    todo = remote.plan()
    assert [len(batch.log_dates) for batch in todo.batches] == [len(DAYS)]
    server.requests()
    backfill.run(remote.spark, remote.settings, todo)
    asked = Counter(each.path.removeprefix(f"/{BUCKET}/") for each in server.requests())
    assert {asked[name] for name in server.names(f"{tmp_path.name}/landing") if "rank-" in name} == {1}
    log = [count for name, count in asked.items() if f"/{PUBLICATIONS}/part-" in name]
    assert max(log) == 2, "at most one write and one read, which compares owners of files"
    assert_same_tables(remote.told_by_a_store(), filled.told_by_a_store())
    assert remote.plan().batches == []
    after = DAYS[-1] + timedelta(days=1)
    assert refresh_changed_days.run(remote.spark, remote.settings, after) == {}
    maintain_tables.run(remote.spark, remote.settings, after)
    assert_same_tables(remote.told_by_a_store(), filled.told_by_a_store())
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
    upload(late, f"{remote.settings.paths.landing}/{place}")
    done = remote.fill()
    assert {job for _, job in done["ingest"]} == {"beta"}
    after = [row for row in remote.rows(RANK_STEPS) if row["log_date"] == DAYS[0]]
    assert before["alpha"] in after
    assert sum(row["job_id"] == "beta" for row in after) == 2 * 12 - 1


def test_another_version_in_a_store_is_compared_and_made_current(
    remote: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands fill a second warehouse in a store with other results, compare them, and make them current."""
    paths, settings = remote.settings.paths, tmp_path / "new.toml"
    settings.write_text("[simulation]\nminimum_steps = 13\n")
    place = ["--landing", paths.landing, "--warehouse", paths.warehouse]
    days = ["--from", str(DAYS[0]), "--to", str(DAYS[-1])]
    asked = [*place, "--settings", str(settings), "--warehouse-new", f"{paths.warehouse}-new"]
    for which in (place, asked):
        assert backfill.main([*which, *days]) == 0
    assert {row["status"] for row in remote.rows(JOB_SLOWDOWN)} == {"analysed"}
    capsys.readouterr()
    assert compare_versions.main([*asked, "--format", "json", "--make-current"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(DAYS) * len(JOB_IDS)
    assert {row["status"] for row in remote.rows(JOB_SLOWDOWN)} == {"too_few_steps"}
    assert units_of(remote.with_settings(minimum_steps=13).plan()) == NOTHING


def test_a_refused_night_in_a_store_is_kept_and_released(remote: History) -> None:
    warehouse = Warehouse(remote.spark, remote.settings.paths.warehouse)
    with pytest.raises(GateRefusedError) as refused, recorded_run(warehouse, "simulate", [], DAY):
        publish_bad(warehouse)
    kept = f"{refused.value.kept_in}/{STAGE_SLOWDOWN}"
    assert DeltaTable(kept, storage_options=storage_options(kept)).to_pyarrow_table().num_rows == 1
    accept = [word for each in refused.value.refusals for word in ("--accept", each.name)]
    who = ["--by", "anna", "--because", "the rank is a test's own"]
    where = ["--warehouse", warehouse.root, "--log-date", str(DAY)]
    assert release_night.main([*where, *accept, *who]) == 0
    forget()  # forget versions known before the release was written
    assert publish_bad(warehouse) == len(refused.value.refusals)
