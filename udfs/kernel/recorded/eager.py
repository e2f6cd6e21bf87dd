"""Find eager sends, which are done once their data are copied, so that they do not wait for their recvs."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.recorded.durations import NO_OP_TOLERANCE_S, SENDS, on_one_clock
from udfs.kernel.recorded.trace import StepBlock
from udfs.kernel.recorded.worker_order import SAME_S
from udfs.kernel.selection import median_of_all

RECVS: Final = (ot.FORWARD_RECV, ot.BACKWARD_RECV)

EARLY: Final = 0.005
"""At least this share of the sends of an eager type ends before its recv begins."""

MOST: Final = 0.5
"""At least this share of the sends of an eager type does not wait, if its recv begins late enough to show
it."""

FEW_STEPS: Final = 3
"""With more steps, the one with most early sends is ignored: a wrong clock makes all sends of a step
early."""

APART_S: Final = 1e-3
"""Two clocks may differ by this time without a correction, so smaller differences between them show
nothing."""

HALF: Final = 0.5
"""A send that ends within this first part of its transfer's time did not wait for the end of the transfer."""


class _Part(NamedTuple):
    """Transfers of one direction, between two workers or between all replicas of two stages."""

    block: StepBlock
    sends: list[int]
    recvs: list[int]

    @property
    def cells(self) -> tuple[int, int]:
        """Numbers of the cells that send and that receive."""
        first = self.block.graph.first_op
        return bisect_right(first, self.sends[0]) - 1, bisect_right(first, self.recvs[0]) - 1

    def end_s(self, ops: Sequence[int]) -> Floats:
        """Return the recorded ends of some ops, shape (op, step, dp). [s]"""
        own = list(ops)
        return self.block.start_s[own] + self.block.duration_s[own]


def are_eager(types: Sequence[int], blocks: Sequence[StepBlock], clock: Callable[[StepBlock], Ints]) -> bool:
    """Return whether sends of these types do not wait for their recvs.

    Both directions send in the same way, so that one of them suffices: recvs of the other may never be late.
    """
    parts = [_parts(each, blocks) for each in types]
    if any(_are_early(of_type, clock) and not _wait(of_type) for of_type in parts):
        return True
    return len(parts) == len(SENDS) and _end_long_before(*parts) and not any(map(_wait, parts))


def _parts(op_type: int, blocks: Sequence[StepBlock]) -> list[_Part]:
    """Return all transfers whose sends have one type."""
    return [
        _Part(block, *(list(ops) for ops in members))
        for block in blocks
        for members, _ in block.graph.meetings
        if block.graph.op_types[members[0][0]] == op_type
    ]


def _are_early(parts: Sequence[_Part], clock: Callable[[StepBlock], Ints]) -> bool:
    """Return whether enough sends end before their recv begins, even without the step with most of them."""
    early: list[Mask] = []
    for part in parts:
        block, sends, recvs = part
        by_s = block.start_s[recvs] - part.end_s(sends)
        is_early: Mask = by_s > NO_OP_TOLERANCE_S
        if is_early.any():
            is_early &= on_one_clock(block.graph, clock(block), sends, recvs) | (by_s > APART_S)
        early.append(is_early)
    if not any(each.any() for each in early):
        return False
    steps = np.concatenate([part.block.steps for part in parts])
    by_step = np.bincount(steps, np.concatenate([each.sum(axis=(0, 2)) for each in early]))
    most = by_step.max() if len(np.unique(steps)) > FEW_STEPS else 0.0
    return bool(by_step.sum() - most > EARLY * sum(each.size for each in early))


def _wait(parts: Sequence[_Part]) -> bool:
    """Return whether most sends with a late recv last until that recv begins."""
    alone = [~_in_calls(part, part.cells[0], part.sends, RECVS) for part in parts]
    taken = [part.block.duration_s[part.sends][own] for part, own in zip(parts, alone, strict=True)]
    if not any(map(len, taken)):
        return False
    usual_s = median_of_all(np.concatenate(taken))
    could = showed = 0
    for part, is_alone in zip(parts, alone, strict=True):
        recv_start_s = part.block.start_s[part.recvs]
        later_s = recv_start_s - part.block.start_s[part.sends]
        may_show = is_alone & (later_s > usual_s + APART_S)
        could += int(np.count_nonzero(may_show))
        showed += int(np.count_nonzero(may_show & (recv_start_s - part.end_s(part.sends) > APART_S)))
    return showed < MOST * could


def _in_calls(part: _Part, cell: int, ops: Sequence[int], others: tuple[int, ...]) -> Mask:
    """Mask transfers that end together with a transfer of another type on their worker."""
    end_s, by_type = part.end_s(ops), part.block.graph.ops_by_type[cell]
    found = np.zeros(end_s.shape, dtype=bool)
    for each in others:
        for other_s in part.end_s(by_type[each]):
            found |= np.abs(other_s - end_s) <= SAME_S
    return found


def _end_long_before(forward: Sequence[_Part], backward: Sequence[_Part]) -> bool:
    """Return whether most sends end in the first half of their transfer's time.

    Times of a forward and a backward transfer are added, so that clock errors cancel. The first forward and
    the last backward transfer of a step are compared, because these are most often issued alone.
    """
    backs = {(id(part.block), *part.cells): part for part in backward}
    asked = long_before = 0
    for part in forward:
        back = backs.get((id(part.block), *part.cells[::-1]))
        if back is not None:
            after_s, whole_s = np.add(_times(part, 0), _times(back, -1))
            is_long = after_s > np.maximum(HALF * whole_s, 2 * NO_OP_TOLERANCE_S)
            if is_long.any():
                is_long &= ~(_is_in_call(part, 0) | _is_in_call(back, -1))
            asked += is_long.size
            long_before += int(np.count_nonzero(is_long))
    return long_before > MOST * asked


def _times(part: _Part, place: int) -> Floats:
    """Return the times from the send's end, and from its start, to the recv's end; (2, step, dp). [s]"""
    (block, send, recv) = part.block, part.sends[place], part.recvs[place]
    start_s, end_s = block.start_s[send], block.start_s[recv] + block.duration_s[recv]
    return np.array([end_s - start_s - block.duration_s[send], end_s - start_s])


def _is_in_call(part: _Part, place: int) -> Mask:
    """Mask transfers of which either end was issued in a call with others; (step, dp)."""
    (sender, receiver), send, recv = part.cells, part.sends[place], part.recvs[place]
    is_in_call: Mask = (_in_calls(part, sender, [send], RECVS) | _in_calls(part, receiver, [recv], SENDS))[0]
    return is_in_call
