"""Delta logs of stores, mirrored in a folder of this process, in which delta-rs reads and commits.

On a store itself, delta-rs would read each commit twice and a checkpoint by eleven requests, many of them one
after another. Here each object of a log is read once, and all concurrently. A commit is one conditional put,
so that only one of two concurrent commits succeeds.
"""

import json
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from threading import RLock
from typing import Final

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from jobs.runtime import objects
from jobs.runtime.run_folder import run_folder

_LOG: Final = "_delta_log"
_LAST: Final = f"{_LOG}/_last_checkpoint"
_CHECKPOINT: Final = "checkpoint.parquet"
_NAME: Final = re.compile(rf"{_LOG}/(\d{{20}})\.{_CHECKPOINT}|{_LOG}/(\d{{20}})\.json")
_PERIOD: Final = 5
"""Commits between checkpoints; to open a table, at most this number of commits is read."""


class LogMirror:
    """Log of one table of a store, with its mirror.

    newest : newest known version of the table; None if it has to be looked up
    folder : local folder of the mirror; it holds the log, but no data files
    """

    def __init__(self, path: str) -> None:
        self.newest: int | None = None
        self._path, self._lock = path, RLock()
        self.folder = Path(tempfile.mkdtemp(prefix="log-", dir=run_folder()))
        (self.folder / _LOG).mkdir()
        self._listed_from, self._checkpoints = 0, set[int]()

    def at(self, version: int | None) -> DeltaTable:
        """Return the table at a version (None: the newest known). Raises TableNotFoundError if missing."""
        with self._lock:
            is_known = version is None or self._listed_from <= version <= (self.newest or 0)
            if self.newest is None or not is_known:
                said = objects.content(self._path, _LAST)
                last = 0 if said is None else int(json.loads(said)["version"])
                # The log is listed from its last checkpoint on; for an earlier version, from its beginning.
                self._listed_from = last if version is None or version >= last else 0
                after = f"{_LOG}/{self._listed_from:020}"
                found = [_NAME.fullmatch(each.name) for each in objects.listed(self._path, _LOG, after)]
                self._checkpoints |= {int(each[1]) for each in found if each and each[1]}
                if self.newest is None or (version or 0) > self.newest:  # else it may take in a late commit
                    self.newest = max((int(each[1] or each[2]) for each in found if each), default=None)
            if self.newest is None:
                raise TableNotFoundError(f"no Delta table in {self._path}")
            wanted = self.newest if version is None else version
            self._bring(wanted)
            return DeltaTable(self.folder, version=wanted)

    def commit(self, make: Callable[[], object], *, is_alone: bool) -> None:
        """Let delta-rs commit to the mirror, then copy the commit; retry if another writer was first.

        is_alone : raise CommitFailedError instead of retrying
        """
        with self._lock:
            known = self.newest
            while not self._put(make):
                if is_alone:
                    raise CommitFailedError(f"{self._path}: another has committed since this process read it")
                self._bring(self.at(None).version(), known)  # delta-rs checks each for conflicts

    def vacuum(self, hours: int, *, is_trial: bool) -> list[str]:
        """Find the files to which no version of the last `hours` refers; delete them unless is_trial."""
        with self._lock:
            self.at(None)
            for each in objects.listed(self._path):
                if not each.name.startswith(f"{_LOG}/"):
                    file = self.folder / each.name
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.touch()
                    os.utime(file, ns=(each.modified_us * 1000, each.modified_us * 1000))
            found: list[str] = DeltaTable(self.folder).vacuum(hours, dry_run=True, full=True)
        if not is_trial:
            objects.remove(self._path, found)
        return found

    def remove(self) -> None:
        """Remove the mirror, and leave the log in the store."""
        rmtree(self.folder, ignore_errors=True)

    def _bring(self, version: int, known: int | None = None) -> None:
        """Fetch the log objects that the mirror needs to open a version: a checkpoint and later commits.

        known : also fetch all commits after this version
        """
        before = max((each for each in self._checkpoints if each <= version), default=None)
        names = [] if before is None else [f"{_LOG}/{before:020}.{_CHECKPOINT}"]
        first = 0 if before is None else min(before + 1, version)  # delta-rs needs the last one to commit
        names += map(_commit, range(first if known is None else min(first, known + 1), version + 1))
        names = [each for each in names if not (self.folder / each).exists()]
        for name, content in zip(names, objects.contents(self._path, names), strict=True):
            (self.folder / name).write_bytes(content)

    def _put(self, make: Callable[[], object]) -> bool:
        """Make a commit in the mirror and copy it into the log; return False if another writer was first."""
        number = 0 if self.newest is None else self.newest + 1
        made, is_ours = self.folder / _commit(number), False
        try:
            make()
            if not made.exists():  # there was nothing to commit
                return True
            self.newest = None  # until the store has answered
            is_ours = objects.create(self._path, _commit(number), made.read_bytes()) is not None
        finally:
            if not is_ours:
                made.unlink(missing_ok=True)
        if is_ours:
            self.newest = number
            if number and number % _PERIOD == 0:
                DeltaTable(self.folder, version=number).create_checkpoint()
                for name in (f"{_LOG}/{number:020}.{_CHECKPOINT}", _LAST):
                    objects.write(self._path, name, (self.folder / name).read_bytes())
                (self.folder / _LAST).unlink()  # delta-rs would begin there to open an earlier version, too
                self._checkpoints.add(number)
        return is_ours


def _commit(version: int) -> str:
    return f"{_LOG}/{version:020}.json"
