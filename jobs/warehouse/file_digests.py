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

DIGESTS: Final = "_digests"

_MOST_AT_OPENING: Final = 1 << 30
"""A table with more bytes than this is checked only by maintenance: a question reads parts of it."""

_READ_BYTES: Final = 1 << 20


class Kept(NamedTuple):
    """Stored digests of a table's files at one version, by path below its folder."""

    version: int
    files: Mapping[str, int]


def kept(root: str, content: bytes | None) -> dict[str, Kept]:
    """Parse the digests of the tables under a root; empty if there is no file.

    Raises DamagedError for a file that holds anything else.
    """
    try:
        return {} if content is None else {name: _kept(each) for name, each in json.loads(content).items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedError(
            f"{root}/{DIGESTS} is damaged: restore it from a copy, or remove it: the next publication makes "
            "new digests of the present files"
        ) from error


def _kept(stored: dict[str, Any]) -> Kept:
    return Kept(int(stored["version"]), {str(path): int(each) for path, each in stored["files"].items()})


def as_content(tables: Mapping[str, Kept]) -> bytes:
    """Serialize digests as the content of their file."""
    return json.dumps({name: each._asdict() for name, each in tables.items()}).encode()


def digests_of(folder: str, files: Collection[str]) -> dict[str, int]:
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


def check(folder: str, files: Mapping[str, int]) -> None:
    """Compare files below a folder with their digests. Raises DamagedError naming those that differ."""
    found = digests_of(folder, [*files])
    differ = sorted(file for file, digest in files.items() if found[file] != digest)
    if differ:
        more = f" and {len(differ) - 1} more files" if len(differ) > 1 else ""
        raise DamagedError(
            f"{folder}/{differ[0]}{more}: changed since it was written, by the digests in {DIGESTS}: restore "
            "from a copy"
        )


def check_opened(folder: str, sizes: Mapping[str, int], made: Kept | None) -> None:
    """Check the files of a table that a question opens, like `check`, unless the table is large.

    sizes : bytes of its files
    made : their digests; a file that has none is not checked
    """
    if made is not None and sum(sizes.values()) <= _MOST_AT_OPENING:
        check(folder, {file: made.files[file] for file in sizes if file in made.files})
