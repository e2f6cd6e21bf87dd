"""Measure the slowness of a job's ops, before any fix is replayed."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from udfs.kernel import cause
from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.diagnosis.block_times import BlockTimes, KeptDelays, with_gathers_first
from udfs.kernel.diagnosis.computes import ComputeTimes, compute_times
from udfs.kernel.diagnosis.factors import Factors, decompose
from udfs.kernel.diagnosis.own_ops import OwnOps, OwnTimes, late_entries, own_ops, own_times, without_own
from udfs.kernel.diagnosis.rest import rest_of
from udfs.kernel.diagnosis.transfers import has_loads, slow_loads, slow_transfers
from udfs.kernel.diagnosis.usual_transfers import NO_DAYS, SlowOps
from udfs.kernel.graph.graph import Layout


class Job(NamedTuple):
    """Facts about a job that the diagnosis needs in addition to durations.

    hosts      : int, shape (stage, dp_rank); number of the worker's host, -1 if unknown.
    actual_s, ideal_s : means over steps of the recorded step time and of the ideal one. [s]
    indicators : the paper's indicators by cause; nan if the paper has none.
    skew_s     : error of clock differences that remains; infinite if unknown. [s]
    worker_type : int, shape (stage, dp_rank); number of the GPU type, -1 if unknown; None if fewer than two
                 types are known.
    before_s   : usual transfer time on earlier days by op type, as far as known. [s]
    racks      : int, shape (stage, dp_rank); number of the rack or switch, -1 if unknown; None if all are -1.
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
    """Measured slowness of a job's ops.

    computes, factors : durations of computes, and their decomposition; None if computes of stages differ.
    rest      : log factors of computes that no known cause explains; None if there are none.
    own       : slowness of ops other than computes and transfers.
    transfers, loads, own_times, late : for each block the slow transfers, the slow data-loads, the factors of
                other ops, and the late entries into collectives.
    """

    job: Job
    blocks: Sequence[BlockTimes]
    computes: ComputeTimes | None
    factors: Factors | None
    rest: Floats | None
    transfers: list[SlowOps]
    loads: list[SlowOps]
    own: OwnOps
    own_times: list[OwnTimes]
    late: list[KeptDelays]

    @classmethod
    def of(cls, job: Job, blocks: Sequence[BlockTimes]) -> "Found":
        """Measure the slowness of a job's computes, transfers, loads and other ops."""
        blocks = with_gathers_first(blocks)
        computes = compute_times(blocks, job.layout)
        factors = rest = None
        if computes is not None:
            factors = decompose(computes.times_s, job.hosts, job.worker_type)
            rest = rest_of(factors)
        own = own_ops(blocks, job.layout, job.hosts, job.actual_s)
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
    def slow(self) -> dict[int, list[SlowOps]]:
        """Slow transfers and data-loads of each block, by the cause whose fix changes them."""
        return {cause.COMMUNICATION: self.transfers, cause.DATA_LOADING: self.loads}

    @property
    def shown(self) -> frozenset[int]:
        """Causes that the log can show: two of all causes need logged loads, or stated types of GPUs."""
        logged = {
            cause.DATA_LOADING: has_loads(self.blocks),
            cause.MIXED_HARDWARE: self.job.worker_type is not None,
        }
        return frozenset(each for each in cause.FIXABLE if logged.get(each, True))

    @property
    def present(self) -> frozenset[int]:
        """Causes whose fix changes at least one duration of the job."""
        is_present = {
            each: any((slow.as_is_s != slow.usual_s).any() for slow in of_blocks)
            for each, of_blocks in self.slow.items()
        } | {
            cause.LAUNCH_DELAY: any(block.delays.delay_s.any() for block in self.blocks),
            cause.SLOW_WORKER: bool(self.own.slow or self.own.late_s),
            cause.PAUSE: bool(self.own.pauses),
            cause.UNEXPLAINED: bool(self.own.shared) or self.rest is not None,
        }
        if self.factors is not None:
            stages, _, chunks, *_ = self.factors.noise.shape
            types = self.factors.types
            is_present |= {
                cause.SLOW_WORKER: is_present[cause.SLOW_WORKER] or bool((self.factors.worker != 1.0).any()),
                cause.STAGE_IMBALANCE: stages * chunks > 1,
                cause.DATA_IMBALANCE: self.factors.data.is_real,
                cause.PAUSE: is_present[cause.PAUSE] or self.factors.pause_s is not None,
                cause.MIXED_HARDWARE: types is not None and bool(types.is_slower.any()),
            }
        return frozenset(each for each, holds in is_present.items() if holds)

    @property
    def steps(self) -> int:
        """Number of steps in all blocks of the job."""
        return sum(block.number_of_steps for block in self.blocks)

    @property
    def microbatches(self) -> int:
        """Microbatches per chunk and step; without decomposed computes, the most forwards of a worker."""
        workers = (by_type for block in self.blocks for by_type in block.graph.ops_by_type)
        forwards = max(len(by_type[ot.FORWARD_COMPUTE]) for by_type in workers)
        return forwards if self.factors is None else self.factors.noise.shape[3]
