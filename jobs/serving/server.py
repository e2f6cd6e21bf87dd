"""HTTP server of the report's pages: read-only, and on the loopback interface, so only for this machine."""

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from mimetypes import guess_type
from pathlib import Path
from socket import SHUT_RD, socket
from threading import BoundedSemaphore, Timer
from typing import Any, Final

from jobs.report.templates import SERVED
from jobs.runtime.errors import PlainError
from jobs.runtime.loopback import LOOPBACK, refusal
from jobs.serving.pages import BusyError, NoPageError, Pages

_LOG: Final = logging.getLogger(__name__)
_MOST_CONNECTIONS: Final = 32
_SILENCE_S: Final = 10
"""Most time that a client may take to send a whole request, or to accept the next bytes of a page. [s]"""
_LONGEST_PATH: Final = 500
_TEXT: Final = "text/plain; charset=utf-8"
_HEADERS: Final = {
    "Content-Security-Policy": SERVED,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class _Handler(BaseHTTPRequestHandler):
    server_version, sys_version, timeout = "straggler", "", _SILENCE_S
    _pages: Pages

    def __init__(self, pages: Pages, *args: Any) -> None:  # noqa: ANN401  # arguments of http.server
        self._pages = pages
        super().__init__(*args)

    def handle(self) -> None:
        """Answer one request; stop reading from a client that has not sent its request within _SILENCE_S."""
        late = Timer(_SILENCE_S, self._hear_no_more)
        late.daemon = True
        late.start()
        try:
            super().handle()
        finally:
            late.cancel()

    def _hear_no_more(self) -> None:
        with suppress(OSError):  # the connection may be closed already
            self.connection.shutdown(SHUT_RD)

    def do_GET(self) -> None:
        """Send the page of the request's path, a redirect, or a line of text with an HTTP error status."""
        if refused := refusal(self):
            self._say(HTTPStatus.MISDIRECTED_REQUEST, refused)
            return
        path = self.path.partition("?")[0][:_LONGEST_PATH]
        try:
            found = self._pages.instead(path) or self._pages.page(path)
        except NoPageError as error:
            self._say(HTTPStatus.NOT_FOUND, f"{error}; the fleet's page is /")
        except BusyError as error:
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        except PlainError as error:
            _LOG.warning("%s: %s", path, error)
            self._say(HTTPStatus.INTERNAL_SERVER_ERROR, f"no page: {error}")
        except Exception:  # noqa: BLE001  # the browser gets an answer to every request
            _LOG.exception("%s: no page", path)
            self._say(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                "no page: see the terminal of straggler serve for the reason",
            )
        else:
            if isinstance(found, str):
                self._send(HTTPStatus.FOUND, b"", _TEXT, {"Location": found})
            else:
                self._send(HTTPStatus.OK, found, guess_type(Path(path).name)[0] or _TEXT)

    do_HEAD = do_GET  # noqa: N815  # as http.server spells it

    def _say(self, status: HTTPStatus, line: str) -> None:
        self._send(status, f"{line}\n".encode(), _TEXT)

    def _send(
        self, status: HTTPStatus, content: bytes, kind: str, more: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (_HEADERS | (more or {})).items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, form: str, *values: object) -> None:
        """Log a request at level INFO, instead of printing it."""
        _LOG.info(form, *values)


class PageServer(ThreadingHTTPServer):
    """HTTP server for the pages of one warehouse; port 0 chooses a free port."""

    daemon_threads = True

    def __init__(self, pages: Pages, port: int) -> None:
        self._free = BoundedSemaphore(_MOST_CONNECTIONS)
        handler: Callable[..., BaseHTTPRequestHandler] = partial(_Handler, pages)
        super().__init__((LOOPBACK, port), handler)

    @property
    def address(self) -> str:
        """Return the URL to open in a browser."""
        return f"http://{LOOPBACK}:{self.server_address[1]}/"

    def process_request(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:  # noqa: ANN401  # as socketserver has it
        """Answer a request in a new thread; close a connection beyond _MOST_CONNECTIONS at once."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:  # noqa: ANN401  # as socketserver has it
        """Answer a request in this thread, then make room for another connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002  # socketserver's
        """Log the exception that ended a request, unless it is an OSError: the browser has disconnected."""
        if not isinstance(sys.exception(), OSError):
            _LOG.exception("a request was not answered")
