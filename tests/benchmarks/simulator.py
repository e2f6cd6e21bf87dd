"""The simulator alone: rank_steps in, all results out, each figure beside the yardstick."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pyarrow as pa

from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.shape import JobShape
from tests.benchmarks.figures import Figure
from tests.benchmarks.yardstick import median_ms
from tests.conftest import TRACES
from tests.support import published
from tests.support.random_jobs import generate_job
from udfs.what_if import SimulationSettings, simulate_job

SIMULATED_ALONE: Final = SimulationSettings(diagnosed=False)

GENERATED: Final = {
    "dp 4, pp 4, 32 microbatches, 44 steps": JobShape(dp_size=4, pp_size=4, microbatches=32, steps=44),
    "dp 64, pp 8, 16 microbatches, 10 steps": JobShape(dp_size=64, pp_size=8, microbatches=16, steps=10),
    "the same, virtual pipeline of 2": JobShape(
        dp_size=64, pp_size=8, microbatches=16, steps=10, vpp_size=2, noop_transfers="all"
    ),
}


def figures() -> Iterator[Figure]:
    """Median time of each trace, as a ratio to the yardstick of the same moments; then with its diagnosis."""
    for name, rank_steps, manifest in traces():
        ops = len(rank_steps["op"].combine_chunks().values)
        for what, settings in (("simulate_job", SIMULATED_ALONE), ("with diagnosis", SimulationSettings())):
            took_ms, yard_ms = median_ms(partial(simulate_job, rank_steps, manifest, settings))
            yield Figure(f"{what}, {name}", ops, took_ms / 1e3, took_ms / yard_ms)


def traces() -> Iterator[tuple[str, pa.Table, dict[str, Any]]]:
    """Published traces and generated ones, their rows in the order of the table."""
    for name in published.NAMES:
        yield name, published.rank_steps(TRACES, name), published.manifest(TRACES, name)
    for name, shape in GENERATED.items():
        yield name, *generated(shape)


def generated(shape: JobShape) -> tuple[pa.Table, dict[str, Any]]:
    """A job with a slow worker, as rank_steps stores it."""
    job = generate_job(shape, [WeakGpu(1, 1, 1.3)], seed=1)
    order = [(column, "ascending") for column in ("pp_rank", "step", "dp_rank")]
    return job.rank_steps.sort_by(order).combine_chunks(), job.manifest
