"""The bytes of a file on their way: digested as they lie, unpacked, cut into lines; each read once."""

import hashlib
import io
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, TypeVar, cast

import pyarrow as pa

from jobs.landing.formats.rows import Bounds, FileError
from schemas.vocabulary import REASON_FILE_TOO_LARGE, REASON_UNREADABLE_FILE

_Found = TypeVar("_Found")
_FIRST_PIECE: Final = 256 << 10
_PIECE: Final = 4 << 20
_GZIP: Final = zlib.MAX_WBITS | 16
_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_NOT_A_BOMB: Final = 64 << 20
"""Of a file that stays below, nobody asks how tightly it was packed."""


class Content:
    """A file that is read from its beginning to its end.

    bytes_read : of the file as it lies
    is_whole : whether its end was reached
    """

    def __init__(self, file: BinaryIO, bounds: Bounds) -> None:
        self._file, self._bounds = file, bounds
        self._digest = hashlib.sha256()
        self.bytes_read = 0
        self.is_whole = False

    @property
    def digest(self) -> str:
        """SHA-256 of what was read."""
        return self._digest.hexdigest()

    def pieces(self) -> Iterator[bytes]:
        """What lies there."""
        wanted = _FIRST_PIECE  # memory is asked for before anybody knows how much is there
        while piece := self._file.read(wanted):
            wanted = min(2 * wanted, _PIECE)
            self._digest.update(piece)
            self.bytes_read += len(piece)
            yield piece
        self.is_whole = True

    def at_any_place(self, read: Callable[[BinaryIO, Bounds], _Found]) -> _Found:
        """Return what is read from the file by going to places of it; it is at its beginning afterwards."""
        found = read(self._file, self._bounds)
        self._file.seek(0)
        return found

    def whole(self, most: int) -> bytes:
        """All of a small file. Raises FileError where it is not small."""
        found = b""
        for piece in self.pieces():
            found += piece
            if len(found) > most:
                raise FileError(REASON_FILE_TOO_LARGE, f"more than {most} bytes")
        return found

    def unpacked(self) -> BinaryIO:
        """What the file holds, to be read once: unpacked where its first bytes are those of gzip or zstd.

        Reading raises FileError for a file that cannot be unpacked, or is too large.
        """
        head = self.at_any_place(lambda file, _: file.read(len(_ZSTD_MAGIC)))
        pieces = self._bounded()
        if head.startswith(_GZIP_MAGIC):
            pieces = self._unpacked()
        elif head == _ZSTD_MAGIC:
            pieces = self._from_zstd()
        return cast("BinaryIO", io.BufferedReader(_Pieces(pieces), _FIRST_PIECE))

    def lines(self, *, is_packed: bool) -> Iterator[list[bytes]]:
        """Lines between newlines, some at a time, without them; of one that is too long the beginning.

        Raises FileError for a file that cannot be unpacked, or is too large.
        """
        rest = b""
        for piece in self._unpacked() if is_packed else self._bounded():
            lines = piece.split(b"\n")
            if len(rest) <= self._bounds.line_bytes:
                lines[0] = rest + lines[0]
            else:  # it is too long already: how it begins is all that anybody will see
                lines[0] = rest
            rest = lines.pop()
            if lines:
                yield lines
        if rest:
            yield [rest]

    def _bounded(self) -> Iterator[bytes]:
        for piece in self.pieces():
            self._check_size(self.bytes_read)
            yield piece

    def _unpacked(self) -> Iterator[bytes]:
        """Unpack gzip, of which several may stand in a row."""
        member = None
        unpacked = 0
        for piece in self.pieces():
            packed = piece
            while packed:
                member = member or zlib.decompressobj(_GZIP)
                try:
                    found = member.decompress(packed, _PIECE)
                    while found:
                        unpacked += len(found)
                        self._check_size(unpacked)
                        yield found
                        found = member.decompress(member.unconsumed_tail, _PIECE)
                except zlib.error as error:
                    raise FileError(REASON_UNREADABLE_FILE, f"broken gzip: {error}") from None
                packed, member = (member.unused_data, None) if member.eof else (b"", member)
        if member is not None:
            raise FileError(REASON_UNREADABLE_FILE, "broken gzip: it ends too early")

    def _from_zstd(self) -> Iterator[bytes]:
        unpacked = 0
        with pa.CompressedInputStream(pa.PythonFile(_Pieces(self.pieces()), mode="r"), "zstd") as opened:
            while True:
                try:
                    found = opened.read(_PIECE)
                except OSError as error:
                    raise FileError(REASON_UNREADABLE_FILE, f"broken zstd: {error}") from None
                if not found:
                    return
                unpacked += len(found)
                self._check_size(unpacked)
                yield found

    def _check_size(self, unpacked: int) -> None:
        """Raise FileError where a file is larger than it may be."""
        bounds = self._bounds
        if unpacked > bounds.file_bytes:
            raise FileError(REASON_FILE_TOO_LARGE, f"more than {bounds.file_bytes} bytes unpacked")
        if unpacked > max(_NOT_A_BOMB, self.bytes_read * bounds.packing):
            detail = (
                f"packed more than {bounds.packing} times: {self.bytes_read} bytes hold {unpacked} and more"
            )
            raise FileError(REASON_FILE_TOO_LARGE, detail)


class _Pieces(io.RawIOBase):
    """Pieces of bytes as a file that is read from its beginning."""

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


def refusal_of(error: OSError) -> FileError:
    """What a file is rejected with that a store does not give, or not to its end."""
    why = f": {error.strerror}" if error.strerror else ""
    return FileError(REASON_UNREADABLE_FILE, f"not readable to its end{why}")
