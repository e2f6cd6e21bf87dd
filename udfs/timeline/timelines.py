"""Timelines of one step, recorded, replayed and ideal, op by op, without Spark.

`step_timelines(rows, manifest, step=1200).timelines["ideal"].end_s`
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from udfs.errors import NoSuchStepError
from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.clocks.estimate import by_one_clock
from udfs.kernel.graph.graph import Layout
from udfs.kernel.recorded.trace import StepBlock, build_trace
from udfs.kernel.replay.ideal import IDEALS, ideal_durations, ideal_of_ops
from udfs.kernel.replay.replay import step_times
from udfs.kernel.replay.timeline import (
    CriticalOp,
    Place,
    Timeline,
    critical_path,
    replayed_timeline,
    timeline_of,
)
from udfs.scenario.op_columns import BlockColumns, WorkerRows
from udfs.simulate.choice import chosen
from udfs.simulate.rank_rows import ReplayedRows
from udfs.what_if import SimulationSettings, garbage_collection_paused

RECORDED: Final = "recorded"
REPLAYED: Final = "replayed"
IDEAL: Final = "ideal"
KINDS: Final = (RECORDED, REPLAYED, IDEAL)
FACTS: Final = ("rank", "dp_rank", "pp_rank", "microbatch", "model_chunk", "host")
UNKNOWN: Final = -1
"""Value in the facts of an op: not logged, or without a meaning there."""


@dataclass(frozen=True)
class StepTimelines:
    """Three timelines of one step: recorded, replayed and ideal; times count from the start of the step. [s]

    layout     : sizes of the run.
    step       : training step number.
    t0_us      : Unix time of the step's zero, by the clock of the host that was first; 0 if unknown. [us]
    op_type    : code of each op, shape (op,).
    facts      : values of each op by column name of FACTS; int64, shape (op, lane), UNKNOWN if null. A
                 transfer has the microbatch and chunk of its compute; host is a position in `hosts`.
    duration_s : by kind, time of each op from when all ops of its rendezvous are called to its end. [s]
    timelines  : by kind, start and end of each op.
    critical   : by kind, the chain of ops that decides when the step ends.
    peers      : sends and recvs that meet.
    """

    layout: Layout
    step: int
    t0_us: int
    op_type: Ints
    facts: Mapping[str, Ints]
    hosts: Sequence[str]
    duration_s: Mapping[str, Floats]
    timelines: Mapping[str, Timeline]
    critical: Mapping[str, list[CriticalOp]]
    peers: list[tuple[Place, Place]]

    @property
    def ops(self) -> int:
        """Number of ops in the step."""
        return self.facts["dp_rank"].size

    def step_s(self, kind: str) -> float:
        """Return the step time, which is the latest end, as all timelines start at 0. [s]"""
        return float(self.timelines[kind].end_s.max())


def step_timelines(
    rank_steps: pa.Table,
    manifest: Mapping[str, object],
    step: int | None = None,
    settings: SimulationSettings | None = None,
) -> StepTimelines:
    """Compute the start and end of every op of one step: recorded, replayed (T), and ideal (T_ideal).

    rank_steps : rows of the whole unit, as in replay_scenarios, because ideals need all steps.
    step       : training step number; None: the step with the longest replayed time.
    settings   : with the settings of the night, the steps equal those of step_slowdown.
    raises     : NothingToReplayError, NoSuchStepError, TraceError.
    """
    how = settings or SimulationSettings()
    with garbage_collection_paused():
        choice = chosen(rank_steps, manifest, how)
        rows, layout = choice.rows, choice.layout
        at = None if step is None else _position(rows, step)
        recorded = choice.read(how.ops_together)
        blocks = recorded.blocks
        ideal_s = ideal_durations([(block.graph, block.duration_s) for block in blocks], IDEALS[how.ideal])
        if at is None:
            times_s = [(block.steps, step_times(block.graph, block.duration_s)) for block in blocks]
            steps, of_steps_s = max(times_s, key=lambda each: each[1].max())
            at = int(steps[of_steps_s.argmax()])
        with_blocking = layout._replace(blocking=recorded.blocking.chosen)
        (drawn,) = build_trace(rows.stages(at, at + 1), with_blocking, 1).blocks
        drawn = by_one_clock(drawn._replace(steps=np.array([at])), rows.clock, recorded.clocks)
        (replayed_s,) = (block.duration_s[:, block.steps == at] for block in blocks if at in block.steps)
        return _timelines(rows, layout, drawn, replayed_s, ideal_of_ops(drawn.graph, ideal_s))


def _timelines(
    rows: ReplayedRows, layout: Layout, block: StepBlock, replayed_s: Floats, ideal_of_op: Floats
) -> StepTimelines:
    """Build the three timelines of a block with one step.

    replayed_s : shape (op, 1, dp); durations from reading all steps, so that T is that of step_slowdown. [s]
    """
    graph = block.graph
    duration_s = replayed_s[:, 0]
    ideal_s = np.broadcast_to(ideal_of_op[:, None], duration_s.shape)
    start_s = block.start_s[:, 0] - block.start_s.min()
    timelines = {
        RECORDED: timeline_of(graph, start_s, start_s + block.duration_s[:, 0]),
        REPLAYED: replayed_timeline(graph, duration_s),
        IDEAL: replayed_timeline(graph, ideal_s),
    }
    sends = {send for _, send, _ in ot.DIRECTIONS}
    peers = [
        ((send, lane), (recv, lane))
        for members, across_dp in graph.meetings
        if not across_dp and graph.op_types[members[0][0]] in sends
        for send, recv in zip(*members, strict=True)
        for lane in range(duration_s.shape[1])
    ]
    at = int(block.steps[0])
    columns = BlockColumns(block, rows.steps, WorkerRows.of(rows))
    zeros_us = rows.table.column("t0_us").take(pa.array(rows.replayed_row[:, at].ravel())).drop_null()
    return StepTimelines(
        layout=layout,
        step=int(rows.steps[at]),
        t0_us=int(zeros_us.to_numpy().min()) if len(zeros_us) else 0,
        op_type=np.array(graph.op_types),
        facts={name: _fact(columns, name) for name in FACTS},
        hosts=columns.workers.hosts,
        duration_s={RECORDED: block.duration_s[:, 0], REPLAYED: duration_s, IDEAL: ideal_s},
        timelines=timelines,
        critical={kind: critical_path(graph, timeline) for kind, timeline in timelines.items()},
        peers=peers,
    )


def _fact(columns: BlockColumns, name: str) -> Ints:
    """Return a column's values for the ops of a block with one step, UNKNOWN if null; shape (op, lane)."""
    found, block = columns(name), columns.block
    values = np.where(found.is_known, found.values, UNKNOWN)
    of_ops = np.broadcast_to(values, block.duration_s.shape)[:, 0]
    if name not in {"microbatch", "model_chunk"}:
        return of_ops
    # Transfers have the values of the computes of their data.
    graph, with_transfers = block.graph, of_ops.copy()
    for op, sources in enumerate(graph.waits_for):
        for compute, send, recv in ot.DIRECTIONS:
            for source in sources:
                kinds = graph.op_types[source], graph.op_types[op]
                if kinds == (compute, send):
                    with_transfers[op] = of_ops[source]
                elif kinds == (recv, compute):
                    with_transfers[source] = of_ops[op]
    return with_transfers


def _position(rows: ReplayedRows, step: int) -> int:
    steps = rows.steps.tolist()
    at = bisect_left(steps, step)
    if at < len(steps) and steps[at] == step:
        return at
    near = ", ".join(map(str, steps[max(0, at - 2) : at + 2]))
    dropped = f"; {rows.steps_dropped} recorded ones lack a worker" if rows.steps_dropped else ""
    raise NoSuchStepError(
        f"no step {step} among the {len(steps)} complete ones, {steps[0]} to {steps[-1]}: "
        f"next to it are {near}{dropped}"
    )


Worker: TypeAlias = tuple[int, int]
"""(dp_rank, pp_rank)."""

CULPRITS: Final = 3
"""Most workers that are shown because of their loss, each with up to three others for comparison."""


def lost_s(step: StepTimelines) -> dict[Worker, float]:
    """Compute by how much each worker's own ops take longer than ideal in this step, waits excluded. [s]"""
    excess_s = np.clip(step.duration_s[REPLAYED] - step.duration_s[IDEAL], 0.0, None)
    workers = np.stack([step.facts[name].ravel() for name in ("dp_rank", "pp_rank")])
    cells, of_op = np.unique(workers, axis=1, return_inverse=True)
    sums_s = np.bincount(of_op.reshape(-1), excess_s.ravel())
    return {(dp, pp): lost for (dp, pp), lost in zip(cells.T.tolist(), sums_s.tolist(), strict=True)}


def culprits_and_neighbours(step: StepTimelines) -> list[Worker]:
    """Return the workers that lose most in this step, each followed by workers for comparison.

    These are the worker of its stage that loses least, and the workers of its replica one stage before and
    after.
    """
    lost = lost_s(step)
    found: dict[Worker, None] = {}
    for dp, pp in _by_loss(lost, lost)[:CULPRITS]:
        peer = _by_loss(lost, (each for each in lost if each[1] == pp))[-1]
        found |= dict.fromkeys(each for each in ((dp, pp), peer, (dp, pp - 1), (dp, pp + 1)) if each in lost)
    return list(found)


def of_stage(step: StepTimelines, pp_rank: int) -> list[Worker]:
    """Return the workers of a stage, the largest loss first; empty if there is no such stage."""
    lost = lost_s(step)
    return _by_loss(lost, (each for each in lost if each[1] == pp_rank))


def of_rank(step: StepTimelines, rank: int) -> Worker | None:
    """Return the worker whose replayed rows are of this rank, or None if there is no such worker."""
    places = np.argwhere(step.facts["rank"] == rank)
    if not len(places):
        return None
    dp_rank, pp_rank = (int(step.facts[name][tuple(places[0])]) for name in ("dp_rank", "pp_rank"))
    return dp_rank, pp_rank


def host_of(step: StepTimelines, worker: Worker) -> str | None:
    """Return the host of a worker, or None if the log names no host."""
    is_own = (step.facts["dp_rank"] == worker[0]) & (step.facts["pp_rank"] == worker[1])
    hosts: Sequence[int] = step.facts["host"][is_own].tolist()
    return None if not hosts or hosts[0] < 0 else step.hosts[hosts[0]]


def _by_loss(lost: dict[Worker, float], workers: Iterable[Worker]) -> list[Worker]:
    return sorted(workers, key=lambda each: (-lost[each], each))
