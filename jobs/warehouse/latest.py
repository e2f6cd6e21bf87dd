"""The latest publication (snapshot), read from the table `publications` or from a small file beside it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from jobs.runtime.errors import DamagedError
from schemas.vocabulary import PUBLICATIONS

LATEST_PUBLICATION: Final = "_latest_publication"
"""File with the number of the last publication, written after the row in `publications`.

In a store, the file also holds the version of each table."""
_DIGITS: Final = 18

Versions = Mapping[str, int]


@dataclass(frozen=True)
class Published:
    """The latest publication (snapshot): its number, and the Delta version of each table.

    versions : None before the first publication; readers then read the newest version of each table
    """

    number: int = 0
    versions: Versions | None = None


def latest_publication(rows: pa.Table, root: str, stated: bytes | None) -> Published:
    """Return the latest publication among these rows of `publications`.

    stated : content of the file LATEST_PUBLICATION; None if it does not exist
    Raises DamagedError if the file states a later publication than the last row, because readers would then
    see old tables, or if it states no number.
    """
    found = rows.to_pylist(maps_as_pydicts="strict")
    newest = max(found, key=lambda row: row["publication"], default=None)
    latest = Published(newest["publication"], newest["versions"]) if newest else Published()
    made = None if stated is None else stated.split(maxsplit=1)[0] if stated.split() else b""
    if made is not None and not (made.isdigit() and len(made) <= _DIGITS and int(made) <= latest.number):
        raise DamagedError(
            f"{PUBLICATIONS} in {root} ends at {latest.number}, but publication "
            f"{made[:20].decode(errors='replace')!a} was made: restore its folder from a copy; or remove "
            f"{LATEST_PUBLICATION} to continue with the present state"
        )
    return latest


def latest_stated(published: Published) -> bytes:
    """Return the content of a store's file LATEST_PUBLICATION, by which readers know all versions at once."""
    return f"{published.number} {json.dumps(dict(published.versions or {}))}".encode()


def latest_stated_in(stated: bytes | None) -> Published | None:
    """Return the publication in a store's file LATEST_PUBLICATION; None if the file lacks the versions.

    If a writer was killed after it appended its row and before it wrote the file, the file states the
    publication before. Readers then see that one, and the next writer finds the row (`publication.recover`).
    """
    number, _, versions = (stated or b"").partition(b" ")
    try:
        known = {str(name): int(each) for name, each in json.loads(versions).items()}
    except (ValueError, AttributeError):
        return None
    return Published(int(number), known) if number.isdigit() else None
