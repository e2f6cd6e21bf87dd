"""The table job_changes depends on no later days, and states the smallest change that could be seen."""

from datetime import timedelta
from typing import Any, Final

import numpy as np
import pytest

from schemas.job_changes import JOB_CHANGES, OF_STEP
from schemas.vocabulary import JOB_CAUSES, JOBS, STEP_SLOWDOWN, WORKER_SLOWDOWN
from tests.support.examples import DAY, table_rows
from udfs.changes import FEW_DAYS, Point, change_points, job_changes, least_change, points_of

DAYS: Final = 9
SLOW_FROM: Final = 5


def points() -> list[Point]:
    """Return points of a job that takes 25 % longer from day 6 on, with another run, host and label."""
    rows: dict[str, list[dict[str, Any]]] = {
        name: [] for name in (JOBS, STEP_SLOWDOWN, JOB_CAUSES, WORKER_SLOWDOWN)
    }
    for number in range(DAYS):
        is_new = number >= SLOW_FROM
        key = {"log_date": DAY + timedelta(number), "job_id": "llm", "run_id": f"r{int(is_new)}"}
        rows[JOBS].append(key | {"labels": [("nccl", "2.20" if is_new else "2.19")], "restarts": int(is_new)})
        rows[WORKER_SLOWDOWN] += [key | {"host": host} for host in ("a", "c" if is_new else "b", None)]
        rows[JOB_CAUSES].append(key | {"is_cause": is_new, "attributed_fraction": 0.2 if is_new else 0.0})
        for step in (3, 1, 2, 0):
            step_s = (5.0 if is_new else 4.0) + 0.001 * ((step + number) % 3)
            rows[STEP_SLOWDOWN].append(key | {"step": step, "actual_step_s": step_s})
    return points_of({name: table_rows(name, each) for name, each in rows.items()})


def test_each_day_has_what_was_known_on_it() -> None:
    found = job_changes(points(), [DAY + timedelta(number) for number in range(DAYS)], 14)
    assert found.schema == JOB_CHANGES.arrow_schema
    steps = [row for row in found.to_pylist() if row["of"] == OF_STEP]
    assert [(row["log_date"] - DAY).days for row in steps] == [5, 6, 7, 8]
    assert {row["since"] for row in steps} == {DAY + timedelta(SLOW_FROM)}
    assert [row["days"] for row in steps] == [1, 2, 3, 4]
    assert {(row["run_id"], row["days_before"], row["cause"]) for row in steps} == {("r1", 5, "slow_worker")}
    assert steps[0]["change"] == pytest.approx(0.25, abs=0.001)
    also = ["run r0 -> r1", "restarts 0 -> 1", "label nccl 2.19 -> 2.20", "hosts gone: b", "hosts new: c"]
    assert steps[0]["also"] == also


def test_a_change_that_left_the_days_that_count_is_no_longer_said() -> None:
    last = DAY + timedelta(DAYS - 1)
    assert job_changes(points(), [last], DAYS - 1 - SLOW_FROM).num_rows == 0
    assert job_changes(points(), [last], DAYS - SLOW_FROM).num_rows > 0
    assert job_changes(points(), [last + timedelta(1)], 14).num_rows == 0, "the job did not run on this day"


@pytest.mark.parametrize("days", [3, 4, FEW_DAYS, 12])
def test_the_least_change_is_what_so_many_quiet_days_show(days: int) -> None:
    least, before = least_change(days, OF_STEP), days // 2
    spread, smallest = 0.005, 0.02
    for size, is_found in ((1.01 * least, True), (0.99 * least, False)):
        values = np.repeat([0.0, size], [before, days - before])
        assert change_points(values, np.zeros(days), spread, smallest) == ([before] if is_found else [])
    assert least_change(2, OF_STEP) == float("inf")
