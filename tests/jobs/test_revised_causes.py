"""Nights whose causes are revised by earlier days and other jobs, through landing, Spark and Delta."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs import backfill, run_nightly
from jobs.settings import Settings
from jobs.synthetic.identity import JobIdentity
from jobs.synthetic.job import generate_job
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.mechanisms.network import CongestedNetwork
from jobs.synthetic.mechanisms.stages import LossLayer
from jobs.synthetic.mechanisms.workers import SickHost
from jobs.synthetic.rank_log_files import write_rank_logs
from jobs.synthetic.shape import JobShape
from jobs.warehouse import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import JOB_CAUSES, JUDGED_BY_HISTORY

FIRST = date(2026, 1, 5)
DAYS = [FIRST + timedelta(days=age) for age in range(3)]
LAST = DAYS[-1]
SICK = "sick"
REPLICA = JobShape(dp_size=1, pp_size=4, tp_size=8, microbatches=8, steps=10)
"""One replica, each stage on a host of its own."""
SMALL = JobShape(dp_size=2, pp_size=2, tp_size=2, microbatches=8, steps=10)
"""All on one host."""

Rows = dict[tuple[str, str], dict[str, Any]]


def hosts(job_id: str, day: int, number: int, *sick_places: int) -> list[str]:
    """Hosts of a job, other ones each day, the sick one in some places."""
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
    """Two good days of each model, then the day in question; the sick host is known from job "seen"."""
    loss = LossLayer(0.02, 0.03)
    seen = replace(REPLICA, dp_size=4)
    for day in range(3):
        last = day == 2
        write(landing, day, "sick-stage", REPLICA, hosts("a", day, 4, *([2] if last else [])))
        write(landing, day, "heavy-stage", REPLICA, hosts("b", day, 4), loss)
        write(landing, day, "sick-whole", SMALL, hosts("c", day, 1, *([0] if last else [])))
        slow = [CongestedNetwork("pipeline", 0.05)] if last else []
        write(landing, day, "slow-link", replace(REPLICA, dp_size=2), hosts("d", day, 8), *slow)
        if last:
            write(landing, day, "seen", seen, hosts("e", day, 16, 5))
            write(landing, day, "new-and-sick", REPLICA, hosts("f", day, 4, 1))
            write(landing, day, "new-and-heavy", REPLICA, hosts("g", day, 4), loss)


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
    for day in DAYS:
        run_nightly.run(spark, settings, [day])
    return read(spark, settings)
def test_print(nights: list[dict[str, Any]]) -> None:
    for row in nights:
        if row["log_date"] == LAST and (row["cause"] in ("slow_worker","stage_imbalance","communication")):
            print(row["job_id"], row["cause"], row["is_cause"], round(row["time_saved_fraction"],4), round(row["attributed_fraction"],4), row["flag_reason"], row["evidence"], [ (c["pp_rank"], c["dp_rank"], c["host"], round(c["effect"],3)) for c in row["culprits"]][:3], row["unrevised"] and row["unrevised"]["flag_reason"])
    assert 0
