"""Result types of readers for other tools' logs: facts of the run, rows of rank_steps, counts of omissions.

Its rows must be as those of a rank log; which are not, is found here.
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
    opened : its unpacked bytes from the first on; may be called again. Reading raises FileError beyond the
        bounds and OSError where the store fails
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
    """Run recorded by another tool; `transfers` and later fields are complete once `parts` are read.

    source_format : which tool's, as `jobs.source_format` has it
    manifest : fields of a manifest that the files have
    parts : rows, file by file; read as they are asked for
    transfers : measured, inferred or absent
    left_out : what the files hold and a replay has no place for, in words, and how often
    arrivals : who was in which collective for how long, where the files say
    step_times : as `jobs.step_times` has them, of files that hold nothing else
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

        manifest : fields of job.json that the user gave, {} without any
        raises : RefusalError where no replay can be made of the files, FileError for a file that breaks off
        """


def sound(rows: Rows, limits: Mapping[str, Any], first: int) -> tuple[Rows, list[Reject]]:
    """Split rows, whose numbers begin at `first`, into valid rows and rejects.

    limits : LIMITS of a good manifest, or nulls
    """
    lines = range(first, first + len(rows.lines))
    # What is wrong with times says more, and stands last.
    defects = _wrong_numbers(rows, limits) | _wrong_times(rows)
    rejects = [Reject(*defects[place], lines[place]) for place in sorted(defects)]
    is_good = np.ones(len(lines), dtype=bool)
    is_good[list(defects)] = False
    return rows._replace(lines=lines).where(is_good), rejects


def _wrong_times(rows: Rows) -> dict[int, tuple[str, str]]:
    row = np.repeat(np.arange(len(rows.lengths)), rows.lengths)
    _, start_us, duration_us, *_ = rows.lists
    is_endless = ~((start_us <= LONGEST_US) & (duration_us <= LONGEST_US))
    is_negative = (start_us < 0) | (duration_us < 0)
    found = dict.fromkeys(row[is_negative].tolist(), (Reason.NEGATIVE_TIME, "a time is negative"))
    return found | dict.fromkeys(
        row[is_endless].tolist(),
        (Reason.NOT_FINITE, f"a time is not finite, or more than {LONGEST_US:.3g} us"),
    )


def _wrong_numbers(rows: Rows, limits: Mapping[str, Any]) -> dict[int, tuple[str, str]]:
    """Return rejects by row: rows outside the layout, with oversized numbers, or with t0_us before 1970."""
    found = {}
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
