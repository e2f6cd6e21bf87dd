"""The functions by which Spark simulates units, called without Spark, put many units in a batch."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import JOB_SLOWDOWN, STEP_SLOWDOWN
from tests.support.examples import DAY
from tests.udfs.lines import Ops, line, manifest, rank_steps
from udfs.kernel.graph.graph import Layout
from udfs.kernel.recorded.first_pass import JobRows
from udfs.kernel.what_if import How, WhatIf, analyse
from udfs.simulate.unit_batches import (
    RESULT_SCHEMA,
    SIMULATED_COLUMNS,
    UNITS_PER_BATCH,
    UnitRows,
    results_batches,
    results_of,
    simulate_group,
    simulate_unit,
)
from udfs.what_if import SimulationSettings

UNITS = 260
OPS: Ops = [("forward-compute", 0, 1), ("backward-compute", 1, 2)]
ROWS = rank_steps(line(0, 0, 0, OPS)).select(SIMULATED_COLUMNS)
SETTINGS = SimulationSettings(minimum_steps=1)
GOOD: dict[str, Any] = manifest() | {"manifest_status": None, "manifest_detail": None}


def alike(number: int) -> Iterator[UnitRows]:
    """Yield units that differ only in their job's name."""
    return (UnitRows(Unit(DAY, f"job-{job:05d}", "r0"), GOOD, ROWS) for job in range(number))


def batches(units: Iterable[UnitRows]) -> Iterator[pa.RecordBatch]:
    """Return the batches of results for the given units."""
    return results_batches(lambda _: ((unit.key, simulate_unit(unit, SETTINGS)) for unit in units))([])


def test_hundreds_of_tiny_units_share_batches() -> None:
    found = list(batches(alike(UNITS)))
    assert len(found) == -(-UNITS // UNITS_PER_BATCH) < UNITS / 50
    assert all(batch.schema.equals(RESULT_SCHEMA) for batch in found)
    packed = (pa.ipc.open_stream(rows.as_buffer()) for batch in found for rows in batch.column("rows"))
    assert {len(list(stream)) for stream in packed} == {1}, "each batch of a stream has its own buffers"
    tables = results_of(found)
    assert all(table.schema.equals(TABLES[name].arrow_schema) for name, table in tables.items())
    jobs = tables[JOB_SLOWDOWN]
    assert jobs["job_id"].to_pylist() == [f"job-{job:05d}" for job in range(UNITS)]
    assert set(jobs["log_date"].unique().to_pylist()) == {DAY}
    assert jobs["status"].unique().to_pylist() == ["analysed"]
    assert jobs["simulated_step_s"].unique().to_pylist() == [3.0]


def test_results_leave_as_soon_as_a_batch_is_full() -> None:
    """A batch of results is returned as soon as it is full, before all units are read."""
    asked = count()

    def counted() -> Iterator[UnitRows]:
        for unit in alike(3 * UNITS_PER_BATCH):
            next(asked)
            yield unit

    first = next(batches(counted()))
    assert results_of([first])[JOB_SLOWDOWN].num_rows == UNITS_PER_BATCH
    assert next(asked) == UNITS_PER_BATCH


def test_a_unit_that_cannot_be_read_costs_no_other_its_results() -> None:
    """An error while one unit is simulated does not change the results of the other units."""
    twice = rank_steps(line(0, 0, 0, [OPS[0], OPS[0]])).select(SIMULATED_COLUMNS)
    refused = GOOD | {"manifest_status": "bad_layout", "manifest_detail": "why"}
    each = ((GOOD, ROWS), (GOOD, twice), (refused, ROWS))
    units = [UnitRows(Unit(DAY, f"unit-{number}", "r0"), *unit) for number, unit in enumerate(each)]
    found = results_of(batches(units))
    jobs = found[JOB_SLOWDOWN].to_pylist()
    assert [job["status"] for job in jobs] == ["analysed", "corrupt_trace", "bad_layout"]
    assert found[STEP_SLOWDOWN].column("job_id").to_pylist() == ["unit-0"]
    assert "computed twice" in jobs[1]["status_detail"]


def test_a_defect_of_ours_leaves_its_traceback_and_costs_no_other_unit_its_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An internal error in one unit is stored with its traceback, and the other units keep their results."""
    numbers = count()

    def planted(rows: JobRows, layout: Layout, how: How) -> WhatIf:
        if next(numbers) == 1:
            raise ZeroDivisionError("no step\nat all")
        return analyse(rows, layout, how)

    monkeypatch.setattr("udfs.what_if.analyse", planted)
    found = results_of(batches(alike(3)))
    jobs = found[JOB_SLOWDOWN].to_pylist()
    assert [job["status"] for job in jobs] == ["analysed", "failed", "analysed"]
    assert [job["status_detail"] for job in jobs] == [None, "ZeroDivisionError: no step", None]
    assert [job["failure_traceback"] is None for job in jobs] == [True, False, True]
    assert "in planted" in jobs[1]["failure_traceback"]
    assert jobs[1]["failure_traceback"].endswith("ZeroDivisionError: no step\nat all\n")


def test_rows_that_were_brought_together_are_a_unit_too() -> None:
    key = tuple(pa.scalar(value) for value in (DAY, "job", "r0"))
    simulate = partial(simulate_unit, settings=SETTINGS)
    of_manifest = simulate_group(simulate, {Unit(DAY, "job", "r0"): GOOD})(key, ROWS)
    of_none = simulate_group(simulate, {})(key, ROWS)
    (known,), (unknown,) = (
        results_of(found.to_batches())[JOB_SLOWDOWN].to_pylist() for found in (of_manifest, of_none)
    )
    assert (known["status"], unknown["status"]) == ("analysed", "no_manifest")
    assert (known["log_date"], known["job_id"], known["run_id"]) == (DAY, "job", "r0")


def test_no_unit_at_all() -> None:
    assert list(batches(alike(0))) == []
