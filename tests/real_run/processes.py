"""Start the processes of a training run and wait for them."""

from collections.abc import Sequence
from multiprocessing.process import BaseProcess


def run_all(workers: Sequence[BaseProcess]) -> None:
    """Start processes and wait until all have ended; raises RuntimeError if any ended with an error."""
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        raise RuntimeError(f"exit codes {[worker.exitcode for worker in workers]}")
