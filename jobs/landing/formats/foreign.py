"""What a reader of another tool's log gives: what the run is, rows of rank_steps, and what it left out."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, Protocol

from jobs.landing.formats.arrivals import Arrivals
from jobs.landing.formats.rows import Bounds, Reject, Rows


class SourceFile(NamedTuple):
    """One file of a run as another tool left it.

    name : in the run folder
    opened : its unpacked bytes from the first on; may be called again. Reading raises FileError beyond the
        bounds and OSError where the store fails
    """

    name: str
    opened: Callable[[], AbstractContextManager[BinaryIO]]


class Part(NamedTuple):
    """Rows of one file, and what in it is none."""

    name: str
    rows: Rows
    rejects: Sequence[Reject] = ()


@dataclass
class ForeignRun:
    """A run that another tool recorded; `transfers` and all that follows is complete once `parts` were read.

    source_format : which tool's, as `jobs.source_format` has it
    manifest : fields of a manifest that the files have
    parts : rows, file by file; read as they are asked for
    transfers : measured, inferred or absent
    left_out : what the files hold and a replay has no place for, in words, and how often
    arrivals : who was in which collective for how long, where the files say
    """

    source_format: str
    manifest: Mapping[str, Any]
    parts: Iterator[Part]
    transfers: str
    left_out: Counter[str]
    arrivals: Arrivals | None = None


class RefusalError(Exception):
    """A log that no replay can be made of: its tool, why, and what to switch on instead."""

    def __init__(self, tool: str, reason: str, instead: str) -> None:
        super().__init__(f"{tool}: {reason}. {instead}")
        self.tool, self.reason, self.instead = tool, reason, instead


def count(left_out: Counter[str], what: str, number: int) -> None:
    """Count something that is left out; what never is has no entry."""
    if number:
        left_out[what] += number


class Format(Protocol):
    """A reader of one tool's logs; a module with these two functions."""

    def recognises(self, head: bytes) -> bool:
        """Whether a file that begins like this (64 KiB, unpacked) is of this tool."""

    def read(self, files: Sequence[SourceFile], manifest: Mapping[str, Any], bounds: Bounds) -> ForeignRun:
        """Read the files of one run.

        manifest : fields of job.json that the user gave, {} without any
        raises : RefusalError where no replay can be made of the files, FileError for a file that breaks off
        """
