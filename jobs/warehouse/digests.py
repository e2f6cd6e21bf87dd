"""SHA-256 digests of published files: keep them up to date, and verify them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable

from jobs.runtime.places import is_url
from jobs.warehouse.file_digests import DIGESTS, Kept, as_content, check, digests_of, kept
from jobs.warehouse.small_files import LocalFiles

if TYPE_CHECKING:
    from jobs.warehouse.tables import Warehouse


def kept_digests(root: str) -> dict[str, Kept]:
    """Stored digests of a warehouse in a folder; empty in a store, whose readers check page checksums.

    Raises DamagedError where they cannot be read.
    """
    return {} if is_url(root) else kept(root, LocalFiles(root).read(DIGESTS))


def keep_digests(warehouse: "Warehouse", versions: Mapping[str, int]) -> None:
    """Add digests of files that are new in these table versions, and drop unused ones."""
    if is_url(warehouse.root):
        return
    before = kept_digests(warehouse.root)
    now = {
        name: each
        if (each := before.get(name)) and each.version == version
        else _renewed(warehouse.path(name), version, each)
        for name, version in versions.items()
    }
    if now != before:
        warehouse.small_files.write(DIGESTS, as_content(now))


def _renewed(path: str, version: int, before: Kept | None) -> Kept:
    known = before.files if before is not None else {}
    files = _files(path, version)
    new = digests_of(path, [file for file in files if file not in known])
    return Kept(version, {file: known[file] if file in known else new[file] for file in files})


def check_digests(root: str) -> tuple[int, int]:
    """Verify all published files that have a digest; returns their number and bytes.

    Raises DamagedError, which names those that differ.
    """
    files = size = 0
    for name, each in kept_digests(root).items():
        path = f"{root}/{name}"
        check(path, each.files)
        files += len(each.files)
        size += sum(Path(path, file).stat().st_size for file in each.files)
    return files, size


def _files(path: str, version: int) -> list[str]:
    """Names of a version's files, as in the Delta log."""
    found: list[str] = pa.table(DeltaTable(path, version=version).get_add_actions())["path"].to_pylist()
    return sorted(found)
