"""How cost and memory grow with a job: more steps, more dp ranks, and a job too large to be held at once."""

import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from jobs.synthetic.shape import JobShape
from tests.benchmarks.figures import Figure
from tests.benchmarks.simulator import SIMULATED_ALONE, generated
from tests.benchmarks.yardstick import median_ms
from udfs.what_if import simulate_job

BASE: Final = JobShape(dp_size=16, pp_size=8, microbatches=16, steps=40)
TIMES: Final = (1, 10, 100)
LARGE_TIMES: Final = 42
ROWS_PER_BATCH: Final = 2000


def figures() -> Iterator[Figure]:
    """Time per op at 0.5, 5 and 50 million ops, over steps and over dp ranks; then the large job's memory."""
    base, manifest = generated(BASE)
    for axis in ("step", "dp_rank"):
        took: dict[int, float] = {}
        for times in TIMES:
            rows, facts = multiplied(base, manifest, axis, times)
            ops = len(rows["op"].chunk(0).values)
            alone = partial(simulate_job, rows, facts, SIMULATED_ALONE)
            took_ms, yard_ms = median_ms(alone, repeats=9 if times == 1 else 3)
            took[ops] = took_ms
            yield Figure(f"simulate_job, {axis}s x {times}", ops, took_ms / 1e3, took_ms / yard_ms)
        for (few, before), (many, after) in zip(took.items(), list(took.items())[1:], strict=False):
            exponent = math.log(after / before) / math.log(many / few)
            print(f"  {few / 1e6:.1f} to {many / 1e6:.1f} million ops over {axis}s: exponent {exponent:.3f}")
    yield _large(base, manifest)


def multiplied(
    rows: pa.Table, manifest: dict[str, Any], axis: str, times: int
) -> tuple[pa.Table, dict[str, Any]]:
    """The job with a multiple of the steps, or dp ranks; rows by (pp_rank, step, dp_rank), in one chunk."""
    stages, width = manifest["pp_size"], manifest["dp_size"]
    per_stage = rows.num_rows // stages
    copies = [_shifted(rows, axis, number, width, manifest["world_size"]) for number in range(times)]
    parts = []
    for stage in range(stages):
        for first in range(0, per_stage, per_stage if axis == "step" else width):
            size = per_stage if axis == "step" else width
            parts += [copy.slice(stage * per_stage + first, size) for copy in copies]
    grows = times if axis == "dp_rank" else 1
    facts = manifest | {"dp_size": width * grows, "world_size": manifest["world_size"] * grows}
    return pa.concat_tables(parts).combine_chunks(), facts


def _shifted(rows: pa.Table, axis: str, number: int, width: int, ranks: int) -> pa.Table:
    """One copy of the job, of later steps or of further dp ranks."""
    shifts = {"step": {"step": 1_000_000}, "dp_rank": {"dp_rank": width, "rank": ranks}}[axis]
    for name, shift in shifts.items():
        values = rows[name].to_numpy() + np.int32(shift * number)
        rows = rows.set_column(rows.column_names.index(name), name, pa.array(values))
    return rows


def _large(base: pa.Table, manifest: dict[str, Any]) -> Figure:
    """A job of 20 million ops through the UDF in a separate process, which reports its peak memory."""
    rows, facts = multiplied(base, manifest, "step", LARGE_TIMES)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.arrow"
        with pa.ipc.new_file(path, rows.schema) as file:
            for batch in rows.to_batches(max_chunksize=ROWS_PER_BATCH):
                file.write_batch(batch)
        command = [sys.executable, "-m", "tests.benchmarks.large_unit", str(path), repr(facts)]
        figures = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    took_s, yard_ms, peak_mib = (float(word) for word in figures)
    ops = len(rows["op"].chunk(0).values)
    return Figure(
        "UDF with diagnosis, one job, in its own process", ops, took_s, took_s * 1e3 / yard_ms, peak_mib
    )


def peak_mib() -> float:
    """Highest resident memory of this process since its program began. [MiB]

    Linux's own mark, because getrusage's also covers the parent this process was forked from.
    """
    status = Path("/proc/self/status").read_text()
    (peak_kib,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(peak_kib) / 1024
