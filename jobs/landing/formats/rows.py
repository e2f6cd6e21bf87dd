"""Result types of every format: rows of rank_steps without their unit, and rejects."""

from collections.abc import Mapping, Sequence
from sys import getsizeof
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemas.ingested_tables import RANK_STEPS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_ROW_BYTES: Final = 400
"""Approximate memory of a row's scalars as Python objects."""

SCALARS: Final = ("step", "rank", "dp_rank", "pp_rank", "tp_rank", "cp_rank", "gpu", "t0_us", "host")
LISTS: Final = ("op", "start_us", "duration_us", "microbatch", "model_chunk")
_LIST_TYPES: Final = (np.int8, np.float64, np.float64, np.int32, np.int32)

_HOST: Final = SCALARS.index("host")
_REJECT_BYTES: Final = 400
"""Approximate memory of a reject without its texts."""

MOST_TEXT: Final = 1000
"""Longest name in a log or manifest, such as a host's, in bytes of UTF-8: names must not fill the memory."""

LONGEST_US: Final = 2.0**61
"""Latest start and longest duration [us]; sums or squares of larger times might exceed float64."""

MOST_TYPE_TEXT: Final = 4_000_000
"""Most characters of all hosts and GPU types that a run's lines state: one row of jobs holds all of them."""


class Rows(NamedTuple):
    """Rows of rank_steps from one file, one row per (rank, step), without the unit's key and source file.

    scalars : values of SCALARS, for each row
    lines : number of each row's line in its file, 1-based, blank lines counted; ascending
    lengths : int64, shape (row,); ops of each row
    lists : arrays of shape (op,), one for each of LISTS, row after row
    """

    scalars: Sequence[tuple[Any, ...]]
    lines: Sequence[int]
    lengths: Ints
    lists: tuple[npt.NDArray[Any], ...]

    @property
    def nbytes(self) -> int:
        """Return the approximate memory size. [B]"""
        hosts = sum(len(row[_HOST]) for row in self.scalars if row[_HOST])
        return len(self.lines) * _ROW_BYTES + hosts + sum(values.nbytes for values in self.lists)

    def where(self, is_kept: Flags) -> "Rows":
        """Select the rows that a mask marks."""
        return self if is_kept.all() else self.take(np.flatnonzero(is_kept))

    def take(self, order: npt.NDArray[np.intp]) -> "Rows":
        """Select rows by their positions, in this order."""
        lengths = self.lengths[order]
        first_op, new_first_op = (np.cumsum(each) - each for each in (self.lengths, lengths))
        ops = np.arange(lengths.sum()) + np.repeat(first_op[order] - new_first_op, lengths)
        return Rows(
            [self.scalars[row] for row in order.tolist()],
            [self.lines[row] for row in order.tolist()],
            lengths,
            tuple(values[ops] for values in self.lists),
        )

    @staticmethod
    def of(records: Sequence[Mapping[str, Any]], lines: Sequence[int]) -> "Rows":
        """Build rows from one mapping of column name to value per row."""
        return Rows(
            [tuple(record[name] for name in SCALARS) for record in records],
            lines,
            np.array([len(record["op"]) for record in records], dtype=np.int64),
            tuple(
                np.array([value for record in records for value in record[name]], dtype=kind)
                for name, kind in zip(LISTS, _LIST_TYPES, strict=True)
            ),
        )


def joined(parts: Sequence[Rows]) -> Rows:
    """Concatenate rows in order."""
    return Rows(
        [row for part in parts for row in part.scalars],
        [line for part in parts for line in part.lines],
        np.concatenate([part.lengths for part in parts]),
        tuple(np.concatenate(values) for values in zip(*(part.lists for part in parts), strict=True)),
    )


NO_ROWS: Final = Rows.of([], [])


def table_of(rows: Rows) -> pa.Table:
    """Convert rows to columns of rank_steps, without the unit's key and source file."""
    names = [name for name in RANK_STEPS.column_names if name in {*SCALARS, *LISTS}]
    columns = dict(zip(SCALARS, zip(*rows.scalars, strict=True), strict=True)) if rows.scalars else {}
    kinds = RANK_STEPS.arrow_schema
    arrays = {name: pa.array(columns.get(name, ()), kinds.field(name).type) for name in SCALARS}
    offsets = pa.array(np.concatenate([[0], np.cumsum(rows.lengths)]).astype(np.int32))
    for name, values in zip(LISTS, rows.lists, strict=True):
        arrays[name] = pa.ListArray.from_arrays(offsets, pa.array(values))
    return pa.table([arrays[name] for name in names], names)


COORDINATES: Final = {
    "rank": "world_size",
    "dp_rank": "dp_size",
    "pp_rank": "pp_size",
    "tp_rank": "tp_size",
    "cp_rank": "cp_size",
}
"""Rank and coordinates, each with the size of a manifest that limits it."""
LIMITS: Final = tuple(COORDINATES.values())
"""The sizes of a valid manifest that limit ranks; all null without one."""


class Bounds(NamedTuple):
    """Limits on landed files; anything beyond a limit is rejected at little cost of memory or time.

    line_bytes : bytes of a line; a longer line is rejected without being parsed
    file_bytes : unpacked bytes of a file
    packing : unpacked bytes per packed byte of a file, if it has more than 64 MiB unpacked
    nesting : levels of nested arrays and objects
    trace_ops : ops of a trace; a few bytes of Parquet may stand for billions of equal ops
    manifest_bytes : bytes of a manifest
    unit_files : files of one unit
    workers : dp_size x pp_size of one unit
    rejects : rejects of one unit in a task; beyond, a file with more rejects than rows becomes one reject
    """

    line_bytes: int = 16_000_000
    file_bytes: int = 16_000_000_000
    packing: int = 200
    nesting: int = 64
    trace_ops: int = 8_000_000
    manifest_bytes: int = 1_000_000
    unit_files: int = 100_000
    workers: int = 10_000_000
    rejects: int = 100_000


LONGEST_TEXT: Final = 2000
"""Characters of a rejected line that are stored."""

LONGEST_CHARACTER: Final = 4  # bytes, in UTF-8


class Reject(NamedTuple):
    """A rejected line, or a rejected whole file if line and text are None."""

    reason: str
    detail: str
    line: int | None = None
    text: str | None = None

    @property
    def nbytes(self) -> int:
        """Return the approximate memory size. [B]"""
        return _REJECT_BYTES + getsizeof(self.detail) + getsizeof(self.text)


class FileError(Exception):
    """Raised for a whole file that cannot be used, with a reject reason and a sentence of explanation."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reject = Reject(reason, detail)


def text_of(line: bytes) -> str:
    """Return the beginning of a line as text; bytes that are not UTF-8 are replaced."""
    return line[: LONGEST_TEXT * LONGEST_CHARACTER].decode("utf-8", "replace")[:LONGEST_TEXT]


def plain(text: str) -> str:
    """Return the beginning of a file's text without lone surrogates, which tables and consoles refuse."""
    return text[:LONGEST_TEXT].encode("utf-8", "backslashreplace").decode()
