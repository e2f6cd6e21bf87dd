"""Functions that Spark calls to simulate batches of many units, and that return serialised result tables.

Results of small units share a batch, so that thousands of tiny jobs do not cost thousands of calls between
Spark and Python. The JVM gets results as bytes, because converting them to Spark's rows and back would take
longer than a small unit's replay.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from traceback import format_exception
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import RANK_STEPS, RESULT_TABLES, UNIT_KEY, Status
from udfs.errors import TraceError
from udfs.simulate.recorded_ranks import timed_results
from udfs.simulate.result_tables import empty_results, job_row
from udfs.what_if import SimulationSettings, simulate_job

SIMULATED_COLUMNS: Final = (
    "step",
    "rank",
    "dp_rank",
    "pp_rank",
    "tp_rank",
    "cp_rank",
    "host",
    "t0_us",
    "op",
    "start_us",
    "duration_us",
    "microbatch",
    "model_chunk",
)
"""Columns of rank_steps that the simulation reads."""

UNITS_PER_BATCH: Final = 64
"""Most units whose results share one batch."""

RESULT_SCHEMA: Final = pa.schema([("place", pa.int32()), ("table", pa.string()), ("rows", pa.binary())])
"""The rows of one result table for the units of a batch, as an Arrow stream, and the file for them
(Places)."""

SIMULATED_SCHEMA: Final = pa.schema([TABLES[RANK_STEPS].arrow_schema.field(n) for n in SIMULATED_COLUMNS])

Results = dict[str, pa.Table]


class UnitRows(NamedTuple):
    """Rows of one unit: its row of jobs (or none), its rows of rank_steps, and whether its day is known."""

    key: Unit
    manifest: Mapping[str, Any]
    rows: pa.Table
    has_day: bool = True


UsualTransfers = Mapping[Unit, Mapping[str, float]]
"""Usual transfer times of earlier days by op type, for units whose transfers became slow. [s]"""
NO_DAYS: Final[UsualTransfers] = MappingProxyType({})

Places = Callable[[Unit, str], int]
"""Returns the number of the file for a table's rows of a unit, and of the next units in its batch."""


def one_place(_unit: Unit, _table: str) -> int:
    """Return file number 0 for all units and tables, so that results are not divided among files."""
    return 0


def results_batches(
    results: Callable[[Iterable[pa.RecordBatch]], Iterator[tuple[Unit, Results]]],
    places: Places = one_place,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for mapInArrow that simulates many units and packs their results."""

    def simulate(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        done: list[tuple[Unit, Results]] = []
        for found in results(batches):
            done.append(found)
            if len(done) == UNITS_PER_BATCH:
                yield _packed(done, places)
                done = []
        if done:
            yield _packed(done, places)

    return simulate


def simulate_group(
    simulated: Callable[[UnitRows], Results],
    manifests: Mapping[Unit, Mapping[str, Any]],
    places: Places = one_place,
) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """Return the function for applyInArrow that simulates one unit by its rows of rank_steps."""

    def simulate(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        unit = Unit(*(each.as_py() for each in key))
        found = simulated(UnitRows(unit, manifests.get(unit, {}), rows.select(SIMULATED_COLUMNS)))
        return pa.Table.from_batches([_packed([(unit, found)], places)])

    return simulate


def simulate_unit(
    unit: UnitRows, settings: SimulationSettings, before_s: Mapping[str, float] | None = None
) -> Results:
    """Simulate one unit; if that fails, the unit's status says why, and no other unit is affected.

    before_s : as simulate_job takes it
    """
    facts = unit.manifest
    if facts.get("manifest_status") == Status.FAILED:
        return ended_unit(facts, settings, facts["manifest_detail"])
    if facts.get("step_times"):
        status, detail, figures = timed_results(facts)
        return empty_results(job_row(facts, settings.text, status, detail) | figures)
    try:
        log_date = unit.key.log_date if unit.has_day else None
        return simulate_job(unit.rows, facts and {**facts, "log_date": log_date}, settings, before_s)
    except TraceError as defect:
        return empty_results(job_row(facts, settings.text, Status.CORRUPT_TRACE, str(defect)))
    except Exception as error:  # noqa: BLE001 - a defect of ours in one unit must not cost the others their night
        (line, *_) = f"{type(error).__name__}: {error}".splitlines()
        return ended_unit(facts, settings, line, "".join(format_exception(error)))


def ended_unit(
    facts: Mapping[str, Any], settings: SimulationSettings, why: str, traceback: str | None = None
) -> Results:
    """Return the results of a unit whose simulation raised an internal error or ended its process.

    why : one line, which is also stored in place of a missing traceback
    """
    row = job_row(facts, settings.text, Status.FAILED, why)
    return empty_results(row | {"failure_traceback": traceback or why})


def _packed(done: Sequence[tuple[Unit, Results]], places: Places) -> pa.RecordBatch:
    """Return the result tables of several units as rows of RESULT_SCHEMA, one row per non-empty table."""
    keys = [pa.array(values) for values in zip(*(key for key, _ in done), strict=True)]
    found: list[tuple[int, str, bytes]] = []
    for name in RESULT_TABLES:
        tables = [results[name] for _, results in done]
        owners = pa.array(np.repeat(np.arange(len(done)), [table.num_rows for table in tables]))
        rows = pa.concat_tables(tables).combine_chunks()  # one batch in the stream, not one a unit
        if not rows.num_rows:
            continue
        for place, (column, values) in enumerate(zip(UNIT_KEY, keys, strict=True)):
            rows = rows.add_column(place, column, values.take(owners))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, TABLES[name].arrow_schema) as stream:
            stream.write_table(rows.select(TABLES[name].column_names).cast(TABLES[name].arrow_schema))
        found.append((places(done[0][0], name), name, sink.getvalue().to_pybytes()))
    columns = zip(zip(*found, strict=True), RESULT_SCHEMA, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(values, each.type) for values, each in columns], schema=RESULT_SCHEMA
    )


def results_of(batches: Iterable[pa.RecordBatch]) -> Results:
    """Unpack rows of RESULT_SCHEMA into tables; a table of which there are no rows is empty."""
    found: dict[str, list[pa.Table]] = {
        name: [TABLES[name].arrow_schema.empty_table()] for name in RESULT_TABLES
    }
    for batch in batches:
        for name, rows in zip(batch.column("table").to_pylist(), batch.column("rows"), strict=True):
            found[name].append(pa.ipc.open_stream(rows.as_buffer()).read_all())
    return {name: pa.concat_tables(tables) for name, tables in found.items()}
