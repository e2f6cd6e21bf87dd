"""Whether gzip files can be read to their end: Spark yields the lines before a break and only then fails."""

import zlib
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

CHECKED_SCHEMA: Final = pa.schema([pa.field("path", pa.string()), pa.field("detail", pa.string())])
_GZIP: Final = zlib.MAX_WBITS | 16
_PIECE: Final = 1 << 20


def broken_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the files that are broken, and how; batches of path and `content` in, of CHECKED_SCHEMA out."""
    for batch in batches:
        found = [
            {"path": path.as_py(), "detail": detail}
            for path, content in zip(batch.column("path"), batch.column("content"), strict=True)
            if (detail := defect(content.as_buffer())) is not None
        ]
        yield pa.RecordBatch.from_pylist(found, schema=CHECKED_SCHEMA)


def defect(content: pa.Buffer | bytes) -> str | None:
    """Tell what is wrong with a gzip file, or None; an empty file is fine, and so are several in a row."""
    rest = memoryview(content)
    while rest.nbytes:
        member = zlib.decompressobj(_GZIP)
        try:
            rest = _behind(member, rest)
        except zlib.error as error:
            return f"broken gzip: {error}"
        if not member.eof:
            return "broken gzip: it ends too early"
    return None


def _behind(member: "zlib._Decompress", content: memoryview) -> memoryview:
    """Read one member through, piece by piece, and return what lies behind it."""
    place = 0
    while place < len(content) and not member.eof:
        piece = content[place : place + _PIECE]
        place += len(piece)
        while piece.nbytes and not member.eof:
            member.decompress(piece, _PIECE)
            piece = memoryview(member.unconsumed_tail)
    return content[place - len(member.unused_data) :]
