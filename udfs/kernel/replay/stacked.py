"""Replay all scenarios of the model's section 5 in one pass over the graph, with lanes side by side.

The results equal those of one replay per scenario bit for bit, as tests show, and take a fraction of the
time.
"""

from typing import NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats
from udfs.kernel.graph.graph import Layout, OpGraph
from udfs.kernel.replay.replay import NO_OP, Durations, Rows, ideal_ends
from udfs.kernel.replay.scenario_rows import EVERYTHING, ScenarioRows, plan_rows


class ScenarioTimes(NamedTuple):
    """Step times of every scenario; float64. [s]

    recorded         : shape (step,); T, every op as recorded.
    ideal            : shape (step,); T_ideal, the same for every step of one graph.
    last_stage_ideal : shape (step,); all but the last stage as recorded; T without a pipeline.
    by_type          : type group -> shape (step,); the type group alone as recorded, all else ideal.
    by_stage         : shape (stage, step); each stage alone as recorded, all else ideal.
    by_dp_rank       : shape (dp_rank, step); each dp rank alone as recorded, all else ideal.
    by_worker        : shape (stage, dp_rank, step); each worker alone as recorded, without the paper's
                       shortcut.
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
    """Replay a job as recorded, as ideal, and with one type, stage, dp rank or worker alone as recorded.

    duration_s  : float64, shape (op, step, dp_rank); recorded durations, in a rendezvous transfer times. [s]
    ideal_of_op : float64, shape (op,). [s]
    is_last     : ops that may end a step, from `last_ops`.
    """
    plan = plan_rows(graph, layout)
    stack = _Stack(graph, plan, duration_s, ideal_of_op)
    return _collect(stack.run(is_last), plan, layout, max(stack.ideal_ends, default=0.0))


class _Stack(Rows):
    """State of a stacked replay, in which rows without lanes of their own are still ideal."""

    def __init__(self, graph: OpGraph, plan: ScenarioRows, duration_s: Floats, ideal_of_op: Floats) -> None:
        self.plan = plan
        self.ideal_ends = ideal_ends(graph, ideal_of_op)
        # Arrays without axes, because NumPy would convert a float in every call; most ops share one.
        values_s = ideal_of_op.tolist()
        array_of = {each: np.array(each) for each in set(values_s)}
        ideals = [array_of[each] for each in values_s]
        self.kinds = list(zip(graph.op_types, graph.stages, strict=True))
        self.recorded = dict(plan.recorded)
        durations = Durations(
            ideals, list(duration_s.reshape(graph.size, -1)), [self.recorded[kind] for kind in self.kinds]
        )
        super().__init__(graph, (plan.count, *duration_s.shape[1:]), durations, plan.active, self.ideal_ends)

    def grow(self, active: int) -> None:
        """Give further rows lanes of their own, which begin at the ideal ends.

        A recorded replica begins at the ends of the row in which everything, or its whole stage, is recorded.
        """
        first, number = self.plan.replicas
        brings_replicas = number > 0 and self.filled <= first < active
        super().grow(active)
        if brings_replicas:
            for kind in self.recorded:
                # The whole dp rank, and with a pipeline the worker of the kind's stage.
                self.recorded[kind] += (first, first + 1 + kind[1])[: min(number, 2)]
            self.other_rows[:] = [self.recorded[kind] for kind in self.kinds]
            for slot, op in enumerate(self.op_in_slot):
                if op != NO_OP:
                    self._copy_to_replicas(self.ends_s[slot])
            self._copy_to_replicas(self.latest_s)

    def _copy_to_replicas(self, rows: Floats) -> None:
        first, number = self.plan.replicas
        rows[first] = rows[EVERYTHING]
        for stage in range(number - 1):
            rows[first + 1 + stage] = rows[self.plan.stage_row[stage]]

    def meet(self, start: int) -> int:
        """Let the dp ranks of a row wait for each other, and recorded replicas for their ideal partners."""
        met = super().meet(start)
        replicas = self.plan.replicas
        if replicas.number and self.filled > replicas.first:
            recorded = slice(replicas.first, replicas.partners)
            partners = slice(replicas.partners, replicas.end)
            met_s, start_s = self.ends_s[met], self.ends_s[start]
            np.maximum(start_s[recorded], start_s[partners], out=met_s[recorded])
            met_s[partners] = met_s[recorded]
        return met


def _collect(latest_s: Floats, rows: ScenarioRows, layout: Layout, ideal: float) -> ScenarioTimes:
    _, steps, dp_ranks = latest_s.shape
    by_row = latest_s.max(axis=2)
    recorded = by_row[EVERYTHING]
    of_stages = [rows.stage_row[stage] for stage in range(layout.pp_size)]
    by_stage = by_row[of_stages]
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
        # Replicas never wait for each other, so that the lane of each is its own scenario.
        alone = np.maximum(latest_s, ideal).swapaxes(1, 2)
        by_dp_rank, by_worker = alone[EVERYTHING], alone[of_stages]
    return ScenarioTimes(
        recorded=recorded,
        ideal=np.full(steps, ideal),
        last_stage_ideal=by_row[rows.last_stage_ideal] if rows.last_stage_ideal >= 0 else recorded,
        by_type={group: by_row[row] for group, row in rows.type_row.items()},
        by_stage=by_stage,
        by_dp_rank=by_dp_rank,
        by_worker=by_worker,
    )
