"""Test phases that the DAG runs with real Spark: wrong settings, and a refused night that is released."""

from pathlib import Path

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException
from pyspark.sql import SparkSession

from dags.operators.spark_submit import SparkSubmitOperator
from jobs.emitter.rank_log_writer import finish_day
from jobs.gates.write_audit_publish import refused_path
from jobs.release_night import Release, record_release
from jobs.report.links import docs_path
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import FLEET_DAY, PIPELINE_RUNS
from tests.dags.conftest import Run as RunDag
from tests.dags.conftest import stand_in
from tests.dags.test_alerts import Posts, posts
from tests.support.commands import SHORT_LIVED
from tests.support.examples import DAY, table_rows

__all__ = ["posts"]

SMALL = """\
[spark.conf]
"spark.sql.shuffle.partitions" = "2"
"spark.sql.codegen.wholeStage" = "false"
"spark.sql.codegen.factoryMode" = "NO_CODEGEN"
"""
"""Settings for small data: Spark interprets its queries, as compiling them takes longer for a few rows."""


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
    assert text.endswith(f"(refused rows are kept in {refused_path(warehouse.root, 'publish', [DAY])})")
    assert "refused" in Path(docs_path(warehouse.root, DAY, "publish")).read_text()
    (run,) = warehouse.read(TABLES[PIPELINE_RUNS]).collect()
    assert (run["outcome"], [each["rows"] for each in run["refusals"]]) == ("gate_refused", [1, 7])

    accepted = ["fleet_day.counts_every_unit", "cause_day.sums_job_causes"]
    record_release(warehouse, Release(DAY, accepted, "anna", "known"), "")
    assert run_dag(nightly)["publish_night"] == ("success", 1)
    assert [post["kind"] for post in posts] == ["gate_refused"]
    assert "released by hand" in Path(docs_path(warehouse.root, DAY, "publish")).read_text()
