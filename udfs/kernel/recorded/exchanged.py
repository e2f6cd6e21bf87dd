"""Ranks of one stage whose records stand in each other's place: their transfers do not meet."""

from collections import Counter
from itertools import combinations
from typing import Final

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.graph.graph import OpGraph, once_per_graph
from udfs.kernel.recorded.trace import StepBlock
from udfs.kernel.selection import evenly, median_of_all, medians_along

SAMPLED: Final = 9
STEPS: Final = 8
"""Transfers of a link, and steps, that are looked at."""

SCATTERED: Final = 5.0
LEAST_S: Final = 1e-3
"""A link is suspected that scatters this much more than the usual one, and by at least this [s]."""

BETTER: Final = 0.3
"""Exchanged, both links scatter at most this part of what they did."""

MOST_SCATTERED: Final = 16
"""Of more links than this that scatter, something else is wrong."""

Exchanged = tuple[int, int, int]
"""(stage, dp_rank, dp_rank)."""


def exchanged(block: StepBlock) -> list[Exchanged]:
    """Pairs of dp ranks that stand in each other's place, with the stage in which they do.

    Ends of a transfer differ by the two clocks, transfer after transfer by the same: those of workers that
    never met scatter. With two stages either may be the one; the first is named.

    block : durations as recorded, dp ranks as lanes.
    """
    graph = block.graph
    start_s, duration_s = (each[:, :STEPS] for each in (block.start_s, block.duration_s))
    if not graph.has_dp_lanes or block.start_s.shape[-1] < 2:
        return []
    found: Counter[Exchanged] = Counter()
    ends = []
    for stages, *some in _sampled(graph):
        sends_s, recvs_s = (start_s[ops] + duration_s[ops] for ops in some)
        ends.append((stages, sends_s, recvs_s))
    own_s = [_scatter_s(recvs_s - sends_s) for _, sends_s, recvs_s in ends]
    if not own_s:
        return []
    limit_s = max(SCATTERED * median_of_all(np.concatenate(own_s)), LEAST_S)
    for (stages, sends_s, recvs_s), scatter_s in zip(ends, own_s, strict=True):
        ambiguous = np.flatnonzero(scatter_s > limit_s).tolist()
        for one, other in combinations(ambiguous, 2) if len(ambiguous) <= MOST_SCATTERED else ():
            pair = [one, other]
            crossed_s = _scatter_s(recvs_s[..., pair[::-1]] - sends_s[..., pair])
            if (crossed_s < BETTER * scatter_s[pair].min()).all():
                found.update((stage, one, other) for stage in stages)
    most = {
        pair: max(n for key, n in found.items() if key[1:] == pair) for pair in {key[1:] for key in found}
    }
    named = {
        pair: min(key for key, n in found.items() if key[1:] == pair and n == most[pair]) for pair in most
    }
    return sorted(named.values())


@once_per_graph
def _sampled(graph: OpGraph) -> list[tuple[list[int], Ints, Ints]]:
    """Both stages of each link, and some of its sends and their recvs."""
    found = []
    for members, _ in graph.meetings:
        if graph.op_types[members[0][0]] in ot.TRANSFERS:
            at = list(evenly(len(members[0]), SAMPLED))
            sends, recvs = (np.array(ops)[at] for ops in members)
            found.append((sorted(graph.stages[ops[0]] for ops in members), sends, recvs))
    return found


def _scatter_s(apart_s: Floats) -> Floats:
    """Distance of the quartiles over the transfers of a step, median over steps; shape (dp_rank,). [s]

    Within a step, because from step to step clocks drift and are set.
    """
    ordered = np.sort(apart_s, axis=0)
    last = len(ordered) - 1
    return medians_along(ordered[last - last // 4] - ordered[last // 4], 0)
