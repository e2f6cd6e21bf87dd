"""Test the tables about roles, for days on which several runs form one training; without Spark.

If a day no longer has such runs, its rows are removed; without such runs on any day, no table is made.
"""

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from jobs.gates.result_rules import broken_path
from jobs.night.aggregate import tables_of_wholes
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import JOB_CAUSES, ROLE_EFFECT, ROLE_ITERATION, ROLE_STEP
from tests.support.examples import DAY, NEXT_DAY, ROWS, table_rows

ZERO_US = 1_767_600_000_000_000
PARTS = pa.table(
    {
        "log_date": [DAY, DAY],
        "job_id": ["a", "b"],
        "run_id": ["r3", "r3"],
        "part_of": ["rlhf", "rlhf"],
        "role": ["rollout", "actor"],
        "gpu_hours": [30.0, None],
    }
)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(cast("SparkSession", None), str(tmp_path))


def put(warehouse: Warehouse, name: str, changes: list[dict[str, Any]]) -> None:
    warehouse.replace(TABLES[name], table_rows(name, changes), [DAY])


def steps() -> list[dict[str, Any]]:
    """Return rows of role_step for three iterations: each a rollout of 3 s, and then an actor of 1 s."""
    changes = []
    for iteration in range(3):
        for job_id, role, start_s, end_s in (("a", "rollout", 0, 3), ("b", "actor", 3, 4)):
            zero_us = ZERO_US + 4_000_000 * iteration
            times = {"start_us": zero_us + 1_000_000 * start_s, "end_us": zero_us + 1_000_000 * end_s}
            of_step = {"step": iteration, "iteration": iteration, "role": role, "part_of": "rlhf"}
            changes.append({"job_id": job_id, **times, **of_step, "actual_step_s": float(end_s - start_s)})
    return changes


def test_a_day_without_wholes_has_no_tables_to_publish(warehouse: Warehouse) -> None:
    assert tables_of_wholes(warehouse, [DAY], PARTS.slice(0, 0)) == {}


def test_a_whole_is_answered_with_what_its_runs_lose(warehouse: Warehouse) -> None:
    put(warehouse, ROLE_STEP, steps())
    put(warehouse, JOB_CAUSES, [{"job_id": "a"}, {"job_id": "a", "cause": "pause"}, {"job_id": "c"}])
    tables = tables_of_wholes(warehouse, [DAY], PARTS)
    actor, rollout = tables[ROLE_EFFECT].to_pylist()
    assert (rollout["role"], rollout["saved_fraction_if_twice_as_fast"]) == (
        "rollout",
        pytest.approx(4.5 / 12),
    )
    assert rollout["saved_fraction_if_fixed"] == pytest.approx(0.25 * 9 / 12), (
        "two causes lose 1/8 each; the rollout takes 9 s of 12"
    )
    assert actor["saved_fraction_if_fixed"] is None, "the actor has no rows in job_causes"
    assert rollout["saved_gpu_hours_if_twice_as_fast"] == pytest.approx(30 * 4.5 / 12)
    assert tables[ROLE_ITERATION].num_rows == 6
    assert broken_path(tables).rows.num_rows == 0


def test_a_whole_that_is_gone_leaves_no_rows(warehouse: Warehouse) -> None:
    put(warehouse, ROLE_EFFECT, [{}])
    put(warehouse, ROLE_STEP, steps())
    emptied = tables_of_wholes(warehouse, [DAY, NEXT_DAY], PARTS.slice(0, 0))
    assert {name: rows.num_rows for name, rows in emptied.items()} == {ROLE_ITERATION: 0, ROLE_EFFECT: 0}
    assert tables_of_wholes(warehouse, [NEXT_DAY], PARTS.slice(0, 0)) == {}


def test_a_path_that_is_not_as_long_as_its_whole_is_found() -> None:
    whole_s = ROWS[ROLE_EFFECT]["waited_for_s"] + ROWS[ROLE_EFFECT]["transition_s"]
    unanswered = {"role": "late", **dict.fromkeys(("whole_s", "waited_for_s", "transition_s"))}
    good = table_rows(ROLE_EFFECT, [{"whole_s": whole_s}, unanswered])
    assert broken_path({ROLE_EFFECT: good}).rows.num_rows == 0
    bad = table_rows(ROLE_EFFECT, [{"whole_s": whole_s + 1e-6}])
    assert broken_path({ROLE_EFFECT: bad}).rows["part_of"].to_pylist() == ["rlhf-7"]
