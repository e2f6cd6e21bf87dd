"""Causes of many units are revised together, even if rows are incomplete or were revised before."""

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from schemas.tables import TABLES
from schemas.vocabulary import CAUSES, JOB_BASELINE, JOB_CAUSES, JOB_SLOWDOWN, WORKER_SLOWDOWN
from tests.support.examples import DAY, NEXT_DAY, table_rows
from udfs.revise.units import revised_causes

NONE = TABLES[JOB_BASELINE].arrow_schema.empty_table()


def results(**changes: dict[str, Any]) -> dict[str, pa.Table]:
    """Return tables of one unit with some columns changed."""
    names = (JOB_BASELINE, JOB_SLOWDOWN, WORKER_SLOWDOWN)
    causes = [changes.get(JOB_CAUSES, {}) | {"cause": cause} for cause in CAUSES]
    return {name: table_rows(name, [changes.get(name, {})]) for name in names} | {
        JOB_CAUSES: table_rows(JOB_CAUSES, causes)
    }


def revised(tables: dict[str, pa.Table], earlier: pa.Table = NONE) -> list[dict[str, Any]]:
    found = revised_causes(tables, earlier, days=14, minimum_runs=2, replay=lambda _: {})
    rows: list[dict[str, Any]] = found.to_pylist(maps_as_pydicts="strict")
    return rows


def test_what_nothing_speaks_of_stays_as_it_was() -> None:
    tables = results()
    assert revised(tables) == tables[JOB_CAUSES].to_pylist(maps_as_pydicts="strict")


@pytest.mark.parametrize("beyond", [0.0, 0.25], ids=["of 0.3.0", "of 0.4.0"])
def test_a_unit_loses_beyond_its_fixes_what_the_version_that_simulated_it_counted(beyond: float) -> None:
    """A revision keeps the unexplained loss that was stored with a unit, whichever version computed it."""
    tables = results(job_slowdown={"gpu_hours": 10.0})
    rows = tables[JOB_CAUSES].to_pylist(maps_as_pydicts="strict")
    rows[-1] |= {"attributed_fraction": 0.0, "time_saved_fraction": 0.25, "lost_fraction": beyond}
    tables[JOB_CAUSES] = pa.Table.from_pylist(rows, tables[JOB_CAUSES].schema)
    found = revised(tables)
    assert found[-1]["lost_fraction"] == beyond
    assert [row["lost_gpu_hours"] for row in found] == [1.25] * (len(CAUSES) - 1) + [10.0 * beyond]


def test_hours_of_a_changed_unit_follow() -> None:
    rows = revised(results(job_slowdown={"gpu_hours": 10.0}))
    assert len(rows) == len(CAUSES)
    for row in rows:
        assert row["recoverable_gpu_hours"] == 10.0 * row["time_saved_fraction"]
        assert row["attributed_gpu_hours"] == 10.0 * row["attributed_fraction"]


@pytest.mark.parametrize("name", [JOB_BASELINE, JOB_SLOWDOWN])
def test_a_half_written_unit_is_left_to_its_day(name: str) -> None:
    assert revised(results() | {name: TABLES[name].arrow_schema.empty_table()}) == []


def test_a_row_that_was_revised_is_what_it_was_where_nothing_speaks_of_it_any_more() -> None:
    measured = revised(results())
    names = [field.name for field in TABLES[JOB_CAUSES].arrow_schema.field("unrevised").type]
    changes = {
        "time_saved_fraction": 0.5,
        "flag_reason": "judged_by_history",
        "evidence": {"history_runs": 2.0},
    }
    before = {name: measured[0][name] for name in names}
    assert revised(results(job_causes=changes | {"unrevised": before})) == measured


def test_a_baseline_without_its_lists_speaks_of_nothing() -> None:
    nothing = dict.fromkeys(("slow_hosts", "stages", "op_types"))
    earlier = table_rows(JOB_BASELINE, [nothing | {"log_date": DAY, "job_id": "other"}])
    later = {"log_date": NEXT_DAY}
    tables = results(**dict.fromkeys((JOB_BASELINE, JOB_SLOWDOWN, JOB_CAUSES, WORKER_SLOWDOWN), later))
    assert revised(tables, earlier) == tables[JOB_CAUSES].to_pylist(maps_as_pydicts="strict")


@pytest.mark.parametrize(("age", "decides"), [(0, False), (1, True), (14, True), (15, False)])
def test_a_unit_is_compared_with_the_days_before_its_own_and_the_last_of_them(
    age: int, decides: bool
) -> None:
    """A unit is compared with the fourteen days before its own, and not with earlier days."""

    def ran(compute_s: float, hosts: str) -> dict[str, Any]:
        times = [1.0, compute_s]
        return {"stages": [(stage, times[stage], [hosts[stage]]) for stage in (0, 1)]}

    open_row = {"flag_reason": "slow_worker_or_stage_imbalance", "attributed_fraction": 0.0}
    earlier = [
        ran(1.0, hosts) | {"job_id": hosts, "log_date": DAY - timedelta(days=age)} for hosts in ("ef", "gh")
    ]
    tables = results(job_baseline=ran(1.5, "ab"), job_causes=open_row)
    found = {row["cause"]: row for row in revised(tables, table_rows(JOB_BASELINE, earlier))}
    assert (found["slow_worker"]["flag_reason"] == "judged_by_history") is decides
