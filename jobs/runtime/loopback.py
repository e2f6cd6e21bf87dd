"""Choice of the requests that a server on the loopback interface answers.

A page of another site may send a browser here. Its name then stands in the header Host (DNS rebinding), which
is refused; what it embeds or fetches, the browser keeps from it.
"""

from http.server import BaseHTTPRequestHandler
from typing import Final

LOOPBACK: Final = "127.0.0.1"


def refusal(request: BaseHTTPRequestHandler) -> str | None:
    """Return the line that refuses a request addressed to another host name; None for this machine's name."""
    port = request.connection.getsockname()[1]
    if request.headers.get_all("Host") in ([f"{LOOPBACK}:{port}"], [f"localhost:{port}"]):
        return None
    return f"only requests to http://{LOOPBACK}:{port} are answered"
