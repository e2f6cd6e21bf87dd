"""Ports for servers that tests start on the loopback interface."""

import os
import socket
from contextlib import closing

HOST = "127.0.0.1"
_FIRST, _COUNT = 20_000, 10_000
"""Below the ports that the system assigns by itself: one of those may be taken before a server has it."""


def free_port() -> int:
    """Return a free port; parallel test runs search from different numbers."""
    for step in range(_COUNT):
        port = _FIRST + (7 * os.getpid() + step) % _COUNT
        with closing(socket.socket()) as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port from {_FIRST} to {_FIRST + _COUNT - 1}")
