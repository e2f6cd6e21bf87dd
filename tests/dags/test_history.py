"""Test all DAGs except the nightly one: which arguments their tasks pass to spark-submit; without Spark."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.asset import AssetEvent, AssetModel
from airflow.sdk import DAG, PartitionedAssetTimetable
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.encoders import coerce_to_core_timetable
from airflow.utils.session import create_session

from dags.operators.assets import HISTORY, NIGHT, NIGHT_BY_DATE
from dags.operators.spark_submit import SparkSubmitOperator
from jobs.backfill import main
from jobs.emitter.rank_log_writer import finish_day
from tests.dags.conftest import Run, stand_in
from tests.dags.test_spark_submit import PRINT_ARGUMENTS, environment, write_script
from tests.support.commands import arguments_of
from tests.support.examples import DAY

__all__ = ["environment"]


def command_of(dag: DAG, arguments_file: Path, conf: dict[str, Any] | None = None) -> list[str]:
    """Run the only task of a DAG for DAY; return spark-submit's arguments, from the entry point on."""
    (task,) = dag.tasks
    assert isinstance(task, SparkSubmitOperator)
    logical_date = datetime(DAY.year, DAY.month, DAY.day, tzinfo=UTC)
    run: Any = dag.test(logical_date=logical_date, run_conf=conf)
    assert [str(each.state) for each in run.get_task_instances()] == ["success"]
    words = arguments_file.read_text().removeprefix("<").removesuffix(">").split("><")
    return words[next(at for at, word in enumerate(words) if word.startswith("jobs/")) :]


FORM = {"first_day": "2026-01-01", "last_day": "2026-01-31"}


@pytest.mark.parametrize(
    ("name", "conf", "wanted"),
    [
        ("maintain_tables", None, ["--log-date", "2026-01-05"]),
        ("maintain_tables", {"dry_run": True}, ["--log-date", "2026-01-05", "--dry-run"]),
        ("refresh_changed_days", None, ["--log-date", "2026-01-05"]),
        ("backfill_history", FORM, ["--from", "2026-01-01", "--to", "2026-01-31"]),
    ],
)
def test_an_entry_point_gets_its_day_or_the_form(
    dag_bag: DagBag, arguments_file: Path, name: str, conf: dict[str, Any] | None, wanted: list[str]
) -> None:
    task = name.removesuffix("_history")
    assert command_of(dag_bag.dags[name], arguments_file, conf) == [f"jobs/{task}.py", *wanted]


@pytest.mark.parametrize(
    "wrong",
    [
        {"first_day": "5 January"},
        {"last_day": None},
        {"stages": ["simulate", "upkeep"]},
        {"stages": "simulate"},
        {"job_ids": ["one\n--dry-run"]},
        {"job_ids": [""]},
        {"warehouse_new": "a\n--dry-run"},
        {"dry_run": "maybe"},
    ],
    ids=str,
)
def test_a_form_that_cannot_be_used_is_refused_before_anything_starts(
    dag_bag: DagBag, wrong: dict[str, Any]
) -> None:
    params = dag_bag.dags["backfill_history"].params
    params.update(FORM)
    params.validate()
    with pytest.raises(ParamValidationError):
        params.update(wrong)


@pytest.fixture
def arguments_file(environment: Path, tmp_path: Path, _database: None) -> Path:
    """Path of the file to which the substitute for spark-submit writes its arguments."""
    write_script(environment / "spark-submit", PRINT_ARGUMENTS)
    return tmp_path / "arguments"


def test_the_backfill_gets_what_the_form_has(dag_bag: DagBag, arguments_file: Path) -> None:
    form = {
        **FORM,
        "stages": ["simulate", "aggregate"],
        "job_ids": ["gpt-175b", "a job; echo $HOME"],
        "warehouse_new": "s3a://b/new",
        "dry_run": True,
    }
    name, *arguments = command_of(dag_bag.dags["backfill_history"], arguments_file, form)
    assert name == "jobs/backfill.py"
    parsed = arguments_of(main, arguments)
    assert [parsed["first"].isoformat(), parsed["last"].isoformat()] == ["2026-01-01", "2026-01-31"]
    assert parsed["phases"] == ["simulate", "aggregate"]
    assert parsed["job_id"] == ("gpt-175b", "a job; echo $HOME")
    assert (parsed["warehouse_new"], parsed["dry_run"]) == ("s3a://b/new", True)


@pytest.mark.parametrize(("is_current", "events"), [(True, 1), (False, 0)])
def test_what_leaves_the_current_tables_as_they_were_starts_nothing_that_is_scheduled_on_them(
    dag_bag: DagBag, environment: Path, arguments_file: Path, *, is_current: bool, events: int
) -> None:
    summary = json.dumps({"days": ["2026-01-01"], "is_current": is_current})
    write_script(environment / "spark-submit", f"{PRINT_ARGUMENTS}\necho '{summary}' > $WHAT_IF_SUMMARY")
    before = events_of_the_history()
    command_of(dag_bag.dags["backfill_history"], arguments_file, FORM)
    assert events_of_the_history() - before == events


def events_of_the_history() -> int:
    """Return how many updates of the Airflow asset HISTORY are recorded."""
    with create_session() as session:
        events = session.query(AssetEvent).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        return int(events.filter(AssetModel.name == HISTORY.name).count())


def test_a_night_is_a_partition_of_its_log_date_and_starts_who_is_scheduled_on_all_nights(
    nightly: DAG, run_dag: Run, tmp_path: Path
) -> None:
    """A night updates two Airflow assets: one with the log date as its partition, one without partitions."""
    finish_day(tmp_path, DAY)
    stand_in(nightly, tmp_path, "true")
    assert run_dag(nightly)["publish_night"] == ("success", 1)
    with create_session() as session:
        events = session.query(AssetModel.name, AssetEvent.partition_key).join(
            AssetEvent, AssetModel.id == AssetEvent.asset_id
        )
        found = {name: key for name, key in events if name in {NIGHT.name, NIGHT_BY_DATE.name}}
    assert found == {NIGHT.name: None, NIGHT_BY_DATE.name: str(DAY)}


def test_a_dag_is_scheduled_on_the_partitions_as_the_readme_says() -> None:
    dag = DAG("figures_of_a_day", schedule=PartitionedAssetTimetable(assets=NIGHT_BY_DATE))
    assert coerce_to_core_timetable(dag.timetable).partitioned
