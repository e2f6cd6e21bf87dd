"""Arrow filesystems for folders and stores, and files whose errors name the store."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from io import BufferedReader, BytesIO, RawIOBase
from typing import Any, BinaryIO, Final, cast

import pyarrow as pa
from pyarrow import fs

from jobs.runtime.errors import PlainError
from jobs.runtime.places import STORES, is_url, s3_endpoint, s3_region, said_by, usual

_OBJECTS: Final = "jobs.runtime.objects"
"""Module imported only for a store, because small installs lack its dependencies."""
_OF_STORE: Final = re.compile(r"Generic \w+ error|AWS Error|Error performing [A-Z]+ ")
WHOLE_BYTES: Final = 4 << 20
"""Largest file of a store that is read whole when it is opened; buffer size for larger files. [B]"""


@lru_cache(maxsize=64)
def filesystem_of(root: str) -> tuple[fs.FileSystem, str]:
    """Return the pyarrow filesystem of a path or URL, and the path within it."""
    root = usual(root)
    if not is_url(root):
        return fs.LocalFileSystem(), root
    scheme, _, place = root.partition("://")
    if scheme not in STORES:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(root)
        return found
    if scheme != "s3":
        bucket, _, path = place.partition("/")
        return _by_delta(f"{scheme}://{bucket}"), path
    endpoint = s3_endpoint()
    # Delayed open: a small file is written by one request, without beginning a multipart upload first.
    return fs.S3FileSystem(region=s3_region(), endpoint_override=endpoint, allow_delayed_open=True), place


@lru_cache(maxsize=8)
def _by_delta(bucket: str) -> fs.FileSystem:
    """Return deltalake's filesystem of a bucket, because Arrow's reads other environment variables."""
    handler = import_module("deltalake.fs").DeltaStorageHandler

    class Handler(handler):  # type: ignore[misc, valid-type]  # its own does not take Arrow's buffers
        def open_output_stream(self, path: str, _metadata: object = None) -> pa.PythonFile:
            return pa.PythonFile(_Written(import_module(_OBJECTS).writer(bucket, path)), mode="w")

    return fs.PyFileSystem(Handler(bucket))


def reached(root: str) -> tuple[fs.FileSystem, str]:
    """Return the filesystem of any URL that pyarrow or fsspec can open, and the path within it.

    Raises StoreError if neither can open it, as with hdfs:// without Hadoop's library.
    """
    with delivering(root):
        try:
            return filesystem_of(root)
        except (pa.ArrowException, ValueError):
            try:
                other, path = import_module("fsspec.core").url_to_fs(root)
            except (ImportError, ValueError) as error:
                raise OSError(str(error)) from None
            return fs.PyFileSystem(fs.FSSpecHandler(other)), path


def delivered(filesystem: fs.FileSystem, path: str, url: str) -> BinaryIO:
    """Open a file of a store for reading; small files are read whole. url : the file's URL, for messages"""
    with delivering(url):
        try:
            opened = filesystem.open_input_file(path)
        except FileNotFoundError:
            filesystem.get_file_info(path)  # raises OSError if the store does not answer
            raise
        if opened.size() <= WHOLE_BYTES:
            with opened:
                return BytesIO(opened.read())
    return cast("BinaryIO", BufferedReader(_Delivered(opened, url), WHOLE_BYTES))


def delivered_whole(root: str, name: str) -> BinaryIO:
    """Read an object below a URL whole, with a single request; return it as an open file."""
    with delivering(f"{root}/{name}"):
        (content,) = import_module(_OBJECTS).contents(root, [name])
    return BytesIO(content)


class StoreError(PlainError):
    """Raised when a store does not answer or refuses a request; the message is one line."""


@contextmanager
def delivering(url: str) -> Iterator[None]:
    """Turn errors of a store into StoreError, which names the file or folder that was read."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreError(
            f"{url} could not be read from its store: {said_by(error)}; run the command again, with "
            "address and credentials in the environment"
        ) from None


def is_of_store(error: BaseException, said: str) -> bool:
    """Return whether a store's client, not the system, raised an error. said : the error's text"""
    return (type(error) is OSError and error.errno is None) or bool(_OF_STORE.search(said))


class _Delivered(RawIOBase):
    """File of a store whose read errors become StoreError."""

    def __init__(self, file: pa.NativeFile, url: str) -> None:
        self._file, self._url = file, url

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, place: int, whence: int = 0) -> int:
        self._file.seek(place, whence)
        return self.tell()

    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, room: bytearray | memoryview) -> int:  # type: ignore[override]  # any buffer will do
        with delivering(self._url):
            return int(self._file.readinto(room))

    def close(self) -> None:
        self._file.close()
        super().close()


class _Written(RawIOBase):
    """Object of a store that is written from any buffers, and exists once it is closed."""

    def __init__(self, writer: Any) -> None:  # noqa: ANN401  # obstore's
        self._writer, self._bytes = writer, 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._bytes

    def write(self, content: Any) -> int:  # noqa: ANN401  # any buffer will do
        self._bytes += self._writer.write(bytes(content))
        return len(content)

    def close(self) -> None:
        if not self.closed:
            self._writer.close()
        super().close()
