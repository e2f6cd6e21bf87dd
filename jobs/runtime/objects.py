"""Functions that read, conditionally write, and remove whole objects of a store."""

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from mimetypes import guess_type
from typing import Any, Final, NamedTuple

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import ObjectStore, from_url

from jobs.runtime.places import MOST_RETRIES, RETRIED_S, said_by, storage_options, usual

_RETRIES: Final[Any] = {"max_retries": MOST_RETRIES, "retry_timeout": timedelta(seconds=RETRIED_S)}
"""Limits on retries of a request that a store answers by 500 or 503, or not at all."""


@contextmanager
def _asking() -> Iterator[None]:
    """Turn errors of a store into OSError with one line."""
    try:
        yield
    except (FileNotFoundError, AlreadyExistsError, PreconditionError):
        raise
    except BaseError as error:
        raise OSError(said_by(error)) from None


class Object(NamedTuple):
    """Object below a root. modified_us : Unix time of its last change, by the store's clock [us]"""

    name: str
    size: int
    modified_us: int


class Version(NamedTuple):
    """Content of an object, and its ETag, which changes when the object is replaced."""

    content: bytes
    mark: str
    modified_s: float


@lru_cache(maxsize=64)
def store_at(root: str) -> ObjectStore:
    """Return the store at a URL, configured by the environment."""
    if root.startswith("file://"):
        local: ObjectStore = from_url(root)
        return local
    options = {
        name: value for name, value in (storage_options(usual(root)) or {}).items() if name not in _RETRIES
    }
    plain = options.pop("aws_allow_http", None) == "true"
    how: dict[str, Any] = {"config": options or None, "retry_config": _RETRIES}
    found: ObjectStore = from_url(usual(root), client_options={"allow_http": True} if plain else None, **how)
    return found


def content(root: str, name: str) -> bytes | None:
    """Return the content of an object; None if the object does not exist."""
    found = version(root, name)
    return None if found is None else found.content


def version(root: str, name: str) -> Version | None:
    """Return content and ETag of an object; None if the object does not exist."""
    try:
        with _asking():
            found = obstore.get(store_at(root), name)
            facts, content = found.meta, bytes(found.bytes())
    except FileNotFoundError:
        return None
    return Version(content, facts["e_tag"] or "", facts["last_modified"].timestamp())


def contents(root: str, names: Sequence[str]) -> list[bytes]:
    """Read the contents of several objects in parallel. Raises FileNotFoundError if one is missing."""
    if not names:
        return []
    with _asking(), ThreadPoolExecutor(min(16, len(names))) as beside:
        return list(beside.map(lambda name: bytes(obstore.get(store_at(root), name).bytes()), names))


def write(root: str, name: str, content: bytes) -> None:
    """Create or replace an object atomically, with the content type that its name suggests."""
    kind, _ = guess_type(name, strict=False)
    is_folder = root.startswith("file://")  # files have no content type
    with _asking():
        obstore.put(
            store_at(root),
            name,
            content,
            attributes={"Content-Type": kind} if kind and not is_folder else None,
        )


def writer(root: str, name: str) -> Any:  # noqa: ANN401  # obstore has no public name for it
    """Open an object to write it in parts; the object is created or replaced when it is closed."""
    return obstore.open_writer(store_at(root), name)


def create(root: str, name: str, content: bytes) -> str | None:
    """Create an object and return its ETag; None if it exists. Only one of concurrent callers succeeds."""
    try:
        with _asking():
            return obstore.put(store_at(root), name, content, mode="create")["e_tag"]
    except AlreadyExistsError:
        return None


def replace(root: str, name: str, content: bytes, mark: str) -> str | None:
    """Replace an object that still has this ETag and return the new ETag; None if it has another."""
    try:
        with _asking():
            return obstore.put(store_at(root), name, content, mode={"e_tag": mark})["e_tag"]
    except (PreconditionError, FileNotFoundError):
        return None


def remove(root: str, names: Collection[str]) -> None:
    """Remove objects, ignoring missing ones."""
    if names:
        try:
            with _asking():
                obstore.delete(store_at(root), sorted(names))
        except FileNotFoundError:
            return


def listed(root: str, prefix: str = "", after: str | None = None) -> Iterator[Object]:
    """Yield every object below a folder of the root, named relative to the root.

    after : only objects whose names sort after this one
    """
    with _asking():
        pages = obstore.list(store_at(root), prefix or None, offset=after)
        found = [each for some in pages for each in some]
    for each in found:
        yield Object(each["path"], each["size"], round(each["last_modified"].timestamp() * 1e6))
