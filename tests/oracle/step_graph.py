"""Build the graph of one step over all workers: which ops wait for which, and which ones start together."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType

from tests.oracle.records import Layout, Op, OracleError
from tests.oracle.worker_graph import WorkerGraph

RARE = 0.05
NEARLY_ALL = 0.95
CLAMP_S = -0.010
"""A transfer time or launch delay of at most this is impossible: it is set to 0 and counted (model, section
3)."""
NO_DELAYS: Mapping[int, float] = MappingProxyType({})


@dataclass
class StepGraph:
    """Graph of one step; an op is named by its index in `ops`, and ignored ops are in no group.

    waits_for : op -> ops whose end it waits for
    groups    : sets of ops that start together, mostly of one op, in an order in which they can be replayed
    start_s   : earliest recorded start in the step [s]
    sent_by   : recv -> its buffered send: the recv waits for the send's start, the send does not wait
    calls     : sets of transfers that a worker issues in one call, and waits for together
    """

    ops: list[Op]
    waits_for: dict[int, list[int]]
    groups: list[list[int]]
    start_s: float
    sent_by: dict[int, int] = field(default_factory=dict)
    calls: list[list[int]] = field(default_factory=list)

    @property
    def actual_s(self) -> float:
        """Recorded step time: latest end minus earliest start. [s]"""
        return max(op.end_s for op in self.ops) - self.start_s

    @property
    def with_peer(self) -> list[int]:
        """Return ops that start together with other ops, and both ends of buffered sends."""
        met = [op for group in self.groups if len(group) > 1 for op in group]
        return [*met, *self.sent_by, *self.sent_by.values()]

    @property
    def links(self) -> list[list[list[int]]]:
        """Return pairs (send, recv), grouped by link and direction, in order of the sends' starts."""
        pairs = [group for group in self.groups if len(group) > 1] + [[s, r] for r, s in self.sent_by.items()]
        pairs = [pair for pair in pairs if self.ops[pair[0]].op_type.endswith("-send")]
        found: dict[Hashable, list[list[int]]] = defaultdict(list)
        for pair in sorted(pairs, key=lambda pair: (self.ops[pair[0]].start_s, pair[0])):
            sender = self.ops[pair[0]]
            found[sender.op_type, sender.dp_rank, sender.pp_rank].append(pair)
        return list(found.values())

    def recorded_durations(self) -> tuple[dict[int, float], int, int]:
        """Return the duration of every op; a transfer lasts from the latest start in its group. [s]

        The other two results are the numbers of transfers that were clamped to 0, and of buffered
        sends.
        """
        durations, clamped, buffered = {}, 0, 0
        for group in self.groups:
            meets = [*group, self.sent_by[group[0]]] if group[0] in self.sent_by else group
            latest_start = max(self.ops[op].start_s for op in meets)
            for op in group:
                if len(meets) == 1:
                    durations[op] = self.ops[op].duration_s
                    continue
                transfer = self.ops[op].end_s - latest_start
                if transfer <= CLAMP_S:
                    hosts = {self.ops[other].host for other in group}
                    if self.ops[op].op_type.endswith("-send") and len(hosts) == 1 and None not in hosts:
                        buffered += 1
                    else:
                        transfer, clamped = 0.0, clamped + 1
                durations[op] = transfer
        return durations, clamped, buffered

    def launch_delays(self) -> tuple[dict[int, float], int]:
        """Return each op's start minus the latest end of its inputs [s], and how many were set to 0."""
        delays, clamped = {}, 0
        for op, before in self.waits_for.items():
            ready = max((self.ops[other].end_s for other in before), default=self.start_s)
            delay = self.ops[op].start_s - ready
            if delay <= CLAMP_S:
                delay, clamped = 0.0, clamped + 1
            delays[op] = delay
        return delays, clamped

    def replay(self, durations: dict[int, float], delays: Mapping[int, float] = NO_DELAYS) -> float:
        """Return the step time if ops start, after their delay, once all that they wait for has ended. [s]"""
        end: dict[int, float] = {}
        for group in self.groups:
            meets = [*group, self.sent_by[group[0]]] if group[0] in self.sent_by else group
            starts = [
                max((end[other] for other in self.waits_for[op]), default=0.0) + delays.get(op, 0.0)
                for op in meets
            ]
            for op in group:
                end[op] = max(starts) + durations[op]
        return max(end.values())


def with_sides(steps: Sequence[Sequence[Op]], layout: Layout) -> Layout:
    """Add to the layout which transfers move no data, are in a blocking call, or often overlap another."""
    if not layout.blocking:
        return layout
    by_stage: dict[int, list[WorkerGraph]] = defaultdict(list)
    for ops in steps:
        for (_, stage), graph in worker_graphs(ops, layout).items():
            by_stage[stage].append(graph)
    idle = frozenset(
        (stage, *transfer)
        for stage, rows in by_stage.items()
        for transfer in set.intersection(*(row.idle for row in rows))
    )
    held = frozenset(
        (stage, *transfer)
        for stage, rows in by_stage.items()
        for transfer, count in Counter(each for row in rows for each in row.held()).items()
        if count >= NEARLY_ALL * len(rows)
    )
    if (idle, held) != (layout.idle, layout.held):
        return with_sides(steps, replace(layout, idle=idle, held=held))
    beside = set()
    for stage, rows in by_stage.items():
        counts: Counter[int] = Counter()
        for row in rows:
            for place, (last, op) in enumerate(pairwise(row.in_order), 1):
                counts[place] += row.overlaps(last, op) or row.is_one_call(last, op)
        beside |= {(stage, place) for place, count in counts.items() if count > RARE * len(rows)}
    return replace(layout, beside=frozenset(beside))


def worker_graphs(ops: Sequence[Op], layout: Layout) -> dict[tuple[int, int], WorkerGraph]:
    """Build the graph of each (dp rank, stage) in one step."""
    workers: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, op in enumerate(ops):
        workers[op.dp_rank, op.pp_rank].append(number)
    return {worker: WorkerGraph(ops, mine, layout) for worker, mine in workers.items()}


def build_step_graph(ops: Sequence[Op], layout: Layout) -> StepGraph:
    """Build the graph of one step over all workers. Raises OracleError if the trace has a defect."""
    graphs = worker_graphs(ops, layout)
    waits_for = {op: before for graph in graphs.values() for op, before in graph.waits_for.items()}
    groups = _groups(ops, waits_for, graphs, layout)
    eager = [pair for pair in groups if len(pair) == 2 and ops[pair[0]].op_type in layout.eager]
    groups = [group for group in groups if group not in eager] + [[op] for pair in eager for op in pair]
    sent_by = {recv: send for send, recv in eager}
    needs = {op: before + waits_for.get(sent_by.get(op, -1), []) for op, before in waits_for.items()}
    in_order = _in_replay_order(needs, groups)
    calls = [call for graph in graphs.values() for call in graph.calls]
    return StepGraph(list(ops), waits_for, in_order, min(op.start_s for op in ops), sent_by, calls)


def _groups(
    ops: Sequence[Op],
    waits_for: dict[int, list[int]],
    graphs: dict[tuple[int, int], WorkerGraph],
    layout: Layout,
) -> list[list[int]]:
    """Return groups of ops that start together: send and recv, members of a collective, or a single op."""
    pairs = [pair for dp_rank in {dp for dp, _ in graphs} for pair in _pairs(dp_rank, graphs, layout)]
    paired = {op for pair in pairs for op in pair}
    meetings: dict[Hashable, list[int]] = defaultdict(list)
    seen: dict[Hashable, int] = defaultdict(int)
    for op in sorted(waits_for, key=lambda op: (ops[op].start_s, op)):
        kind, dp_rank, pp_rank = ops[op].op_type, ops[op].dp_rank, ops[op].pp_rank
        ordinal = seen[kind, dp_rank, pp_rank]
        seen[kind, dp_rank, pp_rank] += 1
        if op in paired:
            continue
        if kind == "embedding-grads-all-reduce":
            meetings[kind, ordinal, dp_rank].append(op)
        elif kind == "optimizer-clip-main-grad":
            meetings[kind, ordinal].append(op)
        elif kind in ("params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce"):
            meetings[kind, ordinal, pp_rank].append(op)
        else:
            meetings[op].append(op)
    return [*pairs, *meetings.values()]


def _pairs(dp_rank: int, graphs: dict[tuple[int, int], WorkerGraph], layout: Layout) -> list[list[int]]:
    """Pair the i-th send of a stage that moves data with the i-th such recv of its neighbour, both ways."""
    pairs = []
    for direction, distance in (("forward", 1), ("backward", -1)):
        for pp_rank in range(layout.pp_size):
            neighbour = (pp_rank + distance) % layout.pp_size
            sends = graphs[dp_rank, pp_rank].real_sends[direction]
            recvs = graphs[dp_rank, neighbour].real_recvs[direction]
            if len(sends) != len(recvs):
                raise OracleError(f"{len(sends)} {direction} sends, {len(recvs)} recvs")
            pairs += [[send, recv] for send, recv in zip(sends, recvs, strict=True)]
    return pairs


def _in_replay_order(waits_for: dict[int, list[int]], groups: list[list[int]]) -> list[list[int]]:
    """Sort groups so that each comes after the groups of all ops that its members wait for."""
    group_of = {op: number for number, group in enumerate(groups) for op in group}
    needs = [{group_of[before] for op in group for before in waits_for[op]} for group in groups]
    needed_by: dict[int, list[int]] = defaultdict(list)
    for number, before in enumerate(needs):
        for other in before:
            needed_by[other].append(number)
    open_needs = [len(before) for before in needs]
    ready = [number for number, count in enumerate(open_needs) if count == 0]
    order: list[int] = []
    while ready:
        number = ready.pop()
        order.append(number)
        for other in needed_by[number]:
            open_needs[other] -= 1
            if open_needs[other] == 0:
                ready.append(other)
    if len(order) < len(groups):
        raise OracleError("a cycle")
    return [groups[number] for number in order]
