"""Delta tables by path, published or not, in a local folder or a store.

delta-rs reads their logs and commits; in a store by conditional writes, so that of two commits one succeeds.
"""

from pathlib import Path
from threading import Lock
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from jobs.runtime.places import is_url, storage_options
from schemas.table import Table

STORE_ERRORS: Final = (OSError, DeltaError)
"""Errors of deltalake and jobs.runtime.objects when a store does not do what was requested."""
_OPENED: Final[dict[str, DeltaTable]] = {}
"""Cached tables of stores: every look at a log takes requests."""
_COMMITTED: Final[dict[str, int]] = {}
"""Versions that this process has committed and not read again."""
_OPENING: Final = Lock()
_CHECKPOINT: Final = 5
"""Commits between checkpoints: opening a table reads all commits since the last one, each by two requests,
and the checkpoint by eleven. With ten, 21 commits took 574 requests and could be opened by up to 31; with
five 557 and 21.
"""
_NO_HOOKS: Final = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""Actions after a commit that would read the whole log, switched off."""


def forget(path: str | None = None) -> None:
    """Drop cached tables of stores, or the one at a path, because another process may have written them.

    Others must stay while tables are published together: a late commit of another would be taken for known.
    """
    with _OPENING:
        for cached in (_OPENED, _COMMITTED):
            if path is None:
                cached.clear()
            else:
                cached.pop(path, None)


def opened(path: str, version: int | None = None) -> DeltaTable:
    """Return a table at a version, or its newest if None. Raises TableNotFoundError if it does not exist.

    A table of a store is looked at again only where this process has committed to it, or after `forget`: a
    commit of this process to a table that another has written since is an error.
    """
    if not is_url(path):
        return DeltaTable(path, version=version)
    with _OPENING:
        known = _OPENED.get(path)
        later = _COMMITTED.pop(path, None)
    if known is not None and later is not None:
        known.update_incremental()
        if known.version() != later:  # by another: who commits here next must meet it
            known.load_as_version(later)
    if known is not None and version in (None, known.version()):
        return known
    found = DeltaTable(path, version=version, storage_options=storage_options(path))
    if version is None:
        with _OPENING:
            _OPENED[path] = found
    return found


ALONE: Final = CommitProperties(max_commit_retries=0)
"""Fail if another commit was made since the table was opened."""


def commit_actions(
    path: str, log: DeltaTable, actions: list[AddAction | RemoveAction], *, is_alone: bool
) -> None:
    """Commit to a table. is_alone : fail if another commit was made since `log` was opened"""
    properties = ALONE if is_alone else None
    log.create_write_transaction(
        actions,
        "append",
        log.schema(),
        [*log.metadata().partition_columns],
        commit_properties=properties,
        post_commithook_properties=_NO_HOOKS if is_url(path) else None,
    )
    if is_url(path):
        made = log.version() + 1
        with _OPENING:
            _COMMITTED[path] = made
        if made % _CHECKPOINT == 0:
            opened(path).create_checkpoint()


def is_stored(path: str) -> bool:
    """Whether a table exists at this path."""
    if is_url(path):
        return newest_version(path) is not None
    log = Path(path) / "_delta_log"
    return (log / f"{0:020}.json").exists() or (log / "_last_checkpoint").exists()


def newest_version(path: str) -> int | None:
    """Version of a table's last commit, without reading its files; None if there is no table."""
    if is_url(path):
        if (made := _COMMITTED.get(path)) is not None:
            return made
        try:
            return int(opened(path).version())
        except TableNotFoundError:
            return None
    if not is_stored(path):
        return None
    commits = (Path(path) / "_delta_log").glob(f"{'[0-9]' * 20}.json")
    return max(int(commit.stem) for commit in commits)


def restore(path: str, version: int | None) -> bool:
    """Restore a table to a version (None: empty). Returns whether anything changed.

    A store's table is then cached as restored: a commit of another since then is an error.
    """
    newest = newest_version(path)
    wanted = version or 0  # every table is made without rows
    if newest is None or newest == wanted:
        return False
    opened(path).restore(wanted)
    return True


def create(path: str, table: Table) -> None:
    """Create an empty table unless it exists."""
    if is_stored(path):
        return
    schema = pa.schema([each.with_nullable(nullable=True) for each in table.arrow_schema])
    DeltaTable.create(
        path,
        schema,
        mode="ignore",
        partition_by=[*table.partition_by],
        description=table.meaning,
        storage_options=storage_options(path),
    )


def keep(path: str, rows: pa.Table) -> None:
    """Overwrite a table with rows of any schema. Raises one of STORE_ERRORS."""
    options = storage_options(path)
    write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite", storage_options=options)
