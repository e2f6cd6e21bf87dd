"""Published traces: one Parquet file with one row per op, to rank_steps with one row per (rank, step).

Used are rank, dp_rank, stage (pp_rank), step, optype, start_ts and duration (float32 seconds from the step's
start), mb_id (microbatch) and mc (model chunk within the stage). A (rank, step) stands alone like a line of a
rank log: a bad op costs its rank's step and nothing else.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemas.vocabulary import (
    OP_CODES,
    OP_TYPES,
    REASON_BAD_TYPE,
    REASON_NEGATIVE_TIME,
    REASON_NOT_FINITE,
    REASON_RANK_OUT_OF_RANGE,
    REASON_UNKNOWN_OP,
    REASON_UNREADABLE_FILE,
    REJECT_REASONS,
    UNIT_KEY,
)
from udfs.landed_rows import LANDED_SCHEMA, LIMITS, STATE_REJECT, STATE_ROW, batch_of, reject

SECOND_US: Final = 1e6
"""Microseconds in a second: published times are float32 seconds."""

_INTEGERS: Final = {
    "rank": pa.int32(),
    "dp_rank": pa.int32(),
    "stage": pa.int32(),
    "step": pa.int64(),
    "mb_id": pa.int32(),
    "mc": pa.int32(),
}
_TIMES: Final = ("start_ts", "duration")
_LISTS: Final = {
    "op": "op",
    "start_us": "start_ts",
    "duration_us": "duration",
    "microbatch": "mb_id",
    "model_chunk": "mc",
}
_BOUNDS: Final = {"rank": "world_size", "dp_rank": "dp_size", "stage": "pp_size"}
_NOTHING_WRONG: Final = len(REJECT_REASONS)
_ROWS_PER_BATCH: Final = 2000

Columns = dict[str, npt.NDArray[Any]]
Positions = npt.NDArray[np.intp]


class TraceFileError(ValueError):
    """A file that is no trace: not Parquet, or without the columns needed; the message says which."""


def read_traces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the Parquet files in `content`; batches of LANDED_SCHEMA come out.

    Batches have the unit's key, `source_file`, `content` and LIMITS. A file that is no trace is one reject.
    """
    for batch in batches:
        for file in batch.to_pylist():
            place = {name: file[name] for name in (*UNIT_KEY, "source_file")}
            try:
                rows = read_trace(file["content"], {name: file[name] for name in LIMITS})
            except TraceFileError as error:
                whole_file = place | {"block_start": None, "position": None}
                yield batch_of([reject(whole_file, REASON_UNREADABLE_FILE, str(error))])
            else:
                yield from _placed(rows, place).to_batches(max_chunksize=_ROWS_PER_BATCH)


def read_trace(content: bytes, limits: Mapping[str, int | None]) -> pa.Table:
    """Return one row per (rank, step), in that order: LANDED_SCHEMA without the unit's key and file.

    limits : LIMITS of a good manifest, or nulls
    Times become float64 microseconds; ops are ordered by start, those that start together as recorded.
    Raises TraceFileError.
    """
    columns = _columns(content)
    order = np.lexsort((columns["start_ts"], columns["step"], columns["rank"]))
    ops = {name: values[order] for name, values in columns.items()}
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = (np.diff(ops["rank"]) != 0) | (np.diff(ops["step"]) != 0)
    first = np.flatnonzero(is_first)
    return _rows(ops, first, _reasons(ops, first, limits))


def _columns(content: bytes) -> Columns:
    """Return the columns as arrays, times in microseconds, op types as codes; `is_null` marks nulls."""
    wanted = [*_INTEGERS, "optype", *_TIMES]
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        missing = [name for name in wanted if name not in file.schema_arrow.names]
        if missing:
            raise TraceFileError(f"no column {', '.join(missing)}")
        table = file.read(columns=wanted).combine_chunks()
    except (pa.ArrowException, OSError, KeyError) as error:  # KeyError: a column is there twice
        raise TraceFileError(f"not readable as Parquet: {_first_line(error)}") from None
    is_null = np.zeros(table.num_rows, dtype=bool)
    for name in wanted:
        is_null |= table.column(name).is_null().to_numpy()
    columns: Columns = {"is_null": is_null}
    try:
        for name, kind in _INTEGERS.items():
            columns[name] = table.column(name).cast(kind).fill_null(0).to_numpy()
        for name in _TIMES:
            seconds = table.column(name).cast(pa.float64()).fill_null(0.0).to_numpy()
            columns[name] = seconds * SECOND_US
        names = pc.cast(table.column("optype"), pa.string())
        codes = pc.index_in(names, value_set=pa.array(OP_TYPES))
        columns["op"] = codes.fill_null(-1).cast(pa.int8()).to_numpy()
    except pa.ArrowException as error:
        raise TraceFileError(f"a column of another type: {_first_line(error)}") from None
    return columns


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _reasons(ops: Columns, first: Positions, limits: Mapping[str, int | None]) -> Positions:
    """Per (rank, step), the position among REJECT_REASONS of the first that applies to any of its ops."""
    is_outside = np.zeros(len(ops["op"]), dtype=bool)
    for name, size in _BOUNDS.items():
        bound = limits[size]
        is_outside |= (ops[name] < 0) | (False if bound is None else ops[name] >= bound)
        starts = np.repeat(ops[name][first], np.diff(first, append=len(is_outside)))
        is_outside |= ops[name] != starts  # one rank in two places
    times = [ops[name] for name in _TIMES]
    found = np.full(len(is_outside), _NOTHING_WRONG)
    for reason, is_bad in (
        (REASON_RANK_OUT_OF_RANGE, is_outside),
        (REASON_NOT_FINITE, ~np.isfinite(times[0]) | ~np.isfinite(times[1])),
        (REASON_NEGATIVE_TIME, (times[0] < 0) | (times[1] < 0)),
        (REASON_UNKNOWN_OP, ops["op"] < 0),
        (REASON_BAD_TYPE, ops["is_null"]),
    ):
        found[is_bad] = REJECT_REASONS.index(reason)
    return np.minimum.reduceat(found, first) if len(first) else found


_DETAILS: Final = {
    REASON_BAD_TYPE: "an op holds a null",
    REASON_UNKNOWN_OP: f"an op type is none of {', '.join(OP_CODES)}",
    REASON_NEGATIVE_TIME: "a start or a duration is negative",
    REASON_NOT_FINITE: "a start or a duration is not finite",
    REASON_RANK_OUT_OF_RANGE: "rank, dp_rank or stage is out of range, or the rank is in two places",
}


def _rows(ops: Columns, first: Positions, reasons: Positions) -> pa.Table:
    """Return one row per (rank, step); ranks, steps and lists are those of the ops from `first` on."""
    offsets = pa.array(np.append(first, len(ops["op"])), pa.int32())
    is_bad = reasons < _NOTHING_WRONG
    told = [REJECT_REASONS[reason] if reason < _NOTHING_WRONG else None for reason in reasons]
    columns = {name: ops[name][first] for name in ("step", "rank", "dp_rank")}
    columns |= {"pp_rank": ops["stage"][first]}
    arrays: dict[str, pa.Array] = {name: pa.array(values) for name, values in columns.items()}
    for name, source in _LISTS.items():
        arrays[name] = pa.ListArray.from_arrays(offsets, pa.array(ops[source]))
    arrays |= {
        "block_start": pa.array(np.zeros(len(first), dtype=np.int64)),
        "position": pa.array(np.arange(len(first), dtype=np.int64)),
        "state": pa.array(np.where(is_bad, STATE_REJECT, STATE_ROW), pa.string()),
        "reason": pa.array(told, pa.string()),
        "detail": pa.array([_DETAILS[reason] if reason else None for reason in told], pa.string()),
    }
    return pa.table(arrays)


def _placed(rows: pa.Table, place: Mapping[str, Any]) -> pa.Table:
    """Rows with the unit's key and file, as LANDED_SCHEMA has them; what they lack is null."""
    count = rows.num_rows
    return pa.table(
        [
            rows.column(field.name)
            if field.name in rows.column_names
            else pa.array([place.get(field.name)] * count, field.type)
            for field in LANDED_SCHEMA
        ],
        schema=LANDED_SCHEMA,
    )
