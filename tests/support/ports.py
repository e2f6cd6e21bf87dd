"""Find free ports for servers that tests start on the loopback interface."""

import os
import socket
from contextlib import closing

HOST = "127.0.0.1"
_FIRST, _COUNT = 20_000, 10_000
"""Range of ports below those that the system assigns itself, because the system could assign a port before a
server has it."""


def free_port() -> int:
    """Return a free port; test processes that run in parallel search from different ports."""
    for step in range(_COUNT):
        port = _FIRST + (7 * os.getpid() + step) % _COUNT
        with closing(socket.socket()) as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port from {_FIRST} to {_FIRST + _COUNT - 1}")
