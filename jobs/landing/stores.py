"""Places of a landing: a folder of this machine, or any store that pyarrow or fsspec reaches by URL.

A folder is listed by calls of the system: names need not be text, and not every entry is a file.
"""

import os
import stat
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple, cast

import fsspec
import pyarrow as pa
from pyarrow import fs

_SPARKS: Final = {"s3a://": "s3://", "s3n://": "s3://", "wasbs://": "abfss://"}
"""Spark's names of URL schemes, and the usual ones."""

_FILE_DEPTH: Final = 3
"""Below a day lie job folders, run folders, files; links to folders as deep as files are not followed."""

_KINDS: Final = {
    stat.S_IFIFO: "not a file but a FIFO",
    stat.S_IFSOCK: "not a file but a socket",
    stat.S_IFCHR: "not a file but a device",
    stat.S_IFBLK: "not a file but a device",
    stat.S_IFDIR: "not a file but a folder",
}

_NOWHERE: Final = "a link that leads nowhere"


class Entry(NamedTuple):
    """An entry below a folder that is not a plain folder.

    names : of its folders and itself; bytes that are not UTF-8 as lone surrogates
    path : for open()
    size : [B]
    modified_us : Unix time of its last change [us]
    defect : why it cannot be read as a file; empty if it can
    """

    names: tuple[str, ...]
    path: str
    size: int = 0
    modified_us: int = 0
    defect: str = ""


class Store:
    """A tree of files, reached by a filesystem of pyarrow."""

    def __init__(self, filesystem: fs.FileSystem, root: str) -> None:
        self._filesystem, self._root = filesystem, root

    def is_there(self) -> bool:
        """Whether the root is a folder."""
        return bool(self._filesystem.get_file_info(self._root).type == fs.FileType.Directory)

    def exists(self, name: str) -> bool:
        """Whether a file exists, by its path below the root."""
        return bool(self._filesystem.get_file_info(f"{self._root}/{name}").type == fs.FileType.File)

    def folders(self, name: str = "") -> list[str]:
        """Names of the folders in the root, or in a folder of it; none where it does not exist."""
        selector = fs.FileSelector(f"{self._root}/{name}".rstrip("/"), allow_not_found=True)
        found = self._filesystem.get_file_info(selector)
        return sorted(each.base_name for each in found if each.type == fs.FileType.Directory)

    def walk(self, folder: str) -> Iterator[Entry]:
        """Everything below a folder of the root; nothing if it does not exist."""
        top = f"{self._root}/{folder}"
        selector = fs.FileSelector(top, recursive=True, allow_not_found=True)
        for found in sorted(self._filesystem.get_file_info(selector), key=lambda each: each.path):
            if found.type != fs.FileType.Directory:
                names = tuple(found.path[len(top) :].strip("/").split("/"))
                defect = "" if found.type == fs.FileType.File else "not a file"
                yield Entry(names, found.path, found.size or 0, (found.mtime_ns or 0) // 1000, defect)

    def open(self, path: str) -> BinaryIO:
        """Open a file that can be read at any place. Raises OSError."""
        return cast("BinaryIO", self._filesystem.open_input_file(path))


class _Folder(Store):
    """A folder of this machine. Links are followed if they stay inside."""

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
        except OSError:
            return []

    def walk(self, folder: str) -> Iterator[Entry]:
        path = self._top + b"/" + _bytes(folder)
        if os.path.lexists(path):
            yield from self._entry(path, (), is_followed=True)

    def _below(self, folder: bytes, names: tuple[str, ...]) -> Iterator[Entry]:
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
            yield from self._entry(path, (*names, _text(name)), is_followed=len(names) + 1 < _FILE_DEPTH)

    def _entry(self, path: bytes, names: tuple[str, ...], *, is_followed: bool) -> Iterator[Entry]:
        try:
            facts = os.lstat(path)
        except FileNotFoundError:  # removed while its folder was listed
            return
        if stat.S_ISLNK(facts.st_mode):
            path = os.path.realpath(path)
            if not path.startswith(self._top + b"/"):
                yield Entry(names, _text(path), defect="a link out of the landing")
                return
            try:
                facts = os.lstat(path)
            except OSError:
                yield Entry(names, _text(path), defect=_NOWHERE)
                return
        else:
            is_followed = True
        kind = stat.S_IFMT(facts.st_mode)
        is_folder = kind == stat.S_IFDIR and is_followed
        if is_folder:
            yield from self._below(path, names)
        if not is_folder or len(names) == _FILE_DEPTH:  # listings of files include folders too
            defect = "" if kind == stat.S_IFREG else _KINDS.get(kind, _NOWHERE)
            yield Entry(names, _text(path), facts.st_size, facts.st_mtime_ns // 1000, defect)

    def open(self, path: str) -> BinaryIO:
        """Open a file as listed: one that has become a FIFO or a link since is an error, not a wait."""
        found = os.open(_bytes(path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(found).st_mode):
            os.close(found)
            raise OSError(0, "not a file any more")
        return cast("BinaryIO", os.fdopen(found, "rb", buffering=0))


def store_of(root: str) -> Store:
    """Return the store of a root: a path of this machine, or a URL."""
    if "://" not in root:
        return _Folder(root)
    if root.startswith("file://"):
        return _Folder(fs.FileSystem.from_uri(root)[1])
    for spark, others in _SPARKS.items():
        if root.startswith(spark):
            root = others + root.removeprefix(spark)
    try:
        filesystem, path = fs.FileSystem.from_uri(root)
    except (pa.ArrowException, ValueError):
        other, path = fsspec.core.url_to_fs(root)
        filesystem = fs.PyFileSystem(fs.FSSpecHandler(other))
    return Store(filesystem, path.rstrip("/"))


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
