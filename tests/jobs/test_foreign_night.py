"""A night reads logs of other tools into a warehouse whose tables an earlier version made."""

import shutil
from dataclasses import replace
from datetime import date
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from jobs.night import whole_night
from jobs.report.links import job_page_path
from jobs.runtime.settings import Settings
from jobs.synthetic.log_files import write_inspector_logs, write_rank_logs
from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.shape import JobIdentity, JobShape
from jobs.warehouse.frames import spark_schema
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import (
    COLLECTIVE_ARRIVAL,
    COVERAGE_DAY,
    FLEET_DAY,
    JOB_SLOWDOWN,
    JOBS,
    REJECTS,
    REPLAY_TABLES,
    WORKER_SLOWDOWN,
)
from tests.jobs.landing.formats.foreign_logs import LOGS
from tests.jobs.report.pages import Page
from tests.jobs.test_night import Night, read_tables
from tests.support.kineto_traces import data_parallel_traces, random_durations, slowdown
from tests.support.line_cases import RUN
from tests.support.night import DAY
from tests.support.night import Landing as Made
from tests.support.random_jobs import generate_job

DURATIONS: Final = random_durations(3, is_sharded=True, ranks=4)
"""Durations of the ops of a job, whose traces are in the form of torch.profiler; the last rank is slow."""
BEFORE: Final = date(2026, 1, 4)
NEW: Final = {
    JOBS: {"source_format", "transfers", "warm_up_steps", "left_out"},
    JOB_SLOWDOWN: {"slowdown_low", "slowdown_high", "slow_computes", "stage_gaps"},
    WORKER_SLOWDOWN: {"step_slowdowns"},
    FLEET_DAY: {"unusable_log", "partial_trace"},
}


def make_old(warehouse: Warehouse) -> None:
    """Create tables without the columns in NEW, each with a row of the day before."""
    for name, columns in NEW.items():
        table = TABLES[name]
        old = replace(table, columns=tuple(each for each in table.columns if each.name not in columns))
        counts = {each.name: 0 for each in old.columns if each.type == pa.int64()}
        facts = {"log_date": BEFORE, "job_id": "old", "run_id": "r", "status": "analysed"}
        row = counts | facts | {"jobs": 1, "analysed": 1}
        rows = pa.Table.from_pylist([row], schema=old.arrow_schema)
        frame = warehouse.spark.createDataFrame(rows, spark_schema(old))
        frame.write.format("delta").partitionBy(*table.partition_by).save(warehouse.path(name))


@pytest.fixture(scope="module")
def night(spark: SparkSession, test_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Night:
    root = tmp_path_factory.mktemp("foreign")
    made = Made(root / "landing")
    for job_id, logs in (("megascan", "*.gz"), ("timeline", "timeline-ST*.gz")):
        for file in (LOGS / job_id).glob(logs):
            made.put(job_id, file.name, file.read_bytes())
    for rank, text in enumerate(data_parallel_traces(DURATIONS)):
        made.put("kineto", f"rank-{rank}.json", text)
    own = generate_job(JobShape(dp_size=4, steps=12), [WeakGpu(2, 0, 1.5)], 7, JobIdentity("inspected"))
    write_inspector_logs(write_rank_logs(made.root, DAY, own), own)
    made.put("timers", "train.log", b"elapsed time per iteration (ms): 714.9")
    paths = {"landing": str(root / "landing"), "warehouse": str(root / "warehouse")}
    settings = test_settings.model_copy(update={"paths": test_settings.paths.model_copy(update=paths)})
    make_old(Warehouse(spark, str(root / "warehouse")))
    whole_night.run(spark, settings, [DAY])
    shutil.rmtree(root / "landing")
    return Night(settings, read_tables(spark, settings))


def test_each_job_has_its_status_and_its_reason(night: Night) -> None:
    found = {row["job_id"]: row for row in night.tables[JOB_SLOWDOWN]}
    assert {name: row["status"] for name, row in found.items()} == {
        "old": "analysed",
        "megascan": "partial_trace",
        "timeline": "analysed",
        "kineto": "analysed",
        "inspected": "analysed",
        "timers": "unusable_log",
    }
    assert found["timers"]["status_detail"].startswith("Megatron's timers: sums over an iteration")
    assert "chunk 3 takes 17.2 ms" in found["megascan"]["status_detail"]
    assert found["megascan"]["slowdown_low"] == pytest.approx(1.375, abs=1e-3)
    assert found["timeline"]["slowdown"] == pytest.approx(1.1787, abs=1e-4)
    assert [row["reason"] for row in night.tables[REJECTS]] == ["unusable_log"]


def test_traces_of_a_profiler_reach_the_page_of_their_job(night: Night) -> None:
    (job,) = [row for row in night.tables[JOB_SLOWDOWN] if row["job_id"] == "kineto"]
    assert job["slowdown"] == pytest.approx(slowdown(DURATIONS), rel=1e-6)
    folder = night.settings.report_folder
    assert folder is not None
    page = Page((folder / job_page_path(DAY, "kineto", RUN)).read_bytes())
    assert f"{job['slowdown']:.2f}" in page.text


def test_who_came_last_is_evidence_beside_a_replay(night: Night) -> None:
    latest: dict[str, dict[str, Any]] = {}
    for row in night.tables[COLLECTIVE_ARRIVAL]:
        latest[row["job_id"]] = max(
            latest.get(row["job_id"], row), row, key=lambda each: each["mean_late_us"]
        )
    assert {job_id: (row["communicator"], row["rank"]) for job_id, row in latest.items()} == {
        "kineto": ("default_pg", 3),
        "inspected": ("0x0000000000000000", 2),
    }
    (job,) = [row for row in night.tables[JOBS] if row["job_id"] == "inspected"]
    assert (job["source_format"], job["left_out"]) == ("rank-log/1", None)


def test_a_partial_trace_is_outside_fleet_figures(night: Night) -> None:
    (day,) = [row for row in night.tables[FLEET_DAY] if row["log_date"] == DAY]
    assert [day[name] for name in ("jobs", "analysed", "replayed", "partial_trace", "unusable_log")] == [
        5,
        3,
        3,
        1,
        1,
    ]
    assert {row["status"] for row in night.tables[COVERAGE_DAY]} == {
        "analysed",
        "partial_trace",
        "unusable_log",
    }
    for name in set(REPLAY_TABLES) - {JOB_SLOWDOWN}:
        assert {row["job_id"] for row in night.tables[name] if row["log_date"] == DAY} == {
            "timeline",
            "kineto",
            "inspected",
        }, name


def test_rows_of_an_earlier_version_stay_with_nulls(night: Night) -> None:
    jobs = {row["job_id"]: row for row in night.tables[JOBS]}
    assert [jobs["old"][name] for name in sorted(NEW[JOBS])] == [None] * 4
    facts = {name: (row["source_format"], row["transfers"]) for name, row in jobs.items()}
    assert facts["megascan"] == ("megascan", "absent")
    assert facts["timeline"] == ("ndtimeline", "measured")
    (before,) = [row for row in night.tables[FLEET_DAY] if row["log_date"] == BEFORE]
    assert before["partial_trace"] is None
