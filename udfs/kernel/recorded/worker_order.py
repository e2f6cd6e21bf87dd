"""The order in which a worker computes and waits for blocking transfers (model, section 2)."""

from collections.abc import Callable
from functools import cached_property
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints, Mask, common, common_order, sorted_by
from udfs.kernel.recorded.durations import NO_OP_TOLERANCE_S

SAME_S: Final = 1e-7
"""Times closer than this are equal: logs store a tenth of a microsecond. [s]"""

SAME_ROWS: Final = 0.95
"""Ops that coincide in this share of the rows are one call in all rows; otherwise in no row."""

Turns: TypeAlias = tuple[tuple[int, ...], ...]
"""Turns of a worker in their order; the ops of one turn ran at the same time."""


class WorkerOrder(NamedTuple):
    """Order of computes and blocking transfers, for rows with equal op counts.

    ops       : int, shape (op, row), or (op, 1) where all rows agree; by turn.
    is_joined : bool, shaped as ops; whether the op is in one call with the op before it.
    is_beside : bool, shaped as ops; whether the op is in one turn with the op before it.
    """

    ops: Ints
    is_joined: Mask
    is_beside: Mask

    def turns(self, row: int) -> Turns:
        """Return the ops of one row by turn, ascending within a turn; ops of one turn have no order."""
        return _together(self.ops, self.is_beside, row)

    def calls(self, row: int) -> Turns:
        """Return the groups of two or more ops of a row that were issued in one call."""
        return tuple(call for call in _together(self.ops, self.is_joined, row) if len(call) > 1)


def _together(ops: Ints, is_same: Mask, row: int) -> Turns:
    found: list[tuple[int, ...]] = []
    columns = (part[:, min(row, part.shape[1] - 1)].tolist() for part in (ops, is_same))
    for op, is_same_as_before in zip(*columns, strict=True):
        if is_same_as_before:
            found[-1] += (op,)
        else:
            found.append((op,))
    return tuple(found)


class WorkerTurns:
    """The order of computes and transfers of workers, for any choice of transfer types that block.

    Transfers that moved nothing in any row delayed no op, and are left out.

    counts              : ops of each type.
    start_s, duration_s : float64, shape (op, row), ops by (type, start). [s]
    no_ops              : whether each op is a transfer that moved nothing; bool, shape (op, row) or (op, 1).
    positions           : returns the positions of some ops in the log; int, shape (op, row).
    """

    def __init__(
        self,
        counts: tuple[int, ...],
        start_s: Floats,
        duration_s: Floats,
        no_ops: Mask,
        positions: Callable[..., Ints],
    ) -> None:
        self.first = tuple(accumulate(counts, initial=0))
        self.start_s, self.duration_s, self.no_ops, self.positions = start_s, duration_s, no_ops, positions
        self._orders: dict[bytes, WorkerOrder] = {}

    def order(self, types: tuple[int, ...]) -> WorkerOrder:
        """Return the order of computes and of transfers of the given types; empty without such transfers."""
        chosen = self._with_calls(self._ops(types)) if types else np.arange(0)
        if not chosen.size:
            nothing = np.empty((0, 1), dtype=np.int64)
            return WorkerOrder(nothing, nothing.astype(bool), nothing.astype(bool))
        # Choices that differ only in types that the stage lacks share one order.
        key = chosen.tobytes()
        if key not in self._orders:
            self._orders[key] = self._order(chosen)
        return self._orders[key]

    def _order(self, chosen: Ints) -> WorkerOrder:
        ordered, starts_s, ends_s = self._by_start
        if len(chosen) < len(ordered):
            is_chosen = np.zeros(self.first[-1], dtype=bool)
            is_chosen[chosen] = True
            # Each row has the same number of chosen ops, which keep their order within the row.
            by_row = is_chosen[ordered].T
            ordered = ordered.T[by_row].reshape(-1, len(chosen)).T
            by_row = np.broadcast_to(by_row, starts_s.T.shape)
            starts_s, ends_s = (each.T[by_row].reshape(-1, len(chosen)).T for each in (starts_s, ends_s))
        are_transfers, is_joined = self._joined(ordered, starts_s, ends_s)
        share = is_joined.mean(axis=1, keepdims=True)
        is_joined = (is_joined | (share >= SAME_ROWS)) & (share > 1.0 - SAME_ROWS)
        overlaps = are_transfers & (ends_s[:-1] - starts_s[1:] > NO_OP_TOLERANCE_S)
        is_beside = is_joined.copy()
        is_beside[1:] |= (overlaps | is_joined[1:]).mean(axis=1, keepdims=True) > 1.0 - SAME_ROWS
        if ordered.shape[1] == 1:
            is_joined, is_beside = common(is_joined), common(is_beside)
        if is_beside.any():
            # Ops that may run at the same time get one order in all rows, whichever started first.
            place = np.arange(len(ordered))[:, None]
            call = sorted_by(ordered, np.maximum.accumulate(np.where(is_joined, 0, place), axis=0))
            # By turn, call and op: as one number, which sorts several times faster than three.
            bits = int(ordered.max()).bit_length()
            turn = np.cumsum(~is_beside, axis=0) << 2 * bits
            together = np.sort(turn | (call << bits) | ordered, axis=0)
            ordered, call = together & ((1 << bits) - 1), (together >> bits) & ((1 << bits) - 1)
            is_joined = np.concatenate([is_joined[:1], call[1:] == call[:-1]])
        return WorkerOrder(common(ordered), common(is_joined), common(is_beside))

    def _joined(self, ordered: Ints, starts_s: Floats, ends_s: Floats) -> tuple[Mask, Mask]:
        """Return masks: of transfers after a transfer, and of transfers in one call with the one before.

        returns : shape (op, row).
        """
        is_transfer = ordered >= self.first[ot.TRANSFERS[0]]
        are_transfers = is_transfer[1:] & is_transfer[:-1]
        is_joined = np.zeros(starts_s.shape, dtype=bool)
        is_joined[1:] = are_transfers
        for times_s in (starts_s, ends_s):
            is_joined[1:] &= np.abs(times_s[1:] - times_s[:-1]) <= SAME_S
        return are_transfers, is_joined

    def _with_calls(self, chosen: Ints) -> Ints:
        """Add all transfers in one call with a chosen one, because a worker waits for calls as a whole."""
        ordered, *times_s = self._by_start
        if len(chosen) == len(ordered):
            return chosen
        _, is_joined = self._joined(ordered, *times_s)
        if not is_joined.any():
            return chosen
        by_row = np.broadcast_to(ordered.T, is_joined.T.shape).ravel()
        is_chosen = np.zeros(self.first[-1], dtype=bool)
        is_chosen[chosen] = True
        firsts = np.flatnonzero(~is_joined.T)
        members = np.diff(firsts, append=by_row.size)
        in_chosen = np.repeat(np.logical_or.reduceat(is_chosen[by_row], firsts), members)
        rows = np.bincount(by_row, in_chosen, len(is_chosen))
        return np.flatnonzero(is_chosen | (rows >= SAME_ROWS * is_joined.shape[1]))

    def _ops(self, types: tuple[int, ...]) -> Ints:
        """Return the computes, and the transfers of these types except those that never moved data."""
        ops = np.concatenate([np.arange(*self.first[each : each + 2]) for each in (*ot.COMPUTE, *types)])
        moved: Ints = ops[~self.no_ops[ops].all(axis=1)]
        return moved

    @cached_property
    def _by_start(self) -> tuple[Ints, Floats, Floats]:
        """Computes and all transfers ordered by start, with starts and ends; shape (op, row). [s]

        An op of no duration comes before ops with the same start. The ops are (op, 1) if all rows agree.
        """
        ops = self._ops(ot.TRANSFERS)
        starts_s = self.start_s[ops]
        ends_s = starts_s + self.duration_s[ops]
        order = common_order(self.positions(ops), ends_s, starts_s)
        if order.shape[1] == 1:
            return ops[order], starts_s[order[:, 0]], ends_s[order[:, 0]]
        return ops[order], sorted_by(starts_s, order), sorted_by(ends_s, order)
