"""Tables as they are stored, published or not: by path, a folder of this machine or a URL.

delta-rs reads their logs and commits; in a store by conditional writes, so that of two commits one succeeds.
"""

from pathlib import Path
from threading import Lock
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError
from obstore.exceptions import BaseError

from jobs.runtime.places import is_url, storage_options
from schemas.table import Table

STORE_ERRORS: Final = (OSError, DeltaError, BaseError)
"""What deltalake and obstore raise where a store does not do what it was asked."""
_OPENED: Final[dict[str, DeltaTable]] = {}
"""Tables of stores that were opened: each later look asks only for newer commits."""
_OPENING: Final = Lock()
_CHECKPOINTS: Final = {"delta.checkpointInterval": "20"}
"""Commits between checkpoints: who opens a table reads all commits since the last one, each by a request."""


def opened(path: str, version: int | None = None) -> DeltaTable:
    """Return a table at a version or, with None, at its newest. Raises TableNotFoundError without one."""
    if not is_url(path):
        return DeltaTable(path, version=version)
    table = _newest(path)
    if version is None or table.version() == version:
        return table
    return DeltaTable(path, version=version, storage_options=storage_options(path))


def _newest(path: str) -> DeltaTable:
    with _OPENING:
        known = _OPENED.get(path)
    if known is not None:
        known.update_incremental()
        return known
    table = DeltaTable(path, storage_options=storage_options(path))
    with _OPENING:
        return _OPENED.setdefault(path, table)


def is_stored(path: str) -> bool:
    """Whether a table was ever written to this path."""
    if is_url(path):
        return newest_version(path) is not None
    log = Path(path) / "_delta_log"
    return (log / f"{0:020}.json").exists() or (log / "_last_checkpoint").exists()


def newest_version(path: str) -> int | None:
    """Newest version of a table: that of its last commit, without reading its files; None without a table."""
    if is_url(path):
        try:
            return int(_newest(path).version())
        except TableNotFoundError:
            return None
    if not is_stored(path):
        return None
    commits = (Path(path) / "_delta_log").glob(f"{'[0-9]' * 20}.json")
    return max(int(commit.stem) for commit in commits)


def restore(path: str, version: int | None) -> bool:
    """Restore a table to a version; None: without rows. Returns whether that changed anything."""
    newest = newest_version(path)
    wanted = version or 0  # every table is made without rows
    if newest is None or newest == wanted:
        return False
    DeltaTable(path, storage_options=storage_options(path)).restore(wanted)
    return True


def create(path: str, table: Table) -> None:
    """Make a table without rows, unless it exists."""
    if is_stored(path):
        return
    schema = pa.schema([each.with_nullable(nullable=True) for each in table.arrow_schema])
    DeltaTable.create(
        path,
        schema,
        mode="ignore",
        partition_by=[*table.partition_by],
        description=table.meaning,
        configuration=_CHECKPOINTS if is_url(path) else None,
        storage_options=storage_options(path),
    )


def keep(path: str, rows: pa.Table) -> None:
    """Write rows of any columns as a table, in place of an earlier one. Raises one of STORE_ERRORS."""
    options = storage_options(path)
    write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite", storage_options=options)
