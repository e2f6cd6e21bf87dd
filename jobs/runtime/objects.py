"""Objects of a store, whole: read, made only where there is none, replaced only as they were, removed."""

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import ObjectStore, from_url

from jobs.runtime.places import storage_options, usual

_AT_A_TIME: Final = 16
_RETRIES: Final[Any] = {"max_retries": 8, "retry_timeout": timedelta(seconds=60)}
"""A store that answers 500 or 503, or not at all, is asked again for a minute, not for three."""


@contextmanager
def _asking() -> Iterator[None]:
    """Raise OSError, on one line, where the store does not answer, or refuses to."""
    try:
        yield
    except (FileNotFoundError, AlreadyExistsError, PreconditionError):
        raise
    except BaseError as error:
        said = " ".join(str(error).split())
        raise OSError(said.partition(" Debug source:")[0]) from None


class Object(NamedTuple):
    """An object below a root. modified_us : the store's time of its last change, Unix [us]."""

    name: str
    size: int
    modified_us: int


class Version(NamedTuple):
    """What an object held, and the store's mark of that: another mark means that it was replaced."""

    content: bytes
    mark: str
    modified_s: float


@lru_cache(maxsize=64)
def store_at(root: str) -> ObjectStore:
    """Return the store below a URL, by what the environment says of it."""
    if root.startswith("file://"):
        local: ObjectStore = from_url(root)
        return local
    options = dict(storage_options(usual(root)) or {})
    plain = options.pop("aws_allow_http", None) == "true"
    how: dict[str, Any] = {"config": options or None, "retry_config": _RETRIES}
    found: ObjectStore = from_url(usual(root), client_options={"allow_http": plain}, **how)
    return found


def content(root: str, name: str) -> bytes | None:
    """Contents of an object; None without one."""
    found = version(root, name)
    return None if found is None else found.content


def version(root: str, name: str) -> Version | None:
    """Contents of an object and their mark; None without one."""
    try:
        with _asking():
            found = obstore.get(store_at(root), name)
            facts, content = found.meta, bytes(found.bytes())
    except FileNotFoundError:
        return None
    return Version(content, facts["e_tag"] or "", facts["last_modified"].timestamp())


def contents(root: str, names: Sequence[str]) -> list[bytes]:
    """Contents of several objects, read beside each other. Raises FileNotFoundError without one."""
    if not names:
        return []
    with _asking(), ThreadPoolExecutor(min(_AT_A_TIME, len(names))) as beside:
        return list(beside.map(lambda name: bytes(obstore.get(store_at(root), name).bytes()), names))


def write(root: str, name: str, content: bytes) -> None:
    """Make or replace an object; readers find it whole."""
    with _asking():
        obstore.put(store_at(root), name, content)


def create(root: str, name: str, content: bytes) -> str | None:
    """Make an object and return its mark; None where it exists. Of two attempts at once, one succeeds."""
    try:
        with _asking():
            return obstore.put(store_at(root), name, content, mode="create")["e_tag"]
    except AlreadyExistsError:
        return None


def replace(root: str, name: str, content: bytes, mark: str) -> str | None:
    """Replace an object that still has this mark and return the new one; None where it has another."""
    try:
        with _asking():
            return obstore.put(store_at(root), name, content, mode={"e_tag": mark})["e_tag"]
    except (PreconditionError, FileNotFoundError):
        return None


def remove(root: str, names: Collection[str]) -> None:
    """Remove objects; those that are not there do not matter."""
    if names:
        try:
            with _asking():
                obstore.delete(store_at(root), sorted(names))
        except FileNotFoundError:
            return


def listed(root: str, prefix: str = "") -> Iterator[Object]:
    """Every object below a folder of the root, by name below the root."""
    with _asking():
        found = [each for some in obstore.list(store_at(root), prefix or None) for each in some]
    for each in found:
        yield Object(each["path"], each["size"], round(each["last_modified"].timestamp() * 1e6))
