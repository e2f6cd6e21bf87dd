"""Evidence from health checks is the same after nights, repeated nights and a backfill; without Spark."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from jobs.night.aggregate import beside_culprits
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import CAUSE_EVIDENCE, HOST_DAY, HOST_HEALTH, JOB_CAUSES
from tests.support.examples import DAY, culprit, table_rows

DAYS = [DAY + timedelta(age) for age in range(6)]
HOSTS = [f"node-{number}" for number in range(20)]
LOOKED_BACK = 3
Row = dict[str, Any]


def at(day: date, hour: float) -> datetime:
    return datetime.combine(day, time(), UTC) + timedelta(hours=hour)


def check(day: date, host: str, hour: float, **changes: object) -> Row:
    """Return the span of a health check that fails at an hour of a day and does not pass again."""
    moment = at(day, hour)
    about = {"log_date": day, "host": host, "first_at": moment, "last_at": moment, "is_open": True}
    return about | changes


def cause(day: date, job_id: str, *culprits: Row) -> Row:
    return {"log_date": day, "job_id": job_id, "is_cause": bool(culprits), "culprits": list(culprits)}


def slow(day: date, host: str, hour: float, course: str = "always") -> Row:
    return culprit(0.5, host=host, course=course, first_time=at(day, hour))


class Fleet:
    """A warehouse with health events and causes of some days, and without evidence."""

    def __init__(self, root: Path, health: list[Row], causes: list[Row]) -> None:
        self.warehouse = Warehouse(cast("SparkSession", None), str(root))
        for name, rows in ((HOST_HEALTH, health), (JOB_CAUSES, causes)):
            if rows:
                self.warehouse.replace(TABLES[name], table_rows(name, rows), DAYS)

    def hosts(self, days: Sequence[date]) -> pa.Table:
        return table_rows(HOST_DAY, [{"log_date": day, "host": host} for day in days for host in HOSTS])

    def aggregate(self, *days: date) -> None:
        """Compute and store the evidence of the given days in one batch."""
        for name, rows in beside_culprits(self.warehouse, days, self.hosts(days), LOOKED_BACK).items():
            self.warehouse.replace(TABLES[name], rows, days)
        self.warehouse.replace(TABLES[HOST_DAY], self.hosts(days), days)

    @property
    def evidence(self) -> list[Row]:
        return sorted(self.warehouse.rows(TABLES[CAUSE_EVIDENCE], DAYS).to_pylist(), key=repr)


def drawn(seed: int) -> tuple[list[Row], list[Row]]:
    """Draw health events on every other day, and the culprits of two jobs on each day."""
    rng = np.random.default_rng(seed)
    health, causes = [], []
    for day in DAYS:
        if day in DAYS[::2]:
            failing = [host for host in HOSTS if rng.random() < 0.4]
            health += [
                check(day, host, rng.uniform(0, 24), is_open=bool(rng.random() < 0.7)) for host in failing
            ]
        for job_id, own in (("a", HOSTS[:10]), ("b", HOSTS[10:])):
            named = [host for host in own if rng.random() < 0.6]
            courses = rng.choice(["always", "from"], len(named)).tolist()
            found = zip(named, courses, strict=True)
            causes.append(
                cause(day, job_id, *(slow(day, host, rng.uniform(1, 23), each) for host, each in found))
            )
    return health, causes


def test_nights_and_backfills_find_the_same_evidence(tmp_path: Path) -> None:
    facts = drawn(1)
    nights, backfill, batches = (Fleet(tmp_path / name, *facts) for name in ("nights", "backfill", "batches"))
    for day in DAYS:
        nights.aggregate(day)
    backfill.aggregate(*DAYS)
    for some in (DAYS[:2], DAYS[2:]):
        batches.aggregate(*some)
    assert {row["log_date"] for row in nights.evidence} == set(DAYS), "also on days without health events"
    assert nights.evidence == backfill.evidence == batches.evidence
    for day in reversed(DAYS):
        nights.aggregate(day)
    assert nights.evidence == backfill.evidence, "repeated nights change nothing"


def test_a_check_that_goes_on_stands_beside_culprits_of_a_day_without_health(tmp_path: Path) -> None:
    """A check that has not passed again is evidence on the next day, even if that day has no health file."""
    health = [check(DAYS[0], "node-0", 20), check(DAYS[0], "node-1", 20, is_open=False)]
    causes = [
        cause(DAYS[1], job_id, slow(DAYS[1], host, 3)) for job_id, host in (("a", "node-0"), ("b", "node-1"))
    ]
    fleet = Fleet(tmp_path, health, causes)
    for day in DAYS[:3]:
        fleet.aggregate(day)
    assert [(row["log_date"], row["host"], row["lead_s"]) for row in fleet.evidence] == [
        (DAYS[1], "node-0", 7 * 3600.0)
    ]


def test_without_health_there_is_no_table(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, [], [cause(DAYS[0], "a", slow(DAYS[0], "node-0", 3))])
    fleet.aggregate(DAYS[0])
    assert not (tmp_path / CAUSE_EVIDENCE).exists()
