"""The simulator alone: rank_steps in, all results out, each figure beside the yardstick."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from jobs.synthetic.job import generate_job
from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.shape import JobShape
from tests import published
from tests.benchmarks.yardstick import median_ms
from tests.conftest import TRACES
from udfs.what_if import simulate_job

GENERATED = {
    "dp 4, pp 4, 32 microbatches, 44 steps": JobShape(dp_size=4, pp_size=4, microbatches=32, steps=44),
    "dp 64, pp 8, 16 microbatches, 10 steps": JobShape(dp_size=64, pp_size=8, microbatches=16, steps=10),
}
QUIET_MS = 7.0
"""The yardstick where the targets were set."""


def main() -> None:
    """Print a line per trace."""
    print(f"{'trace':42s}{'ops':>10s}{'median ms':>11s}{'yardstick':>11s}{'at yardstick 7':>16s}")
    for name, rank_steps, manifest in traces():
        took, yard = median_ms(partial(simulate_job, rank_steps, manifest))
        ops = len(rank_steps["op"].combine_chunks().values)
        print(f"{name:42s}{ops:10,d}{took:11.2f}{yard:11.2f}{took / yard * QUIET_MS:16.2f}")


def traces() -> Iterator[tuple[str, pa.Table, dict[str, Any]]]:
    """Published traces where they are to be had, and generated ones, their rows in the order of the table."""
    if TRACES.is_dir():
        for name in published.NAMES:
            yield name, published.rank_steps(TRACES, name), published.manifest(TRACES, name)
    for name, shape in GENERATED.items():
        job = generate_job(shape, [WeakGpu(1, 1, 1.3)], seed=1)
        order = [(column, "ascending") for column in ("pp_rank", "step", "dp_rank")]
        yield name, job.rank_steps.sort_by(order).combine_chunks(), job.manifest


if __name__ == "__main__":
    main()
