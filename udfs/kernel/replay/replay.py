"""Replay: when each op would have run if ops had the given durations (model, section 4).

The recurrence is written twice: fast in `Rows`, with scenarios as rows, and plain in `timeline`. Tests
compare the results of both bit for bit.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats
from udfs.kernel.graph.graph import OpGraph, once_per_graph

VERY_FEW_DP_RANKS: Final = 4
FEW_DP_RANKS: Final = 8
"""Up to FEW_DP_RANKS columns, comparing whole columns is faster than reducing each row; with
VERY_FEW_DP_RANKS, without a copy."""

NO_OP: Final = -1
NOTHING_LATE: Final[Mapping[int, Floats]] = {}


class Durations(NamedTuple):
    """Durations of ops in each row, which stands for a scenario; float64. [s]

    usual  : per op, broadcastable to (row, lane); its duration in all rows except `rows`.
    others : per op, shape (lane,) or (); its duration in `rows`.
    rows   : per op, the rows in which it has its other duration.
    """

    usual: Sequence[Floats]
    others: Sequence[Floats]
    rows: Sequence[Sequence[int]]


class Rows:
    """State of a replay of several scenarios, one per row; lane = (step, dp_rank).

    An end is kept only while other ops wait for it. Row 0 has lanes from the first op on. Other rows get
    lanes at the node at which they begin to differ; until then their ends are those of row 0, or `alike`.

    After the slots for ends come three more slots: zeros for ops that wait for nothing, the latest of several
    ends, and the meeting time of dp ranks.

    active : per node of the graph, number of rows with separate lanes from this node on.
    alike  : per op, its end in all rows that have no lanes yet; None: as in row 0. [s]
    filled : number of rows that have lanes so far.
    """

    def __init__(
        self,
        graph: OpGraph,
        shape: tuple[int, int, int],
        durations: Durations,
        active: Sequence[int],
        alike: Sequence[float] | None = None,
    ) -> None:
        rows, steps, self.dp_ranks = shape
        self.graph, self.active, self.alike = graph, active, alike
        self.usual, self.others, self.other_rows = durations.usual, durations.others, list(durations.rows)
        self.latest_s = np.zeros((rows, steps * self.dp_ranks))
        self.at_once, self.latest, self.met = range(graph.slots, graph.slots + 3)
        self.ends_s = np.empty((graph.slots + 3, *self.latest_s.shape))
        self.ends_s[self.at_once] = 0.0
        self.op_in_slot = [NO_OP] * graph.slots
        self.filled = 0
        # Views are made once, because making one takes as long as a small sum.
        self.views, self.active_s = list[Floats](), self.latest_s

    def run(
        self, is_last: Sequence[bool] | None = None, delays_s: Mapping[int, Floats] = NOTHING_LATE
    ) -> Floats:
        """Replay all rows, and return the latest end of each lane, shape (row, step, dp). [s]

        is_last  : ops that may end a step, from `last_ops`; all of them if left out.
        delays_s : by op, by how much it starts later; broadcastable to (row, lane). [s]
        """
        usual, others, other_rows = self.usual, self.others, self.other_rows
        op_in_slot, add, maximum = self.op_in_slot, np.add, np.maximum
        at_once, latest, meets = self.at_once, self.latest, self.dp_ranks > 1
        every_row = list(map(list, self.ends_s)) if any(other_rows) else []
        ends_step = [True] * self.graph.size if is_last is None else is_last
        filled, views = self.filled, self.views
        # The loop avoids function calls, because a call takes as long as a small sum.
        for (ops, across_dp, sources, slots, op_slots), active in zip(
            self.graph.nodes, self.active, strict=True
        ):
            if active != filled:
                self.grow(active)
                filled, views = self.filled, self.views
            if delays_s and not delays_s.keys().isdisjoint(ops):
                start = self._latest_call(ops, dict(zip(sources, slots, strict=True)), delays_s)
            elif len(slots) > 1:
                start, latest_s = latest, views[latest]
                maximum(views[slots[0]], views[slots[1]], out=latest_s)
                for slot in slots[2:]:
                    maximum(latest_s, views[slot], out=latest_s)
            else:
                start = slots[0] if slots else at_once
            start = self.meet(start) if across_dp and meets and start != at_once else start
            start_s = views[start]
            for op, slot in op_slots:
                op_in_slot[slot] = op
                end_s = views[slot]
                add(start_s, usual[op], end_s)
                if other_rows[op]:
                    other_s, start_rows, end_rows = others[op], every_row[start], every_row[slot]
                    for row in other_rows[op]:
                        add(start_rows[row], other_s, end_rows[row])
                if ends_step[op]:
                    self._end_step(op, end_s)
        return self.latest_s.reshape(len(self.latest_s), -1, self.dp_ranks)

    def grow(self, active: int) -> None:
        """Give further rows lanes of their own, until `active` rows have them."""
        for slot, op in enumerate(self.op_in_slot):
            if op != NO_OP:
                ends_s = self.ends_s[slot]
                ends_s[self.filled : active] = ends_s[0] if self.alike is None else self.alike[op]
        if self.alike is None:
            self.latest_s[self.filled : active] = self.latest_s[0]
        self.filled = active
        self.views, self.active_s = list(self.ends_s[:, :active]), self.latest_s[:active]

    def meet(self, start: int) -> int:
        """Let the dp ranks of a row wait for each other, and return the slot of their common start."""
        by_dp = self.views[start].reshape(-1, self.dp_ranks)
        self.views[self.met].reshape(by_dp.shape)[...] = latest_of_dp_ranks(by_dp)
        return self.met

    def _latest_call(
        self, ops: Sequence[int], slot_of: Mapping[int, int], delays_s: Mapping[int, Floats]
    ) -> int:
        """Return the slot of the latest start of a rendezvous, of which some ops have extra delays."""
        latest_s = self.views[self.latest]
        for place, op in enumerate(ops):
            start_s = self.views[self.at_once]
            for source in self.graph.waits_for[op]:
                start_s = np.maximum(start_s, self.views[slot_of[source]])
            start_s = start_s + delays_s[op] if op in delays_s else start_s
            np.maximum(latest_s if place else start_s, start_s, out=latest_s)
        return self.latest

    def _end_step(self, op: int, end_s: Floats) -> None:
        """Extend the step to the end of this op, if the step ended earlier so far."""
        np.maximum(self.active_s, end_s, out=self.active_s)
        if self.alike is not None:
            waiting_s = self.latest_s[self.filled :]
            np.maximum(waiting_s, self.alike[op], out=waiting_s)


def replay(
    graph: OpGraph,
    durations_s: Sequence[Floats],
    shape: tuple[int, int, int],
    is_last: Sequence[bool] | None = None,
    delays_s: Mapping[int, Floats] = NOTHING_LATE,
) -> Floats:
    """Return step times of scenarios in which each op starts once all ops that it waits for have ended.

    durations_s : per op float64, shape (scenario, lane), or (1, lane) if they agree; lane = (step, dp). [s]
    shape       : (scenario, step, dp).
    is_last     : ops that may end a step, from `last_ops`; all of them if left out.
    delays_s    : by op, by how much it starts later, float64, of the same shapes. [s]
    returns     : float64, shape (scenario, step). [s]
    """
    durations = Durations(durations_s, (), [()] * graph.size)
    times_s: Floats = (
        Rows(graph, shape, durations, [shape[0]] * len(graph.nodes)).run(is_last, delays_s).max(axis=2)
    )
    return times_s


def step_times(graph: OpGraph, duration_s: Floats) -> Floats:
    """Return the step times of a scenario; float64, shape (step,). [s]

    duration_s : float64, shape (op, step, dp_rank); in a rendezvous transfer times. [s]
    """
    by_op = duration_s.reshape(graph.size, 1, -1)
    is_last = last_ops(graph, by_op.min(axis=(1, 2)))
    times_s: Floats = replay(graph, list(by_op), (1, *duration_s.shape[1:]), is_last)[0]
    return times_s


def latest_of_dp_ranks(values_s: Floats) -> Floats:
    """Return the maximum over dp ranks, which are the last axis; the result keeps it with length 1. [s]"""
    *others, dp_ranks = values_s.shape
    if dp_ranks <= VERY_FEW_DP_RANKS:
        return reduce(np.maximum, (values_s[..., rank : rank + 1] for rank in range(dp_ranks)))
    if dp_ranks > FEW_DP_RANKS:
        # NumPy's `max` along a short axis takes twice as long.
        latest_s = np.maximum.reduceat(values_s.reshape(-1), np.arange(0, values_s.size, dp_ranks))
    else:
        latest_s = values_s.reshape(-1, dp_ranks).T.copy().max(axis=0)
    return latest_s.reshape(*others, 1)


def ideal_ends(graph: OpGraph, ideal_of_op: Floats) -> list[float]:
    """Return the end of each op if all ops take ideal durations; shape (op,), equal for all lanes. [s]"""
    ends_s, ideals_s = [0.0] * graph.size, ideal_of_op.tolist()
    end_of = ends_s.__getitem__
    for ops, _, sources, *_ in graph.nodes:
        start_s = max(map(end_of, sources)) if sources else 0.0
        for op in ops:
            ends_s[op] = start_s + ideals_s[op]
    return ends_s


def last_ops(graph: OpGraph, shortest_s: Floats) -> list[bool]:
    """Mark ops that may end a step: no op that surely has a duration of at least 0 waits for them.

    shortest_s : float64, shape (op,); the shortest duration that each op may have. [s]
    """
    return _last_ops(graph, frozenset(np.flatnonzero(~(shortest_s >= 0.0)).tolist()))


@once_per_graph
def _last_ops(graph: OpGraph, negative: frozenset[int]) -> list[bool]:
    """Mark ops that may be the last of a step. negative : ops whose duration may be below 0."""
    is_last = [True] * graph.size
    for op, sources in enumerate(graph.waits_for):
        if op not in negative:
            for source in sources:
                is_last[source] = False
    return is_last
