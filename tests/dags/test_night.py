"""A whole night through the DAG, with real Spark and Delta underneath."""

import math
from pathlib import Path

import pyarrow as pa
import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException
from pyspark.sql import SparkSession

from dags.operators.spark_submit import SparkSubmitOperator
from jobs.emitter.rank_log_writer import Rank, RankLogWriter, Run, finish_day
from jobs.gates.releases import Release, record_release
from jobs.report.links import docs_path
from jobs.run_nightly import run as run_nightly
from jobs.runtime.settings import load_settings
from jobs.warehouse.tables import Warehouse
from schemas.table import Table
from schemas.tables import TABLES
from schemas.vocabulary import FLEET_DAY, FLEET_TABLES, PIPELINE_RUNS, PUBLISHED_TABLES, STATUS_ANALYSED
from tests.dags.conftest import Run as RunDag
from tests.dags.conftest import stand_in
from tests.dags.test_alerts import Posts, posts
from tests.support.commands import SHORT_LIVED
from tests.support.examples import DAY, table_rows

__all__ = ["posts"]

PHASES = ("ingest_rank_logs", "simulate_what_if", "revise_causes", "aggregate_fleet", "publish_night")
SUM_TOLERANCE = 1e-12
"""Relative; sums over units may be added up in another order."""

SMALL = """\
[spark.conf]
"spark.sql.shuffle.partitions" = "2"
"spark.sql.codegen.wholeStage" = "false"
"spark.sql.codegen.factoryMode" = "NO_CODEGEN"
"""
"""Settings for two cores and a JVM that ends with its stage: code generated for a few rows never pays."""


@pytest.fixture(scope="module")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One finished day: a small job whose first rank computes slowly, a torn line."""
    root = tmp_path_factory.mktemp("landing")
    write_job(
        root, Run("small-job", "r1", dp_size=2, pp_size=1, fields={"team": "language", "gpu_hours": 48.0})
    )
    with (root / "log_date=2026-01-05/job_id=small-job/run_id=r1/rank-00001.jsonl").open("a") as log:
        log.write('{"format":"rank-log/1","job_id":')
    finish_day(root, DAY)
    return root


def write_job(landing: Path, run: Run) -> None:
    for rank in range(run.dp_size):
        with RankLogWriter(landing, run, Rank(rank, rank, host=f"node-{rank}"), log_date=DAY) as log:
            for number in range(12):
                with log.step(number, t0_us=1767600000000000 + number * 1_000_000) as step:
                    slow = 1.5 if rank == 0 else 1.0
                    step.record("params-all-gather", 0, 100)
                    step.record("forward-compute", 100, 1000 * slow, microbatch=0)
                    step.record("backward-compute", 100 + 1000 * slow, 2000 * slow, microbatch=0)
                    step.record("grads-reduce-scatter", 100 + 3000 * slow, 200 + 3000 * (1.5 - slow))
                    step.record("optimizer", 4800, 50)


@pytest.fixture
def variables(landing: Path, tmp_path: Path) -> dict[str, str]:
    """The environment of a night; its tables go to `tmp_path / "warehouse"`."""
    settings = tmp_path / "settings.toml"
    settings.write_text(SMALL + f'"spark.sql.warehouse.dir" = "{tmp_path / "spark-warehouse"}"\n')
    return {
        "AIRFLOW_VAR_WHAT_IF_LANDING": str(landing),
        "AIRFLOW_VAR_WHAT_IF_WAREHOUSE": str(tmp_path / "warehouse"),
        "AIRFLOW_VAR_WHAT_IF_SETTINGS": str(settings),
        "SPARK_SUBMIT_OPTS": SHORT_LIVED,
    }


@pytest.fixture(scope="module")
def expected(
    spark: SparkSession, landing: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, pa.Table]:
    """The tables of the same night run in one process."""
    warehouse = tmp_path_factory.mktemp("expected")
    run_nightly(spark, load_settings(None, str(landing), str(warehouse)), [DAY])
    return published(spark, warehouse)


def published(spark: SparkSession, warehouse: Path) -> dict[str, pa.Table]:
    """All rows of all tables that are published, in the order of their keys."""
    return {name: sorted_rows(spark, warehouse, TABLES[name]) for name in PUBLISHED_TABLES}


def sorted_rows(spark: SparkSession, warehouse: Path, table: Table) -> pa.Table:
    rows = Warehouse(spark, str(warehouse)).read(table)
    return rows.orderBy(*table.grain).toArrow()


def assert_same_tables(found: dict[str, pa.Table], expected: dict[str, pa.Table]) -> None:
    assert {name: len(rows) for name, rows in found.items()} == {
        name: len(rows) for name, rows in expected.items()
    }
    for name, rows in found.items():
        if name in FLEET_TABLES:
            for row, wanted in zip(rows.to_pylist(), expected[name].to_pylist(), strict=True):
                assert not {key: row[key] for key in wanted if not is_same(row[key], wanted[key])}, name
        else:
            assert rows.equals(expected[name]), name


def is_same(found: object, wanted: object) -> bool:
    if isinstance(found, float) and isinstance(wanted, float):
        return math.isclose(found, wanted, rel_tol=SUM_TOLERANCE)
    return found == wanted


@pytest.mark.slow
def test_the_night_of_the_dag_is_that_of_run_nightly(
    nightly: DAG,
    run_dag: RunDag,
    spark: SparkSession,
    expected: dict[str, pa.Table],
    variables: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for task in nightly.tasks:
        task.retries = 0
    assert run_dag(nightly) == dict.fromkeys(("wait_for_day", *PHASES), ("success", 1))
    assert_same_tables(published(spark, tmp_path / "warehouse"), expected)
    units = {row["job_id"]: row["status"] for row in expected["job_slowdown"].to_pylist()}
    assert units["small-job"] == STATUS_ANALYSED
    runs = sorted_rows(spark, tmp_path / "warehouse", TABLES[PIPELINE_RUNS]).sort_by("started_at")
    assert [(run["entry_point"], run["outcome"], run["log_date"]) for run in runs.to_pylist()] == [
        (stage, "done", DAY) for stage in PHASES
    ]


def test_wrong_settings_end_a_real_phase_with_the_reason(tmp_path: Path) -> None:
    overlay = tmp_path / "overlay.toml"
    overlay.write_text("[simulation]\nminimum_steps = 0\n")
    stage = SparkSubmitOperator(
        task_id="stage", entry_point="aggregate_fleet", log_date="2026-01-05", settings=str(overlay)
    )
    wrong = (
        f"stage: wrong arguments or settings: aggregate_fleet: error: {overlay}: simulation.minimum_steps: "
    )
    with pytest.raises(AirflowFailException) as raised:
        stage.execute({})
    assert str(raised.value).startswith(wrong)


@pytest.mark.slow
def test_a_refused_night_alerts_keeps_its_rows_and_can_be_released(
    nightly: DAG,
    run_dag: RunDag,
    spark: SparkSession,
    tmp_path: Path,
    posts: Posts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last phase is real, and meets a fleet with units that were never ingested."""
    finish_day(tmp_path, DAY)
    warehouse = Warehouse(spark, str(tmp_path / "warehouse"))
    warehouse.append(TABLES[FLEET_DAY], table_rows(FLEET_DAY))
    last = nightly.task_dict["publish_night"]
    assert isinstance(last, SparkSubmitOperator)
    real = last.bash_command
    stand_in(nightly, tmp_path, "true")
    last.bash_command = real
    monkeypatch.setenv("AIRFLOW_VAR_WHAT_IF_WAREHOUSE", warehouse.root)
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", SHORT_LIVED)
    assert run_dag(nightly)["publish_night"] == ("failed", 1)
    ((kind, text),) = [(post["kind"], post["text"]) for post in posts]
    assert kind == "gate_refused"
    assert text.startswith(
        "nightly_what_if.publish_night failed: publish_night: a quality gate refused: publish_night: error: "
        "gate refused, nothing of this phase was published: table fleet_day, expectation counts_every_unit, "
        "1 row: a day's jobs are the units that were ingested; table cause_day, expectation sums_job_causes, "
        "7 rows: "
    )
    assert text.endswith(f"(refused rows are kept in {warehouse.refused_path('publish', [DAY])})")
    assert "refused" in Path(docs_path(warehouse.root, DAY, "publish")).read_text()
    (run,) = warehouse.read(TABLES[PIPELINE_RUNS]).collect()
    assert (run["outcome"], [each["rows"] for each in run["refusals"]]) == ("gate_refused", [1, 7])

    accepted = ["fleet_day.counts_every_unit", "cause_day.sums_job_causes"]
    record_release(warehouse, Release(DAY, accepted, "anna", "known"), "")
    assert run_dag(nightly)["publish_night"] == ("success", 1)
    assert [post["kind"] for post in posts] == ["gate_refused"]
    assert "released by hand" in Path(docs_path(warehouse.root, DAY, "publish")).read_text()
