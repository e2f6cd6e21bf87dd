"""What every format gives: rows of rank_steps without the unit they belong to, and rejects."""

from typing import Final, NamedTuple

import pyarrow as pa

from schemas.rank_steps import TABLE as RANK_STEPS
from schemas.vocabulary import UNIT_KEY

LINE: Final = "line"
ROWS_SCHEMA: Final = pa.schema(
    [
        *(each for each in RANK_STEPS.arrow_schema if each.name not in {*UNIT_KEY, "source_file"}),
        pa.field(LINE, pa.int64()),  # number of the line in its file, 1-based, blank lines counted
    ]
)
"""One row per (rank, step) of one file."""

LIMITS: Final = ("dp_size", "pp_size", "tp_size", "cp_size", "world_size")
"""Sizes from a good manifest that bound rank and coordinates; all null where there is no good manifest."""


class Bounds(NamedTuple):
    """What the landing may hold at most; what is beyond is a reject, and costs neither memory nor time.

    line_bytes : of a line; a longer one is rejected without a look at what it says
    file_bytes : of a file, unpacked
    packing : how many times larger than itself a packed file may be, once it is larger than 64 MB
    nesting : how deep arrays and objects may lie in each other
    trace_ops : of a published trace, by its footer: a few bytes may stand for billions of equal rows
    manifest_bytes : of a manifest
    unit_files : of one unit
    """

    line_bytes: int = 16_000_000
    file_bytes: int = 16_000_000_000
    packing: int = 200
    nesting: int = 64
    trace_ops: int = 8_000_000
    manifest_bytes: int = 1_000_000
    unit_files: int = 100_000


LONGEST_TEXT: Final = 2000
"""Characters of a rejected line that are kept."""

_LONGEST_CHARACTER: Final = 4  # bytes, in UTF-8


class Reject(NamedTuple):
    """A line that is no row, or with neither line nor text a whole file."""

    reason: str
    detail: str
    line: int | None = None
    text: str | None = None


class FileError(Exception):
    """A whole file that cannot be used: a reason of the vocabulary, and a sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reject = Reject(reason, detail)


def text_of(line: bytes) -> str:
    """How a line begins; what is not UTF-8 is replaced."""
    return line[: LONGEST_TEXT * _LONGEST_CHARACTER].decode("utf-8", "replace")[:LONGEST_TEXT]
