"""Whoever writes: may the warehouse be written at all, and what when two writers meet."""

from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from delta import exceptions
from deltalake.exceptions import CommitFailedError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

_PROBED_BYTES: Final = 1 << 20

_CONFLICTS: Final = (
    CommitFailedError,
    *(each for name, each in vars(exceptions).items() if name.endswith("Exception")),
)
"""All that Delta can say of two writers; to Python they have no base in common."""

when_writers_meet = retry(
    retry=retry_if_exception_type(_CONFLICTS),
    wait=wait_random_exponential(multiplier=0.5, max=10),
    stop=stop_after_attempt(8),
    reraise=True,
)
"""Two writers of one table: the loser looks again and writes anew, after a pause of its own length."""


class NotWritableError(Exception):
    """Raised before any work where a warehouse cannot be written; the message says which, and why."""


def hold_writable(root: str) -> None:
    """Try to write a file into a warehouse of this machine. Raises NotWritableError."""
    if "://" in root:
        return
    try:
        Path(root).mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=root) as file:
            file.write(b"\0" * _PROBED_BYTES)
    except OSError as error:
        raise NotWritableError(f"the warehouse {root} cannot be written: {error.strerror}") from None
