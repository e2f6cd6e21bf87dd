"""Perfetto's pages and one trace, served to this machine alone."""

import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from jobs.runtime.perfetto import server


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    trace = tmp_path / "trace.json"
    trace.write_text('{"traceEvents":[]}')
    with server(trace) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield "{}:{}".format(*serving.server_address[:2])
        serving.shutdown()


def got(address: str, path: str) -> bytes:
    connection = HTTPConnection(address)
    connection.request("GET", path)
    answer = connection.getresponse()
    assert answer.status == 200
    return answer.read()


def test_only_this_machine_is_served(address: str) -> None:
    assert address.startswith("127.0.0.1:")


@pytest.mark.parametrize(
    ("name", "content"),
    [("localtrace", b'{"traceEvents":[]}'), ("vizviewer_info", b"{}"), ("file_info", b"{}")],
)
def test_perfetto_finds_the_trace_and_what_it_asks_beside_it(address: str, name: str, content: bytes) -> None:
    assert got(address, f"/{name}") == content


def test_the_pages_are_perfettos(address: str) -> None:
    assert b"<title>Perfetto UI</title>" in got(address, "/")
