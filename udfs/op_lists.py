"""Ops of table rows as flat numpy arrays, and checks of columns of lists before they are written.

If all rows are chosen, in order, nothing is copied. The checks equal the SQL gate's, but are faster.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemas.table import Column, Table
from schemas.vocabulary import OP_CODES, OP_TYPE_GROUPS, OP_TYPES
from udfs.errors import TraceError, UnknownOpError
from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.recorded.rows import StageRows

GROUPS: Final = tuple(OP_TYPE_GROUPS.get(name, name) for name in OP_TYPES)
"""Name of each op type's group in results, by op code; an op type outside all groups keeps its own name."""

LISTS: Final = ("op", "start_us", "duration_us", "microbatch", "model_chunk")
"""Columns that hold lists of ops, in the order of the fields of StageRows."""


class _Flat(NamedTuple):
    """Ops of all rows, one row after the other; first_op : int, shape (row + 1,), where each row begins."""

    first_op: Ints
    lists: dict[str, npt.NDArray[Any]]


def stage_rows(table: pa.Table, rows: Ints, zero_us: Floats) -> list[StageRows]:
    """Convert table rows to kernel rows, one StageRows per stage.

    Only the range of the table in which a stage's rows lie is converted, so that a large unit sorted by
    (stage, step) is converted part by part.

    rows    : int, shape (stage, row); positions in the table.
    zero_us : float64, shape (stage, row); zero of the row's times minus zero of the step. [us]
    raises  : UnknownOpError for an op without a code, TraceError for lists of a row that differ in length and
              for times that are not finite.
    """
    if rows.size == table.num_rows and (np.diff(rows.ravel()) == 1).all():
        flat = _flatten(table)
    else:
        stretches = [(int(of_stage.min()), int(of_stage.max()) + 1) for of_stage in rows]
        first_of_stage = np.cumsum([0] + [end - first for first, end in stretches])
        parts = [table.select(LISTS).slice(first, end - first) for first, end in stretches]
        within = rows - np.array([first for first, _ in stretches])[:, None] + first_of_stage[:-1, None]
        flat, chosen = _flatten(pa.concat_tables(parts)), within.ravel()
        if len(chosen) < len(flat.first_op) - 1 or not (np.diff(chosen) == 1).all():
            first_op = np.concatenate([[0], np.cumsum(np.diff(flat.first_op)[chosen])])
            at = np.repeat(flat.first_op[chosen] - first_op[:-1], np.diff(first_op)) + np.arange(first_op[-1])
            flat = _Flat(first_op, {name: values[at] for name, values in flat.lists.items()})
    edges = np.arange(len(rows) + 1) * rows.shape[1]
    return [
        StageRows._make([flat.first_op[first : end + 1], *map(flat.lists.get, LISTS), zero_us[stage]])
        for stage, (first, end) in enumerate(pairwise(edges.tolist()))
    ]


def list_lengths(table: pa.Table) -> Ints:
    """Return the number of ops in each row."""
    parts = [np.diff(chunk.offsets.to_numpy()) for chunk in table.column("op").chunks]
    return np.concatenate([np.empty(0, dtype=np.int64), *parts]).astype(np.int64)


def flat_codes(table: pa.Table) -> npt.NDArray[np.int8]:
    """Return the op codes of all rows, concatenated."""
    return op_codes(pc.list_flatten(table.column("op")).combine_chunks())


class RowLists(NamedTuple):
    """Lists of a few rows, concatenated.

    place  : int, shape (list,); positions in `rows` of the rows whose lists are not empty.
    first  : int, shape (list,); position in `values` of each list's first value. size : its length.
    values : one array for each column.
    """

    place: Ints
    first: Ints
    size: Ints
    values: list[npt.NDArray[Any]]


def lists_of_rows(table: pa.Table, rows: Ints, names: Sequence[str]) -> RowLists | None:
    """Return the joined lists of a few rows, ops as codes; None if the lists of one row differ in length.

    The table is read batch by batch, so that no column of a large unit is copied whole.
    """
    places, lengths, values = [rows[:0]], [rows[:0]], list[list[npt.NDArray[Any]]]()
    first = 0
    for batch in table.select(names).to_batches():
        place = np.flatnonzero((rows >= first) & (rows < first + batch.num_rows))
        own = rows[place] - first
        edges = [column.offsets.to_numpy() for column in batch.columns]
        begins = [edge[own].astype(np.int64) for edge in edges]
        size, *others = [edge[own + 1] - begin for edge, begin in zip(edges, begins, strict=True)]
        if not all((size == other).all() for other in others):
            return None
        is_held = size > 0
        places.append(place[is_held])
        lengths.append(size[is_held])
        if len(lengths[-1]):
            columns = zip(names, batch.columns, begins, strict=True)
            values.append(
                [
                    _of_lists(column.values, begin[is_held], lengths[-1], are_ops=name == "op")
                    for name, column, begin in columns
                ]
            )
        first += batch.num_rows
    size = np.concatenate(lengths)
    joined = values[0] if len(values) == 1 else [np.concatenate(each) for each in zip(*values, strict=True)]
    return RowLists(np.concatenate(places), np.cumsum(size) - size, size, joined)


def _of_lists(values: pa.Array, first: Ints, lengths: Ints, *, are_ops: bool) -> npt.NDArray[Any]:
    """Join the values of some lists; lists that are adjacent are copied together."""
    ends = first + lengths
    breaks = np.flatnonzero(first[1:] != ends[:-1])
    begin = [int(first[0]), *first[breaks + 1].tolist()]
    end = [*ends[breaks].tolist(), int(ends[-1])]
    if not are_ops:
        numbers = values.to_numpy()
        parts = [numbers[first:end] for first, end in zip(begin, end, strict=True)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    stretches = [values.slice(first, end - first) for first, end in zip(begin, end, strict=True)]
    return op_codes(stretches[0] if len(stretches) == 1 else pa.concat_arrays(stretches))


def _flatten(table: pa.Table) -> _Flat:
    """Return the ops of all rows, concatenated; without a copy if a column consists of one chunk."""
    first_op = np.empty(0, dtype=np.int64)
    lists = {}
    for name in LISTS:
        column = table.column(name)
        chunk = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
        offsets = chunk.offsets.to_numpy()
        values = chunk.values.slice(offsets[0], offsets[-1] - offsets[0])
        lists[name] = op_codes(values) if name == "op" else values.to_numpy()
        begins = offsets - offsets[0]
        if name == "op":
            first_op = begins.astype(np.int64)
        elif not np.array_equal(begins, first_op):
            raise TraceError(f"the lists op and {name} of a row differ in length")
        if name.endswith("_us") and not np.isfinite(lists[name].sum()):
            at = int(np.flatnonzero(~np.isfinite(lists[name]))[0])
            op_type = OP_TYPES[int(lists["op"][at])]
            raise TraceError(f"{name} of a {op_type} is {lists[name][at]}, but must be a finite number")
    return _Flat(first_op, lists)


def op_codes(values: pa.Array) -> npt.NDArray[np.int8]:
    """Convert ops given as codes or names to codes."""
    if pa.types.is_integer(values.type):
        codes = values.to_numpy()
        if len(codes) and not 0 <= codes.min() <= codes.max() < len(OP_TYPES):
            wrong = codes[(codes < 0) | (codes >= len(OP_TYPES))][0]
            raise UnknownOpError(f"op {wrong} is not a code of an op type, 0 to {len(OP_TYPES) - 1}")
        found: npt.NDArray[np.int8] = codes.astype(np.int8, copy=False)
        return found
    encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    unknown = [name for name in names if name not in OP_CODES]
    if unknown:
        raise UnknownOpError(f"op {unknown[0]!r} is not in the vocabulary of op types")
    code_of_name = np.array([OP_CODES[name] for name in names], dtype=np.int8)
    coded: npt.NDArray[np.int8] = code_of_name[encoded.indices.to_numpy()]
    return coded


def arrays_valid(table: Table, rows: pa.Table) -> bool:
    """Return whether lists of numbers are within bounds, and whether lists in `alike` have equal lengths.

    Table.expectations_of_scalars has the conditions on other columns.
    """
    columns = [column for column in table.columns if column.is_numbers]
    lists = {column.name: rows.column(column.name).combine_chunks() for column in columns}
    if not all(_valid(column, lists[column.name]) for column in columns):
        return False
    lengths = [np.diff(lists[name].offsets.to_numpy()) for name in table.alike]
    return all(np.array_equal(lengths[0], others) for others in lengths[1:])


def _valid(column: Column, lists: pa.ListArray) -> bool:
    numbers = lists.flatten()
    if (lists.null_count and not column.nullable) or numbers.null_count:
        return False
    if not len(numbers):
        return True
    values = numbers.to_numpy()
    low, high = values.min(), values.max()  # NaN if any value is NaN
    least = -np.inf if column.minimum is None else column.minimum
    most = np.inf if column.maximum is None else column.maximum
    return bool(np.isfinite(low) and np.isfinite(high) and low >= least and high <= most)
