"""Work for other processes that, on request, fails or ends the process in which it runs."""

import os
import signal


def work(piece: str) -> str:
    """Return `piece` in capitals, unless it names an error to raise or a way to end the process."""
    if piece == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if piece == "exit":
        os._exit(3)
    if piece == "fill":
        return str(len(bytearray(8 << 30)))
    if piece == "raise":
        raise LookupError("why")
    print("what is printed is not a result")
    return piece.upper()
