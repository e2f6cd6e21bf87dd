"""One writer at a time: a lock on the warehouse, which says who holds it and since when.

On this machine it is a lock of the operating system: it ends with the process that holds it, and with the
JVM that this process has started. In a store it is a file that only one writer can make.
"""

import fcntl
import getpass
import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

import psutil

from jobs.runtime.errors import PlainError
from jobs.warehouse.small_files import SmallFiles

LOCK_NAME: Final = "_lock"

_LOG: Final = logging.getLogger(__name__)
_PROBED_BYTES: Final = 1 << 20
_PAUSE_S: Final = 0.5
_SAY_AGAIN_S: Final = 60.0


class LockedError(PlainError):
    """Raised while another process writes the warehouse; the message says which, and what to do."""


@dataclass(frozen=True)
class Holder:
    """The holder of a lock. processes : those that must have ended, and when each was started [Unix s]."""

    entry_point: str
    host: str
    user: str
    since: str
    processes: dict[int, float]

    def __str__(self) -> str:
        """Names entry point, process, host, user and time."""
        process = next(iter(self.processes))
        return f"{self.entry_point} (process {process} of {self.user} on {self.host}, since {self.since})"

    @property
    def may_live(self) -> bool:
        """Whether one of its processes runs, or may run because it is on another host."""
        return self.host != socket.gethostname() or any(map(_lives, self.processes.items()))


def this_process(entry_point: str, *more: int) -> Holder:
    """Return this process as a holder, with further processes that belong to it."""
    own = (os.getpid(), *more)
    since = datetime.now(UTC).isoformat(timespec="seconds")
    started = {process: psutil.Process(process).create_time() for process in own}
    return Holder(entry_point, socket.gethostname(), getpass.getuser(), since, started)


@contextmanager
def locked_folder(root: str, holder: Holder, *, wait: bool) -> Iterator[Callable[[Holder], None]]:
    """Hold the lock of a warehouse in a folder of this machine; yields a function that updates its holder.

    wait : for others to end. Without it, raises LockedError while another holds the lock.
    """
    path = Path(root) / LOCK_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:

        def attempt() -> bool:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            left = _read(path.read_bytes())
            if left is not None and left.may_live:  # its Python was killed, and its JVM may still commit
                fcntl.flock(file, fcntl.LOCK_UN)
                return False
            return True

        def say(now: Holder) -> None:
            file.truncate(0)
            file.write(_content(now))
            file.flush()

        _until(attempt, lambda: _read(path.read_bytes()), root, wait=wait)
        say(holder)
        try:
            yield say
        finally:
            file.truncate(0)


@contextmanager
def locked_store(files: SmallFiles, root: str, holder: Holder, *, wait: bool) -> Iterator[None]:
    """Hold the lock of a warehouse in a store. The lock of a killed holder on this host is removed.

    Raises LockedError as locked_folder does.
    """

    def attempt() -> bool:
        if files.create(LOCK_NAME, _content(holder)):
            return True
        left = _read(files.read(LOCK_NAME))
        if left is not None and not left.may_live:
            _LOG.warning("removed the lock of %s, which has ended", left)
            files.remove(LOCK_NAME)
        return False

    _until(attempt, lambda: _read(files.read(LOCK_NAME)), root, wait=wait)
    try:
        yield
    finally:
        if _read(files.read(LOCK_NAME)) == holder:  # another's, if this one was removed by hand
            files.remove(LOCK_NAME)


def _until(
    attempt: Callable[[], bool], holder: Callable[[], Holder | None], root: str, *, wait: bool
) -> None:
    """Try until it succeeds, and log now and then which writer it waits for."""
    logged_s = -_SAY_AGAIN_S
    while not attempt():
        who = holder() or "another process"
        if not wait:
            how = "wait for its end, or end that process"
            if "://" in root:
                how += f"; if it has ended, remove {root}/{LOCK_NAME}"
            raise LockedError(f"{root} is being written by {who}: {how}")
        if time.monotonic() - logged_s >= _SAY_AGAIN_S:
            logged_s = time.monotonic()
            _LOG.warning("waiting for %s, which writes %s", who, root)
        time.sleep(_PAUSE_S)


def _lives(process: tuple[int, float]) -> bool:
    number, started = process
    try:
        found = psutil.Process(number)
        return bool(found.create_time() == started and found.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _content(holder: Holder) -> bytes:
    return json.dumps(asdict(holder)).encode()


def _read(content: bytes | None) -> Holder | None:
    """Read the holder of a lock; None if it has none, or none yet."""
    try:
        found = json.loads(content or b"")
        processes = {int(number): started for number, started in found["processes"].items()}
        return Holder(**found | {"processes": processes})
    except ValueError:
        return None


class NotWritableError(PlainError):
    """Raised before any work if a warehouse cannot be written; the message says which, and why."""


def check_writable(root: str) -> None:
    """Try to write a file into a warehouse of this machine. Raises NotWritableError."""
    if "://" in root:
        return
    try:
        Path(root).mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=root) as file:
            file.write(b"\0" * _PROBED_BYTES)
    except OSError as error:
        raise NotWritableError(f"the warehouse {root} cannot be written: {error.strerror}") from None
