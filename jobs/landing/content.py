"""Bytes of a file, read once: the stored bytes are digested, decompressed and split into lines."""

import hashlib
import io
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final, TypeVar, cast

import pyarrow as pa

from jobs.landing.files import LandedFile
from jobs.landing.formats.rows import Bounds, FileError
from jobs.landing.stores import Store
from schemas.vocabulary import Reason

_Found = TypeVar("_Found")
_FIRST_PIECE: Final = 256 << 10
_PIECE: Final = 4 << 20
_SLICE: Final = 64 << 10
_GZIP: Final = zlib.MAX_WBITS | 16
_GZIP_MAGIC: Final = b"\x1f\x8b"
_NEVER_PACKED: Final = "it begins otherwise: end its name in .gz only if it is packed"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_LINES: Final = 20_000
"""Most lines in a block: short lines take far more memory as Python objects, and rejected lines even more."""
_NOT_A_BOMB: Final = 64 << 20
"""Files of at most this many unpacked bytes may have any packing ratio."""


class Content:
    """A file read from beginning to end.

    bytes_read : of the file as stored
    is_whole : whether its end was reached
    """

    def __init__(self, file: BinaryIO, bounds: Bounds) -> None:
        self._file, self._bounds = file, bounds
        self._digest = hashlib.sha256()
        self.bytes_read = 0
        self.is_whole = False

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the bytes read so far."""
        return self._digest.hexdigest()

    def pieces(self) -> Iterator[bytes]:
        """Yield the file's bytes in pieces."""
        wanted = _FIRST_PIECE  # small, because `read` allocates so much memory even for a small file
        while piece := self._file.read(wanted):
            wanted = min(2 * wanted, _PIECE)
            self._digest.update(piece)
            self.bytes_read += len(piece)
            yield piece
        self.is_whole = True

    def at_any_place(self, read: Callable[[BinaryIO, Bounds], _Found]) -> _Found:
        """Call `read`, which may seek in the file; then rewind the file, and return the result of `read`."""
        found = read(self._file, self._bounds)
        self._file.seek(0)
        return found

    def whole(self, most: int) -> bytes:
        """Read a small file at once. Raises FileError if it is larger than `most` bytes."""
        found = b""
        for piece in self.pieces():
            found += piece
            if len(found) > most:
                raise FileError(Reason.FILE_TOO_LARGE, f"more than {most} bytes")
        return found

    def unpacked(self) -> BinaryIO:
        """Return the contents as a stream, decompressed if they begin like gzip or zstd.

        A byte order mark at the beginning is skipped. Reading raises FileError for a file that is too large,
        or cannot be unpacked.
        """
        head = self.at_any_place(lambda file, _: file.read(len(_ZSTD_MAGIC)))
        is_gzip, is_zstd = head.startswith(_GZIP_MAGIC), head == _ZSTD_MAGIC
        pieces = self._from_gzip() if is_gzip else self._from_zstd() if is_zstd else self.pieces()
        found = io.BufferedReader(_Pieces(self._bounded(pieces)), _FIRST_PIECE)
        if found.peek(len(BOM_UTF8)).startswith(BOM_UTF8):
            found.read(len(BOM_UTF8))
        return cast("BinaryIO", found)

    def lines(self, *, is_packed: bool) -> Iterator[list[bytes]]:
        """Yield blocks of lines without newlines; overlong lines are truncated.

        Raises FileError for a file that cannot be unpacked, or is too large.
        """
        rest = b""
        for piece in self._bounded(self._from_gzip() if is_packed else self.pieces()):
            lines = piece.split(b"\n")
            if len(rest) <= self._bounds.line_bytes:
                lines[0] = rest + lines[0]
            else:  # it is too long already: only its beginning is stored
                lines[0] = rest
            rest = lines.pop()
            yield from (lines[first : first + _LINES] for first in range(0, len(lines), _LINES))
        if rest:
            yield [rest]

    def _bounded(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yield decompressed pieces. Raises FileError if they are too large or too tightly compressed."""
        bounds, unpacked = self._bounds, 0
        for piece in pieces:
            unpacked += len(piece)
            if unpacked > bounds.file_bytes:
                raise FileError(Reason.FILE_TOO_LARGE, f"more than {bounds.file_bytes} bytes unpacked")
            if unpacked > max(_NOT_A_BOMB, self.bytes_read * bounds.packing):
                hold = f"{self.bytes_read} bytes hold {unpacked} and more"
                raise FileError(Reason.FILE_TOO_LARGE, f"packed more than {bounds.packing} times: {hold}")
            yield piece

    def _from_gzip(self) -> Iterator[bytes]:
        """Decompress gzip, several members at a time, because each line may be a separate member."""
        small, size = list[bytes](), 0
        try:
            for found in self._members():
                small.append(found)
                size += len(found)
                if size >= _PIECE:
                    yield b"".join(small)
                    small, size = [], 0
        except FileError:
            if small:
                yield b"".join(small)  # enough to recognise the file's format
            raise
        if small:
            yield b"".join(small)

    def _members(self) -> Iterator[bytes]:
        """Decompress gzip of one or more members, ignoring zero padding at the end."""
        member, is_behind, is_gzip = None, False, None
        # In small pieces, because zlib copies all bytes that follow the end of a member.
        pieces = (
            piece[first : first + _SLICE] for piece in self.pieces() for first in range(0, len(piece), _SLICE)
        )
        for piece in pieces:
            is_gzip = piece.startswith(_GZIP_MAGIC) if is_gzip is None else is_gzip
            packed = piece.lstrip(b"\0") if is_behind else piece
            while packed:
                member = member or zlib.decompressobj(_GZIP)
                try:
                    while found := member.decompress(packed, _PIECE):
                        yield found
                        packed = member.unconsumed_tail
                except zlib.error as error:
                    why = f"{error}" if is_gzip else _NEVER_PACKED
                    raise FileError(Reason.UNREADABLE_FILE, f"broken gzip: {why}") from None
                is_behind = member.eof
                packed, member = (member.unused_data.lstrip(b"\0"), None) if is_behind else (b"", member)
        if member is not None:
            raise FileError(Reason.UNREADABLE_FILE, "broken gzip: it ends too early")

    def _from_zstd(self) -> Iterator[bytes]:
        with pa.CompressedInputStream(pa.PythonFile(_Pieces(self.pieces()), mode="r"), "zstd") as opened:
            try:
                while found := opened.read(_PIECE):
                    yield found
            except OSError as error:
                raise FileError(Reason.UNREADABLE_FILE, f"broken zstd: {error}") from None


class _Pieces(io.RawIOBase):
    """File object over an iterator of bytes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, room: bytearray | memoryview) -> int:  # type: ignore[override]  # any buffer will do
        if not self._rest:
            self._rest = memoryview(next(self._pieces, b""))
        size = min(len(room), len(self._rest))
        room[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


class UnitFiles:
    """Opens the files of a unit for the readers of formats, and digests what they read.

    digests : SHA-256 of each file that was read to its end
    opened_last : the file that was opened last
    """

    def __init__(self, store: Store, bounds: Bounds) -> None:
        self._store, self.bounds = store, bounds
        self.opened_last: LandedFile | None = None
        self.digests: dict[LandedFile, str] = {}

    @contextmanager
    def content(self, file: LandedFile) -> Iterator[Content]:
        """Open a file. Raises FileError if the store does not deliver all of it."""
        if file.defect:
            raise FileError(Reason.UNREADABLE_FILE, file.defect)
        self.opened_last = file
        try:
            with self._store.open(file.path, file.size) as opened:
                content = Content(opened, self.bounds)
                yield content
                if content.is_whole:
                    self.digests[file] = content.digest
        except OSError as error:
            why = f": {error.strerror}" if error.strerror else ""
            raise FileError(Reason.UNREADABLE_FILE, f"not readable to its end{why}") from None

    @contextmanager
    def unpacked(self, file: LandedFile) -> Iterator[BinaryIO]:
        """Open a file's decompressed bytes. Raises FileError if the file cannot be read."""
        with self.content(file) as content:
            yield content.unpacked()

    def digest(self, file: LandedFile) -> str:
        """Return the SHA-256 of a file; the file is read again if no reader reached its end."""
        if file not in self.digests:
            with self.content(file) as content:
                for _ in content.pieces():
                    pass
        return self.digests[file]
