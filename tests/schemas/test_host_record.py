"""host_record compares each host with the other hosts of its jobs, to tell slow hosts from chance."""

from collections.abc import Sequence
from datetime import date, timedelta
from itertools import product
from math import prod
from typing import Any

import pytest
from pyspark.sql import Row

from schemas.queries import QUERIES
from schemas.views import VIEWS
from schemas.vocabulary import JOB_CAUSES, JOB_SLOWDOWN, WORKER_SLOWDOWN
from tests.support.answers import answer
from tests.support.examples import DAY, culprit

Workers = list[dict[str, Any]]


def job(job_id: str, day: int, hosts: str, slow: str = "") -> Workers:
    """Return rows of worker_slowdown for a job on a day; each letter of `hosts` is a host with one worker."""
    return [
        {
            "job_id": job_id,
            "log_date": DAY + timedelta(days=day),
            "host": host,
            "pp_rank": place,
            "slowdown": 1.5 if host in slow else 1.0,
            "is_slowest": host in slow,
        }
        for place, host in enumerate(hosts)
    ]


def hosts_of(workers: Workers, *period: date, causes: Sequence[dict[str, Any]] = ()) -> dict[str, Row]:
    sql = QUERIES["hosts"].over(*period) if period else VIEWS["host_record"].sql
    return {row.host: row for row in answer(sql, {WORKER_SLOWDOWN: workers, JOB_CAUSES: causes})}


def tail(chances: list[float], slow: int) -> float:
    """Return the probability that at least `slow` of independent events happen, by enumeration."""
    outcomes = product((False, True), repeat=len(chances))
    return sum(
        prod(p if happens else 1 - p for p, happens in zip(chances, outcome, strict=True))
        for outcome in outcomes
        if sum(outcome) >= slow
    )


def test_the_chance_is_that_of_a_random_host_in_the_same_places() -> None:
    workers = [
        *job("1", 0, "abcd", "a"),
        *job("2", 0, "abefghij", "ab"),
        *job("3", 1, "ae"),
        *job("4", 1, "a", "a"),  # no evidence, as all hosts of the job are slow
    ]
    found = hosts_of(workers)
    chances = [1 / 4, 2 / 8, 0.0, 1.0]
    assert found["a"].p_value == pytest.approx(tail(chances, 3), rel=1e-12)
    assert found["b"].p_value == pytest.approx(tail([1 / 4, 2 / 8], 1), rel=1e-12)
    assert found["e"].p_value == 1.0
    assert found["a"].expected_jobs_slow == pytest.approx(1.5, rel=1e-12)
    assert (found["a"].jobs, found["a"].jobs_slow, found["a"].jobs_not_slow) == (4, 3, 1)
    assert next(iter(found)) == "a"


def test_a_busy_host_is_not_a_bad_host() -> None:
    """A host that is slow in 5 of 40 jobs, as often as its peers, is not slow beyond chance."""
    others = "cdefghi"
    busy = [worker for n in range(40) for worker in job(f"b{n}", n, "b" + others, ("b" + others)[n % 8])]
    bad = [worker for n in range(6) for worker in job(f"x{n}", n, "xyzuvwst", "x")]
    found = hosts_of(busy + bad)
    assert (found["b"].jobs_slow, found["x"].jobs_slow) == (5, 6)
    assert found["b"].p_value > 0.3
    assert found["x"].p_value == pytest.approx((1 / 8) ** 6, rel=1e-9)
    assert {host for host, row in found.items() if row.is_beyond_chance} == {"x"}


def test_several_days_of_one_job_are_one_trial() -> None:
    """All days of a job count as one trial: a host at a heavy stage is slow on each of them."""
    week = [worker for day in range(7) for worker in job("long", day, "abcdefgh", "h")]
    found = hosts_of(week)
    assert found["h"].p_value == pytest.approx(1 / 8, rel=1e-12)
    assert (found["h"].days_slow, found["h"].jobs_slow, found["h"].is_beyond_chance) == (7, 1, False)


def test_chronic_intermittent_and_one_off() -> None:
    workers = [
        worker
        for day in range(10)
        for worker in job(str(day), day, "coiq", "c" * (day >= 2) + "o" * (day == 4) + "i" * (day in {1, 8}))
    ]
    found = hosts_of(workers)
    patterns = {host: row.pattern for host, row in found.items()}
    assert patterns == {"c": "chronic", "o": "one_off", "i": "intermittent", "q": None}
    chronic, never = found["c"], found["q"]
    assert (chronic.first_slow, chronic.last_slow) == (DAY + timedelta(days=2), DAY + timedelta(days=9))
    assert (chronic.first_seen, chronic.days, chronic.days_slow) == (DAY, 10, 8)
    assert (never.first_slow, never.days_slow, never.jobs_not_slow) == (None, 0, 10)


def test_the_same_over_a_period() -> None:
    workers = [*job("1", 0, "ab", "a"), *job("2", 5, "ab", "a"), *job("3", 9, "ab", "a")]
    found = hosts_of(workers, DAY, DAY + timedelta(days=5))
    assert (found["a"].jobs_slow, found["a"].p_value) == (2, 0.25)


def test_slow_is_who_slows_the_unit_and_not_merely_the_slowest_of_a_healthy_one() -> None:
    workers = [*job("1", 0, "ab", "a"), *job("2", 0, "ab")]
    workers[0]["slowdown"] = 1.09
    workers[3] |= {"slowdown": 1.9}
    assert {row.jobs_slow for row in hosts_of(workers).values()} == {0}


def test_a_verdict_has_what_was_measured_and_what_recurs() -> None:
    workers = [worker for n in range(6) for worker in job(f"x{n}", n, "xyzuvwst", "x")]
    workers += job("1", 0, "abcdefgh", "ab")
    unit = {"job_id": "1", "run_id": "r3", "log_date": DAY}
    named = unit | {"cause": "slow_worker", "is_cause": True, "culprits": [culprit(0.5, rank=0, host="a")]}
    tables = {WORKER_SLOWDOWN: workers, JOB_CAUSES: [named], JOB_SLOWDOWN: [unit]}
    rows = {row.host: row for row in answer(VIEWS["host_record"].sql, tables)}
    assert [(host, row.verdict, row.jobs_measured) for host, row in rows.items() if row.verdict] == [
        ("x", "recurs", 0),
        ("a", "measured", 1),
        ("b", "not_proven", 0),
    ]
    assert {row.host for row in rows.values() if row.verdict} == {
        host for host in rows if rows[host].jobs_slow
    }
    of_x = [
        {
            **named,
            "job_id": f"x{n}",
            "log_date": DAY + timedelta(days=n),
            "culprits": [culprit(0.5, rank=0, host="x")],
        }
        for n in range(2)
    ]
    units = [{"job_id": row["job_id"], "run_id": "r3", "log_date": row["log_date"]} for row in of_x]
    both = answer(VIEWS["host_record"].sql, {**tables, JOB_CAUSES: of_x, JOB_SLOWDOWN: units})
    assert [(row.verdict, row.jobs_measured) for row in both if row.host == "x"] == [
        ("measured_and_recurs", 2)
    ]


def test_a_host_that_a_cause_names_is_slow_on_its_days_though_no_worker_stands_out() -> None:
    """A host that a cause names on a day counts as slow on it, even if its workers are not the slowest."""
    workers = [worker for day in range(3) for worker in job("1", day, "abcd", "b")]
    units = [{"job_id": "1", "run_id": "r3", "log_date": DAY + timedelta(days=day)} for day in range(3)]
    ends = [culprit(0.5, rank=place, host=host) for place, host in enumerate("ab")]
    held = {"cause": "communication", "is_cause": True, "culprits": ends, "lost_fraction": 0.1}
    tables = {
        WORKER_SLOWDOWN: workers,
        JOB_CAUSES: [unit | held for unit in units[1:]],
        JOB_SLOWDOWN: units,
    }
    rows = {row.host: row for row in answer(VIEWS["host_record"].sql, tables)}
    names = ("jobs_slow", "days_slow", "first_slow", "last_slow", "pattern", "times_slow", "verdict")
    second, last = (DAY + timedelta(days=day) for day in (1, 2))
    assert [rows["a"][name] for name in names] == [1, 2, second, last, "chronic", 0, "measured"]
    assert [rows["b"][name] for name in names] == [1, 3, DAY, last, "chronic", 3, "measured"]
    assert (rows["a"].p_value, rows["c"].jobs_slow, rows["c"].verdict) == (0.5, 0, None)
    drained = {row.host: row for row in answer(VIEWS["drain"].sql, tables)}
    assert {host: (row.days_slow, row.last_slow) for host, row in drained.items()} == {
        "a": (2, last),
        "b": (2, last),
    }


def test_of_hosts_alike_by_chance_those_that_a_cause_names_and_that_slow_a_job_most_come_first() -> None:
    workers = job("1", 0, "abcd")
    workers[2]["slowdown"] = 1.05
    unit = {"job_id": "1", "run_id": "r3", "log_date": DAY}
    named = {"cause": "slow_worker", "is_cause": True, "culprits": [culprit(0.5, rank=3, host="d")]}
    tables = {WORKER_SLOWDOWN: workers, JOB_CAUSES: [unit | named], JOB_SLOWDOWN: [unit]}
    assert [row.host for row in answer(VIEWS["host_record"].sql, tables)] == ["d", "c", "a", "b"]


@pytest.mark.parametrize(
    ("cause", "is_cause", "times"),
    [("mixed_hardware", True, 1), ("mixed_hardware", False, 2), ("slow_worker", True, 2)],
)
def test_a_host_is_not_slow_where_its_type_of_gpu_may_be(cause: str, *, is_cause: bool, times: int) -> None:
    workers = [*job("1", 0, "abcd", "a"), *job("2", 0, "abcd", "a")]
    causes = [{"job_id": "2", "log_date": DAY, "cause": cause, "is_cause": is_cause}]
    found = hosts_of(workers, causes=causes)
    assert (found["a"].jobs, found["a"].jobs_slow) == (2, times)
