"""Compare the CPU times of this checkout's simulator with those of other checkouts, on the same jobs.

python -m tests.benchmarks --against OTHER [OTHER ...]

The speed of a shared machine changes within minutes. So the checkouts simulate a job in turn, and each
repetition gives the ratio of the CPU time here to that of each other checkout. The median of the repetitions'
ratios is printed. Each simulator uses one BLAS thread.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Final

import pyarrow as pa

from jobs.synthetic.shape import JobShape
from tests.benchmarks import timed_elsewhere
from tests.benchmarks.simulator import generated
from tests.conftest import TRACES
from tests.support import published
from tests.support.random_jobs import WIDE

REPEATS: Final = 21
WARMING: Final = 3
"""Warm-up runs that are not counted, because the first runs of a job fill the simulator's cache of graphs."""

HERE: Final = Path(__file__).parents[2]
SHAPES: Final = {"dp64-pp8": WIDE, "dp2-pp2": JobShape(dp_size=2, pp_size=2, microbatches=8, steps=10)}


def jobs() -> Iterator[tuple[str, pa.Table, dict[str, Any]]]:
    """Yield (name, rows, manifest) of each job to time: published traces, and two generated jobs."""
    for name in published.NAMES:
        yield name, published.rank_steps(TRACES, name), published.manifest(TRACES, name)
    for name, shape in SHAPES.items():
        yield name, *generated(shape)


def compare(others: list[Path]) -> None:
    """Print each job's CPU time [ms] in all checkouts, and this checkout's time divided by any other's.

    others : folders of the other checkouts
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as open_until_done:
        names = []
        for name, rank_steps, manifest in jobs():
            names.append(name)
            with pa.ipc.new_file(Path(folder, f"{name}.arrow"), rank_steps.schema) as file:
                file.write_table(rank_steps)
            Path(folder, f"{name}.json").write_text(json.dumps(manifest, default=str))
        timers = [open_until_done.enter_context(_timer(each, folder)) for each in (HERE, *others)]
        print(
            f"{'job':12s}{'diagnosis':>10s}{'ms here':>10s}", *(f"{each.name[-14:]:>22s}" for each in others)
        )
        for name in names:
            for diagnosed in (0, 1):
                runs = [[_ask(each, name, diagnosed) for each in timers] for _ in range(WARMING + REPEATS)]
                _show(name, diagnosed, runs[WARMING:])


def _show(name: str, diagnosed: int, runs: list[list[float]]) -> None:
    here_s, *others_s = (list(times) for times in zip(*runs, strict=True))
    columns = []
    for other_s in others_s:
        ratio = median(here / other for here, other in zip(here_s, other_s, strict=True))
        columns.append(f"{median(other_s) * 1e3:9.1f} ms, {ratio:6.3f} x")
    print(f"{name:12s}{diagnosed:10d}{median(here_s) * 1e3:10.1f}", *columns, flush=True)


def _timer(checkout: Path, folder: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-P", timed_elsewhere.__file__, folder]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=checkout, env=environment, stdin=pipe, stdout=pipe, text=True)


def _ask(timer: "subprocess.Popen[str]", name: str, diagnosed: int) -> float:
    """Return the CPU time of one simulation by a checkout's process. [s]"""
    assert timer.stdin is not None
    assert timer.stdout is not None
    timer.stdin.write(f"{name} {diagnosed}\n")
    timer.stdin.flush()
    return float(timer.stdout.readline())
