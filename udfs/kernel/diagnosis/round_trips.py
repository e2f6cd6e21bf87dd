"""Find how much of the excess of slow transfers is certain even if clocks are wrong (diagnosis, section 4).

A clock that is ahead makes the transfers of one direction look longer and those of the other direction
shorter by the same amount. In the sum of both directions of a link, the round trip, this error cancels.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.clocks.ties import middle_of_known
from udfs.kernel.diagnosis.block_times import BlockTimes
from udfs.kernel.diagnosis.usual_transfers import ALL, NO_DAYS, Kind, SlowOps, Usual, limits_of
from udfs.kernel.graph.graph import OpGraph, once_per_graph
from udfs.kernel.recorded.ends import links

KIND: Final[Kind] = (ot.FORWARD_RECV, ALL, ALL)
"""Kind under which round trips are passed to limits_of."""


def sure_share(
    blocks: Sequence[BlockTimes], slow: Sequence[SlowOps], before_s: Mapping[int, float] = NO_DAYS
) -> float:
    """Return the share of the slow receives' excess that also appears in the round trips of their links.

    slow     : slow transfers of each block.
    before_s : usual time of an op type on earlier days. [s]
    """
    joined = [
        (block, of_block) for block, of_block in zip(blocks, slow, strict=True) if _both_ways(block.graph)
    ]
    if not joined:
        return 0.0
    usual = _usual([block for block, _ in joined], before_s)
    sure_s = beyond_s = 0.0
    for block, (ops, as_is_s, usual_s) in joined:
        place = {op: row for row, op in enumerate(ops.tolist())}
        both_ways = _both_ways(block.graph)
        for recvs, others in both_ways + [both[::-1] for both in both_ways]:
            own = [op for op in recvs.tolist() if op in place]
            rows = [place[op] for op in own]
            own_beyond_s = np.maximum(as_is_s[rows] - usual_s[rows], 0.0)
            # A round trip adds the median of the other direction, or 0 if that is unknown.
            trip_s = block.duration_s[own] + np.nan_to_num(_whole(block, others))
            own_sure_s = np.where(trip_s > usual.limit_s, trip_s - usual.base_s, 0.0)
            beyond_s += float(own_beyond_s.sum())
            sure_s += float(np.minimum(own_beyond_s, own_sure_s).sum())
    return sure_s / beyond_s if beyond_s > 0.0 else 0.0


def _usual(blocks: Sequence[BlockTimes], before_s: Mapping[int, float]) -> Usual:
    """Return the usual round trip time over all links, steps and dp ranks, and the limit for slow ones."""
    trips_s, middles_s = [], []
    for block in blocks:
        own_s = np.array(
            [_whole(block, one) + _whole(block, other) for one, other in _both_ways(block.graph)]
        )
        trips_s.append(own_s[np.isfinite(own_s)])
        middles_s.append(middle_of_known(own_s.swapaxes(1, 2).reshape(-1, own_s.shape[1])))
    ways_s = [before_s[each] for each in (ot.FORWARD_RECV, ot.BACKWARD_RECV) if each in before_s]
    trip_before = {KIND[0]: sum(ways_s)} if len(ways_s) > 1 else NO_DAYS
    return limits_of({KIND: np.concatenate(trips_s)}, trip_before, {KIND: np.concatenate(middles_s)})[KIND]


@once_per_graph
def _both_ways(graph: OpGraph) -> list[tuple[Ints, Ints]]:
    """Return the receives of the forward and the backward direction of each link that has both."""
    backward = {link[1:4]: link.recvs for link in links(graph) if link.is_backward}
    forward = [link for link in links(graph) if not link.is_backward and link[1:4] in backward]
    return [(link.recvs, backward[link[1:4]]) for link in forward]


def _whole(block: BlockTimes, recvs: Ints) -> Floats:
    """Return the median duration of receives whose whole transfer was recorded; nan without any. [s]

    returns : shape (step, dp).
    """
    ops = recvs.tolist()
    is_hidden = np.array([block.is_cut[op] for op in ops])
    for row, op in enumerate(ops):
        if op in block.calls.is_free:
            is_hidden[row] |= block.calls.is_free[op]
    return middle_of_known(np.where(is_hidden, np.nan, block.duration_s[recvs]))
