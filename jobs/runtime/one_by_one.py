"""Run work piece by piece in a memory-limited subprocess, so that a crash costs only one piece.

Usually a Spark worker does all pieces of a task itself, which is fast. If the worker dies, Spark retries the
task. The retry then uses this module, which finds the piece that kills its process, and does all others.
"""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import IO, Any, Final, NamedTuple, TypeVar, cast

from pyspark import TaskContext

from jobs.runtime.memory import limit_data, memory_bytes

Piece = TypeVar("Piece")
Found = TypeVar("Found")

_READY: Final = b"\n"


class Ended(NamedTuple):
    """Result of a piece of work that killed its process; `why` is a sentence."""

    why: str


class _Raised(NamedTuple):
    error: Exception


def is_again() -> bool:
    """Return whether Spark runs this task again after a failure."""
    context = TaskContext.get()
    return context is not None and context.attemptNumber() > 0


def one_by_one(
    work: Callable[[Piece], Found], pieces: Sequence[Piece], most_bytes: int | None = None
) -> Iterator[Found | Ended]:
    """Yield the result of each piece in order, or Ended if the piece killed its process.

    work : a function of a module, or a partial of one
    most_bytes : writable memory that the process may have; None: half of memory_bytes() [B]
    Raises what `work` raises, except MemoryError, and RuntimeError if no process can be started.
    """
    most = most_bytes or memory_bytes() // 2
    left = list(pieces)
    command = [sys.executable, "-c", "from jobs.runtime.one_by_one import serve; serve()"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}  # to run this process's code
    while left:
        with subprocess.Popen(  # noqa: S603  # this program itself
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        ) as process:
            try:
                for found in _results(process, (work, left, most)):
                    del left[0]
                    yield found
            finally:
                process.kill()
        if left:
            del left[0]
            yield Ended(f"it ended its process: {_said(process.returncode)}, {_allowed(most)}")


def serve() -> None:
    """Process the pieces received on standard input, and write results to standard output."""
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints of libraries must not come between the results
    work, pieces, most = pickle.load(sys.stdin.buffer)  # noqa: S301  # from the process that started this one
    limit_data(most)
    results.write(_READY)
    results.flush()
    for piece in pieces:
        try:
            found = work(piece)
        except MemoryError:
            found = Ended(f"it took too much memory, {_allowed(most)}")
        except Exception as error:  # noqa: BLE001 - raised again where the results are read
            found = _Raised(error)
        pickle.dump(found, results)
        results.flush()


def _results(process: subprocess.Popen[bytes], task: object) -> Iterator[Any]:
    """Send a task to a subprocess, and yield its results until the subprocess ends."""
    given, results = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
    with suppress(BrokenPipeError), given:
        pickle.dump(task, given)
    if results.read(len(_READY)) != _READY:
        raise RuntimeError(f"the subprocess for single units does not start: {_said(process.wait())}")
    while True:
        try:
            found = pickle.load(results)  # noqa: S301  # from a process of this module
        except (EOFError, pickle.UnpicklingError):
            process.wait()
            return
        if isinstance(found, _Raised):
            raise found.error
        yield found


def _said(status: int) -> str:
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"


def _allowed(most: int) -> str:
    return f"with {most / 1e9:.1f} GB allowed"
