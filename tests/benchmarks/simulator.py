"""Benchmark the simulator alone, and how its time and memory grow with the size of a job."""

import ast
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.shape import JobShape
from schemas.unit import Unit
from tests.benchmarks.figures import Figure, median_ms, yardstick_ms
from tests.conftest import TRACES
from tests.support import published
from tests.support.random_jobs import LONG, WIDE, generate_job
from udfs.simulate.unit_batches import SIMULATED_COLUMNS, UnitRows, simulate_unit
from udfs.what_if import SimulationSettings, simulate_job

BASE: Final = JobShape(dp_size=16, pp_size=8, microbatches=16, steps=40)
TIMES: Final = (1, 10, 100)
LARGE_TIMES: Final = 42
ROWS_PER_BATCH: Final = 2000
KEY: Final = Unit(date(2026, 1, 5), "one", "r1")

SIMULATED_ALONE: Final = SimulationSettings(diagnosed=False)

GENERATED: Final = {
    "dp 4, pp 4, 32 microbatches, 44 steps": LONG,
    "dp 64, pp 8, 16 microbatches, 10 steps": WIDE,
    "the same, virtual pipeline of 2": replace(WIDE, vpp_size=2, noop_transfers="all"),
}


def figures() -> Iterator[Figure]:
    """Time the simulation of each trace without and with diagnosis.

    ratio : to the yardstick, which is timed before each repetition
    """
    for name, rank_steps, manifest in traces():
        ops = len(rank_steps["op"].combine_chunks().values)
        for what, settings in (("simulate_job", SIMULATED_ALONE), ("with diagnosis", SimulationSettings())):
            took_ms, yard_ms = median_ms(partial(simulate_job, rank_steps, manifest, settings))
            yield Figure(f"{what}, {name}", ops, took_ms / 1e3, took_ms / yard_ms)


def traces() -> Iterator[tuple[str, pa.Table, dict[str, Any]]]:
    """Yield published and generated jobs: name, rows in the order of the stored tables, and manifest."""
    for name in published.NAMES:
        yield name, published.rank_steps(TRACES, name), published.manifest(TRACES, name)
    for name, shape in GENERATED.items():
        yield name, *generated(shape)


def generated(shape: JobShape) -> tuple[pa.Table, dict[str, Any]]:
    """Return a generated job with a slow worker: its rows of rank_steps, and its manifest."""
    job = generate_job(shape, [WeakGpu(1, 1, 1.3)], seed=1)
    order = [(column, "ascending") for column in ("pp_rank", "step", "dp_rank")]
    return job.rank_steps.sort_by(order).combine_chunks(), job.manifest


def growth() -> Iterator[Figure]:
    """Time simulations of 0.5, 5 and 50 million ops, and print how the time grows with the number of ops.

    The ops of a job are multiplied first by more steps, then by more dp ranks. The last figure has the peak
    memory of a simulation in a process of its own.
    """
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
    """Return a job with `times` as many steps or dp ranks, as the axis says: its rows and its manifest.

    rows : in one chunk, ordered by (pp_rank, step, dp_rank)
    """
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
    """Return copy `number` of the job, with later step numbers or with higher dp ranks."""
    shifts = {"step": {"step": 1_000_000}, "dp_rank": {"dp_rank": width, "rank": ranks}}[axis]
    for name, shift in shifts.items():
        values = rows[name].to_numpy() + np.int32(shift * number)
        rows = rows.set_column(rows.column_names.index(name), name, pa.array(values))
    return rows


def _large(base: pa.Table, manifest: dict[str, Any]) -> Figure:
    """Return the time and peak memory of the UDF's work on a job of 20 million ops, in a separate process."""
    rows, facts = multiplied(base, manifest, "step", LARGE_TIMES)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.arrow"
        with pa.ipc.new_file(path, rows.schema) as file:
            for batch in rows.to_batches(max_chunksize=ROWS_PER_BATCH):
                file.write_batch(batch)
        command = [sys.executable, "-m", "tests.benchmarks.simulator", str(path), repr(facts)]
        figures = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    took_s, yard_ms, peak_mib = (float(word) for word in figures)
    ops = len(rows["op"].chunk(0).values)
    return Figure(
        "UDF with diagnosis, one job, in its own process", ops, took_s, took_s * 1e3 / yard_ms, peak_mib
    )


def peak_mib() -> float:
    """Return the highest resident memory of this process since its program began. [MiB]

    Linux's VmHWM is read, because getrusage also counts the memory that the process had before its exec, as a
    copy of its parent.
    """
    status = Path("/proc/self/status").read_text()
    (peak_kib,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(peak_kib) / 1024


def large_unit(path: str, manifest: str) -> None:
    """Simulate one unit as Spark's Python workers do; print its time, the yardstick's, and peak memory.

    path : Arrow file of the unit's rows
    manifest : literal of a dict
    """
    started = time.perf_counter()
    with pa.ipc.open_file(path) as file:
        rows = file.read_all().select(SIMULATED_COLUMNS)
    results = simulate_unit(UnitRows(KEY, ast.literal_eval(manifest), rows), SimulationSettings())
    took_s = time.perf_counter() - started
    (job,) = results["job_slowdown"].to_pylist()
    if job["status"] != "analysed":
        raise SystemExit(f"the job is {job['status']}: {job['status_detail']}")
    print(took_s, yardstick_ms(), peak_mib())


if __name__ == "__main__":
    large_unit(*sys.argv[1:])
