"""Refusal of requests that reach a server on the loopback interface under another host name.

By DNS rebinding, the name of another site can be made to mean this machine, so that the site's pages could
read what the server answers. Such a request has the site's name in its header Host, and is refused.
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
