"""The dependency graph of one step (model, section 2), the same for every step with the same programs.

Built once and replayed with (scenario, step, dp_rank) as lanes. Plain integers throughout.
"""

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from udfs.kernel import op_type as ot
from udfs.kernel.errors import OpRef, TraceDefectError
from udfs.kernel.program import DIRECTIONS, StageProgram

ALL_DP_RANKS = -1


class Layout(NamedTuple):
    """Sizes of the job: data parallel, pipeline, context parallel, virtual pipeline (chunks per stage)."""

    dp_size: int
    pp_size: int
    cp_size: int = 1
    vpp_size: int = 1

    @property
    def has_data_parallelism(self) -> bool:
        """Whether gradients and parameters travel between replicas."""
        return self.dp_size * self.cp_size > 1


class Cell(NamedTuple):
    """The ops of one stage: of all dp ranks as lanes (dp_rank = ALL_DP_RANKS), or of one dp rank."""

    stage: int
    dp_rank: int
    program: StageProgram


class Unit(NamedTuple):
    """Ops that are replayed together: one op, or a rendezvous. across_dp: it meets on all dp lanes."""

    ops: tuple[int, ...]
    across_dp: bool


@dataclass(frozen=True)
class OpGraph:
    """What waits for what; ops are numbered cell by cell, within a cell by (type, start).

    cells        : the cells in order of their ops.
    first_op     : number of the first op of each cell, and behind them the number of all ops.
    op_types     : type of each op.
    stages       : stage of each op.
    waits_for    : for each op the ops that must have ended before it starts.
    units        : topological order of replay.
    in_rendezvous: whether the op's duration is a transfer (model, section 3).
    """

    cells: tuple[Cell, ...]
    first_op: tuple[int, ...]
    op_types: tuple[int, ...]
    stages: tuple[int, ...]
    waits_for: tuple[tuple[int, ...], ...]
    units: tuple[Unit, ...]
    in_rendezvous: tuple[bool, ...]

    @property
    def size(self) -> int:
        """Number of ops."""
        return len(self.op_types)

    def ref(self, op: int) -> OpRef:
        """Where an op ran, for messages."""
        cell = max(i for i, first in enumerate(self.first_op[:-1]) if first <= op)
        return _ref(self.cells[cell], op - self.first_op[cell])


def _ref(cell: Cell, local: int) -> OpRef:
    for op_type in range(ot.COUNT):
        ops = cell.program.ops_of(op_type)
        if local in ops:
            return OpRef(cell.stage, max(cell.dp_rank, 0), op_type, local - ops.start)
    raise IndexError(local)


@dataclass
class _Draft:
    """The graph while it is being built."""

    layout: Layout
    cells: tuple[Cell, ...]
    first_op: list[int] = field(default_factory=list)
    waits_for: list[list[int]] = field(default_factory=list)
    groups: list[Unit] = field(default_factory=list)
    sends: dict[tuple[int, int, int], list[int]] = field(default_factory=dict)
    recvs: dict[tuple[int, int, int], list[int]] = field(default_factory=dict)

    def chain(self, ops: list[int]) -> None:
        for earlier, later in pairwise(ops):
            self.waits_for[later].append(earlier)


def build_graph(cells: tuple[Cell, ...], layout: Layout) -> OpGraph:
    """Dependency graph of one step.

    cells   : one per stage (replicas as lanes) or one per (stage, dp_rank), sorted.
    raises  : TraceDefectError for a transfer without its counterpart and for a cycle.
    """
    draft = _Draft(layout, cells)
    for cell in cells:
        base = len(draft.waits_for)
        draft.first_op.append(base)
        draft.waits_for.extend([] for _ in range(cell.program.size))
        _add_compute_and_transfers(draft, cell, base)
        _add_dp_stream(draft, cell, base)
        _add_tail(draft, cell, base)
    draft.first_op.append(len(draft.waits_for))
    _pair_transfers(draft)
    _gather_collectives(draft)
    return _finish(draft)


def _add_compute_and_transfers(draft: _Draft, cell: Cell, base: int) -> None:
    program = cell.program
    stream = [base + op for op in program.compute_order]
    draft.chain(stream)
    for transfer in ot.TRANSFERS:
        draft.chain([base + op for op in program.ops_of(transfer)])
    for direction in (0, 1):
        _match_transfers(draft, cell, base, direction)
    backward = program.ops_of(ot.BACKWARD_COMPUTE)
    before = program.compute_order.index(backward.start) - 2 if backward else -1
    if before >= 0:
        for transfer in (ot.BACKWARD_RECV, ot.BACKWARD_SEND):
            transfers = program.ops_of(transfer)
            if transfers:
                draft.waits_for[base + transfers.start].append(stream[before])


def _match_transfers(draft: _Draft, cell: Cell, base: int, direction: int) -> None:
    """Tie one direction's transfers to its computes and list those that have a peer."""
    compute, send, recv = DIRECTIONS[direction]
    program, layout = cell.program, draft.layout
    no_ops = set(program.no_ops)
    computes = list(program.ops_of(compute))
    sends = [op for op in program.ops_of(send) if op not in no_ops]
    recvs = [op for op in program.ops_of(recv) if op not in no_ops]
    first_compute = 1 if len(recvs) == len(computes) - 1 else 0
    ends = (0, layout.vpp_size * layout.pp_size - 1)
    model_entry, model_exit = ends if direction == 0 else ends[::-1]

    def model_chunk(op: int) -> int:
        return program.chunks[op] * layout.pp_size + cell.stage

    key = (direction, cell.stage, cell.dp_rank)
    peers_of_sends = draft.sends[key] = []
    peers_of_recvs = draft.recvs[key] = []
    for position, op in enumerate(sends):
        source = computes[position] if position < len(computes) else None
        if source is not None:
            draft.waits_for[base + op].append(base + source)
        if source is None or model_chunk(source) != model_exit:
            peers_of_sends.append(base + op)
    for position, op in enumerate(recvs, first_compute):
        target = computes[position] if position < len(computes) else None
        if target is not None:
            draft.waits_for[base + target].append(base + op)
        if 0 < position <= len(computes):
            draft.waits_for[base + op].append(base + computes[position - 1])
        if target is None or model_chunk(target) != model_entry:
            peers_of_recvs.append(base + op)


def _add_dp_stream(draft: _Draft, cell: Cell, base: int) -> None:
    if not draft.layout.has_data_parallelism:
        return
    program = cell.program
    draft.chain([base + op for op in program.dp_order])
    gather_of = {program.chunks[op]: op for op in program.ops_of(ot.PARAMS_ALL_GATHER)}
    for op in program.ops_of(ot.FORWARD_COMPUTE):
        gather = gather_of.pop(program.chunks[op], None)
        if gather is not None:
            draft.waits_for[base + op].append(base + gather)


def _add_tail(draft: _Draft, cell: Cell, base: int) -> None:
    """Chain what follows the last compute, as the kind of data parallelism has it."""
    program = cell.program
    last_computes = [base + program.compute_order[-1]] if program.compute_order else []
    reduce_scatters = [base + op for op in program.ops_of(ot.GRADS_REDUCE_SCATTER)]
    frontier = _follow(draft, last_computes, [base + op for op in program.ops_of(ot.GC)])
    types: tuple[int, ...] = (ot.LAYERNORM_GRADS_ALL_REDUCE,)
    if cell.stage in (0, draft.layout.pp_size - 1):
        types += (ot.EMBEDDING_GRADS_ALL_REDUCE,)
    if draft.layout.has_data_parallelism and program.counts[ot.SEPARATE_GRADS_ALL_REDUCE]:
        _start_reduce_scatters_early(draft, program, base)
        frontier = frontier + reduce_scatters[-1:]
        types += (ot.SEPARATE_GRADS_ALL_REDUCE,)
    elif draft.layout.has_data_parallelism:
        types += (ot.GRADS_REDUCE_SCATTER,)
    for op_type in (*types, ot.OPTIMIZER_CLIP_MAIN_GRAD, ot.OPTIMIZER):
        frontier = _follow(draft, frontier, [base + op for op in program.ops_of(op_type)])


def _follow(draft: _Draft, frontier: list[int], ops: list[int]) -> list[int]:
    """Let `ops` run one after the other behind `frontier`; returns the new frontier."""
    if not ops:
        return frontier
    draft.waits_for[ops[0]].extend(frontier)
    draft.chain(ops)
    return ops[-1:]


def _start_reduce_scatters_early(draft: _Draft, program: StageProgram, base: int) -> None:
    last_backward = {program.chunks[op]: op for op in program.ops_of(ot.BACKWARD_COMPUTE)}
    for op in program.ops_of(ot.GRADS_REDUCE_SCATTER):
        backward = last_backward.pop(program.chunks[op], None)
        if backward is not None:
            draft.waits_for[base + op].append(base + backward)


def _pair_transfers(draft: _Draft) -> None:
    pp_size = draft.layout.pp_size
    for direction, stage, dp_rank in draft.sends:
        neighbour = (stage + (1 if direction == 0 else -1)) % pp_size
        sends = draft.sends[direction, stage, dp_rank]
        recvs = draft.recvs.get((direction, neighbour, dp_rank), [])
        if len(sends) != len(recvs):
            _refuse_unmatched(draft, sends, recvs, stage, neighbour)
        draft.groups.extend(Unit(pair, across_dp=False) for pair in zip(sends, recvs, strict=True))


def _refuse_unmatched(draft: _Draft, sends: list[int], recvs: list[int], stage: int, peer: int) -> None:
    alone = sends[len(recvs) :] or recvs[len(sends) :]
    cell = max(i for i, first in enumerate(draft.first_op[:-1]) if first <= alone[0])
    raise TraceDefectError(
        f"{len(sends)} sends of stage {stage} meet {len(recvs)} recvs of stage {peer}",
        [_ref(draft.cells[cell], op - draft.first_op[cell]) for op in alone[:4]],
    )


def _gather_collectives(draft: _Draft) -> None:
    """Groups of the collectives: k-th with k-th over the stages and dp ranks that meet."""
    meetings: dict[tuple[int, ...], list[int]] = {}
    for cell, base in zip(draft.cells, draft.first_op, strict=False):
        for op_type in (*ot.MEETS_ACROSS_DP, ot.EMBEDDING_GRADS_ALL_REDUCE):
            for ordinal, op in enumerate(cell.program.ops_of(op_type)):
                key: tuple[int, ...] = (op_type, ordinal, cell.stage)
                if op_type == ot.OPTIMIZER_CLIP_MAIN_GRAD:
                    key = (op_type, ordinal, -1)
                elif op_type == ot.EMBEDDING_GRADS_ALL_REDUCE:
                    if cell.stage not in (0, draft.layout.pp_size - 1):
                        continue
                    key = (op_type, ordinal, -1, cell.dp_rank)
                meetings.setdefault(key, []).append(base + op)
    for key, ops in meetings.items():
        draft.groups.append(Unit(tuple(ops), across_dp=key[0] in ot.MEETS_ACROSS_DP))


def _finish(draft: _Draft) -> OpGraph:
    size = len(draft.waits_for)
    units = list(draft.groups)
    in_rendezvous = [False] * size
    for unit in units:
        for op in unit.ops:
            in_rendezvous[op] = True
    units.extend(Unit((op,), across_dp=False) for op in range(size) if not in_rendezvous[op])
    op_types, stages = [], []
    for cell in draft.cells:
        stages.extend([cell.stage] * cell.program.size)
        for op_type, count in enumerate(cell.program.counts):
            op_types.extend([op_type] * count)
    return OpGraph(
        cells=draft.cells,
        first_op=tuple(draft.first_op),
        op_types=tuple(op_types),
        stages=tuple(stages),
        waits_for=tuple(tuple(dict.fromkeys(ops)) for ops in draft.waits_for),
        units=_sort(draft, units),
        in_rendezvous=tuple(in_rendezvous),
    )


def _sort(draft: _Draft, units: list[Unit]) -> tuple[Unit, ...]:
    """Units in topological order; raises TraceDefectError with the ops of a cycle."""
    unit_of = {op: number for number, unit in enumerate(units) for op in unit.ops}
    followers: list[list[int]] = [[] for _ in units]
    open_waits = [0] * len(units)
    for op, sources in enumerate(draft.waits_for):
        number = unit_of[op]
        for source in sources:
            followers[unit_of[source]].append(number)
        open_waits[number] += len(sources)
    ready = deque(number for number in range(len(units)) if not open_waits[number])
    order = []
    while ready:
        number = ready.popleft()
        order.append(number)
        for follower in followers[number]:
            open_waits[follower] -= 1
            if not open_waits[follower]:
                ready.append(follower)
    if len(order) < len(units):
        _refuse_cycle(draft, units, unit_of, open_waits)
    return tuple(units[number] for number in order)


def _refuse_cycle(draft: _Draft, units: list[Unit], unit_of: dict[int, int], open_waits: list[int]) -> None:
    """Walk backwards through what never became ready until a unit repeats: that stretch is a cycle."""
    number = next(i for i, waits in enumerate(open_waits) if waits)
    path: list[int] = []
    while number not in path:
        path.append(number)
        sources = (unit_of[source] for op in units[number].ops for source in draft.waits_for[op])
        number = next(source for source in sources if open_waits[source])
    cycle = path[path.index(number) :]
    ops = [units[i].ops[0] for i in reversed(cycle)]
    refs = []
    for op in ops:
        cell = max(i for i, first in enumerate(draft.first_op[:-1]) if first <= op)
        refs.append(_ref(draft.cells[cell], op - draft.first_op[cell]))
    raise TraceDefectError(f"{len(ops)} ops wait for each other in a circle", refs)
