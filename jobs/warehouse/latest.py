"""The latest publication (snapshot), by the log of publications and by a small file that states it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from jobs.runtime.errors import DamagedError
from schemas.vocabulary import PUBLICATIONS

LATEST_PUBLICATION: Final = "_latest_publication"
"""File with the number of the last publication, written after its row; in a store, with its versions too."""
_DIGITS: Final = 18

Versions = Mapping[str, int]


@dataclass(frozen=True)
class Published:
    """The latest publication (snapshot): its number, and the Delta version of each table.

    versions : None before the first publication; readers then take each table as it is.
    """

    number: int = 0
    versions: Versions | None = None


def latest_publication(rows: pa.Table, root: str, stated: bytes | None) -> Published:
    """Return the latest publication among these rows of `publications`.

    stated : what the file LATEST_PUBLICATION has; None without one
    Raises DamagedError where the rows end before it: readers would see old tables, or none.
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
    """Return the content of the file that states the latest publication; reading it takes one request."""
    return f"{published.number} {json.dumps(dict(published.versions or {}))}".encode()


def latest_stated_in(stated: bytes | None) -> Published | None:
    """Return the publication in a store's file LATEST_PUBLICATION; None if the file lacks the versions.

    A writer that was killed right behind its row leaves the one before: as good to readers, and the next
    writer finds the row (`publication.recover`).
    """
    number, _, versions = (stated or b"").partition(b" ")
    try:
        known = {str(name): int(each) for name, each in json.loads(versions).items()}
    except (ValueError, AttributeError):
        return None
    return Published(int(number), known) if number.isdigit() else None
