"""Split a recorded trace into durations and launch delays, and make a trace of changed durations.

With all durations and delays unchanged, the replay gives the recorded times. With some changed, it gives the
times that would have been recorded, because later ops move too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tests.support.replays import launch_delays, replay, replayed_durations
from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.graph.graph import Layout, OpGraph
from udfs.kernel.recorded.rows import US
from udfs.kernel.recorded.trace import build_trace
from udfs.layout import read_layout
from udfs.simulate.rank_rows import replayed_rows


@dataclass(frozen=True)
class Recording:
    """Recorded ops of a job in which all steps and dp ranks run the same ops in the same order.

    duration_s : shape (op, step, dp_rank); of a transfer from when both ends have started. [s]
    delay_s    : same shape; launch delays. [s]
    op_type, stage, microbatch, chunk : int, shape (op,)
    step       : int, shape (step,); training step numbers
    rank       : int, shape (stage, dp_rank); global rank of each worker
    """

    graph: OpGraph
    layout: Layout
    duration_s: Floats
    delay_s: Floats
    op_type: Ints
    stage: Ints
    microbatch: Ints
    chunk: Ints
    step: Ints
    rank: Ints

    def computes(self, op_type: int | None = None, stage: int | None = None) -> Ints:
        """Return the indices of the compute ops, optionally only those of one op type or stage."""
        kinds = ot.COMPUTE if op_type is None else (op_type,)
        is_one = np.isin(self.op_type, kinds) & ((stage is None) | (self.stage == stage))
        return np.flatnonzero(is_one)

    @property
    def forward_s(self) -> float:
        """Median time of a forward-compute [s]."""
        return float(np.median(self.duration_s[self.computes(ot.FORWARD_COMPUTE)]))

    def changed(self, duration_s: Floats | None = None, delay_s: Floats | None = None) -> "Recording":
        """Return the same job with other durations or delays [s]."""
        return replace(
            self,
            duration_s=self.duration_s if duration_s is None else duration_s,
            delay_s=self.delay_s if delay_s is None else delay_s,
        )

    def without_waiting(self) -> "Recording":
        """Return the job with only those launch delays that cannot be time spent waiting for another op.

        The delay of each stage's first forward-compute is kept, and the delays of ops other than
        recvs that wait for no op. In real traces, other delays are mostly waits for events that are
        not in the graph. If they were kept, no op would have slack, and every injected delay would
        lengthen the whole step.
        """
        is_kept = np.array([not sources for sources in self.graph.waits_for])
        is_kept &= ~np.isin(self.op_type, (ot.FORWARD_RECV, ot.BACKWARD_RECV))
        for stage in range(self.layout.pp_size):
            is_kept[self.computes(ot.FORWARD_COMPUTE, stage)[:1]] = True
        return self.changed(delay_s=np.where(is_kept[:, None, None], self.delay_s, 0.0))

    def times_s(self) -> tuple[Floats, Floats]:
        """Starts and ends of all ops relative to the start of the step, shape (op, step, dp_rank). [s]"""
        ends_s = replay(self.graph, self.duration_s[:, None], self.delay_s[:, None])[:, 0]
        starts_s = self.delay_s.copy()
        for op, sources in enumerate(self.graph.waits_for):
            if sources:
                starts_s[op] += ends_s[list(sources)].max(axis=0)
        return starts_s, ends_s

    def mean_step_s(self) -> float:
        """Mean recorded step time, T_actual [s]."""
        starts_s, ends_s = self.times_s()
        return float((ends_s.max(axis=(0, 2)) - starts_s.min(axis=(0, 2))).mean())

    def rank_steps(self) -> pa.Table:
        """Rows of rank_steps, one per (stage, step, dp_rank)."""
        starts_s, ends_s = self.times_s()
        shape = (self.layout.pp_size, len(self.step), self.layout.dp_size)
        stage, step, dp_rank = (axis.ravel() for axis in np.indices(shape))
        rows = {
            "step": pa.array(self.step[step], pa.int64()),
            "rank": pa.array(self.rank[stage, dp_rank], pa.int32()),
            "dp_rank": pa.array(dp_rank, pa.int32()),
            "pp_rank": pa.array(stage, pa.int32()),
        }
        lanes = shape[1] * shape[2]
        constant = {"op": self.op_type, "microbatch": self.microbatch, "model_chunk": self.chunk}
        timed = {"start_us": starts_s / US, "duration_us": (ends_s - starts_s) / US}
        edges = list(pairwise(self.graph.first_op))
        kinds = {"op": pa.int8(), "microbatch": pa.int32(), "model_chunk": pa.int32()}
        offsets = np.cumsum([0] + [last - first for first, last in edges for _ in range(lanes)])
        for name, values in constant.items():
            parts = [np.tile(values[first:last], lanes) for first, last in edges]
            rows[name] = _lists(offsets, np.concatenate(parts), kinds[name])
        for name, times in timed.items():
            by_row = [np.moveaxis(times[first:last], 0, -1).ravel() for first, last in edges]
            rows[name] = _lists(offsets, np.concatenate(by_row), pa.float64())
        return pa.table(rows)


def read_recording(rank_steps: pa.Table, manifest: Mapping[str, object]) -> Recording:
    """Split a job into durations and launch delays.

    raises : ValueError if steps or dp ranks ran different ops, or the same ops in another order.
    """
    layout = read_layout(manifest)
    rows = replayed_rows(rank_steps, layout)
    blocks = build_trace(rows.stages(), layout, len(rows.steps)).blocks
    first = blocks[0]
    if len(blocks) > 1 or not first.graph.has_dp_lanes or any(m.shape[1] > 1 for m in first.microbatch):
        raise ValueError("faults are injected only where all steps and dp ranks do the same")
    graph = first.graph
    chunk = [number for cell in graph.cells for number in cell.program.chunks]
    microbatch = np.full(graph.size, -1)
    for first_op, numbers in zip(graph.first_op, first.microbatch, strict=False):
        microbatch[first_op : first_op + len(numbers)] = numbers[:, 0, 0]
    return Recording(
        graph=graph,
        layout=layout,
        duration_s=replayed_durations(first),
        delay_s=launch_delays(first),
        op_type=np.array(graph.op_types),
        stage=np.array(graph.stages),
        microbatch=microbatch,
        chunk=np.array(chunk),
        step=rows.steps,
        rank=rows.worker_rank,
    )


def _lists(offsets: Ints, values: Ints | Floats, kind: pa.DataType) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values, kind))
