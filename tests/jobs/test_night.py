"""Test a night from logs in the landing to tables of the fleet, with logs that cannot be analysed."""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from jobs import report_job
from jobs.night import whole_night
from jobs.runtime.settings import Settings
from jobs.synthetic.job import GeneratedJob
from jobs.synthetic.log_files import write_rank_logs
from jobs.synthetic.mechanisms.transfers import SlowStorage
from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.run_events import write_events
from jobs.synthetic.shape import JobIdentity, JobShape
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import (
    CAUSES,
    JOB_TIME,
    LOGGED_CAUSES,
    PIPELINE_RUNS,
    PUBLISHED_TABLES,
    RESULT_TABLES,
    TABLE_NAMES,
)
from tests.jobs.report.pages import Page, unpacked
from tests.support.examples import table_rows
from tests.support.random_jobs import generate_job
from tests.udfs.lines import crossed_stages, manifest, rank_steps
from udfs.what_if import simulate_job

DAY = date(2026, 1, 5)
SHAPE = JobShape(dp_size=2, pp_size=2, steps=12)
EVENTS = [
    {"event": "start", "at_us": 1_767_600_000_000_000},
    {"event": "first_step", "at_us": 1_767_600_600_000_000, "step": 0},
    {"event": "checkpoint", "at_us": 1_767_603_600_000_000, "step": 400, "duration_us": 5e6},
]
Rows = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Night:
    """Settings of a night, and all tables that it published except pipeline_runs."""

    settings: Settings
    tables: Rows

    def of(self, job_id: str) -> Rows:
        """Return the rows of one job, by table."""
        return {
            name: [row for row in rows if row.get("job_id") == job_id] for name, rows in self.tables.items()
        }

    def job(self, job_id: str) -> dict[str, Any]:
        (row,) = self.of(job_id)["job_slowdown"]
        return row


def job(job_id: str, shape: JobShape = SHAPE) -> GeneratedJob:
    faults = [WeakGpu(shape.dp_size - 1, 0, 1.5)]
    return generate_job(shape, faults, 7, JobIdentity(job_id, fields={"gpu_hours": 96.0}))


def good(landing: Path, job_id: str) -> Path:
    return write_rank_logs(landing, DAY, job(job_id))


def with_events(landing: Path, job_id: str) -> None:
    write_events(good(landing, job_id), EVENTS, job_id, "r0")


def without_manifest(landing: Path, job_id: str) -> None:
    (good(landing, job_id) / "job.json").unlink()


def with_manifest(**changes: object) -> Callable[[Path, str], None]:
    def write(landing: Path, job_id: str) -> None:
        path = good(landing, job_id) / "job.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return write


def without_logs(landing: Path, job_id: str) -> None:
    for path in good(landing, job_id).glob("rank-*"):
        path.unlink()


def without_a_worker(landing: Path, job_id: str) -> None:
    next(iter(sorted(good(landing, job_id).glob("rank-*")))).unlink()


def with_crossed_transfers(landing: Path, job_id: str) -> None:
    """Write a job in which both stages wait for the other's first microbatch before they send their own."""
    rows = [row | {"t0_us": 0} for step in range(12) for row in crossed_stages(step)]
    facts = manifest(pp_size=2) | {"job_id": job_id}
    write_rank_logs(landing, DAY, GeneratedJob(rank_steps(*rows), facts))


def of_few_steps(landing: Path, job_id: str) -> None:
    write_rank_logs(landing, DAY, job(job_id, JobShape(dp_size=2, pp_size=2, steps=3)))


def with_slow_data_loading(landing: Path, job_id: str) -> None:
    faults = [SlowStorage(0.5)]
    write_rank_logs(landing, DAY, generate_job(SHAPE, faults, 7, JobIdentity(job_id)))


UNITS: dict[str, tuple[Callable[[Path, str], object], str, str | None]] = {
    "good": (with_events, "analysed", None),
    "no-manifest": (without_manifest, "no_manifest", "job.json"),
    "wrong-product": (with_manifest(world_size=5), "bad_layout", "world_size"),
    "restarting": (with_manifest(restarts=16), "too_many_restarts", "16"),
    "no-logs": (without_logs, "no_ops", "no rank"),
    "cyclic": (with_crossed_transfers, "corrupt_trace", "wait for each other in a circle"),
    "worker-missing": (without_a_worker, "missing_workers", "none of 12 steps"),
    "few-steps": (of_few_steps, "too_few_steps", "3 complete steps"),
    "slow-loading": (with_slow_data_loading, "high_discrepancy", "apart"),
}
"""By job id: a function that writes its logs, the resulting status, and a part of the status detail."""


@pytest.fixture(scope="module")
def night(spark: SparkSession, test_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Night:
    root = tmp_path_factory.mktemp("night")
    landing = root / "landing"
    for job_id, (leave, _, _) in UNITS.items():
        leave(landing, job_id)
    paths = test_settings.paths.model_copy(
        update={"landing": str(landing), "warehouse": str(root / "warehouse")}
    )
    settings = test_settings.model_copy(update={"paths": paths})
    whole_night.run(spark, settings, [DAY])
    return Night(settings, read_tables(spark, settings))


def read_tables(spark: SparkSession, settings: Settings) -> Rows:
    warehouse = Warehouse(spark, settings.paths.warehouse)
    names = [name for name in TABLE_NAMES if name != PIPELINE_RUNS]
    return {name: warehouse.rows(TABLES[name]).to_pylist(maps_as_pydicts="strict") for name in names}


@pytest.mark.parametrize("job_id", UNITS)
def test_status_of(job_id: str, night: Night) -> None:
    _, status, detail = UNITS[job_id]
    row = night.job(job_id)
    assert row["status"] == status
    assert row["status_detail"] is None if detail is None else detail in row["status_detail"]


@pytest.mark.parametrize("job_id", ["good", "few-steps", "slow-loading"])
def test_tables_have_what_the_simulator_gives_in_process(job_id: str, night: Night) -> None:
    source = {
        "good": job("good"),
        "few-steps": job("few-steps", JobShape(dp_size=2, pp_size=2, steps=3)),
        "slow-loading": generate_job(SHAPE, [SlowStorage(0.5)], 7, JobIdentity("slow-loading")),
    }[job_id]
    facts = {"log_date": DAY, "events": EVENTS} if job_id == "good" else {}
    wanted = simulate_job(source.rank_steps, source.manifest | facts)
    assert wanted[JOB_TIME].num_rows == bool(facts)
    found = night.of(job_id)
    for name in RESULT_TABLES:
        columns = wanted[name].schema.names
        rows = [{column: row[column] for column in columns} for row in found[name]]
        assert sorted(rows, key=repr) == sorted(wanted[name].to_pylist(maps_as_pydicts="strict"), key=repr), (
            name
        )


def test_the_fleets_tables_add_up_to_the_units(night: Night) -> None:
    good_job, (fleet,) = night.job("good"), night.tables["fleet_day"]
    by_status = {status: 1 for _, status, _ in UNITS.values()}
    assert {status: fleet[status] for status in by_status} == by_status
    assert {row["status"]: row["jobs"] for row in night.tables["coverage_day"]} == by_status
    assert (fleet["jobs"], fleet["straggling"]) == (len(UNITS), 1)
    assert fleet["analysed_gpu_hours"] == good_job["gpu_hours"] == 96.0
    assert fleet["wasted_gpu_hours"] == good_job["wasted_gpu_hours"]
    assert fleet["waste_p50"] == good_job["waste_fraction"]
    causes = {row["cause"]: row for row in night.tables["cause_day"]}
    assert sorted(causes) == sorted(set(CAUSES) - set(LOGGED_CAUSES))
    assert {row["replayed"] for row in causes.values()} == {3}
    workers = [row for row in night.tables["worker_slowdown"] if row["host"] is not None]
    hosts = night.tables["host_day"]
    assert sum(row["workers"] for row in hosts) == len(workers) == 3 * 4
    assert max(row["worker_slowdown_max"] for row in hosts) == max(row["slowdown"] for row in workers)


def test_a_second_run_of_the_date_gives_the_same_rows_and_an_empty_day_none(
    spark: SparkSession, night: Night, caplog: pytest.LogCaptureFixture
) -> None:
    pages = report_of(night)
    first = {"log_date": DAY, "stages": [("ingest", 999.0, 1, 1, 1, 0.5, 1, 0)]}
    Warehouse.of(spark, night.settings).append(TABLES[PIPELINE_RUNS], table_rows(PIPELINE_RUNS, [first]))
    with caplog.at_level(logging.INFO):
        whole_night.run(spark, night.settings, [DAY])
    (ingest,) = (line for line in caplog.messages if "ingest took " in line)
    assert "999" not in ingest, "the summary has the time of this run"
    assert sum("is not marked complete" in line for line in caplog.messages) == 1
    again = read_tables(spark, night.settings)
    assert report_of(night) == pages
    for name in PUBLISHED_TABLES:
        assert sorted(again[name], key=repr) == sorted(night.tables[name], key=repr), name
    whole_night.run(spark, night.settings, [date(2026, 1, 6)])  # has no logs
    then = read_tables(spark, night.settings)
    assert {name: len(then[name]) for name in PUBLISHED_TABLES} == {
        name: len(night.tables[name]) for name in PUBLISHED_TABLES
    }


def report_of(night: Night) -> dict[str, bytes]:
    """Return the pages of the night's report, by path."""
    folder = night.settings.report_folder
    assert folder is not None
    return {page.relative_to(folder).as_posix(): page.read_bytes() for page in folder.rglob("*.html")}


def test_the_nights_report_adds_up_to_its_tables(night: Night) -> None:
    pages = report_of(night)
    (good_page,) = [name for name in pages if name.startswith(f"{DAY}/jobs/")]
    assert good_page.startswith(f"{DAY}/jobs/good-")
    data = Page(pages[f"{DAY}/index.html"]).data
    (fleet,) = night.tables["fleet_day"]
    units = unpacked(data["units"])
    assert len(units) == fleet["jobs"]
    assert units.job_id[units.page.notna()].tolist() == ["good"]
    lost = fleet["lost_gpu_hours"]
    assert lost > 0
    of_causes = [row["lost_gpu_hours"] or 0 for row in night.tables["cause_day"]]
    for hours in (units.lost, unpacked(data["parts"]).lost, of_causes):
        assert pd.Series(hours).sum() == pytest.approx(lost, rel=1e-5)
    chart_names = [chart["name"] for chart in Page(pages[good_page]).data["charts"]]
    assert chart_names == ["workers", "steps", "opTypes", "power", "stepMap"]


def test_a_page_of_any_job_on_demand(night: Night, capsys: pytest.CaptureFixture[str]) -> None:
    warehouse = night.settings.paths.warehouse
    messages = {
        "slow-loading": "late starts (launch_delay) Fixing it alone saves",
        "cyclic": "Not analysed: recorded ops contradict each other",
    }
    for job_id, message in messages.items():
        assert report_job.main(["--warehouse", warehouse, "--job-id", job_id]) == 0
        page = Path(capsys.readouterr().out.splitlines()[-1])  # the last line of the output
        assert page.parent == Path(warehouse) / "_report" / str(DAY) / "jobs"
        assert message in Page(page.read_bytes()).text
        page.unlink()
    assert report_job.main(["--warehouse", warehouse, "--job-id", "god"]) == 2
    assert "report_job: error: no job god: did you mean good?\n" in capsys.readouterr().err
