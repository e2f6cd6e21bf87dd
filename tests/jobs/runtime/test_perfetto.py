"""Perfetto's pages and one trace are served, but only to this machine."""

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


def got(address: str, path: str, host: str | None = None) -> tuple[int, bytes]:
    connection = HTTPConnection(address)
    connection.request("GET", path, headers={"Host": host or address})
    answer = connection.getresponse()
    return answer.status, answer.read()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("localtrace", b'{"traceEvents":[]}'),
        ("vizviewer_info", b"{}"),
        ("file_info", b"{}"),
        ("", b"<title>Perfetto UI</title>"),
    ],
)
def test_this_machine_finds_the_pages_the_trace_and_what_they_ask_beside_it(
    address: str, name: str, content: bytes
) -> None:
    assert address.startswith("127.0.0.1:")
    status, found = got(address, f"/{name}")
    assert (status, content in found) == (200, True)


@pytest.mark.parametrize("name", ["localtrace", "vizviewer_info", ""])
@pytest.mark.parametrize("host", ["example.org", "127.0.0.1", "localhost:1"])
def test_a_name_of_another_site_is_refused(address: str, name: str, host: str) -> None:
    refused = f"only requests to http://{address} are answered\n"
    assert got(address, f"/{name}", host) == (421, refused.encode())
