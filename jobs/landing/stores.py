"""Stores of a landing: a local folder, or any URL that pyarrow or fsspec can open.

A local folder is listed by system calls, because names need not be text and not every entry is a file.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, BinaryIO, Final, NamedTuple, cast

from pyarrow import fs

from jobs.runtime.filesystems import WHOLE_BYTES, delivered, delivered_whole, delivering, reached
from jobs.runtime.places import STORES, is_url, usual

_FILE_DEPTH: Final = 3
"""Below a day are job folders, run folders, files; links to folders as deep as files are not followed."""

_KINDS: Final = {
    stat.S_IFIFO: "not a file but a FIFO",
    stat.S_IFSOCK: "not a file but a socket",
    stat.S_IFCHR: "not a file but a device",
    stat.S_IFBLK: "not a file but a device",
    stat.S_IFDIR: "not a file but a folder",
}

_TO_PASS: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags for opening a folder on the way to a file: it need not be readable, and must not be a link."""

_NOWHERE: Final = "a link that leads nowhere"


class Entry(NamedTuple):
    """A file or link below a folder of a store; plain folders are walked and are not entries.

    names : of its folders and itself; bytes that are not UTF-8 as lone surrogates
    path : for open()
    size : [B]
    modified_us : Unix time of its last change [us]
    defect : why it cannot be read as a file; empty if it can
    owner : user id of its owner; None if the store does not report it
    hard_links : number of its names in the filesystem, more than one if backups use hard links; None likewise
    """

    names: tuple[str, ...]
    path: str
    size: int = 0
    modified_us: int = 0
    defect: str = ""
    owner: int | None = None
    hard_links: int | None = None


class Store:
    """A tree of files, accessed through a pyarrow filesystem.

    url : of the root
    has_objects : whether the URL's scheme is one of STORES, where one request returns a whole object
    """

    def __init__(self, filesystem: fs.FileSystem, root: str, url: str, *, has_objects: bool) -> None:
        self._filesystem, self._root, self._url, self._has_objects = filesystem, root, url, has_objects

    def _found(self, what: str | fs.FileSelector) -> Any:  # noqa: ANN401  # a FileInfo, or a selector's list
        path = what if isinstance(what, str) else what.base_dir
        with delivering(self._url_of(path)):
            found = self._filesystem.get_file_info(what)
            if found == [] and not self._has_objects:
                self._filesystem.get_file_info(path)  # raises if no store answers, where fsspec lists nothing
            return found

    def _url_of(self, path: str) -> str:
        return self._url + path[len(self._root) :]

    def is_there(self) -> bool:
        """Return whether the root is a folder."""
        return bool(self._found(self._root).type == fs.FileType.Directory)

    def exists(self, name: str) -> bool:
        """Return whether a file exists at this path below the root."""
        return bool(self._found(f"{self._root}/{name}").type == fs.FileType.File)

    def folders(self, name: str = "") -> list[str]:
        """Return the names of folders directly below the root or `name`; empty if that folder is missing."""
        selector = fs.FileSelector(f"{self._root}/{name}".rstrip("/"), allow_not_found=True)
        found = self._found(selector)
        return sorted(each.base_name for each in found if each.type == fs.FileType.Directory)

    def walk(self, folder: str) -> Iterator[Entry]:
        """Yield all entries below a folder of the root; nothing if it does not exist."""
        top = f"{self._root}/{folder}"
        selector = fs.FileSelector(top, recursive=True, allow_not_found=True)
        for found in sorted(self._found(selector), key=lambda each: each.path):
            if found.type != fs.FileType.Directory:
                names = tuple(found.path[len(top) :].strip("/").split("/"))
                defect = "" if found.type == fs.FileType.File else "not a file"
                yield Entry(names, found.path, found.size or 0, (found.mtime_ns or 0) // 1000, defect)

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        """Open a file for random access; small files are read at once.

        size : as listed, if it is known. [B]
        Raises FileNotFoundError if the file does not exist, StoreError if the store fails. A StoreError says
        nothing about the file, which must not be rejected as unreadable because of it.
        """
        name = path[len(self._root) :].strip("/")
        is_plain = not {"", ".", ".."} & {*name.split("/")}  # obstore accepts no other names of objects
        if self._has_objects and size is not None and size <= WHOLE_BYTES and is_plain:
            return delivered_whole(self._url, name)
        return delivered(self._filesystem, path, self._url_of(path))


class _Folder(Store):
    """Store that reads a landing from a folder on this machine.

    Links that stay inside are followed, except links to a folder above themselves and all but the first of
    several links to one folder, because a few such links would make the listing endless.
    """

    def __init__(self, root: str) -> None:
        self._top = os.path.realpath(_bytes(root))

    def is_there(self) -> bool:
        return os.path.isdir(self._top)  # noqa: PTH112  # a path of bytes: names need not be text

    def exists(self, name: str) -> bool:
        return os.path.exists(self._top + b"/" + _bytes(name))  # noqa: PTH110  # a path of bytes

    def folders(self, name: str = "") -> list[str]:
        try:
            with os.scandir(self._top + b"/" + _bytes(name)) as found:
                return sorted(_text(each.name) for each in found if each.is_dir())
        except PermissionError:
            if not name:
                raise
            return []
        except OSError:
            return []

    def walk(self, folder: str) -> Iterator[Entry]:
        path = self._top + b"/" + _bytes(folder)
        if os.path.lexists(path):
            yield from self._entry(path, (), set(), is_followed=True)

    def _below(self, folder: bytes, names: tuple[str, ...], linked: set[bytes]) -> Iterator[Entry]:
        try:
            with os.scandir(folder) as found:
                inner = sorted(each.name for each in found)
        except FileNotFoundError:  # removed while its parent was listed
            return
        except OSError as error:
            yield Entry(names, _text(folder), defect=f"a folder that cannot be listed: {error.strerror}")
            return
        for name in inner:
            path = folder + b"/" + name
            is_followed = len(names) + 1 < _FILE_DEPTH
            yield from self._entry(path, (*names, _text(name)), linked, is_followed=is_followed)

    def _entry(
        self, path: bytes, names: tuple[str, ...], linked: set[bytes], *, is_followed: bool
    ) -> Iterator[Entry]:
        try:
            facts = os.lstat(path)
        except FileNotFoundError:  # removed while its folder was listed
            return
        except OSError as error:  # its folder can be listed and not entered, as after chmod -R 644
            yield Entry(names, _text(path), defect=f"it cannot be reached: {error.strerror}")
            return
        if stat.S_ISLNK(facts.st_mode):
            link, path = path, os.path.realpath(path)
            defect = "" if path.startswith(self._top + b"/") else "a link out of the landing"
            try:
                facts = facts if defect else os.lstat(path)
            except OSError:
                defect = _NOWHERE
            if is_followed and not defect and stat.S_ISDIR(facts.st_mode):
                defect = _not_followed(link, path, linked)
            if defect:
                yield Entry(names, _text(path), defect=defect)
                return
        else:
            is_followed = True
        kind = stat.S_IFMT(facts.st_mode)
        is_folder = kind == stat.S_IFDIR and is_followed
        if is_folder:
            yield from self._below(path, names, linked)
        if not is_folder or len(names) == _FILE_DEPTH:  # listings of files include folders too
            defect = "" if kind == stat.S_IFREG else _KINDS.get(kind, _NOWHERE)
            modified_us = facts.st_mtime_ns // 1000
            yield Entry(names, _text(path), facts.st_size, modified_us, defect, facts.st_uid, facts.st_nlink)

    def open(self, path: str, size: int | None = None) -> BinaryIO:  # noqa: ARG002  # of stores
        """Open a listed file. Raises OSError if the file or a folder above it has become a link since.

        Raises it too for a file that has become a FIFO. Each folder is opened relative to the one above it,
        so that links on the way are noticed.
        """
        top = self._top.rstrip(b"/") + b"/"
        *folders, name = _bytes(path).removeprefix(top).split(b"/")
        with ExitStack() as opened:
            above = _opened(top, _TO_PASS, None, opened)
            for folder in folders:
                try:
                    above = _opened(folder, _TO_PASS, above, opened)
                except NotADirectoryError:
                    raise OSError(0, f"the folder {_text(folder)!r} is no longer a folder") from None
            found = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        if not stat.S_ISREG(os.fstat(found).st_mode):
            os.close(found)
            raise OSError(0, "not a file any more")
        return cast("BinaryIO", os.fdopen(found, "rb", buffering=0))


def _opened(name: bytes, flags: int, above: int | None, stack: ExitStack) -> int:
    found = os.open(name, flags, dir_fd=above)
    stack.callback(os.close, found)
    return found


def _not_followed(link: bytes, folder: bytes, linked: set[bytes]) -> str:
    """Return why a link to a folder is not followed; empty if it is followed.

    linked : folders that links were followed to; this one is added
    """
    if link.startswith(folder + b"/"):
        return "a link to a folder above itself"
    if folder in linked:
        return "a link to a folder that another link leads to"
    linked.add(folder)
    return ""


def store_of(root: str) -> Store:
    """Return the store for a local path or a URL.

    Raises StoreError for a URL that cannot be reached from here.
    """
    if not is_url(root):
        return _Folder(root)
    if root.startswith("file://"):
        return _Folder(fs.FileSystem.from_uri(root)[1])
    filesystem, path = reached(root)
    url = usual(root).rstrip("/")
    return Store(filesystem, path.rstrip("/"), url, has_objects=url.partition("://")[0] in STORES)


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
