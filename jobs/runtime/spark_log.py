"""Spark's output: into a separate file, saved when it may explain a failure."""

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
    """Return the file for Spark's output: that of the settings, or a temporary one of this process."""
    return run_folder() / "spark.log" if named is None else Path(named)


@contextmanager
def log_on_error(named: str | None, entry_point: str) -> Iterator[None]:
    """If the block fails, log where Spark's output is; a temporary file is copied so that it stays."""
    try:
        yield
    except Exception:
        log = log_file(named)
        if last_line(log):
            _LOG.warning("Spark's output: %s", log if named else _copied(log, entry_point))
        raise


def last_line(log: Path) -> str:
    """Return Spark's last line; empty if it printed only what it prints at every start."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    printed = [line.strip() for line in lines if line.strip() and not line.startswith(_AT_EVERY_START)]
    return printed[-1] if printed else ""


def _copied(log: Path, entry_point: str) -> Path:
    with (
        tempfile.NamedTemporaryFile(prefix=f"{entry_point}-spark-", suffix=".log", delete=False) as file,
        log.open("rb") as printed,
    ):
        shutil.copyfileobj(printed, file)
    return Path(file.name)
