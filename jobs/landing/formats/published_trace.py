"""Convert published traces, Parquet with one row per op, to rank_steps with one row per (rank, step).

The columns used are rank, dp_rank, stage (pp_rank), step, optype, start_ts and duration (float32 seconds from
the step's start), mb_id (microbatch) and mc (model chunk within the stage). A bad op rejects its own (rank,
step), as a bad line of a rank log does, and no other.
"""

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jobs.landing.formats.rows import COORDINATES, LISTS, LONGEST_US, SCALARS, Bounds, FileError, Reject, Rows
from schemas.vocabulary import OP_CODES, OP_TYPES, REJECT_REASONS, Reason

SECOND_US: Final = 1e6
"""Microseconds in a second: published times are float32 seconds."""

_INTEGERS: Final = {
    "rank": "rank",
    "dp_rank": "dp_rank",
    "pp_rank": "stage",
    "step": "step",
    "microbatch": "mb_id",
    "model_chunk": "mc",
}
_TIMES: Final = {"start_us": "start_ts", "duration_us": "duration"}
"""Column of rank_steps -> column of a trace that it is made from."""
_WIDEST_OP: Final = 200  # bytes of an op in all columns; the columns that are read take 44
_NOTHING_WRONG: Final = len(REJECT_REASONS)

Columns = dict[str, npt.NDArray[Any]]
Positions = npt.NDArray[np.intp]


def read_trace(
    content: BinaryIO, limits: Mapping[str, int | None], bounds: Bounds
) -> tuple[Rows, list[Reject]]:
    """Return one row per (rank, step), in that order, and rejects for invalid rows.

    content : the Parquet file, at any position
    limits : the sizes in LIMITS, as a valid manifest states them; null without one
    bounds : a file that is larger, according to its footer, is not read
    Times become float64 microseconds; ops are ordered by start, those that start together as recorded.
    Raises FileError for a file that is not a trace, or too large.
    """
    wanted = [*_INTEGERS.values(), "optype", *_TIMES.values()]
    if not content.seek(0, 2):
        raise FileError(Reason.UNREADABLE_FILE, "the file is empty")
    try:
        file = pq.ParquetFile(content, read_dictionary=["optype"])
        _refuse(file, wanted, bounds)
        table = file.read(columns=wanted).combine_chunks()
    except FileError:
        raise
    except Exception as error:  # noqa: BLE001 - what a library of Parquet says of any bytes cannot be foreseen
        raise FileError(Reason.UNREADABLE_FILE, f"not readable as Parquet: {_first_line(error)}") from None
    is_null = np.zeros(table.num_rows, dtype=bool)
    for name in wanted:
        is_null |= table.column(name).is_null().to_numpy()
    columns: Columns = {"is_null": is_null}
    try:
        for name, source in _INTEGERS.items():
            kind = pa.int64() if name == "step" else pa.int32()
            columns[name] = table.column(source).cast(kind).fill_null(0).to_numpy()
        for name, source in _TIMES.items():
            seconds = table.column(source).cast(pa.float64()).fill_null(0.0).to_numpy()
            with np.errstate(over="ignore"):  # an infinite time is a reject
                columns[name] = seconds * SECOND_US
        columns["op"] = _op_codes(table.column("optype"))
    except (pa.ArrowException, UnicodeError) as error:
        raise FileError(Reason.UNREADABLE_FILE, f"a column of another type: {_first_line(error)}") from None
    del table, file  # their memory is free while rows are made
    return rows_of(columns, limits)


def rows_of(columns: Columns, limits: Mapping[str, int | None]) -> tuple[Rows, list[Reject]]:
    """Return rows and rejects for ops in any order.

    columns : by name, shape (op,): `is_null`, and those of rank_steps with times in microseconds
    """
    order = np.lexsort((columns["start_us"], columns["step"], columns["rank"]))
    ops = {name: values[order] for name, values in columns.items()}
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = (np.diff(ops["rank"]) != 0) | (np.diff(ops["step"]) != 0)
    first = np.flatnonzero(is_first)
    reasons = _reasons(ops, first, limits)
    is_bad = reasons < _NOTHING_WRONG
    rejects = [
        Reject(reason, _DETAILS[reason], int(place) + 1)
        for place in np.flatnonzero(is_bad)
        for reason in [REJECT_REASONS[reasons[place]]]
    ]
    scalars = [ops[name][first].tolist() if name in ops else [None] * len(first) for name in SCALARS]
    lengths = np.diff(first, append=len(ops["op"]))
    lists = tuple(ops[name] for name in LISTS)
    rows = Rows(list(zip(*scalars, strict=True)), range(1, len(first) + 1), lengths, lists)
    return rows.where(~is_bad), rejects


def _refuse(file: pq.ParquetFile, wanted: Sequence[str], bounds: Bounds) -> None:
    missing = [name for name in wanted if name not in file.schema_arrow.names]
    if missing:
        raise FileError(Reason.UNREADABLE_FILE, f"no column {', '.join(missing)}")
    footer = file.metadata
    unpacked = sum(footer.row_group(group).total_byte_size for group in range(footer.num_row_groups))
    for found, most, what in (
        (footer.num_rows, bounds.trace_ops, "ops"),
        (unpacked, bounds.trace_ops * _WIDEST_OP, "bytes unpacked"),
    ):
        if found > most:
            raise FileError(Reason.FILE_TOO_LARGE, f"{found} {what}, more than {most}")


def _op_codes(names: pa.ChunkedArray) -> npt.NDArray[np.int8]:
    """Return the codes of op types, -1 for unknown types; each distinct name is looked up once."""
    spelled = names.combine_chunks()
    if not pa.types.is_dictionary(spelled.type):
        spelled = spelled.dictionary_encode()
    known = pc.index_in(spelled.dictionary.cast(pa.string()), value_set=pa.array(OP_TYPES))
    codes: npt.NDArray[np.int8] = known.take(spelled.indices).fill_null(-1).cast(pa.int8()).to_numpy()
    return codes


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _reasons(ops: Columns, first: Positions, limits: Mapping[str, int | None]) -> Positions:
    """Return, for each (rank, step), the index in REJECT_REASONS of the first reason that any op gives."""
    is_outside = np.zeros(len(ops["op"]), dtype=bool)
    for name in ("rank", "dp_rank", "pp_rank"):
        bound = limits[COORDINATES[name]]
        is_outside |= (ops[name] < 0) | (False if bound is None else ops[name] >= bound)
        starts = np.repeat(ops[name][first], np.diff(first, append=len(is_outside)))
        is_outside |= ops[name] != starts  # one rank with two coordinates
    times = [ops[name] for name in _TIMES]
    found = np.full(len(is_outside), _NOTHING_WRONG)
    for reason, is_bad in (
        (Reason.RANK_OUT_OF_RANGE, is_outside),
        (Reason.NOT_FINITE, ~((times[0] <= LONGEST_US) & (times[1] <= LONGEST_US))),
        (Reason.NEGATIVE_TIME, (times[0] < 0) | (times[1] < 0)),
        (Reason.UNKNOWN_OP, ops["op"] < 0),
        (Reason.BAD_TYPE, ops["is_null"]),
    ):
        found[is_bad] = REJECT_REASONS.index(reason)
    return np.minimum.reduceat(found, first) if len(first) else found


_DETAILS: Final = {
    Reason.BAD_TYPE: "an op holds a null",
    Reason.UNKNOWN_OP: f"an op type is not one of {', '.join(OP_CODES)}",
    Reason.NEGATIVE_TIME: "a start or a duration is negative",
    Reason.NOT_FINITE: f"a start or a duration is not finite, or more than {LONGEST_US:.3g} us",
    Reason.RANK_OUT_OF_RANGE: "rank, dp_rank or stage is out of range, or the rank is in two places",
}
