"""All scenarios of section 5 in one pass over the graph, lanes last and contiguous.

Bit for bit what one-at-a-time replays give, which the tests hold them against, at a fraction of the cost.
"""

from typing import NamedTuple

import numpy as np

from udfs.kernel.graph import Layout, OpGraph, Unit
from udfs.kernel.program import Floats
from udfs.kernel.scenario_rows import EVERYTHING, ScenarioRows, plan_rows


class ScenarioTimes(NamedTuple):
    """Step times of every scenario. All float64, in seconds.

    recorded         : shape (step,); T, every op as recorded.
    ideal            : shape (step,); T_ideal, the same for every step of one graph.
    last_stage_ideal : shape (step,); all but the last stage as recorded; T where there is no pipeline.
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


def replay_scenarios(graph: OpGraph, layout: Layout, duration_s: Floats, ideal_s: Floats) -> ScenarioTimes:
    """Replay the job as recorded, ideal, and with each type, stage, dp rank and worker alone recorded.

    duration_s : float64, shape (op, step, dp_rank), as recorded; transfers in a rendezvous. [s]
    ideal_s    : float64, shape (op type,). [s]
    """
    rows = plan_rows(graph, layout)
    ideals = ideal_s.tolist()
    ideal_ends = ideal_timeline(graph, ideals)
    stack = _Stack(graph, rows, duration_s, ideals, ideal_ends)
    for unit, active in zip(graph.units, rows.active, strict=True):
        stack.run(unit, active)
    return _collect(stack.latest_s, rows, layout, max(ideal_ends, default=0.0))


def ideal_timeline(graph: OpGraph, ideals: list[float]) -> list[float]:
    """End of every op where every op takes its type's ideal. [s]"""
    ends = [0.0] * graph.size
    for unit in graph.units:
        start = max((ends[source] for op in unit.ops for source in graph.waits_for[op]), default=0.0)
        for op in unit.ops:
            ends[op] = start + ideals[graph.op_types[op]]
    return ends


class _Ends:
    """Ends of one op in every row; views are kept, because making them costs as much as a small sum."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.every_row = np.empty(shape)
        self.rows = list(self.every_row)
        self.filled = 0
        self._prefixes: dict[int, Floats] = {}

    def prefix(self, rows: int) -> Floats:
        """The first rows."""
        view = self._prefixes.get(rows)
        if view is None:
            view = self._prefixes[rows] = self.every_row[:rows]
        return view


class _Stack:
    """The stacked replay under way: ends of the ops that are still waited for; lane = (step, dp_rank)."""

    def __init__(
        self,
        graph: OpGraph,
        rows: ScenarioRows,
        duration_s: Floats,
        ideals: list[float],
        ideal_ends: list[float],
    ) -> None:
        _, steps, dp_ranks = duration_s.shape
        lanes = steps * dp_ranks
        self.graph, self.rows, self.ideals, self.ideal_ends = graph, rows, ideals, ideal_ends
        self.dp_ranks = dp_ranks
        self.durations = list(duration_s.reshape(graph.size, lanes))
        self.shape = (rows.count, lanes)
        self.latest_s = np.zeros((rows.count, steps, dp_ranks))
        self.ends: dict[int, _Ends] = {}
        self.spare: list[_Ends] = []
        self.latest_start, self.met = _Ends(self.shape), _Ends(self.shape)
        self.waiting = [0] * graph.size
        for sources in graph.waits_for:
            for source in sources:
                self.waiting[source] += 1
        self.is_last = _last_ops(graph, duration_s, ideals)
        kinds = list(zip(graph.op_types, graph.stages, strict=True))
        recorded_rows = {kind: rows.recorded_rows(*kind) for kind in set(kinds)}
        self.recorded_rows = [recorded_rows[kind] for kind in kinds]

    def run(self, unit: Unit, active: int) -> None:
        """Replay one unit on the first `active` rows."""
        start = self._latest_start(unit, active)
        if start is not None and unit.across_dp and self.dp_ranks > 1:
            start = self._meet(start, active)
        for op in unit.ops:
            self.ends[op] = self._end(op, start, active)
        for op in unit.ops:
            for source in self.graph.waits_for[op]:
                self.waiting[source] -= 1
                if not self.waiting[source]:
                    self.spare.append(self.ends.pop(source))
            if self.is_last[op]:
                flat = self.latest_s.reshape(self.shape)
                np.maximum(flat, self._up_to(op, self.rows.count).every_row, out=flat)
            if not self.waiting[op]:
                self.spare.append(self.ends.pop(op))

    def _latest_start(self, unit: Unit, active: int) -> _Ends | None:
        """Latest end of what the unit waits for; None where it waits for nothing."""
        waits_for = self.graph.waits_for
        sources = waits_for[unit.ops[0]]
        if len(unit.ops) > 1:
            sources = tuple(source for op in unit.ops for source in waits_for[op])
        if not sources:
            return None
        latest = self._up_to(sources[0], active)
        for source in sources[1:]:
            other = self._up_to(source, active).prefix(active)
            np.maximum(latest.prefix(active), other, out=self.latest_start.prefix(active))
            latest = self.latest_start
        return latest

    def _up_to(self, op: int, active: int) -> _Ends:
        """Ends of an op on the first `active` rows; on those it has not had yet it is still ideal."""
        ends = self.ends[op]
        if ends.filled < active:
            ends.every_row[ends.filled : active] = self.ideal_ends[op]
            first, number = self.rows.replicas
            if number and ends.filled <= first < active:
                ends.rows[first][:] = ends.rows[EVERYTHING]
                for stage in range(number - 1):
                    ends.rows[first + 1 + stage][:] = ends.rows[self.rows.stage_row[stage]]
            ends.filled = active
        return ends

    def _meet(self, start: _Ends, active: int) -> _Ends:
        """Let dp ranks wait for each other within a row, and recorded replicas for their ideal partners."""
        by_dp = start.prefix(active).reshape(active, -1, self.dp_ranks)
        self.met.prefix(active).reshape(by_dp.shape)[...] = by_dp.max(axis=2, keepdims=True)
        replicas = self.rows.replicas
        if replicas.number and active > replicas.first:
            recorded, partners = (
                slice(replicas.first, replicas.partners),
                slice(replicas.partners, replicas.end),
            )
            met = self.met.every_row
            np.maximum(start.every_row[recorded], start.every_row[partners], out=met[recorded])
            met[partners] = met[recorded]
        return self.met

    def _end(self, op: int, start: _Ends | None, active: int) -> _Ends:
        """Ends of an op that starts at `start`: ideal in all rows, then as recorded where it is recorded."""
        ends = self.spare.pop() if self.spare else _Ends(self.shape)
        ends.filled = active
        ideal, recorded_s, rows = self.ideals[self.graph.op_types[op]], self.durations[op], ends.rows
        if start is None:
            ends.prefix(active)[...] = ideal
            for row in self.recorded_rows[op]:
                if row < active:
                    rows[row][:] = recorded_s
            return ends
        np.add(start.prefix(active), ideal, out=ends.prefix(active))
        for row in self.recorded_rows[op]:
            if row < active:
                np.add(start.rows[row], recorded_s, out=rows[row])
        return ends


def _last_ops(graph: OpGraph, duration_s: Floats, ideals: list[float]) -> list[bool]:
    """Ops that may end a step: nothing that surely takes no negative time follows them."""
    is_last = [True] * graph.size
    shortest_s = duration_s.reshape(graph.size, -1).min(axis=1).tolist()
    for op, sources in enumerate(graph.waits_for):
        if shortest_s[op] >= 0.0 and ideals[graph.op_types[op]] >= 0.0:
            for source in sources:
                is_last[source] = False
    return is_last


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
    """Where replicas never wait for each other, a lane is its own replica beside ideal ones."""
    alone = np.maximum(latest_s, ideal).swapaxes(1, 2)
    return alone[EVERYTHING], alone[[rows.stage_row[stage] for stage in range(layout.pp_size)]]
