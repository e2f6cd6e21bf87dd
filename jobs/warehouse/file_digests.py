"""Digests of published files, because neither DuckDB nor deltalake verifies Parquet's page checksums.

In a local warehouse, one file beside the tables holds all digests. They are CRC-32, which detects decay but
not deliberate changes; one core computes them for about one gigabyte of files per second.
"""

import json
import os
import zlib
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from jobs.runtime.errors import DamagedError
from jobs.runtime.places import is_url
from jobs.runtime.plural import plural
from jobs.warehouse.small_files import SmallFiles
from jobs.warehouse.stored import opened

DIGESTS: Final = "_digests"

_MOST_AT_OPENING: Final = 1 << 30
"""Largest table whose files are checked before a question reads them; maintenance checks larger ones. [B]"""


class Kept(NamedTuple):
    """Stored digests of a table's files at one version, by path below the table's folder."""

    version: int
    files: Mapping[str, int]


def kept_digests(root: str) -> dict[str, Kept]:
    """Return the stored digests of a warehouse's files; empty for a store, where Arrow verifies files itself.

    Raises DamagedError if the file of digests cannot be parsed.
    """
    content = None if is_url(root) else SmallFiles(root).read(DIGESTS)
    try:
        stored = {} if content is None else json.loads(content)
        return {
            name: Kept(int(each["version"]), {str(path): int(crc) for path, crc in each["files"].items()})
            for name, each in stored.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedError(
            f"{root}/{DIGESTS} is damaged: restore it from a copy, or remove it: the next publication makes "
            "new digests of the present files"
        ) from error


def keep_digests(root: str, versions: Mapping[str, int]) -> None:
    """Store digests of the files of these table versions in a folder; compute only those of new files."""
    before = kept_digests(root)
    now: dict[str, Kept] = {}
    for name, version in versions.items():
        kept, path = before.get(name) or Kept(-1, {}), f"{root}/{name}"
        if kept.version != version:
            files = sorted(opened(path, version).get_add_actions().column("path").to_pylist())
            new = _digests_of(path, [file for file in files if file not in kept.files])
            known = {**kept.files, **new}
            kept = Kept(version, {file: known[file] for file in files})
        now[name] = kept
    if now != before:
        content = json.dumps({name: each._asdict() for name, each in now.items()})
        SmallFiles(root).write(DIGESTS, content.encode())


def check_digests(root: str) -> tuple[int, int]:
    """Compare all published files that have a stored digest; return the number of files and of bytes.

    Raises DamagedError for the first table with a file that differs.
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
                while part := content.read(1 << 20):
                    found = zlib.crc32(part, found)
        except OSError as error:
            raise DamagedError(f"{path} cannot be read, restore it from a copy: {error.strerror}") from error
        return found

    with ThreadPoolExecutor(min(len(files), os.cpu_count() or 1) or 1) as beside:
        return dict(zip(files, beside.map(one, files), strict=True))


def _check(folder: str, files: Mapping[str, int]) -> None:
    """Compare files below a folder with their digests. Raises DamagedError if any differ."""
    found = _digests_of(folder, [*files])
    differ = sorted(file for file, digest in files.items() if found[file] != digest)
    if differ:
        more = f" and {plural(len(differ) - 1, 'more file')}" if len(differ) > 1 else ""
        raise DamagedError(
            f"{folder}/{differ[0]}{more}: changed since it was written, by the digests in {DIGESTS}: restore "
            "from a copy"
        )


def check_opened(folder: str, sizes: Mapping[str, int], made: Kept | None) -> None:
    """Compare the files of a table that a question opens with their digests, unless the table is large.

    sizes : size of each file [B]
    made : stored digests; a file without one is not checked
    Raises DamagedError if any differ.
    """
    if made is not None and sum(sizes.values()) <= _MOST_AT_OPENING:
        _check(folder, {file: made.files[file] for file in sizes if file in made.files})
