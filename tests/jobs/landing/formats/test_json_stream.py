"""The items of a JSON document, and the text after the document, are read one by one from a stream."""

import io

import pytest

from jobs.landing.formats import json_stream
from jobs.landing.formats.json_stream import items
from jobs.landing.formats.rows import Reject


def read(content: bytes) -> tuple[list[object], list[str | None]]:
    rejects: list[Reject] = []
    return list(items(io.BytesIO(content), 1000, rejects)), [each.text for each in rejects]


@pytest.mark.parametrize("empty", [b"{}", b"[]", b" { } \n", b'{"traceEvents": []}', b'{"other": {}}'])
def test_an_empty_document_is_read_to_its_end(empty: bytes) -> None:
    assert read(empty) == ([], [])
    assert read(empty + b" 7") == ([], ["7"])


@pytest.mark.parametrize("number", [b"1.5", b"12E-3", b"-1.25e+10"])
def test_a_number_is_read_whole_wherever_the_window_ends(number: bytes) -> None:
    for kept in range(1, len(number)):
        head = (
            b'{"fill": "' + b"x" * (json_stream._PIECE - kept - 16) + b'","n":'
        )  # the first piece ends within the number
        document = head + number + b', "traceEvents": [7]}'
        assert document[json_stream._PIECE - kept :].startswith(number)
        assert list(items(io.BytesIO(document), 2 * json_stream._PIECE, [])) == [7], number[:kept]
