"""A stream of JSON yields the items of a document one by one, and what follows the document."""

import io

import pytest

from jobs.landing.formats.json_stream import items
from jobs.landing.formats.rows import Reject


def read(content: bytes) -> tuple[list[object], list[str | None]]:
    rejects: list[Reject] = []
    return list(items(io.BytesIO(content), 1000, rejects)), [each.text for each in rejects]


@pytest.mark.parametrize("empty", [b"{}", b"[]", b" { } \n", b'{"traceEvents": []}', b'{"other": {}}'])
def test_an_empty_document_is_read_to_its_end(empty: bytes) -> None:
    assert read(empty) == ([], [])
    assert read(empty + b" 7") == ([], ["7"])
