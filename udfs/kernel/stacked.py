"""All scenarios of section 5 in one pass over the graph, lanes last and contiguous.

Bit for bit what one-at-a-time replays give, which the tests hold them against, at a fraction of the cost.
"""

from typing import NamedTuple

import numpy as np

from udfs.kernel.graph import Layout, OpGraph
from udfs.kernel.program import Floats
from udfs.kernel.replay import latest_of_dp_ranks
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
    for ops, _, sources, _ in graph.units:
        start = max([ends[source] for source in sources]) if sources else 0.0
        for op in ops:
            ends[op] = start + ideals[op]
    return ends


class _Ends:
    """Ends of one op in every row; views are kept, because making them costs as much as a small sum.

    active : the first `shown` rows, those that have lanes of their own by now, as one flat array.
    rows   : every row alone.
    """

    __slots__ = ("_prefixes", "active", "every_row", "rows", "shown")

    def __init__(self, shape: tuple[int, int]) -> None:
        self.every_row = np.empty(shape)
        self.rows = list(self.every_row)
        self._prefixes: dict[int, Floats] = {}
        self.shown = 0
        self.active: Floats = self.every_row[:0]

    def show(self, rows: int) -> None:
        """Let `active` show the first rows."""
        view = self._prefixes.get(rows)
        if view is None:
            view = self._prefixes[rows] = self.every_row[:rows].reshape(-1)
        self.active = view
        self.shown = rows


class _Stack:
    """The stacked replay under way: ends of the ops that are still waited for; lane = (step, dp_rank)."""

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
        self.graph, self.rows, self.ideal_ends = graph, rows, ideal_ends
        self.durations = list(duration_s.reshape(graph.size, -1))
        self.kinds = list(zip(graph.op_types, graph.stages, strict=True))
        kinds = dict(zip(self.kinds, ideal_of_op.tolist(), strict=True))
        # Arrays without axes, because NumPy converts a float anew in every call.
        self.ideals = {kind: np.array(ideal) for kind, ideal in kinds.items()}
        self.recorded_rows = {kind: rows.recorded_rows(*kind) for kind in kinds}
        self.shape = (rows.count, steps * self.dp_ranks)
        self.latest_s = np.zeros((rows.count, steps, self.dp_ranks))
        self.is_last = is_last
        self.live: dict[int, _Ends] = {}
        self.at_once, self.latest_start, self.met = (_Ends(self.shape) for _ in range(3))
        self.at_once.every_row[...] = 0.0
        self.filled = 0

    def run(self) -> None:
        """Replay the units one after the other, each on the rows that differ from the ideal by then."""
        live, spare = self.live, list[_Ends]()
        durations, ideals, is_last, kinds = self.durations, self.ideals, self.is_last, self.kinds
        recorded_rows, add = self.recorded_rows, np.add
        for (ops, across_dp, sources, releases), active in zip(
            self.graph.units, self.rows.active, strict=True
        ):
            if active != self.filled:
                self._grow(active)
            start = self._latest(sources, across_dp=across_dp) if sources else self.at_once
            for op in ops:
                ends = live[op] = spare.pop() if spare else _Ends(self.shape)
                if ends.shown != active:
                    ends.show(active)
                kind, recorded_s = kinds[op], durations[op]
                add(start.active, ideals[kind], out=ends.active)
                start_rows, end_rows = start.rows, ends.rows
                for row in recorded_rows[kind]:
                    add(start_rows[row], recorded_s, out=end_rows[row])
                if is_last[op]:
                    self._end_step(op)
            spare += [live.pop(op) for op in releases]

    def _latest(self, sources: tuple[int, ...], *, across_dp: bool) -> _Ends:
        """Latest end of some ops, of all dp ranks where they meet."""
        live, maximum = self.live, np.maximum
        start = live[sources[0]]
        if len(sources) > 1:
            latest = self.latest_start.active
            maximum(start.active, live[sources[1]].active, out=latest)
            for source in sources[2:]:
                maximum(latest, live[source].active, out=latest)
            start = self.latest_start
        return self._meet(start) if across_dp and self.dp_ranks > 1 else start

    def _grow(self, active: int) -> None:
        """Give further rows lanes of their own: what ended by now was ideal in them.

        A recorded replica has so far run like its lane where everything, or its stage, is recorded.
        """
        first, number = self.rows.replicas
        brings_replicas = number > 0 and self.filled <= first < active
        if brings_replicas:
            for op_type, stage in self.recorded_rows:
                self.recorded_rows[op_type, stage] += self.rows.recorded_replicas(stage)
        for op, ends in self.live.items():
            ends.every_row[self.filled : active] = self.ideal_ends[op]
            if brings_replicas:
                self._copy_to_replicas(ends.rows)
            ends.show(active)
        if brings_replicas:
            self._copy_to_replicas(list(self.latest_s))
        for ends in (self.at_once, self.latest_start, self.met):
            ends.show(active)
        self.filled = active

    def _copy_to_replicas(self, rows: list[Floats]) -> None:
        first, number = self.rows.replicas
        rows[first][...] = rows[EVERYTHING]
        for stage in range(number - 1):
            rows[first + 1 + stage][...] = rows[self.rows.stage_row[stage]]

    def _meet(self, start: _Ends) -> _Ends:
        """Let dp ranks wait for each other within a row, and recorded replicas for their ideal partners."""
        by_dp = start.active.reshape(-1, self.dp_ranks)
        self.met.active.reshape(by_dp.shape)[...] = latest_of_dp_ranks(by_dp)
        replicas = self.rows.replicas
        if replicas.number and self.filled > replicas.first:
            recorded = slice(replicas.first, replicas.partners)
            partners = slice(replicas.partners, replicas.end)
            met = self.met.every_row
            np.maximum(start.every_row[recorded], start.every_row[partners], out=met[recorded])
            met[partners] = met[recorded]
        return self.met

    def _end_step(self, op: int) -> None:
        """Let the step last at least as long as an op."""
        latest = self.latest_s.reshape(self.shape)
        active, ideal = latest[: self.filled], latest[self.filled :]
        np.maximum(active, self.live[op].every_row[: self.filled], out=active)
        np.maximum(ideal, self.ideal_ends[op], out=ideal)


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
