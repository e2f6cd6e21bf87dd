"""Lock of a warehouse in a store: an object that only one writer can create, and which this writer renews.

The lock of a holder that was killed, or cannot reach the store, expires. A holder that was paused notices
that it has lost the lock before it writes anything that readers would see. Only the store's clock decides
how old a renewal is.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

from jobs.runtime import objects
from jobs.runtime.errors import PlainError
from jobs.warehouse.lock import LOCK_NAME, Holder, content_of, holder_in, until
from jobs.warehouse.stored import forget

LEASE_S: Final = 40.0
"""Time after a renewal at which the lock expires. [s]"""
RENEWED_S: Final = 8.0
_CLOCK: Final = "_lock_clock"
"""An object that a waiting writer creates to read the store's time."""
_LOG: Final = logging.getLogger(__name__)

_FREE: Final = b"{}"
"""Content of a released lock; the object stays, because a store cannot delete it conditionally."""
_HELD: Final[dict[str, "Lease"]] = {}


class LeaseLostError(PlainError):
    """Raised when another writer has taken the lock; this process has published nothing since then."""


class Lease:
    """A lock that this process holds. was_left : whether the previous holder never released it"""

    def __init__(self, root: str, holder: Holder, mark: str, *, was_left: bool) -> None:
        self._root, self._holder, self._mark = root, holder, mark
        self.was_left = was_left
        self._one_at_a_time, self._ended = threading.Lock(), threading.Event()
        self._lost, self._renewed_s = "", time.clock_gettime(time.CLOCK_BOOTTIME)
        self._marks: dict[str, str | None] = {}
        self._renewing = threading.Thread(target=self._renew_often, name="lease", daemon=True)
        self._renewing.start()

    def check(self) -> None:
        """Raise LeaseLostError unless the store confirms now that the lock is still held."""
        with self._one_at_a_time:
            if not self._lost:
                content = _content(self._holder)
                mark = objects.replace(self._root, LOCK_NAME, content, self._mark)
                if mark is None and (found := objects.version(self._root, LOCK_NAME)) is not None:
                    mark = found.mark if found.content == content else None  # only the answer was lost
                self._mark, self._lost = mark or "", "" if mark else "another writer has taken the lock"
                self._renewed_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        if self._lost:
            raise LeaseLostError(
                f"{self._root}: {self._lost}: this run was paused, or did not reach the store, for more than "
                f"{LEASE_S:.0f} s; it has published nothing since. Run it again"
            )

    def holds(self) -> bool:
        """Return whether the lock is still held; False if the store does not confirm this."""
        try:
            self.check()
        except (LeaseLostError, OSError):
            return False
        return True

    def check_if_old(self) -> None:
        """Check the lock if its renewal is overdue, as after a pause of this process."""
        if self._is_overdue():
            self.check()

    def _is_overdue(self) -> bool:
        return time.clock_gettime(time.CLOCK_BOOTTIME) - self._renewed_s > 2 * RENEWED_S

    def put(self, name: str, content: bytes) -> None:
        """Replace an object that only lock holders write, if it is unchanged since this process read it.

        Raises LeaseLostError if another writer holds the lock by now. If the object was changed by a previous
        holder, after that holder had lost the lock, the change is overwritten.
        """
        while True:
            if name not in self._marks:
                found = objects.version(self._root, name)
                self._marks[name] = None if found is None else found.mark
                self.check()  # so this process held the lock when it read the mark
            before = self._marks.pop(name)
            mark = (
                objects.create(self._root, name, content)
                if before is None
                else objects.replace(self._root, name, content, before)
            )
            if mark is not None:
                self._marks[name] = mark
                return
            self.check()

    def _renew_often(self) -> None:
        while not self._ended.wait(RENEWED_S):
            try:
                self.check()
            except LeaseLostError as error:
                _LOG.warning(error)
                return
            except Exception as error:  # noqa: BLE001 - the store may answer next time
                _LOG.warning("the lock of %s could not be renewed: %s", self._root, error)

    def release(self) -> None:
        """Release the lock; if the store cannot be reached, log a warning and let the lock expire."""
        self._ended.set()
        try:
            if self._is_overdue():
                raise OSError("it was not renewed")  # noqa: TRY301  # do not wait for the silent store again
            self._renewing.join(2 * RENEWED_S)
            with self._one_at_a_time:
                if not self._lost and objects.replace(self._root, LOCK_NAME, _FREE, self._mark):
                    self._lost = "it was given back"
        except OSError as error:
            _LOG.warning("the lock of %s ends by itself within %.0f s: %s", self._root, LEASE_S, error)


def held(root: str) -> Lease | None:
    """Return the lease that this process holds on a root; None for a folder, or if there is no lease."""
    return _HELD.get(root.rstrip("/"))


@contextmanager
def leased(root: str, holder: Holder, *, wait: bool) -> Iterator[Callable[[Holder], None]]:
    """Hold the lock of a warehouse in a store, as lock.locked_folder does for a folder."""
    root = root.rstrip("/")
    taken: list[Lease] = []

    def attempt() -> bool:
        lease = _attempt(root, holder)
        taken.extend([lease] if lease else [])
        return lease is not None

    until(attempt, lambda: holder_in(objects.content(root, LOCK_NAME)), root, wait=wait, pause_s=2.0)
    (lease,) = taken
    forget()  # the previous holder may have committed to tables whose logs are cached
    _HELD[root] = lease

    def say(now: Holder) -> None:
        lease._holder = now  # noqa: SLF001  # its own
        lease.check()

    try:
        yield say
    finally:
        del _HELD[root]
        lease.release()


def _attempt(root: str, holder: Holder) -> Lease | None:
    found = objects.version(root, LOCK_NAME)
    if found is None:
        mark = objects.create(root, LOCK_NAME, _content(holder))
        return Lease(root, holder, mark, was_left=False) if mark else None
    before = holder_in(found.content)
    is_free = found.content == _FREE
    if not is_free:
        if _is_held(root, found):
            return None
        _LOG.warning("the lock of %s has ended", before or "another process")
    mark = objects.replace(root, LOCK_NAME, _content(holder), found.mark)
    return Lease(root, holder, mark, was_left=not is_free) if mark else None


def leaseholder(root: str) -> Holder | None:
    """Return the holder of the lock of a warehouse in a store, or None."""
    found = objects.version(root, LOCK_NAME)
    if found is None or found.content == _FREE or not _is_held(root, found):
        return None
    return holder_in(found.content)


def _is_held(root: str, found: objects.Version) -> bool:
    """Return whether a lock was renewed in the last LEASE_S seconds by a holder that may still be alive."""
    before = holder_in(found.content)
    is_dead = before is not None and not before.may_live
    return not is_dead and _now_s(root) - found.modified_s < LEASE_S


def _now_s(root: str) -> float:
    """Return the current time of the store's clock. [Unix s]"""
    objects.write(root, _CLOCK, b"")
    found = objects.version(root, _CLOCK)
    return found.modified_s if found else time.time()


def _content(holder: Holder) -> bytes:
    """Return new content of the lock object: the holder, and a random ID of this renewal."""
    return content_of(holder).removesuffix(b"}") + f',"renewal":"{uuid4().hex}"}}'.encode()
