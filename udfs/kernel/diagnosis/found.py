"""Everything that the diagnosis measures in a job before it fixes any cause."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.diagnosis.block_times import BlockTimes, ComputeTimes, KeptDelays, compute_times
from udfs.kernel.diagnosis.factors import Factors, decompose
from udfs.kernel.diagnosis.loads import SlowLoads, slow_loads
from udfs.kernel.diagnosis.own_ops import OwnOps, OwnTimes, late_entries, own_ops, own_times, without_own
from udfs.kernel.diagnosis.rest import rest_of
from udfs.kernel.diagnosis.transfers import SlowTransfers, slow_transfers
from udfs.kernel.diagnosis.usual_transfers import NO_DAYS
from udfs.kernel.graph.graph import Layout


class Job(NamedTuple):
    """What the diagnosis knows about a job besides durations. Times are means over steps. [s]

    hosts      : int, shape (stage, dp_rank); which host a worker is on, -1 where unknown.
    indicators : the paper's, by cause; nan where it has none.
    skew_s     : how far clocks may be apart that were not corrected; infinite if unknown. [s]
    worker_type : int, shape (stage, dp_rank); type of GPU, -1 where unknown. None: fewer than two are known.
    before_s   : usual transfer of an op type on earlier days; none where nothing is known of them. [s]
    racks      : int, shape (stage, dp_rank); whose rack or switch, -1 where unknown. None: nothing is known.
    """

    layout: Layout
    hosts: Ints
    actual_s: float
    ideal_s: float
    indicators: dict[int, float]
    skew_s: float = 0.0
    worker_type: Ints | None = None
    before_s: Mapping[int, float] = NO_DAYS
    racks: Ints | None = None


class Found(NamedTuple):
    """Everything measured in a job before any cause is fixed.

    rest      : log factors of computes that are longer for no known cause, or None.
    transfers, loads, own_times, late : of each block.
    """

    job: Job
    blocks: Sequence[BlockTimes]
    computes: ComputeTimes | None
    factors: Factors | None
    rest: Floats | None
    transfers: list[SlowTransfers]
    loads: list[SlowLoads]
    own: OwnOps
    own_times: list[OwnTimes]
    late: list[KeptDelays]

    @classmethod
    def of(cls, job: Job, blocks: Sequence[BlockTimes]) -> "Found":
        """Measure slow computes, transfers, loads and other ops of a job."""
        computes = compute_times(blocks, job.layout)
        factors = rest = None
        if computes is not None:
            in_time = np.argsort(computes.steps, kind="stable")
            factors = decompose(computes.times_s, job.hosts, in_time, job.worker_type)
            rest = rest_of(factors, in_time)
        own = own_ops(blocks, job.layout, job.hosts, order_of(blocks), job.actual_s)
        apart = own_times(blocks, job.layout, own)
        return cls(
            job,
            blocks,
            computes,
            factors,
            rest,
            slow_transfers(without_own(blocks, apart), job.before_s),
            slow_loads(blocks),
            own,
            apart,
            late_entries(blocks, job.layout, own),
        )

    @property
    def steps(self) -> int:
        """Number of steps in all blocks."""
        return sum(block.number_of_steps for block in self.blocks)

    @property
    def microbatches(self) -> int:
        """Number of microbatches per chunk and step; 0 if steps or chunks differ in it."""
        return 0 if self.factors is None else self.factors.noise.shape[3]


def order_of(blocks: Sequence[BlockTimes]) -> Ints:
    """Indices that sort the steps of concatenated blocks by time."""
    return np.argsort(np.concatenate([block.steps for block in blocks]), kind="stable")
