"""Gzip files that break off."""

import gzip
import os

import pyarrow as pa
import pytest

from udfs.gzip_files import broken_files, defect

GOOD = gzip.compress(os.urandom(3 << 20)) + gzip.compress(b"a second member\n" * 1000)


@pytest.mark.parametrize("content", [b"", gzip.compress(b""), gzip.compress(b"x"), GOOD])
def test_whole_files_have_no_defect(content: bytes) -> None:
    assert defect(content) is None


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (GOOD[:-1], "ends too early"),
        (GOOD[: len(GOOD) // 2], "ends too early"),
        (GOOD[:10], "ends too early"),
        (GOOD[:-8] + b"\0\0\0\0" + GOOD[-4:], "incorrect data check"),
        (GOOD + b"junk", "incorrect header check"),
        (GOOD + b"\0" * 512, "incorrect header check"),
        (b'{"plain": "text"}\n', "incorrect header check"),
    ],
)
def test_what_spark_cannot_read_to_its_end_has_a_defect(content: bytes, told: str) -> None:
    assert told in (defect(content) or "")


def test_only_broken_files_come_out_of_a_batch() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"path": ["good", "torn"], "content": pa.array([GOOD, GOOD[:99]], pa.binary())}
    )
    (found,) = broken_files(iter([batch]))
    assert found.to_pydict() == {"path": ["torn"], "detail": ["broken gzip: it ends too early"]}
