"""Digests of published files, because neither DuckDB nor deltalake verifies Parquet's page checksums.

One file beside the tables of a folder holds them. They are CRC-32: they find decay, which is not an attacker,
and a core computes one gigabyte of them in about a second.
"""

import json
import os
import zlib
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

from jobs.runtime.errors import DamagedError
from jobs.runtime.places import is_url
from jobs.runtime.plural import plural
from jobs.warehouse.small_files import SmallFiles
from jobs.warehouse.stored import opened

DIGESTS: Final = "_digests"

_MOST_AT_OPENING: Final = 1 << 30
"""A table with more bytes than this is checked only by maintenance: a question reads parts of it."""

_READ_BYTES: Final = 1 << 20


class Kept(NamedTuple):
    """Stored digests of a table's files at one version, by path below the table's folder."""

    version: int
    files: Mapping[str, int]


def kept_digests(root: str) -> dict[str, Kept]:
    """Return stored digests of a warehouse's files; none in a store, where readers check Parquet's checksums.

    Raises DamagedError for a file that holds anything else.
    """
    content = None if is_url(root) else SmallFiles(root).read(DIGESTS)
    try:
        return {} if content is None else {name: _kept(each) for name, each in json.loads(content).items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedError(
            f"{root}/{DIGESTS} is damaged: restore it from a copy, or remove it: the next publication makes "
            "new digests of the present files"
        ) from error


def _kept(stored: dict[str, Any]) -> Kept:
    return Kept(int(stored["version"]), {str(path): int(each) for path, each in stored["files"].items()})


def keep_digests(root: str, versions: Mapping[str, int]) -> None:
    """Add digests of new files in these versions of tables in a folder, and drop unused digests."""
    before = kept_digests(root)
    now = {
        name: each
        if (each := before.get(name)) and each.version == version
        else _renewed(f"{root}/{name}", version, each)
        for name, version in versions.items()
    }
    if now != before:
        content = json.dumps({name: each._asdict() for name, each in now.items()})
        SmallFiles(root).write(DIGESTS, content.encode())


def _renewed(path: str, version: int, before: Kept | None) -> Kept:
    known = before.files if before is not None else {}
    files = sorted(opened(path, version).get_add_actions().column("path").to_pylist())
    new = _digests_of(path, [file for file in files if file not in known])
    return Kept(version, {file: known[file] if file in known else new[file] for file in files})


def check_digests(root: str) -> tuple[int, int]:
    """Verify all published files that have a digest; return the number of files and of bytes.

    Raises DamagedError, which names those that differ.
    """
    files = size = 0
    for name, each in kept_digests(root).items():
        path = f"{root}/{name}"
        _check(path, each.files)
        files += len(each.files)
        size += sum(Path(path, file).stat().st_size for file in each.files)
    return files, size


def _digests_of(folder: str, files: Collection[str]) -> dict[str, int]:
    """Compute the digest of each file below a folder. Raises DamagedError for an unreadable file."""

    def one(file: str) -> int:
        path, found = Path(folder, file), 0
        try:
            with path.open("rb", buffering=0) as content:
                for part in _parts(content.fileno()):
                    found = zlib.crc32(part, found)
        except OSError as error:
            raise DamagedError(f"{path} cannot be read, restore it from a copy: {error.strerror}") from error
        return found

    with ThreadPoolExecutor(min(len(files), os.cpu_count() or 1) or 1) as beside:
        return dict(zip(files, beside.map(one, files), strict=True))


def _parts(descriptor: int) -> Iterator[bytes]:
    while part := os.read(descriptor, _READ_BYTES):
        yield part


def _check(folder: str, files: Mapping[str, int]) -> None:
    """Compare files below a folder with their digests. Raises DamagedError naming files that differ."""
    found = _digests_of(folder, [*files])
    differ = sorted(file for file, digest in files.items() if found[file] != digest)
    if differ:
        more = f" and {plural(len(differ) - 1, 'more file')}" if len(differ) > 1 else ""
        raise DamagedError(
            f"{folder}/{differ[0]}{more}: changed since it was written, by the digests in {DIGESTS}: restore "
            "from a copy"
        )


def check_opened(folder: str, sizes: Mapping[str, int], made: Kept | None) -> None:
    """Check the files of a table that a question opens, as check_digests does, unless the table is large.

    sizes : bytes of its files
    made : their digests; a file that has none is not checked
    """
    if made is not None and sum(sizes.values()) <= _MOST_AT_OPENING:
        _check(folder, {file: made.files[file] for file in sizes if file in made.files})
