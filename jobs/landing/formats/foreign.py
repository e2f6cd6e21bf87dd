"""Result types of readers for other tools' logs: facts of the run, rows of rank_steps, counts of omissions.

`sound` checks the rows by the same rules as rows of a rank log.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import nan
from typing import Any, BinaryIO, Final, NamedTuple, Protocol

import numpy as np

from jobs.landing.formats.arrivals import Arrivals
from jobs.landing.formats.rows import COORDINATES, LONGEST_US, MOST_TEXT, SCALARS, Bounds, Reject, Rows
from jobs.landing.formats.strict_json import is_name
from schemas.vocabulary import Reason

_BITS: Final = {"step": 63, "t0_us": 63, "gpu": 31}
_LARGEST: Final = 2**31 - 1


class SourceFile(NamedTuple):
    """One file of a run recorded by another tool.

    name : in the run folder
    opened : opens the unpacked bytes at their beginning, as often as it is called. Reading raises FileError
        beyond the bounds, OSError if the store fails
    """

    name: str
    opened: Callable[[], AbstractContextManager[BinaryIO]]


class Part(NamedTuple):
    """Parsed rows of one file, and its rejects."""

    name: str
    rows: Rows
    rejects: Sequence[Reject] = ()


@dataclass
class ForeignRun:
    """Run recorded by another tool; `transfers` and the fields after it are complete once `parts` are read.

    source_format : name of the tool's format, for `jobs.source_format`
    manifest : manifest fields that the files state
    parts : rows, file by file; a file is read when its part is iterated
    transfers : measured, inferred or absent
    left_out : description of each kind of data that a replay cannot use -> number of its occurrences
    arrivals : how long each rank was in each collective, if the files show it
    step_times : values of `jobs.step_times`, if the files hold only times of steps
    """

    source_format: str
    manifest: Mapping[str, Any]
    parts: Iterator[Part]
    transfers: str
    left_out: Counter[str]
    arrivals: Arrivals | None = None
    step_times: Sequence[Mapping[str, Any]] | None = None


class RefusalError(Exception):
    """Raised for a log that cannot be replayed; names the tool, the reason, and what to record instead."""

    def __init__(self, tool: str, reason: str, instead: str) -> None:
        super().__init__(f"{tool}: {reason}. {instead}")


def count(left_out: Counter[str], what: str, number: int) -> None:
    """Count an item that is left out; a count of zero adds no entry."""
    if number:
        left_out[what] += number


def or_nan(value: object, most: float) -> float:
    """Return a number within ±most as float; nan for any other value, so that the rank's step is rejected."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= most:
        return nan
    return float(value)


class Format(Protocol):
    """Protocol of a reader for one tool's logs: a module with these two functions."""

    def recognises(self, head: bytes) -> bool:
        """Return whether a file with this head (64 KiB, decompressed) comes from this tool."""

    def read(self, files: Sequence[SourceFile], manifest: Mapping[str, Any], bounds: Bounds) -> ForeignRun:
        """Read the files of one run.

        manifest : fields of the user's job.json; {} without a valid one
        raises : RefusalError if the files cannot be replayed, FileError for a truncated file
        """


def sound(rows: Rows, limits: Mapping[str, Any], first: int) -> tuple[Rows, list[Reject]]:
    """Split rows, whose numbers begin at `first`, into valid rows and rejects.

    limits : the sizes in LIMITS, as a valid manifest states them; null without one
    """
    lines = range(first, first + len(rows.lines))
    row = np.repeat(np.arange(len(rows.lengths)), rows.lengths)
    _, start_us, duration_us, *_ = rows.lists
    is_negative = (start_us < 0) | (duration_us < 0)
    is_endless = ~((start_us <= LONGEST_US) & (duration_us <= LONGEST_US))
    endless = Reason.NOT_FINITE, f"a time is not finite, or more than {LONGEST_US:.3g} us"
    # Of several defects of a row the last is reported: wrong times explain more than wrong numbers.
    defects = _wrong_numbers(rows, limits)
    defects |= dict.fromkeys(row[is_negative].tolist(), (Reason.NEGATIVE_TIME, "a time is negative"))
    defects |= dict.fromkeys(row[is_endless].tolist(), endless)
    rejects = [Reject(*defects[place], lines[place]) for place in sorted(defects)]
    is_good = np.ones(len(lines), dtype=bool)
    is_good[list(defects)] = False
    return rows._replace(lines=lines).where(is_good), rejects


def _wrong_numbers(rows: Rows, limits: Mapping[str, Any]) -> dict[int, tuple[str, str]]:
    """Return rejects by row: rows outside the layout, with oversized numbers, or with t0_us before 1970."""
    found: dict[int, tuple[str, str]] = {}
    for row, scalars in enumerate(rows.scalars):
        present = {name: value for name, value in zip(SCALARS, scalars, strict=True) if value is not None}
        for name, size in COORDINATES.items():
            value, bound = present.get(name, 0), limits.get(size)
            if not 0 <= value < (bound or _LARGEST):
                found[row] = Reason.RANK_OUT_OF_RANGE, f"{name} is {value}, not below {size} {bound}"
        for name, bits in _BITS.items():
            value = present.get(name, 0)
            if not -(1 << bits) <= value < 1 << bits:
                found[row] = Reason.RANK_OUT_OF_RANGE, f"{name} has more than {bits} bits"
            elif value < 0 and name == "t0_us":
                found[row] = Reason.NEGATIVE_TIME, f"t0_us is {value}"
        if not is_name(present.get("host", ""), MOST_TEXT):
            found[row] = Reason.BAD_TYPE, f"host is not text of at most {MOST_TEXT} bytes"
    return found
