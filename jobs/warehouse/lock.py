"""Lock on a warehouse, so that only one process writes; the lock names its holder and start time.

For a local folder it is two locks of the operating system, which end with the processes that hold them.
Python holds one. The JVM that Python has started holds the other, because this JVM may still commit after
its Python process was killed. For a store, the lock is a lease (`lease.py`).
"""

import fcntl
import getpass
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from errno import EROFS
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any, BinaryIO, Final

import psutil
from pydantic import Field, TypeAdapter

from jobs.runtime.errors import PlainError
from jobs.runtime.places import is_url, not_writable
from schemas.vocabulary import Exit

LOCK_NAME: Final = "_lock"
JVM_LOCK_NAME: Final = "_lock_jvm"
"""A separate file: over NFS, Python's flock and the JVM's POSIX lock would exclude each other on one file."""

_LOG: Final = logging.getLogger(__name__)
_SAY_AGAIN_S: Final = 60.0


class LockedError(PlainError):
    """Raised while another process writes the warehouse; the message names the process and what to do."""


@dataclass(frozen=True)
class Holder:
    """Holder of a lock. processes : start time of each process that must end to free the lock [Unix s]

    boot, process_ids : IDs of the boot and of the PID namespace in which the process numbers are valid
    """

    entry_point: str
    host: str
    user: str
    since: str
    processes: Annotated[dict[int, float], Field(min_length=1)]
    boot: str = ""
    process_ids: str = ""

    def __str__(self) -> str:
        """Return a text with entry point, process, user, host and time."""
        process = next(iter(self.processes))
        return f"{self.entry_point} (process {process} of {self.user} on {self.host}, since {self.since})"

    @property
    def may_live(self) -> bool:
        """Return whether any of the holder's processes runs, or may run where this process cannot see it."""
        if self.host != socket.gethostname():
            return True
        if self.boot and self.boot != _boot():
            return False
        if self.process_ids and self.process_ids != _process_ids():
            return True
        return any(map(_lives, self.processes.items()))


_HOLDER: Final = TypeAdapter(Holder)


def this_process(entry_point: str, *more: int) -> Holder:
    """Return a Holder that stands for this process and `more` processes, by number, that belong to it."""
    own = (os.getpid(), *more)
    since = datetime.now(UTC).isoformat(timespec="seconds")
    started = {process: psutil.Process(process).create_time() for process in own}
    return Holder(
        entry_point, socket.gethostname(), getpass.getuser(), since, started, _boot(), _process_ids()
    )


def _boot() -> str:
    file = Path("/proc/sys/kernel/random/boot_id")
    return file.read_text().strip() if file.exists() else ""


def _process_ids() -> str:
    link = Path("/proc/self/ns/pid")
    return str(link.readlink()) if link.is_symlink() else ""


@contextmanager
def locked_folder(root: str, holder: Holder, *, wait: bool) -> Iterator[Callable[[Holder], None]]:
    """Hold the lock of a warehouse in a local folder; yield a function that updates the holder.

    wait : wait until no other process, and no JVM of one, holds the lock; if False, raise LockedError instead
    Raises NotWritableError if the files of the lock cannot be opened.
    """
    path = Path(root) / LOCK_NAME
    with _opened(path) as file, _opened(Path(root) / JVM_LOCK_NAME) as jvm_file:

        def attempt() -> bool:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            try:
                fcntl.lockf(jvm_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):  # the JVM of a killed process may still commit
                fcntl.flock(file, fcntl.LOCK_UN)
                return False
            fcntl.lockf(jvm_file, fcntl.LOCK_UN)  # so that this writer's own JVM can take it
            return True

        def say(now: Holder) -> None:
            file.truncate(0)
            file.write(content_of(now))
            file.flush()

        def named() -> Holder | None:
            file.seek(0)
            return holder_in(file.read(1 << 16))

        until(attempt, named, root, wait=wait)
        say(holder)
        try:
            yield say
        finally:
            file.truncate(0)


@contextmanager
def locked_by_jvm(root: str, jvm: Any) -> Iterator[None]:  # noqa: ANN401  # py4j has no types
    """Let the JVM hold its own lock of a folder until this block or the JVM ends.

    The caller must hold the folder's lock.
    """
    file = jvm.java.io.RandomAccessFile(str(Path(root).absolute() / JVM_LOCK_NAME), "rw")
    try:
        if file.getChannel().tryLock() is None:
            raise LockedError(
                f"{root} is being written by the JVM of a process that was killed: end that JVM"
            )
        yield
    finally:
        file.close()


def _opened(path: Path) -> BinaryIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+b")
    except OSError as error:
        raise NotWritableError(f"{path} cannot be opened to lock the warehouse: {error.strerror}") from None


def until(
    attempt: Callable[[], bool],
    holder: Callable[[], Holder | None],
    root: str,
    *,
    wait: bool,
    pause_s: float = 0.5,
) -> None:
    """Call `attempt` until it returns True; log each minute which holder this process waits for.

    wait : if False, raise LockedError after the first attempt that fails
    """
    logged_s = -_SAY_AGAIN_S
    while not attempt():
        who = holder() or "another process"
        if not wait:
            how = "wait for its end, or end that process"
            if is_url(root):
                how += "; its process was killed, so the lock ends within a minute"
            raise LockedError(f"{root} is being written by {who}: {how}")
        if time.monotonic() - logged_s >= _SAY_AGAIN_S:
            logged_s = time.monotonic()
            _LOG.warning("waiting for %s, which writes %s", who, root)
        time.sleep(pause_s)


def _lives(process: tuple[int, float]) -> bool:
    number, started = process
    try:
        found = psutil.Process(number)
        return bool(found.create_time() == started and found.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def content_of(holder: Holder) -> bytes:
    """Serialize a holder as the content of a lock."""
    return _HOLDER.dump_json(holder)


def holder_in(content: bytes | None) -> Holder | None:
    """Parse the holder in a lock's content; return None if the content names no holder."""
    try:
        return _HOLDER.validate_json(content or b"")
    except ValueError:
        return None


class NotWritableError(PlainError):
    """Raised before any work if a warehouse cannot be written; the message names it and the reason."""


class NoWarehouseError(NotWritableError):
    """Raised if a retry cannot help, because another folder or other permissions are needed."""

    exit_status = Exit.WRONG_SETTINGS


def check_writable(root: str) -> None:
    """Try to write a file into a local warehouse. Raises NotWritableError if that fails."""
    if root.startswith("file://"):
        raise NoWarehouseError(f"the warehouse {root} cannot be written by a URL: name its folder")
    if is_url(root):
        return
    if odd := not_writable(root):
        raise NoWarehouseError(f"the warehouse {root} cannot be written: {odd}")
    try:
        Path(root).mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=root) as file:
            file.write(b"\0" * (1 << 20))
    except (FileExistsError, NotADirectoryError):
        raise NoWarehouseError(f"the warehouse {root} is a file, not a folder") from None
    except OSError as error:
        # A full disk may be writable later; a folder that this user may not write will not be.
        is_lasting = isinstance(error, PermissionError) or error.errno == EROFS
        kind = NoWarehouseError if is_lasting else NotWritableError
        raise kind(f"the warehouse {root} cannot be written: {error.strerror}") from None
