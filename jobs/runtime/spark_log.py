"""What Spark says: into a file of its own, which is kept where it may explain a failure."""

import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from jobs.runtime.run_folder import run_folder

_LOG: Final = logging.getLogger(__name__)
_AT_EVERY_START: Final = "WARNING: Using incubator modules"


def log_file(named: str | None) -> Path:
    """Return the file for what Spark says: the one of the settings, or a temporary one of this process."""
    return run_folder() / "spark.log" if named is None else Path(named)


@contextmanager
def log_on_error(named: str | None, entry_point: str) -> Iterator[None]:
    """Where the block fails, log where everything that Spark said lies; a temporary file is kept for that."""
    try:
        yield
    except Exception:
        log = log_file(named)
        if last_line(log):
            _LOG.warning("all that Spark said: %s", log if named else _copied(log, entry_point))
        raise


def last_line(log: Path) -> str:
    """Return the last thing that Spark said; empty where it said nothing but what it says at every start."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    spoken = [line.strip() for line in lines if line.strip() and not line.startswith(_AT_EVERY_START)]
    return spoken[-1] if spoken else ""


def _copied(log: Path, entry_point: str) -> Path:
    with (
        tempfile.NamedTemporaryFile(prefix=f"{entry_point}-spark-", suffix=".log", delete=False) as file,
        log.open("rb") as spoken,
    ):
        shutil.copyfileobj(spoken, file)
    return Path(file.name)
