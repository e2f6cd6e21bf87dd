"""Test with Spark how nights, from the landing on, revise causes by earlier days and by other jobs."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs import backfill
from jobs.history.fingerprints import recorded
from jobs.history.plan import plan
from jobs.night import ingest, revise, simulate, whole_night
from jobs.runtime.settings import Settings
from jobs.synthetic.log_files import write_rank_logs
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.mechanisms.transfers import CongestedNetwork
from jobs.synthetic.mechanisms.workers import SickHost
from jobs.synthetic.shape import JobIdentity, JobShape
from jobs.warehouse.tables import Warehouse
from schemas.causes import JUDGED_BY_HISTORY
from schemas.tables import TABLES
from schemas.vocabulary import CAUSE_DAY, JOB_CAUSES
from tests.support.history import KilledError, dying_at
from tests.support.random_jobs import generate_job

pytestmark = pytest.mark.slow

FIRST = date(2026, 1, 5)
DAYS = [FIRST + timedelta(days=age) for age in range(3)]
LAST = DAYS[-1]
SICK = "sick"
REPLICA = JobShape(dp_size=1, pp_size=4, tp_size=8, microbatches=8, steps=10)
"""One replica; each of its four stages is on a host of its own."""
SMALL = JobShape(dp_size=2, pp_size=2, tp_size=2, microbatches=8, steps=10)
"""A job on a single host."""


def hosts(job_id: str, day: int, number: int, *sick_places: int) -> list[str]:
    """Return `number` hosts, whose names contain the day; the sick host is in the given places."""
    return [SICK if place in sick_places else f"{job_id}-{day}-{place}" for place in range(number)]


def write(
    landing: Path,
    day: int,
    job_id: str,
    shape: JobShape,
    on: Sequence[str],
    *mechanisms: Mechanism,
) -> None:
    fields = {"model": job_id.rsplit("/", maxsplit=1)[0], "gpu_hours": 64.0}
    identity = JobIdentity(job_id.replace("/", "-"), "r1", hosts=on, fields=fields)
    sick = [SickHost(SICK, 1.4)] if SICK in on else []
    job = generate_job(shape, [*sick, *mechanisms], 10 * day + len(job_id), identity)
    write_rank_logs(landing, DAYS[day], job)


def write_days(landing: Path) -> None:
    """Write two healthy days of three jobs, and a third day on which all three have faults.

    On the second day, a further job, "seen", uses the sick host. On the third day, a new job uses this host.
    """
    for day in range(3):
        last = day == 2
        write(landing, day, "sick-stage", REPLICA, hosts("a", day, 4, *([2] if last else [])))
        write(landing, day, "sick-whole", SMALL, hosts("c", day, 1, *([0] if last else [])))
        slow = [CongestedNetwork("pipeline", 0.05)] if last else []
        write(landing, day, "slow-link", replace(REPLICA, dp_size=2), hosts("d", day, 8), *slow)
        if day == 1:
            write(landing, day, "seen", replace(REPLICA, dp_size=4), hosts("e", day, 16, 5))
    write(landing, 2, "new-and-sick", REPLICA, hosts("f", 2, 4, 1))


@pytest.fixture(scope="module")
def settings(test_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    root = tmp_path_factory.mktemp("history")
    write_days(root / "landing")
    paths = {"landing": str(root / "landing"), "warehouse": str(root / "warehouse")}
    return test_settings.model_copy(update={"paths": test_settings.paths.model_copy(update=paths)})


def read(spark: SparkSession, settings: Settings) -> list[dict[str, Any]]:
    warehouse = Warehouse(spark, settings.paths.warehouse)
    rows = warehouse.read(TABLES[JOB_CAUSES]).toArrow().to_pylist(maps_as_pydicts="strict")
    return sorted(rows, key=lambda row: (row["log_date"], row["job_id"], row["cause"]))


@pytest.fixture(scope="module")
def nights(spark: SparkSession, settings: Settings) -> list[dict[str, Any]]:
    """Rows of job_causes after a night of the first two days together and a night of the third."""
    whole_night.run(spark, settings, DAYS[:2])
    whole_night.run(spark, settings, DAYS[2:])
    return read(spark, settings)


def of_last_day(nights: list[dict[str, Any]], job_id: str) -> dict[str, dict[str, Any]]:
    return {row["cause"]: row for row in nights if (row["log_date"], row["job_id"]) == (LAST, job_id)}


@pytest.mark.parametrize(("job_id", "stage"), [("sick-stage", 2), ("new-and-sick", 1)])
def test_a_stage_on_a_sick_host_is_a_slow_worker(
    job_id: str, stage: int, nights: list[dict[str, Any]]
) -> None:
    """A slow stage counts as a slow worker if earlier days or other jobs show that its host is the reason."""
    found = of_last_day(nights, job_id)
    worker, imbalance = found["slow_worker"], found["stage_imbalance"]
    (culprit,) = worker["culprits"]
    assert (culprit["pp_rank"], culprit["host"]) == (stage, SICK)
    assert culprit["effect"] == pytest.approx(0.4, abs=0.02)
    # In a step, the slow stage computes eight microbatches, each 1.4 times as long as the other three stages.
    assert worker["time_saved_fraction"] == pytest.approx(0.23, abs=0.02)
    assert (worker["is_cause"], imbalance["is_cause"]) == (True, False)
    assert worker["recoverable_gpu_hours"] == 64.0 * worker["time_saved_fraction"]
    assert imbalance["unrevised"]["is_cause"] is True
    assert imbalance["unrevised"]["flag_reason"] == "slow_worker_or_stage_imbalance"


def test_what_is_slow_for_all_is_slow_against_other_days(nights: list[dict[str, Any]]) -> None:
    """If all workers or links of a job are slow, only comparison with the job's earlier days shows this."""
    worker = of_last_day(nights, "sick-whole")["slow_worker"]
    assert {culprit["slow_host"] for culprit in worker["culprits"]} == {SICK}
    assert worker["unrevised"]["time_saved_fraction"] == pytest.approx(0.0, abs=0.005)
    assert worker["time_saved_fraction"] == pytest.approx(0.4 / 1.4, abs=0.03)
    link = of_last_day(nights, "slow-link")["communication"]
    assert (link["flag_reason"], link["is_cause"]) == (JUDGED_BY_HISTORY, True)
    assert link["evidence"]["history_factor"] == pytest.approx(20.0, rel=0.05)
    assert link["unrevised"]["time_saved_fraction"] == pytest.approx(0.0, abs=0.005)
    early = [row for row in nights if row["log_date"] == FIRST or row["job_id"] == "seen"]
    assert [row["unrevised"] for row in early] == [None] * len(early)


def test_days_again_in_one_batch_give_the_same_rows(
    spark: SparkSession, settings: Settings, nights: list[dict[str, Any]]
) -> None:
    """Processing all days again in one batch gives the same rows, as revision starts from measured causes."""
    simulate.run(spark, settings, DAYS)
    revise.run(spark, settings, DAYS)
    assert read(spark, settings) == nights


def elsewhere(settings: Settings, warehouse: Path) -> Settings:
    paths = settings.paths.model_copy(update={"warehouse": str(warehouse)})
    return settings.model_copy(update={"paths": paths})


@pytest.fixture(scope="module")
def last_alone(spark: SparkSession, settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse in which only the third day was processed; read-only."""
    warehouse = tmp_path_factory.mktemp("last-alone")
    whole_night.run(spark, elsewhere(settings, warehouse), DAYS[2:])
    return warehouse


@pytest.fixture
def backwards(settings: Settings, last_alone: Path, tmp_path: Path) -> Settings:
    """Settings for a copy of `last_alone`, in which a test processes the two earlier days."""
    shutil.copytree(last_alone, tmp_path, dirs_exist_ok=True)
    return elsewhere(settings, tmp_path)


def causes_by_day(spark: SparkSession, settings: Settings) -> list[dict[str, Any]]:
    """Return the rows of cause_day with floats to 12 digits, as sums depend on the order of addition."""
    counted = Warehouse(spark, settings.paths.warehouse).read(TABLES[CAUSE_DAY])
    rows = counted.orderBy("log_date", "cause").toArrow().to_pylist()
    return [
        {name: f"{value:.12g}" if isinstance(value, float) else value for name, value in row.items()}
        for row in rows
    ]


def test_nights_in_any_order_give_the_same_rows(
    spark: SparkSession, settings: Settings, nights: list[dict[str, Any]], backwards: Settings
) -> None:
    """Nights in any order give the same rows, because a late night also revises the days after it."""
    for day in reversed(DAYS[:2]):
        whole_night.run(spark, backwards, [day])
    assert read(spark, backwards) == nights
    assert causes_by_day(spark, backwards) == causes_by_day(spark, settings)
    done = recorded(Warehouse.of(spark, backwards), DAYS)
    assert set(done["ingest"]) == set(done["simulate"]) == set(done["publish"])


@pytest.mark.parametrize("died_at", [JOB_CAUSES, CAUSE_DAY])
def test_a_night_that_died_while_it_revised_later_days_revises_them_when_it_runs_again(
    spark: SparkSession,
    settings: Settings,
    nights: list[dict[str, Any]],
    backwards: Settings,
    monkeypatch: pytest.MonkeyPatch,
    died_at: str,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Warehouse, "replace", dying_at(died_at, DAYS[2]))
        with pytest.raises(KilledError):
            whole_night.run(spark, backwards, DAYS[:2])
    assert causes_by_day(spark, backwards) != causes_by_day(spark, settings)
    todo = plan(Warehouse.of(spark, backwards), backwards, DAYS)
    assert {unit[0] for batch in todo.batches for unit in batch.units["aggregate"]} == set(DAYS)
    whole_night.run(spark, backwards, DAYS[:2])
    assert read(spark, backwards) == nights
    assert causes_by_day(spark, backwards) == causes_by_day(spark, settings)
    assert not plan(Warehouse.of(spark, backwards), backwards, DAYS).batches


def test_what_of_earlier_days_is_done_late_is_looked_back_on(
    spark: SparkSession, settings: Settings, nights: list[dict[str, Any]], tmp_path: Path
) -> None:
    """If a job of an earlier day is processed late, later days are revised again with the job's evidence."""
    late = elsewhere(settings, tmp_path)
    ingest.run(spark, late, DAYS)
    units = set(recorded(Warehouse(spark, str(tmp_path)), DAYS)["ingest"])
    seen = {unit for unit in units if unit[1] == "seen"}
    simulate.run(spark, late, DAYS, units - seen)
    backfill.run(spark, late, plan(Warehouse.of(spark, late), late, DAYS, ["revise"]))
    assert read(spark, late) != nights
    todo = plan(Warehouse.of(spark, late), late, DAYS[:2])
    assert set().union(*(batch.units.get("simulate", ()) for batch in todo.batches)) == seen
    backfill.run(spark, late, todo)
    assert read(spark, late) == nights
    assert causes_by_day(spark, late) == causes_by_day(spark, settings)
