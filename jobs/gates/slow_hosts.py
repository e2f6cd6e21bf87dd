"""Sentences on hosts that became slower, grouped by job and cause, because a job may have many hosts."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from jobs.runtime.plural import plural
from jobs.warehouse.reader import keys_of
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import CAUSE_UNEXPLAINED, JOB_CAUSES, UNIT_KEY, WORKER_SLOWDOWN

Risen = tuple[str, float, float, int]
"""A value of one day that is above its past: name, value, median of past days, number of past days."""
_MOST_JOBS: Final = 5
"""Limit on the jobs of a day that are named one by one."""
_MOST_HOSTS: Final = 3
"""Limit on the hosts of a job that are named one by one."""


class Slowed(NamedTuple):
    """The run that a host slows most, and the run's largest cause; `cause` is None if none was found."""

    job_id: str
    run_id: str
    cause: str | None


def largest_causes(warehouse: Warehouse, log_dates: Sequence[date]) -> dict[Unit, str]:
    """Return, for each unit of these days with a cause, the cause whose fix saves most time."""
    causes = warehouse.rows(TABLES[JOB_CAUSES], log_dates)
    held = causes.filter(pc.and_(causes["is_cause"], pc.not_equal(causes["cause"], CAUSE_UNEXPLAINED)))
    held = held.select([*UNIT_KEY, "cause", "time_saved_fraction"]).sort_by("time_saved_fraction")
    return dict(zip(keys_of(held), held["cause"].to_pylist(), strict=True))  # dict keeps the last, largest


def slowed_by(warehouse: Warehouse, log_date: date, hosts: Sequence[str]) -> dict[str, Slowed]:
    """Return, by host, the run that the host slowed most on a day."""
    of_day = warehouse.rows(TABLES[WORKER_SLOWDOWN], [log_date])
    of_hosts = of_day.select(["host", "job_id", "run_id", "slowdown"]).filter(
        pc.is_in(of_day["host"], pa.array(hosts, pa.string()))
    )
    most = {row["host"]: row for row in of_hosts.sort_by("slowdown").to_pylist()}  # the last is slowest
    worst = largest_causes(warehouse, [log_date])
    return {
        host: Slowed(row["job_id"], row["run_id"], worst.get(Unit(log_date, row["job_id"], row["run_id"])))
        for host, row in most.items()
    }


def slow_host_texts(log_date: date, risen: Sequence[Risen], slowed: Mapping[str, Slowed]) -> list[str]:
    """Return one sentence for each job that these hosts slow and the job's cause, slowest host first.

    risen : slowdowns of hosts, slowest host first
    """
    jobs: dict[Slowed, list[Risen]] = defaultdict(list)
    for each in risen:
        jobs[slowed[each[0]]].append(each)
    texts = []
    for job, hosts in jobs.items():
        _, value, usual, days = hosts[0]
        named = ", ".join(name for name, *_ in hosts[:_MOST_HOSTS])
        unnamed = f" and {len(hosts) - _MOST_HOSTS} more" if len(hosts) > _MOST_HOSTS else ""
        cause = job.cause or "no cause holds"
        what = f"host {named} slows" if len(hosts) == 1 else f"hosts {named}{unnamed} slow"
        or_less = " or less" if len(hosts) > 1 else ""
        texts.append(
            f"{log_date}: job {job.job_id}, run {job.run_id} ({cause}): {what} it {value:.3f}-fold"
            f"{or_less}, usually {usual:.3f}-fold (median of {plural(days, 'day')})"
        )
    more = len(texts) - _MOST_JOBS
    others = [f"{log_date}: and hosts of {plural(more, 'more job')}"] if more > 0 else []
    return [*texts[:_MOST_JOBS], *others]
