"""All what-if scenarios of one job (model, section 5), by replays of its recorded rows."""

from collections.abc import Mapping, Sequence
from math import inf, nan
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import cause
from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.cause import Diagnosis, within_the_step
from udfs.kernel.clocks.estimate import Limits
from udfs.kernel.diagnosis.diagnose import diagnose
from udfs.kernel.diagnosis.fixes import Causes, Replays
from udfs.kernel.diagnosis.found import Found, Job
from udfs.kernel.diagnosis.mitigate import Mitigated, mitigate
from udfs.kernel.diagnosis.usual_transfers import NO_DAYS
from udfs.kernel.graph.graph import Layout
from udfs.kernel.recorded.first_pass import Block, JobRows, Recorded, read, refuse_timeless
from udfs.kernel.replay.exposed import Exposed, ExposedTimes, exposed_means, replay_exposed
from udfs.kernel.replay.ideal import IDEALS, PAPER_IDEAL, Ideal, ideal_durations, ideal_of_ops
from udfs.kernel.replay.masked import (
    TypeTimes,
    op_dp_ranks,
    op_stages,
    replay_masks,
    replay_one_by_one,
    type_times,
)
from udfs.kernel.replay.replay import last_ops
from udfs.kernel.replay.stacked import ScenarioTimes, replay_scenarios
from udfs.kernel.selection import median_of_all

SLOWEST_PERCENT: Final = 3
"""Share of the workers that M_W makes ideal [%] (Eq. 5)."""

OPS_TOGETHER: Final = 1_000_000
"""About the most ops converted and replayed at a time: of larger jobs, only durations stay in memory."""

NO_WASTE: Final = 1e-9
"""Shares of a loss below this part of T are nan, because the denominator is rounding (contract, section
3)."""


class How(NamedTuple):
    """Options of a what-if analysis.

    ideal        : how ideal durations are chosen.
    ops_together : about how many ops are processed at a time; a step is never divided.
    limits       : clock offsets below these limits are not corrected; None: no clock is examined.
    diagnosed    : whether to look for causes, and for communication that delays the step.
    worker_type  : int, shape (stage, dp_rank); number of the worker's GPU type from 0 on, -1 if unknown. None
                   if fewer than two types are known.
    worker_rack  : int, shape (stage, dp_rank); number of the worker's rack, -1 if unknown; None without
                   racks.
    before_s     : usual transfer time by op type on earlier days, which shows whether all transfers of a type
                   became slow. [s]
    mitigated    : causes whose mitigations are replayed; None: the causes that are found.
    layers       : int, shape (chunk of the model,); number of layers of each chunk, None if unknown.
    memory       : limit of mitigations, as in `mitigate`.
    """

    ideal: Ideal = IDEALS[PAPER_IDEAL]
    ops_together: int = OPS_TOGETHER
    limits: Limits | None = None
    diagnosed: bool = True
    worker_type: Ints | None = None
    worker_rack: Ints | None = None
    before_s: Mapping[int, float] = NO_DAYS
    mitigated: Causes | None = None
    layers: Ints | None = None
    memory: float = inf


class WhatIf(NamedTuple):
    """What-if results of one job; float64 and in seconds, unless said otherwise.

    recorded         : figures from recorded times, without the blocks of steps.
    times            : step times of every scenario.
    slowest_ideal_s  : shape (step,); step times with the slowest workers ideal, all else as recorded.
    worker_slowdown_approx : shape (stage, dp_rank); the paper's shortcut, a ratio.
    is_slowest       : bool, shape (stage, dp_rank); the workers that slowest_ideal_s takes as ideal.
    ideal_duration_s : shape (stage, op type); nan where a type was never recorded.
    diagnosis        : causes and what their fixes save; None if not wanted.
    types            : times by GPU type; None if fewer than two types are known.
    exposed          : cost of communication; empty without communication or without a diagnosis.
    mitigated        : savings of mitigations; None if there was none to replay.
    has_calls        : whether a worker waits for several transfers in one call.
    """

    recorded: Recorded
    times: ScenarioTimes
    slowest_ideal_s: Floats
    worker_slowdown_approx: Floats
    is_slowest: Mask
    ideal_duration_s: Floats
    diagnosis: Diagnosis | None
    types: TypeTimes | None = None
    exposed: tuple[Exposed, ...] = ()
    mitigated: Mitigated | None = None
    has_calls: bool = False

    @property
    def slow_worker_share(self) -> float:
        """M_W: share of the loss that vanishes if the slowest workers are ideal (Eq. 5); nan without loss."""
        return _share(self.times, self.slowest_ideal_s)

    @property
    def last_stage_share(self) -> float:
        """M_S: share of the loss that vanishes if the last stage is ideal; 0 without a pipeline."""
        return _share(self.times, self.times.last_stage_ideal) if len(self.times.by_stage) > 1 else 0.0

    @property
    def forward_backward_correlation(self) -> float:
        """Median over workers of the forward/backward correlation; nan if no worker has a correlation."""
        known = self.recorded.correlation[~np.isnan(self.recorded.correlation)]
        return median_of_all(known) if known.size else nan


def _share(times: ScenarioTimes, without_s: Floats) -> float:
    replayed_s, ideal_s = float(times.recorded.mean()), float(times.ideal.mean())
    lost_s = replayed_s - ideal_s
    return nan if lost_s < NO_WASTE * replayed_s else (replayed_s - float(without_s.mean())) / lost_s


def analyse(rows: JobRows, layout: Layout, how: How) -> WhatIf:
    """Replay a job in every scenario of section 5 of the model.

    Two passes over blocks of steps are needed: the ideals need the durations of all steps, and given the
    ideals, steps are independent. At most one block of start times, and of replays, is in memory at a time.

    rows   : the job's rows, every step complete.
    raises : TraceDefectError if the ops contradict each other, or take no time.
    """
    as_if_none_blocked: list[_Replayed] = []

    def replayed_s(blocks: list[Block]) -> Floats:
        as_if_none_blocked.append(_Replayed.of(blocks, layout, how.ideal))
        return as_if_none_blocked[0].times.recorded

    diagnosed = how.diagnosed
    recorded = read(rows, layout, how.ops_together, how.limits, diagnosed=diagnosed, replayed_s=replayed_s)
    if recorded.blocking.chosen.types:
        as_if_none_blocked.clear()
    ideal_s, replays, times = (
        as_if_none_blocked.pop() if as_if_none_blocked else _Replayed.of(recorded.blocks, layout, how.ideal)
    )
    refuse_timeless(recorded.blocks, times.recorded, times.ideal)
    # Approximate worker slowdown min(S_dp, S_pp), (Eq. 4, the paper's shortcut); (stage, dp_rank).
    ideal = times.ideal.mean()
    by_stage = times.by_stage.mean(axis=1) / ideal
    by_dp_rank = times.by_dp_rank.mean(axis=1) / ideal
    approx: Floats = np.minimum(by_stage[:, None], by_dp_rank[None, :])
    # Mark the slowest 3 % of workers, rounded up, ties to the lower rank; bool, shape (stage, dp_rank).
    count = -(-approx.size * SLOWEST_PERCENT // 100)
    order = np.lexsort((rows.worker_rank.ravel(), -approx.ravel()))
    slowest = np.zeros(approx.size, dtype=bool)
    slowest[order[:count]] = True
    is_slowest = slowest.reshape(approx.shape)
    slowest_ideal_s = np.empty(len(times.ideal))
    for each in replays:
        slowest_ideal_s[each.block.steps] = each.without(is_slowest)
    types = None
    if how.worker_type is not None:
        blocks = ((each.block.graph, each.block.duration_s, each.ideal_of_op) for each in replays)
        types = type_times(blocks, layout.dp_size, how.worker_type)
    found = WhatIf(
        recorded._replace(blocks=[]), times, slowest_ideal_s, approx, is_slowest, ideal_s, None, types
    )
    return _diagnosed(found, recorded, replays, rows, layout, how) if how.diagnosed else found


def _diagnosed(
    found: WhatIf, recorded: Recorded, replays: Sequence["_Replay"], rows: JobRows, layout: Layout, how: How
) -> WhatIf:
    """Add causes, exposed communication and mitigations to the replayed results."""
    clocks, times = recorded.clocks, found.times
    job = Job(
        layout,
        rows.worker_host,
        actual_s=float(recorded.actual_s.mean()),
        ideal_s=float(times.ideal.mean()),
        # The paper's indicators are stored as evidence.
        indicators={
            cause.SLOW_WORKER: found.slow_worker_share,
            cause.STAGE_IMBALANCE: found.last_stage_share,
            cause.DATA_IMBALANCE: found.forward_backward_correlation,
        },
        skew_s=0.0 if clocks is None else clocks.skew_s,
        worker_type=how.worker_type,
        before_s=how.before_s,
        racks=how.worker_rack,
    )
    blocks = [block.diagnosed for block in recorded.blocks if block.diagnosed is not None]
    exposed_in = ((each.block.steps, each.exposed()) for each in replays)
    exposed = [(steps, of_block) for steps, of_block in exposed_in if of_block is not None]
    measured = Replays(Found.of(job, blocks))
    diagnosis = within_the_step(diagnose(measured))
    asked = how.mitigated
    if asked is None:
        asked = frozenset(each for each, one in enumerate(diagnosis.causes) if one.is_cause)
    return found._replace(
        diagnosis=diagnosis,
        exposed=exposed_means(exposed, times.recorded),
        mitigated=mitigate(measured, diagnosis.causes, asked, how.layers, how.memory),
        has_calls=any(each.calls.members for each in blocks),
    )


class _Replay(NamedTuple):
    """Replays of one block during the second pass over a job."""

    block: Block
    ideal_of_op: Floats
    shortest_s: Floats
    is_last: list[bool]
    times: ScenarioTimes

    @classmethod
    def of(cls, block: Block, layout: Layout, ideal_s: Floats) -> "_Replay":
        """Replay every scenario for which no times of other blocks are needed."""
        graph, duration_s = block.graph, block.duration_s
        ideal_of_op = ideal_of_ops(graph, ideal_s)
        shortest_s = duration_s.reshape(graph.size, -1).min(axis=1)
        is_last = last_ops(graph, np.minimum(shortest_s, ideal_of_op))
        if graph.has_dp_lanes:
            times = replay_scenarios(graph, layout, duration_s, ideal_of_op, is_last)
        else:
            times = replay_one_by_one(graph, layout, duration_s, ideal_of_op)
        return cls(block, ideal_of_op, shortest_s, is_last, times)

    def exposed(self) -> ExposedTimes | None:
        """Replay without communication; None if the block has no communication."""
        return replay_exposed(self.block.graph, self.block.duration_s, self.shortest_s, self.is_last)

    def without(self, slow: Mask) -> Floats:
        """Return step times with slow workers ideal, all else as recorded (Eq. 5); shape (step,). [s]

        slow : bool, shape (stage, dp_rank).
        """
        graph, duration_s = self.block.graph, self.block.duration_s
        is_kept = ~slow[op_stages(graph), op_dp_ranks(graph, slow.shape[1])]
        step_s: Floats = replay_masks(graph, duration_s, self.ideal_of_op, is_kept[None], self.is_last)[0]
        return step_s


class _Replayed(NamedTuple):
    """Results of the second pass: ideal durations, replays by block, and step times."""

    ideal_s: Floats
    replays: list[_Replay]
    times: ScenarioTimes

    @classmethod
    def of(cls, blocks: list[Block], layout: Layout, ideal: Ideal) -> "_Replayed":
        """Replay every scenario for which no times of other scenarios are needed."""
        ideal_s = ideal_durations([(block.graph, block.duration_s) for block in blocks], ideal)
        replays = [_Replay.of(block, layout, ideal_s) for block in blocks]
        return cls(ideal_s, replays, _in_step_order([each.times for each in replays], blocks))


def _in_step_order(found: list[ScenarioTimes], blocks: list[Block]) -> ScenarioTimes:
    if len(found) == 1:
        return found[0]
    order = np.argsort(np.concatenate([block.steps for block in blocks]))
    groups = sorted({group for times in found for group in times.by_type})

    def joined(parts: list[Floats]) -> Floats:
        return np.concatenate(parts, axis=-1)[..., order]

    by_type = {group: joined([times.by_type.get(group, times.ideal) for times in found]) for group in groups}
    arrays = {
        name: joined([getattr(times, name) for times in found])
        for name in ScenarioTimes._fields
        if name != "by_type"
    }
    return ScenarioTimes(by_type=by_type, **arrays)
