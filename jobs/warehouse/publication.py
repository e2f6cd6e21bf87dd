"""Publications (snapshots): all tables of a phase become visible to readers together, or none does.

Before its first commit a publication writes an intent: its number, and the version of each table that it will
replace. After its last commit it appends one row, with the versions of all tables, to `publications`. Readers
take every table as of the latest row. A later writer that finds an intent without its row restores those
versions first.
"""

import json
import logging
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from jobs.runtime.errors import DamagedError
from jobs.runtime.places import is_url
from jobs.warehouse.file_digests import keep_digests, kept_digests
from jobs.warehouse.latest import LATEST_PUBLICATION, Published, latest_stated
from jobs.warehouse.lease import held
from jobs.warehouse.stored import newest_version, restore
from schemas.log_tables import PUBLICATIONS as TABLE
from schemas.vocabulary import BEGIN, PIPELINE_RUNS, PUBLICATIONS, RECOVER

if TYPE_CHECKING:
    from jobs.warehouse.tables import Warehouse

_INTENT: Final = "_publishing.json"
_LOG: Final = logging.getLogger(__name__)

_AT_A_TIME: Final = 16
"""Most tables whose logs are looked up concurrently."""


@contextmanager
def publication(
    warehouse: "Warehouse", phase: str, log_dates: Sequence[date], names: Sequence[str]
) -> Iterator[None]:
    """Make everything that the block commits to these tables visible at once when the block ends.

    An error in the block undoes its commits. Without an error, `warehouse` then reads the new publication.
    """
    kept_digests(warehouse.root)  # raises for damaged digests before anything is committed
    if warehouse.published.versions is None:  # recover needs versions to go back to
        _complete(warehouse, 1, BEGIN, [])
    published = warehouse.published.versions or {}
    with ThreadPoolExecutor(_AT_A_TIME) as beside:  # in a store, each table takes several requests
        if is_url(warehouse.root):  # first undo commits after the published version
            late = {warehouse.path(name): published[name] for name in published.keys() & {*names}}
            list(beside.map(restore, late, late.values()))
        before = dict(zip(names, beside.map(newest_version, map(warehouse.path, names)), strict=True))
    number = warehouse.published.number + 1
    _write(warehouse, _INTENT, json.dumps({"publication": number, "before": before}).encode())
    try:
        yield
        _complete(warehouse, number, phase, log_dates, names)
    except BaseException:
        lease = held(warehouse.root)
        if lease is None or lease.holds():  # else the writer that has the lock undoes the commits
            try:
                recover(warehouse)
            except Exception as error:  # noqa: BLE001  # the block's error is raised instead
                _LOG.warning(
                    "%s: the next writer undoes what failed; here that failed: %s", warehouse.root, error
                )
        raise
    _remove_intent(warehouse)


def _write(warehouse: "Warehouse", name: str, content: bytes) -> None:
    """Write a small file; in a store, only while this process holds the lock."""
    lease = held(warehouse.root)
    if lease is None:
        warehouse.small_files.write(name, content)
    else:
        lease.put(name, content)


def _remove_intent(warehouse: "Warehouse") -> None:
    """Remove the record of an unfinished publication; in a store, only empty it, which can be conditional."""
    if held(warehouse.root) is None:
        warehouse.small_files.remove(_INTENT)
    else:
        _write(warehouse, _INTENT, b"")


def recover(warehouse: "Warehouse") -> list[str]:
    """Undo the commits of an unfinished publication; return the tables that were restored.

    The caller must hold the warehouse's lock. Raises DamagedError for an intent that cannot be parsed.
    """
    intent, lease = _intent(warehouse), held(warehouse.root)
    was_left = lease is not None and lease.was_left
    warehouse.__dict__.pop("published", None)
    if intent is None and not was_left:
        return []
    # The rows of `publications` decide: a killed writer may have appended one without writing the small file.
    stated = warehouse.small_files.read(LATEST_PUBLICATION)
    published = warehouse.published = warehouse.logged_publication(stated)
    restored: list[str] = []
    if intent is not None and published.number < intent["publication"]:
        before = intent["before"]
        restored = [name for name, version in before.items() if restore(warehouse.path(name), version)]
        _complete(warehouse, published.number + 1, RECOVER, [], before)
    elif was_left:  # after this row, a holder that was only paused cannot append its own
        _complete(warehouse, published.number + 1, RECOVER, [], ())
    else:
        _state(warehouse, published)
    if intent is not None:
        _remove_intent(warehouse)
    if lease is not None:
        lease.was_left = False
    return restored


def _intent(warehouse: "Warehouse") -> dict[str, Any] | None:
    """Read the record of an unfinished publication; return None if it is missing or empty."""
    content = warehouse.small_files.read(_INTENT)
    if not content:
        return None
    try:
        intent = json.loads(content)
        return {"publication": int(intent["publication"]), "before": dict(intent["before"])}
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedError(
            f"{warehouse.root}/{_INTENT} is damaged: restore it from a copy, or remove it: what an "
            "unfinished publication has committed is then published with the next one"
        ) from error


def _complete(
    warehouse: "Warehouse",
    number: int,
    phase: str,
    log_dates: Sequence[date],
    names: Collection[str] | None = None,
) -> None:
    """Append the row that makes a publication visible to readers.

    names : tables that the publication changes; None: possibly any. In a store, other tables keep their
        published versions, so that a late commit of a paused writer to them is not published
    """
    before = warehouse.published.versions if is_url(warehouse.root) and names is not None else None
    changed = warehouse.own_tables if before is None or names is None else names
    versions = {**(before or {}), **_newest(warehouse, changed)}
    row = {
        "publication": number,
        "published_at": datetime.now(UTC),
        "phase": phase,
        "log_dates": sorted(set(log_dates)),
        "versions": list(versions.items()),
    }
    warehouse.append(TABLE, pa.Table.from_pylist([row], schema=TABLE.arrow_schema))
    _state(warehouse, Published(number, versions))
    if not is_url(warehouse.root):
        keep_digests(warehouse.root, versions | _newest(warehouse, (PIPELINE_RUNS, PUBLICATIONS)))


def _newest(warehouse: "Warehouse", names: Collection[str]) -> dict[str, int]:
    """Return the newest existing version of each of these tables."""
    found = {name: newest_version(warehouse.path(name)) for name in names}
    return {name: version for name, version in found.items() if version is not None}


def _state(warehouse: "Warehouse", published: Published) -> None:
    """Write the file that states the latest publication; in a folder, it contains only the number."""
    is_store = is_url(warehouse.root)
    latest = latest_stated(published) if is_store else str(published.number).encode()
    _write(warehouse, LATEST_PUBLICATION, latest)
    warehouse.published = published
