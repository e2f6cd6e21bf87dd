"""All scenarios of section 5 in one pass over the graph, lanes last and contiguous.

Bit for bit what one-at-a-time replays give, which the tests hold them against, at a fraction of the cost.
"""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats
from udfs.kernel.graph.graph import Layout, OpGraph
from udfs.kernel.replay.replay import latest_of_dp_ranks
from udfs.kernel.replay.scenario_rows import EVERYTHING, ScenarioRows, plan_rows

NO_OP: Final = -1


class ScenarioTimes(NamedTuple):
    """Step times of every scenario. All float64, in seconds.

    recorded         : shape (step,); T, every op as recorded.
    ideal            : shape (step,); T_ideal, the same for every step of one graph.
    last_stage_ideal : shape (step,); all but the last stage as recorded; T without a pipeline.
    by_type          : type group -> shape (step,); it alone as recorded, all else ideal.
    by_stage         : shape (stage, step).
    by_dp_rank       : shape (dp_rank, step).
    by_worker        : shape (stage, dp_rank, step); exact.
    """

    recorded: Floats
    ideal: Floats
    last_stage_ideal: Floats
    by_type: dict[int, Floats]
    by_stage: Floats
    by_dp_rank: Floats
    by_worker: Floats


def replay_scenarios(
    graph: OpGraph, layout: Layout, duration_s: Floats, ideal_of_op: Floats, is_last: list[bool]
) -> ScenarioTimes:
    """Replay the job as recorded, ideal, and with each type, stage, dp rank and worker alone recorded.

    duration_s  : float64, shape (op, step, dp_rank), as recorded; transfers in a rendezvous. [s]
    ideal_of_op : float64, shape (op,). [s]
    is_last     : ops that may end a step, from `last_ops`.
    """
    rows = plan_rows(graph, layout)
    ideal_ends = ideal_timeline(graph, ideal_of_op.tolist())
    stack = _Stack(graph, rows, duration_s, ideal_of_op, ideal_ends, is_last)
    stack.run()
    return _collect(stack.latest_s, rows, layout, max(ideal_ends, default=0.0))


def ideal_timeline(graph: OpGraph, ideals: list[float]) -> list[float]:
    """End of every op where every op takes its ideal. [s]"""
    ends = [0.0] * graph.size
    end_of = ends.__getitem__
    for ops, _, sources, *_ in graph.nodes:
        start = max(map(end_of, sources)) if sources else 0.0
        for op in ops:
            ends[op] = start + ideals[op]
    return ends


class _Stack:
    """The stacked replay under way; lane = (step, dp_rank).

    Behind the slots of the graph's ends follow three more: of what starts at once, of the latest of several
    ends, and of when dp ranks have met.
    active : by slot, the rows that have separate lanes by now, as one flat array.
    rows   : by slot, every row alone: views are made once, because one costs as much as a small sum.
    """

    def __init__(
        self,
        graph: OpGraph,
        rows: ScenarioRows,
        duration_s: Floats,
        ideal_of_op: Floats,
        ideal_ends: list[float],
        is_last: list[bool],
    ) -> None:
        _, steps, self.dp_ranks = duration_s.shape
        self.graph, self.plan, self.ideal_ends = graph, rows, ideal_ends
        self.durations = list(duration_s.reshape(graph.size, -1))
        self.kinds = list(zip(graph.op_types, graph.stages, strict=True))
        # Arrays without axes, because NumPy converts a float anew in every call.
        self.ideals = {kind: np.array(ideal_of_op[op]) for kind, op in rows.kinds.items()}
        self.recorded_rows = dict(rows.recorded)
        self.latest_s = np.zeros((rows.count, steps, self.dp_ranks))
        self.is_last = is_last
        self.at_once, self.latest, self.met = range(graph.slots, graph.slots + 3)
        self.ends_s = np.empty((graph.slots + 3, rows.count, steps * self.dp_ranks))
        self.ends_s[self.at_once] = 0.0
        self.rows = [list(of_slot) for of_slot in self.ends_s]
        self.op_in_slot = [NO_OP] * graph.slots
        self.filled = 0
        self.active = self._active()

    def run(self) -> None:
        """Replay the nodes in turn, each on the rows that differ from the ideal by then."""
        durations, ideals, is_last, kinds = self.durations, self.ideals, self.is_last, self.kinds
        recorded_rows, op_in_slot, every_row, add = self.recorded_rows, self.op_in_slot, self.rows, np.add
        for (_, across_dp, _, source_slots, op_slots), active in zip(
            self.graph.nodes, self.plan.active, strict=True
        ):
            if active != self.filled:
                self._grow(active)
            views = self.active
            start = self._latest(source_slots, across_dp=across_dp) if source_slots else self.at_once
            start_s, start_rows = views[start], every_row[start]
            for op, slot in op_slots:
                op_in_slot[slot] = op
                kind, recorded_s, end_rows = kinds[op], durations[op], every_row[slot]
                add(start_s, ideals[kind], views[slot])
                for row in recorded_rows[kind]:
                    add(start_rows[row], recorded_s, end_rows[row])
                if is_last[op]:
                    self._end_step(op, slot)

    def _active(self) -> list[Floats]:
        """Return the first rows of every slot."""
        return list(self.ends_s.reshape(len(self.ends_s), -1)[:, : self.filled * self.ends_s.shape[2]])

    def _latest(self, slots: tuple[int, ...], *, across_dp: bool) -> int:
        """Slot of the latest end of some ops, of all dp ranks where they meet."""
        start, views, maximum = slots[0], self.active, np.maximum
        if len(slots) > 1:
            latest_s = views[self.latest]
            maximum(views[start], views[slots[1]], out=latest_s)
            for slot in slots[2:]:
                maximum(latest_s, views[slot], out=latest_s)
            start = self.latest
        return self._meet(start) if across_dp and self.dp_ranks > 1 else start

    def _grow(self, active: int) -> None:
        """Give further rows separate lanes: what ended by now was ideal in them.

        A recorded replica has so far run like its lane where everything, or its stage, is recorded.
        """
        first, number = self.plan.replicas
        brings_replicas = number > 0 and self.filled <= first < active
        if brings_replicas:
            for op_type, stage in self.recorded_rows:
                self.recorded_rows[op_type, stage] += self.plan.recorded_replicas(stage)
        for slot, op in enumerate(self.op_in_slot):
            if op != NO_OP:
                self.ends_s[slot, self.filled : active] = self.ideal_ends[op]
                if brings_replicas:
                    self._copy_to_replicas(self.rows[slot])
        if brings_replicas:
            self._copy_to_replicas(list(self.latest_s))
        self.filled = active
        self.active = self._active()

    def _copy_to_replicas(self, rows: list[Floats]) -> None:
        first, number = self.plan.replicas
        rows[first][...] = rows[EVERYTHING]
        for stage in range(number - 1):
            rows[first + 1 + stage][...] = rows[self.plan.stage_row[stage]]

    def _meet(self, start: int) -> int:
        """Let dp ranks wait for each other within a row, and recorded replicas for their ideal partners."""
        by_dp = self.active[start].reshape(-1, self.dp_ranks)
        self.active[self.met].reshape(by_dp.shape)[...] = latest_of_dp_ranks(by_dp)
        replicas = self.plan.replicas
        if replicas.number and self.filled > replicas.first:
            recorded = slice(replicas.first, replicas.partners)
            partners = slice(replicas.partners, replicas.end)
            met_s, start_s = self.ends_s[self.met], self.ends_s[start]
            np.maximum(start_s[recorded], start_s[partners], out=met_s[recorded])
            met_s[partners] = met_s[recorded]
        return self.met

    def _end_step(self, op: int, slot: int) -> None:
        """Let the step last at least as long as an op."""
        latest_s = self.latest_s.reshape(self.ends_s.shape[1:])
        active_s, ideal_s = latest_s[: self.filled], latest_s[self.filled :]
        np.maximum(active_s, self.ends_s[slot, : self.filled], out=active_s)
        np.maximum(ideal_s, self.ideal_ends[op], out=ideal_s)


def _collect(latest_s: Floats, rows: ScenarioRows, layout: Layout, ideal: float) -> ScenarioTimes:
    _, steps, dp_ranks = latest_s.shape
    by_row = latest_s.max(axis=2)
    recorded = by_row[EVERYTHING]
    by_stage = by_row[[rows.stage_row[stage] for stage in range(layout.pp_size)]]
    by_dp_rank = np.broadcast_to(recorded, (dp_ranks, steps))
    by_worker = np.broadcast_to(by_stage[:, None], (layout.pp_size, dp_ranks, steps))
    first, number = rows.replicas
    if number:
        pairs = np.maximum(
            latest_s[first : rows.replicas.partners], latest_s[rows.replicas.partners : rows.replicas.end]
        )
        by_replica = pairs.swapaxes(1, 2)
        by_dp_rank = by_replica[0]
        by_worker = by_replica[1:] if number > 1 else by_replica[:1]
    elif dp_ranks > 1:
        by_dp_rank, by_worker = _without_meetings(latest_s, rows, layout, ideal)
    return ScenarioTimes(
        recorded=recorded,
        ideal=np.full(steps, ideal),
        last_stage_ideal=by_row[rows.last_stage_ideal] if rows.last_stage_ideal >= 0 else recorded,
        by_type={group: by_row[row] for group, row in rows.type_row.items()},
        by_stage=by_stage,
        by_dp_rank=by_dp_rank,
        by_worker=by_worker,
    )


def _without_meetings(
    latest_s: Floats, rows: ScenarioRows, layout: Layout, ideal: float
) -> tuple[Floats, Floats]:
    """Where replicas never wait for each other, a lane is one replica beside ideal ones."""
    alone = np.maximum(latest_s, ideal).swapaxes(1, 2)
    return alone[EVERYTHING], alone[[rows.stage_row[stage] for stage in range(layout.pp_size)]]
