"""A unit that became slower than units of its model or run on earlier days is found."""

from datetime import timedelta
from typing import Any

import pytest

from schemas.vocabulary import JOB_BASELINE, JOB_SLOWDOWN
from tests.support.examples import DAY, table_rows
from udfs.revise.slower import with_slower

Row = dict[str, Any]


def before(age: int, step_s: float, **more: object) -> Row:
    return {"log_date": DAY - timedelta(days=age), "job_id": f"other-{age}", "actual_step_s": step_s} | more


UNIT: Row = {"job_id": "mine", "run_id": "r1", "actual_step_s": 6.0, "model": "m", "ops_per_step": 100.0}
ALIKE: Row = {"model": "m", "ops_per_step": 101.0}


@pytest.mark.parametrize(
    ("past", "ratio"),
    [
        ([], None),
        ([before(1, 4.0, **ALIKE)], 1.5),
        ([before(0, 4.0, **ALIKE)], None),
        ([before(15, 4.0, **ALIKE)], None),
        ([before(1, 4.0, model="other")], None),
        ([before(1, 4.0, **ALIKE, status="high_discrepancy")], 1.5),
        ([before(1, 3.0, **ALIKE), before(2, 4.0, **ALIKE), before(3, 9.0, **ALIKE)], 1.5),
        ([before(1, 4.0, **ALIKE | {"ops_per_step": 120.0})], None),
        ([before(1, 4.0, **ALIKE, dp_size=64)], None),
        ([before(1, 5.0, job_id="mine", run_id="r1", model="m", ops_per_step=200.0)], 1.2),
        ([before(1, 5.0, job_id="mine", run_id="r1", ops_per_step=200.0), before(2, 4.0, **ALIKE)], 1.5),
        ([before(1, 0.0, **ALIKE)], None),
    ],
)
@pytest.mark.parametrize("status", ["analysed", "high_discrepancy"])
def test_a_units_step_over_the_usual_one(past: list[Row], ratio: float | None, status: str) -> None:
    slowdowns = table_rows(JOB_SLOWDOWN, [{"job_id": "mine", "run_id": "r1", "status": status}])
    own = table_rows(JOB_BASELINE, [UNIT | {"status": status}])
    found = with_slower(slowdowns, own, table_rows(JOB_BASELINE, past), 14)
    assert found["slower_than_usual"].to_pylist() == [ratio]
    assert found.drop_columns(["slower_than_usual"]) == slowdowns.drop_columns(["slower_than_usual"])


def test_days_of_one_batch_look_back_on_each_other() -> None:
    days = [UNIT | {"log_date": DAY - timedelta(days=1), "actual_step_s": 4.0}, UNIT]
    slowdowns = table_rows(JOB_SLOWDOWN, [{"log_date": row.get("log_date", DAY)} | UNIT for row in days])
    found = with_slower(slowdowns, table_rows(JOB_BASELINE, days), table_rows(JOB_BASELINE, []), 14)
    assert found["slower_than_usual"].to_pylist() == [None, 1.5]
