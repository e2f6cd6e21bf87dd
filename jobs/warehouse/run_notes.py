"""Small files that note how a run ended, in case the run's row in `pipeline_runs` cannot be written.

Each is created when its run starts, because on a full disk only existing bytes can be overwritten.
Warehouses in a store have no notes.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final

from jobs.runtime.places import is_url

FOLDER: Final = "_runs"
_WIDTH: Final = 16


class RunNote:
    """Note about one run on a warehouse."""

    def __init__(self, root: str, run_id: str) -> None:
        self._path = None if is_url(root) else Path(root, FOLDER, run_id)

    def begin(self) -> None:
        """Create the note, with room for any outcome."""
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(" " * _WIDTH)

    def say(self, outcome: str) -> None:
        """Overwrite the note with an outcome."""
        if self._path is not None:
            with self._path.open("r+") as note:
                note.write(outcome.ljust(_WIDTH))

    def said(self) -> str:
        """Return the outcome; empty if none was written."""
        with suppress(OSError):
            return "" if self._path is None else self._path.read_text().strip()
        return ""

    @property
    def later(self) -> str:
        """Return words for a log message: which outcome the next run will write into this run's row."""
        return "the next run " + ("calls it killed" if self._path is None else "writes how it ended")

    def remove(self) -> None:
        """Remove the note, because the run's row states the outcome."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def remove_all(root: str) -> None:
    """Remove all notes of a warehouse, including those of runs that were killed before they had a row."""
    if not is_url(root):
        for path in Path(root, FOLDER).glob("*"):
            path.unlink(missing_ok=True)
