"""Delta tables by path, published or not, in a local folder or a store.

delta-rs reads their logs and commits. In a store a commit is a conditional write, so that only one of two
concurrent commits succeeds.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from jobs.runtime.places import is_url, storage_options
from schemas.table import Table

if TYPE_CHECKING:
    from jobs.warehouse.log_mirror import LogMirror

STORE_ERRORS: Final = (OSError, DeltaError)
"""Errors that deltalake and jobs.runtime.objects raise if a request to a store fails."""
_MIRRORS: Final[dict[str, "LogMirror"]] = {}
"""Mirrors of the logs that this process has read in stores, by URL of the table; they save requests."""
_MIRRORING: Final = Lock()
_NO_HOOKS: Final = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""Switches off delta-rs's actions after a commit, because they would read the whole log."""


def forget(path: str | None = None) -> None:
    """Drop cached logs of stores, or of one table, because another process may have written them.

    During a publication the mirrors of its other tables must stay: a new mirror would include late commits
    of another writer, which this process then could no longer recognise.
    """
    with _MIRRORING:
        for each in [*_MIRRORS] if path is None else [path]:
            if (mirror := _MIRRORS.pop(each, None)) is not None:
                mirror.remove()


def _mirror(path: str) -> "LogMirror":
    with _MIRRORING:
        if path not in _MIRRORS:  # imported only for a store, because small installs lack its dependencies
            _MIRRORS[path] = import_module("jobs.warehouse.log_mirror").LogMirror(path)
        return _MIRRORS[path]


def opened(path: str, version: int | None = None) -> DeltaTable:
    """Return a table at a version, or its newest if None. Raises TableNotFoundError if it does not exist.

    In a store, the log is listed again only for a later version, or after `forget`. So this process's commit
    with `is_alone` fails if another writer has committed since the log was listed.
    """
    return _mirror(path).at(version) if is_url(path) else DeltaTable(path, version=version)


ALONE: Final = CommitProperties(max_commit_retries=0)
"""Commit properties with which a commit fails if another was made since the table was opened."""


def commit_actions(
    path: str, log: DeltaTable, actions: list[AddAction | RemoveAction], *, is_alone: bool
) -> None:
    """Commit to a table. is_alone : fail if another commit was made since `log` was opened"""
    committed(
        path,
        lambda: log.create_write_transaction(
            actions,
            "append",
            log.schema(),
            [*log.metadata().partition_columns],
            commit_properties=ALONE if is_alone else None,
            post_commithook_properties=_NO_HOOKS if is_url(path) else None,
        ),
        is_alone=is_alone,
    )


def committed(path: str, make: Callable[[], object], *, is_alone: bool) -> None:
    """Make a commit by delta-rs; in a store, first to the mirror of the log and then to the log."""
    if is_url(path):
        _mirror(path).commit(make, is_alone=is_alone)
    else:
        make()


def is_stored(path: str) -> bool:
    """Return whether a table exists at this path."""
    if is_url(path):
        return newest_version(path) is not None
    log = Path(path) / "_delta_log"
    return (log / f"{0:020}.json").exists() or (log / "_last_checkpoint").exists()


def newest_version(path: str) -> int | None:
    """Return the version of a table's last commit, without reading its files; None if there is no table."""
    if is_url(path):
        try:
            return int(opened(path).version())
        except TableNotFoundError:
            return None
    if not is_stored(path):
        return None
    commits = (Path(path) / "_delta_log").glob(f"{'[0-9]' * 20}.json")
    return max(int(commit.stem) for commit in commits)


def restore(path: str, version: int | None) -> bool:
    """Restore a table to a version (None: empty); return whether anything changed.

    In a store, the mirror then ends with the restoring commit, so that this process's next commit fails if
    another writer has committed since.
    """
    newest = newest_version(path)
    wanted = version or 0  # version 0 of every table is empty
    if newest is None or newest == wanted:
        return False
    opened(path, wanted)  # brings the log of this version into the mirror, which has no data files
    table, without_files = opened(path), is_url(path)
    committed(path, lambda: table.restore(wanted, ignore_missing_files=without_files), is_alone=True)
    return True


def vacuum(path: str, hours: int, *, is_trial: bool) -> list[str]:
    """Find the files to which no version of the last `hours` refers; delete them unless is_trial."""
    if is_url(path):
        return _mirror(path).vacuum(hours, is_trial=is_trial)
    found: list[str] = DeltaTable(path).vacuum(hours, dry_run=is_trial, full=True)
    return found


def create(path: str, table: Table) -> None:
    """Create an empty table unless it exists."""
    if is_stored(path):
        return
    schema = pa.schema([each.with_nullable(nullable=True) for each in table.arrow_schema])
    partition_by = [*table.partition_by]
    folder = _mirror(path).folder if is_url(path) else path
    committed(
        path,
        lambda: DeltaTable.create(
            folder, schema, mode="ignore", partition_by=partition_by, description=table.meaning
        ),
        is_alone=False,
    )


def keep(path: str, rows: pa.Table) -> None:
    """Replace a table's rows and schema by those of `rows`. Raises one of STORE_ERRORS if the store fails."""
    options = storage_options(path)
    write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite", storage_options=options)
