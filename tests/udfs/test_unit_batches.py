"""The Spark shell without Spark: thousands of tiny units in shared batches."""

import json
from collections.abc import Iterator
from itertools import count

import numpy as np
import pyarrow as pa
import pytest

from schemas.tables import TABLES
from schemas.vocabulary import JOB_SLOWDOWN, RANK_STEPS, UNIT_KEY
from tests.examples import DAY
from tests.udfs.lines import Ops, line, manifest, rank_steps
from udfs.unit_batches import (
    MANIFEST,
    RESULT_SCHEMA,
    SIMULATED_COLUMNS,
    UNITS_PER_BATCH,
    results_of,
    simulate_batches,
    units,
)
from udfs.what_if import SimulationSettings

UNITS = 2_000
ROWS_PER_BATCH = 1_000
OPS: Ops = [("forward-compute", 0, 1), ("backward-compute", 1, 2)]


def unit_table(lines: int = 1) -> pa.Table:
    """The rows of one unit as Spark sends them: its manifest, then its lines."""
    fields = [TABLES[RANK_STEPS].arrow_schema.field(name) for name in SIMULATED_COLUMNS]
    facts = pa.array([json.dumps(manifest() | {"manifest_status": None, "manifest_detail": None})])
    rows = rank_steps(*(line(step, 0, 0, OPS) for step in range(lines))).select(SIMULATED_COLUMNS)
    with_manifest = rows.append_column(MANIFEST, pa.nulls(lines, pa.string()))
    lead = pa.table({field.name: pa.nulls(1, field.type) for field in fields}).append_column(MANIFEST, facts)
    return pa.concat_tables([lead, with_manifest]).combine_chunks()


def batches_of(unit: pa.Table, number: int, rows_per_batch: int) -> Iterator[pa.RecordBatch]:
    """As many units alike, job after job, in Arrow batches that take no heed of where units end."""
    (whole,) = unit.to_batches()
    rows = number * unit.num_rows
    key_fields = [TABLES[RANK_STEPS].arrow_schema.field(name) for name in UNIT_KEY]
    for first in range(0, rows, rows_per_batch):
        place = np.arange(first, min(first + rows_per_batch, rows))
        jobs = [f"job-{job:05d}" for job in (place // unit.num_rows).tolist()]
        keys = [[DAY] * len(place), jobs, ["r0"] * len(place)]
        columns = [pa.array(key, field.type) for key, field in zip(keys, key_fields, strict=True)]
        part = whole.take(pa.array(place % unit.num_rows))
        yield pa.RecordBatch.from_arrays(
            [*columns, *part.columns], schema=pa.schema([*key_fields, *part.schema])
        )


def test_thousands_of_tiny_units_share_batches() -> None:
    simulate = simulate_batches(SimulationSettings(minimum_steps=1))
    found = list(simulate(batches_of(unit_table(), UNITS, ROWS_PER_BATCH)))
    assert len(found) == -(-UNITS // UNITS_PER_BATCH) < UNITS / 50
    assert all(batch.schema.equals(RESULT_SCHEMA) for batch in found)
    tables = results_of(pa.Table.from_batches(found))
    assert all(table.schema.equals(TABLES[name].arrow_schema) for name, table in tables.items())
    jobs = tables[JOB_SLOWDOWN]
    assert jobs["job_id"].to_pylist() == [f"job-{job:05d}" for job in range(UNITS)]
    assert set(jobs["log_date"].unique().to_pylist()) == {DAY}
    assert jobs["status"].unique().to_pylist() == ["analysed"]
    assert jobs["simulated_step_s"].unique().to_pylist() == [3.0]


@pytest.mark.parametrize("rows_per_batch", [1, 2, 4, 5, 1_000])
def test_units_are_whole_wherever_batches_end(rows_per_batch: int) -> None:
    """Seven units of a manifest and three lines each: a batch may end amid a unit, or right behind one."""
    unit = unit_table(lines=3)
    cut = list(units(batches_of(unit, 7, rows_per_batch)))
    assert [each.key[1] for each in cut] == [f"job-{job:05d}" for job in range(7)]
    rows = unit.slice(1).select(SIMULATED_COLUMNS)
    assert all(each.rows.combine_chunks().equals(rows.combine_chunks()) for each in cut)
    assert all(each.manifest == json.loads(unit.column(MANIFEST)[0].as_py()) for each in cut)


def test_results_leave_as_soon_as_a_batch_is_full() -> None:
    """Nothing is held back until all units have come: memory would grow with their number."""
    asked = count()

    def counted() -> Iterator[pa.RecordBatch]:
        for batch in batches_of(unit_table(), 3 * UNITS_PER_BATCH, 2):
            next(asked)
            yield batch

    simulate = simulate_batches(SimulationSettings(minimum_steps=1))
    first = next(iter(simulate(counted())))
    assert results_of(pa.Table.from_batches([first]))[JOB_SLOWDOWN].num_rows == UNITS_PER_BATCH
    assert next(asked) == UNITS_PER_BATCH + 1, "the unit behind the last one tells that it has ended"


def test_a_unit_that_cannot_be_read_costs_no_other_its_results() -> None:
    """The second of three units has ops that contradict each other, the third a manifest with a defect."""
    simulate = simulate_batches(SimulationSettings(minimum_steps=1))
    good = unit_table()
    doubled = good.to_pylist()
    doubled[1]["op"], doubled[1]["microbatch"] = [0, 0], [4, 4]
    refused = good.to_pylist()
    facts = json.loads(refused[0][MANIFEST])
    refused[0][MANIFEST] = json.dumps(facts | {"manifest_status": "bad_layout", "manifest_detail": "why"})
    parts = []
    for number, rows in enumerate((good.to_pylist(), doubled, refused)):
        unit = pa.Table.from_pylist(rows, schema=good.schema).combine_chunks()
        (batch,) = batches_of(unit, 1, 10)
        job_ids = pa.array([f"unit-{number}"] * batch.num_rows)
        parts.append(batch.set_column(1, batch.schema.field("job_id"), job_ids))
    found = results_of(pa.Table.from_batches(simulate(parts)))
    jobs = found[JOB_SLOWDOWN].to_pylist()
    assert [job["status"] for job in jobs] == ["analysed", "corrupt_trace", "bad_layout"]
    assert found["step_slowdown"].column("job_id").to_pylist() == ["unit-0"]
    assert "computed twice" in jobs[1]["status_detail"]


def test_no_unit_at_all() -> None:
    assert list(simulate_batches(SimulationSettings())([])) == []
