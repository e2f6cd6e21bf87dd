"""Results for a unit whose log has computes but no transfers.

If transfers were inferred from the gaps between computes, T would equal T_actual for every job, and a replay
would prove nothing. Instead of a slowdown, the results are bounds of it, the computes that take longer than
others of their kind, which no transfer can change, and the stages between which gaps are largest.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Mask
from udfs.kernel.clocks.estimate import Limits
from udfs.kernel.graph.graph import Blocking, Layout, OpGraph, TraceDefectError, once_per_graph
from udfs.kernel.recorded.first_pass import read, refuse_timeless, spans
from udfs.kernel.recorded.rows import US
from udfs.kernel.recorded.trace import build_trace
from udfs.kernel.replay.ideal import IDEALS, Ideal, ideal_durations, ideal_of_ops
from udfs.kernel.replay.replay import step_times
from udfs.kernel.selection import median_of_all
from udfs.simulate.choice import defects_named
from udfs.simulate.completed_rows import CompletedRows
from udfs.simulate.compute_clocks import on_one_clock
from udfs.simulate.rank_rows import ReplayedRows
from udfs.simulate.recorded_computes import (
    Row,
    computes_of,
    gap_rows,
    least_gaps_us,
    sender_of,
    slow_computes,
)


def partial_results(
    rows: ReplayedRows, layout: Layout, ideal: str, ops_together: int, limits: Limits
) -> tuple[str, Row]:
    """Return the status detail, and the columns of job_slowdown that follow from computes alone.

    raises : TraceError if the computes contradict each other, or the order of the stages.
    """
    with defects_named(rows):
        rows, clocks = on_one_clock(rows, layout, ops_together, limits)
        computes = computes_of(rows.stages(), layout)
        least_us = least_gaps_us(computes, layout, rows.number_of_steps * layout.dp_size)
        low, high = bounds(rows, layout, least_us, IDEALS[ideal], ops_together)
    slow, gaps = slow_computes(computes, layout), gap_rows(least_us, layout)
    known = [f"computes without transfers in {len(rows.steps)} steps: slowdown {low:.3f} to {high:.3f}"]
    for each in slow[:1]:
        who = "" if each["dp_rank"] is None else f", dp rank {each['dp_rank']}"
        known.append(
            f"{each['op_type']} of stage {each['pp_rank']}, chunk {each['model_chunk']}{who} takes "
            f"{1e3 * each['duration_s']:.3g} ms, usual are {1e3 * each['usual_s']:.3g} ms"
        )
    known += [
        f"largest gap: {each['direction']}, stage {each['pp_rank']} to {each['next_pp_rank']}, "
        f"{1e3 * each['gap_s']:.3g} ms, usual are {1e3 * each['usual_s']:.3g} ms"
        for each in gaps[:1]
    ]
    if clocks is not None:
        apart_ms = np.abs(clocks.ahead_s).max() * 1e3
        known.append(f"clocks were {apart_ms:.3g} ms apart and are corrected")
    figures: Row = {"slowdown_low": low, "slowdown_high": high, "slow_computes": slow, "stage_gaps": gaps}
    return "; ".join(known), figures


MARGIN: Final = 0.005
"""Share by which bounds are widened, because transfers and the least gaps, which stand for them, scatter."""

_Graphs = Sequence[tuple[OpGraph, int]]
"""Graphs of a job, and the number of steps with each."""


def _step_s(graphs: _Graphs, ideal_s: Floats, transfer_s: Floats) -> float:
    """Return the mean step time if ops take the given durations; float64, shape (stage, op type). [s]"""
    times_s = []
    for graph, _ in graphs:
        moved_s = np.where(_has_peer(graph), ideal_of_ops(graph, transfer_s), 0.0)
        are_transfers = np.isin(graph.op_types, ot.TRANSFERS)
        per_op_s = np.where(are_transfers, moved_s, ideal_of_ops(graph, ideal_s))
        times_s.append(float(step_times(graph, per_op_s[:, None, None])[0]))
    return float(np.average(times_s, weights=[steps for _, steps in graphs]))


def bounds(
    rows: ReplayedRows, layout: Layout, least_us: Floats, ideal: Ideal, ops_together: int
) -> tuple[float, float]:
    """Compute a lower and an upper bound of a slowdown without transfers.

    The upper bound is the step time with all gaps filled, over the ideal step time if transfers take no time.
    The lower bound is the smallest ratio for four kinds of transfers. They take no time; or they take as long
    as the least gaps, and run on separate streams, are waited for one by one, or are waited for in pairs.

    least_us : from least_gaps_us, on one clock. [us]
    raises   : TraceDefectError if the ops contradict each other or take no time.
    """
    filled_s, _ = _replayed(rows, layout, ops_together, has_gaps=True)
    timeless_s, durations = _replayed(rows, layout, ops_together, has_gaps=False)
    streams = [(graph, each.shape[1]) for graph, each in durations]
    ideal_s, transfer_s = ideal_durations(durations, ideal), np.zeros((layout.pp_size, ot.COUNT))
    for direction, (_, send, recv) in enumerate(ot.DIRECTIONS):
        least_s = np.maximum(least_us[direction], 0.0) * US
        receivers = np.flatnonzero(np.isfinite(least_s).all(axis=1)).tolist()
        for receiver in receivers:
            own_s = least_s[[receiver] if ideal.within_stage else receivers]
            sender = sender_of(direction, receiver, layout)
            transfer_s[receiver, recv] = transfer_s[sender, send] = median_of_all(own_s.reshape(-1))
    shortest_s = _step_s(streams, ideal_s, np.zeros_like(transfer_s))
    ways = (streams, *_blocking(rows, layout, ops_together))
    longest_s = max(_step_s(graphs, ideal_s, transfer_s) for graphs in ways)
    low, high = min(timeless_s / shortest_s, filled_s / longest_s), filled_s / shortest_s
    return low * (1.0 - MARGIN), high * (1.0 + MARGIN)


def _replayed(
    rows: ReplayedRows, layout: Layout, ops_together: int, *, has_gaps: bool
) -> tuple[float, list[tuple[OpGraph, Floats]]]:
    """Return mean step time without transfer times [s], graphs, and durations of shape (op, step, dp). [s]"""
    completed = CompletedRows.of(rows, layout, has_gaps=has_gaps)
    unheld = layout._replace(blocking=Blocking())
    blocks = read(completed, unheld, ops_together, diagnosed=False).blocks
    times_s = np.empty(rows.number_of_steps)
    for block in blocks:
        block.duration_s[np.isin(block.graph.op_types, ot.TRANSFERS)] = 0.0
        times_s[block.steps] = step_times(block.graph, block.duration_s)
    refuse_timeless(blocks, times_s, times_s)
    return float(times_s.mean()), [(block.graph, block.duration_s) for block in blocks]


@once_per_graph
def _has_peer(graph: OpGraph) -> Mask:
    """Return a mask of the transfers that have a peer; bool, shape (op,)."""
    found = np.zeros(graph.size, dtype=bool)
    for members, _ in graph.meetings:
        for ops in members:
            found[list(ops)] = True
    return found


def _blocking(rows: ReplayedRows, layout: Layout, ops_together: int) -> list[_Graphs]:
    """Return graphs in which workers wait for transfers; no graphs where such waits would form a cycle."""
    types = ot.TRANSFERS if layout.blocking is None else layout.blocking.types
    if layout.pp_size == 1 or not types:
        return []
    held, found = layout._replace(blocking=Blocking(types)), list[_Graphs]()
    for one_by_one in (True, False):
        completed, graphs = CompletedRows.of(rows, layout, one_by_one=one_by_one), []
        try:
            for first, end in spans(rows.number_of_steps, completed.ops, ops_together):
                blocks = build_trace(completed.stages(first, end), held, end - first).blocks
                graphs += [(block.graph, len(block.steps)) for block in blocks]
        except TraceDefectError:
            continue  # Workers would wait for each other in a circle, so they did not wait in this way.
        found.append(graphs)
    return found
