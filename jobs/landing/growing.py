"""Logs that still grow: the last whole lines of each, if all logs of the run have grown.

What is read of a run does not depend on how long it has been going on. A last line without its end is left
for later. Packed logs and those of other tools are left to the night: they are written when a run ends.
"""

import os
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from io import BytesIO
from typing import BinaryIO, Final

from jobs.landing.files import MANIFEST, RANK_LOG, LandedFile
from jobs.landing.stores import Store
from schemas.unit import Unit

_PIECE: Final = 256 << 10
_MOST_BYTES: Final = 64 << 20
"""Most bytes at the end of a log that are read; if they hold fewer lines, these are the window. Lines are 2
to 20 kB."""


class Tails(Store):
    """A store that shows only the last whole lines of rank logs. bytes_read : of all opened files"""

    def __init__(self, store: Store, lines: int) -> None:
        self._store, self._lines = store, lines
        self.bytes_read = 0

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        """Open a file; a rank log shows only its last whole lines."""
        opened = self._store.open(path, size)
        if not fnmatchcase(path.rpartition("/")[2], RANK_LOG):
            return opened
        with opened:
            found = last_lines(opened, self._lines)
        self.bytes_read += len(found)
        return BytesIO(found)


def last_lines(file: BinaryIO, lines: int) -> bytes:
    """Return the last lines of a file, without an unfinished last one; fewer if it is shorter."""
    start = file.seek(0, os.SEEK_END)
    least, found = max(start - _MOST_BYTES, 0), b""
    while start > least and found.count(b"\n") <= lines:
        size = min(max(_PIECE, len(found)), start - least)
        start -= size
        file.seek(start)
        found = _exactly(file, size) + found
    whole = found[: found.rfind(b"\n") + 1].splitlines(keepends=True)
    return b"".join((whole if start == 0 else whole[1:])[-lines:])


def _exactly(file: BinaryIO, size: int) -> bytes:
    """Read this many bytes; fewer at the end of the file."""
    found = b""
    while len(found) < size and (piece := file.read(size - len(found))):
        found += piece
    return found


def grown(
    units: Mapping[Unit, Sequence[LandedFile]], known: Mapping[Unit, Mapping[str, int]]
) -> dict[Unit, list[LandedFile]]:
    """Manifest and rank logs of each run in which every rank log has another size than at the last reading.

    A step counts once all ranks have logged it: where one log has not grown, no more steps are complete.

    known : bytes of the logs by name, when they were read
    """
    found = {}
    for unit, files in units.items():
        logs, before = rank_logs(files), known.get(unit, {})
        if logs and all(file.size != before.get(file.name) for file in logs):
            found[unit] = [*(file for file in files if file.is_one_of(MANIFEST)), *logs]
    return found


def rank_logs(files: Sequence[LandedFile]) -> list[LandedFile]:
    """The files of a run that grow line by line."""
    return [file for file in files if file.is_one_of(RANK_LOG)]
