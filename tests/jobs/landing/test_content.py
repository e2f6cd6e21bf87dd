"""Test how a file's bytes are read: decompression, limits, and splitting into lines."""

import gzip
import hashlib
import io
import os
from collections.abc import Callable
from contextlib import nullcontext

import pytest

from jobs.landing import content as contents
from jobs.landing.content import Content
from jobs.landing.formats.rows import Bounds, FileError

NOISE = os.urandom(3 << 20)
SMALL = gzip.compress(b"one member\n" * 10, mtime=0)
GOOD = gzip.compress(NOISE, mtime=0) + gzip.compress(b"a second member\n" * 1000, mtime=0)


def lines(content: bytes, *, is_packed: bool = False, **bounds: int) -> list[bytes]:
    blocks = Content(io.BytesIO(content), Bounds(**bounds)).lines(is_packed=is_packed)
    return [line for block in blocks for line in block]


def refused(content: bytes, *, is_packed: bool = False, **bounds: int) -> tuple[str, str]:
    with pytest.raises(FileError) as error:
        lines(content, is_packed=is_packed, **bounds)
    return error.value.reject.reason, error.value.reject.detail


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a", [b"a"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\r\n\nb\n", [b"a\r", b"", b"b"]),
    ],
)
def test_lines_stand_between_newlines(content: bytes, wanted: list[bytes]) -> None:
    assert lines(content) == wanted
    assert lines(gzip.compress(content, mtime=0), is_packed=True) == wanted


def test_lines_go_on_from_piece_to_piece_and_from_member_to_member() -> None:
    content = b"\n".join(bytes([97 + number % 26]) * (number * 997 % 70_001) for number in range(400))
    assert len(content) > 3 * (4 << 20)
    assert lines(content) == content.split(b"\n")
    assert lines(gzip.compress(content, 1, mtime=0), is_packed=True) == content.split(b"\n")
    assert b"\n".join(lines(GOOD, is_packed=True)) + b"\n" == NOISE + b"a second member\n" * 1000
    assert lines(b"", is_packed=True) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GOOD[:-1], "ends too early"),
        (GOOD[: len(GOOD) // 2], "ends too early"),
        (GOOD[:10], "ends too early"),
        (GOOD[:-8] + b"\0\0\0\0" + GOOD[-4:], "incorrect data check"),
        (SMALL[:-8] + b"\0\0\0\0" + SMALL[-4:], "incorrect data check"),
        (GOOD + b"junk", "incorrect header check"),
        (
            b'{"plain": "text"}\n',
            "broken gzip: it begins otherwise: end its name in .gz only if it is packed",
        ),
    ],
)
def test_broken_gzip_says_how(content: bytes, message: str) -> None:
    reason, detail = refused(content, is_packed=True)
    assert (reason, message in detail) == ("unreadable_file", True)
    with pytest.raises(FileError, match=message) if content[:1] == GOOD[:1] else nullcontext():
        Content(io.BytesIO(content), Bounds()).unpacked().read()


def test_a_file_of_too_many_bytes_or_packed_too_tightly_is_given_up() -> None:
    bomb = gzip.compress(b"0" * (80 << 20))
    reason, detail = refused(bomb, is_packed=True)
    assert (reason, detail[:28]) == ("file_too_large", "packed more than 200 times: ")
    assert lines(bomb, is_packed=True, packing=2000, line_bytes=10)[0].startswith(b"0")
    for content, is_packed in ((b"x\n" * 501, False), (gzip.compress(b"x\n" * 501, mtime=0), True)):
        found = refused(content, is_packed=is_packed, file_bytes=1000)
        assert found == ("file_too_large", "more than 1000 bytes unpacked")
    assert len(lines(b"x\n" * 500, file_bytes=1000)) == 500


def test_the_beginning_of_an_endless_line_is_stored() -> None:
    found = lines(b"a\n" + b"y" * (40 << 20) + b"\nz\n", line_bytes=1000)
    assert (found[0], found[2:], found[1][:5]) == (b"a", [b"z"], b"yyyyy")
    assert 1000 < len(found[1]) < 10 << 20


def test_the_digest_is_of_the_bytes_as_they_lie() -> None:
    packed = gzip.compress(b"a\nb\n", mtime=0)
    content = Content(io.BytesIO(packed), Bounds())
    assert [line for block in content.lines(is_packed=True) for line in block] == [b"a", b"b"]
    assert (content.digest, content.bytes_read) == (hashlib.sha256(packed).hexdigest(), len(packed))


def test_a_small_file_must_be_small() -> None:
    assert Content(io.BytesIO(b"abc"), Bounds()).whole(3) == b"abc"
    with pytest.raises(FileError, match="more than 2 bytes"):
        Content(io.BytesIO(b"abc"), Bounds()).whole(2)


def test_zeros_behind_the_last_member_are_no_content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "_FIRST_PIECE", 64)
    packed = gzip.compress(b"a\n") + bytes(100) + gzip.compress(b"b\n") + bytes(500)
    found = Content(io.BytesIO(packed), Bounds())
    assert [line for lines in found.lines(is_packed=True) for line in lines] == [b"a", b"b"]
    for other in (bytes(100) + packed, packed + b"\0x"):
        with pytest.raises(FileError, match="broken gzip"):
            list(Content(io.BytesIO(other), Bounds()).lines(is_packed=True))


def test_short_lines_come_some_at_a_time() -> None:
    found = list(Content(io.BytesIO(b"x\n" * 50_000), Bounds()).lines(is_packed=False))
    assert [len(lines) for lines in found] == [20_000, 20_000, 10_000]


def test_lines_packed_one_by_one_come_many_at_a_time() -> None:
    """Lines that the writer compressed one by one, as gzip members, are returned in large batches."""
    found = list(Content(io.BytesIO(gzip.compress(b"a\n") * 5_000), Bounds()).lines(is_packed=True))
    assert [len(each) for each in found] == [5_000]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_byte_order_mark_is_no_content_of_other_tools_files(pack: Callable[[bytes], bytes]) -> None:
    for content, wanted in ((b"\xef\xbb\xbf{}", b"{}"), (b"\xef\xbb", b"\xef\xbb"), (b"", b"")):
        assert Content(io.BytesIO(pack(content)), Bounds()).unpacked().read() == wanted
