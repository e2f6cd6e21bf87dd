"""Compute all results of the model's section 5 with a separate replay for each scenario and step."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TypeVar

from schemas.vocabulary import OP_TYPE_GROUPS
from tests.oracle.calls import put_usual
from tests.oracle.correlation import forward_backward_correlation
from tests.oracle.ideals import Kind, ideals
from tests.oracle.records import Layout, Op
from tests.oracle.step_graph import StepGraph, build_step_graph, with_sides

VANISHING = 1e-9
"""Shares of T - T_ideal are null if T - T_ideal is below this share of T (contract, section 3)."""

Worker = tuple[int, int]
"""(dp_rank, pp_rank)."""
Key = TypeVar("Key")


@dataclass
class WhatIf:
    """Results of one job, named by the paper's letters; times are in seconds."""

    ops: list[Op]
    steps_dropped: int
    clamped_transfers: int
    buffered_sends: int
    clamped_launch_delays: int
    ideal_s: dict[Kind, float]
    actual_step_s: dict[int, float]
    identity_step_s: dict[int, float]
    """Replayed step times if every recorded launch delay is included."""
    simulated_step_s: dict[int, float]
    ideal_step_s: dict[int, float]
    forward_backward_correlation: float | None
    slowdown: float = 0.0
    step_slowdown: dict[int, float] = field(default_factory=dict)
    launch_slowdown: float = 0.0
    discrepancy: float = 0.0
    op_type_slowdown: dict[str, float] = field(default_factory=dict)
    dp_rank_slowdown: dict[int, float] = field(default_factory=dict)
    stage_slowdown: dict[int, float] = field(default_factory=dict)
    worker_slowdown: dict[Worker, float] = field(default_factory=dict)
    """S_w: exact slowdown if only this worker's ops take their recorded times. Empty if not requested."""
    worker_slowdown_approx: dict[Worker, float] = field(default_factory=dict)
    slowest_workers: list[Worker] = field(default_factory=list)
    slow_worker_share: float | None = None
    """M_W (Eq. 5)."""
    last_stage_share: float | None = None
    """M_S."""

    @property
    def waste_fraction(self) -> float:
        """Waste fraction 1 - 1/S (Eq. 3)."""
        return 1.0 - 1.0 / self.slowdown


@dataclass
class Job:
    """Graphs of a job's complete steps, with recorded and with ideal durations of ops."""

    graphs: dict[int, StepGraph]
    recorded: dict[int, dict[int, float]]
    ideal_s: dict[Kind, float]
    steps_dropped: int
    clamped_transfers: int
    buffered_sends: int

    def with_ideal(self, form: str) -> "Job":
        """Return the job with the ideal durations of the given form."""
        durations = [
            (_kind(graph.ops[op]), duration)
            for step, graph in self.graphs.items()
            for op, duration in self.recorded[step].items()
        ]
        return replace(self, ideal_s=ideals(durations, form))

    def step_times(self, is_recorded: Callable[[Op], bool]) -> dict[int, float]:
        """Replay steps with recorded durations of ops that `is_recorded` chooses, and ideal others. [s]"""
        times = {}
        for step, graph in self.graphs.items():
            durations = {
                op: duration if is_recorded(graph.ops[op]) else self.ideal_s[_kind(graph.ops[op])]
                for op, duration in self.recorded[step].items()
            }
            times[step] = graph.replay(durations)
        return times

    def mean(self, is_recorded: Callable[[Op], bool]) -> float:
        return fmean(self.step_times(is_recorded).values())

    def slowdowns(self, key_of: Callable[[Op], Key], keys: Iterable[Key]) -> dict[Key, float]:
        """Return, by key, the slowdown if only the key's ops take recorded times (S_t, S_dp, S_pp, S_w)."""
        ideal = self.mean(lambda _: False)
        found = {}
        for key in keys:

            def has_key(op: Op, key: Key = key) -> bool:
                return key_of(op) == key

            found[key] = self.mean(has_key) / ideal
        return found


def what_if(
    ops: Sequence[Op], layout: Layout, *, ideal: str = "pooled-mean-median", exact_workers: bool = True
) -> WhatIf:
    """Compute all results of a job.

    Raises OracleError if the trace must be refused, and ValueError if no step is complete.
    """
    job = read_job(ops, layout, ideal)
    graphs, recorded = job.graphs, job.recorded
    delays = {}
    clamped_delays = 0
    for step, graph in graphs.items():
        delays[step], clamped = graph.launch_delays()
        clamped_delays += clamped
    result = WhatIf(
        ops=[op for graph in graphs.values() for op in graph.ops],
        steps_dropped=job.steps_dropped,
        clamped_transfers=job.clamped_transfers,
        buffered_sends=job.buffered_sends,
        clamped_launch_delays=clamped_delays,
        ideal_s=job.ideal_s,
        actual_step_s={step: graph.actual_s for step, graph in graphs.items()},
        identity_step_s={step: graph.replay(recorded[step], delays[step]) for step, graph in graphs.items()},
        simulated_step_s=job.step_times(lambda _: True),
        ideal_step_s=job.step_times(lambda _: False),
        forward_backward_correlation=forward_backward_correlation(
            [op for graph in graphs.values() for op in graph.ops]
        ),
    )
    _add_slowdowns(result, job, layout, exact_workers=exact_workers)
    _add_shares(result, job, layout)
    return result


def read_job(ops: Sequence[Op], layout: Layout, ideal: str) -> Job:
    """Build the graphs of one job, and compute durations; raises the errors of `what_if`."""
    complete, dropped = _complete_steps(ops, layout)
    layout = with_sides(list(complete.values()), layout)
    graphs = {step: build_step_graph(step_ops, layout) for step, step_ops in sorted(complete.items())}
    recorded = {}
    clamped_transfers = buffered_sends = 0
    for step, graph in graphs.items():
        recorded[step], clamped, buffered = graph.recorded_durations()
        clamped_transfers += clamped
        buffered_sends += buffered
    put_usual(graphs, recorded)
    job = Job(graphs, recorded, {}, dropped, clamped_transfers, buffered_sends)
    return job.with_ideal(ideal)


def _kind(op: Op) -> Kind:
    return op.op_type, op.pp_rank


def _complete_steps(ops: Sequence[Op], layout: Layout) -> tuple[dict[int, list[Op]], int]:
    by_step: dict[int, list[Op]] = defaultdict(list)
    for op in ops:
        by_step[op.step].append(op)
    wanted = {(dp, pp) for dp in range(layout.dp_size) for pp in range(layout.pp_size)}
    complete = {s: some for s, some in by_step.items() if {(op.dp_rank, op.pp_rank) for op in some} == wanted}
    if not complete:
        raise ValueError(f"none of {len(by_step)} steps has all {len(wanted)} workers")
    return complete, len(by_step) - len(complete)


def _add_slowdowns(result: WhatIf, job: Job, layout: Layout, *, exact_workers: bool) -> None:
    actual, simulated = fmean(result.actual_step_s.values()), fmean(result.simulated_step_s.values())
    ideal = fmean(result.ideal_step_s.values())
    result.slowdown = simulated / ideal
    result.step_slowdown = {s: t / result.ideal_step_s[s] for s, t in result.simulated_step_s.items()}
    result.launch_slowdown = actual / simulated
    result.discrepancy = abs(actual - simulated) / actual
    result.op_type_slowdown = job.slowdowns(
        lambda op: OP_TYPE_GROUPS.get(op.op_type, op.op_type),
        sorted({OP_TYPE_GROUPS.get(op_type, op_type) for op_type, _ in job.ideal_s}),
    )
    result.dp_rank_slowdown = job.slowdowns(lambda op: op.dp_rank, range(layout.dp_size))
    result.stage_slowdown = job.slowdowns(lambda op: op.pp_rank, range(layout.pp_size))
    workers = [(dp, pp) for dp in range(layout.dp_size) for pp in range(layout.pp_size)]
    for dp_rank, pp_rank in workers:
        result.worker_slowdown_approx[dp_rank, pp_rank] = min(
            result.dp_rank_slowdown[dp_rank], result.stage_slowdown[pp_rank]
        )
    if exact_workers:
        result.worker_slowdown = job.slowdowns(lambda op: (op.dp_rank, op.pp_rank), workers)


def _add_shares(result: WhatIf, job: Job, layout: Layout) -> None:
    ranks: dict[Worker, int] = {}
    for op in result.ops:
        worker = (op.dp_rank, op.pp_rank)
        ranks[worker] = min(op.rank, ranks.get(worker, op.rank))
    approx = result.worker_slowdown_approx
    by_slowness = sorted(approx, key=lambda worker: (-approx[worker], ranks[worker]))
    result.slowest_workers = by_slowness[: -(-3 * len(by_slowness) // 100)]
    slowest, last = set(result.slowest_workers), layout.pp_size - 1
    simulated, ideal = fmean(result.simulated_step_s.values()), fmean(result.ideal_step_s.values())
    waste = simulated - ideal
    if waste >= VANISHING * simulated:
        fixed = job.mean(lambda op: (op.dp_rank, op.pp_rank) not in slowest)
        result.slow_worker_share = (simulated - fixed) / waste
        result.last_stage_share = (simulated - job.mean(lambda op: op.pp_rank != last)) / waste
    if layout.pp_size == 1:
        result.last_stage_share = 0.0
