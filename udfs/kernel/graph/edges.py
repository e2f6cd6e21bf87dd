"""Edges of the graph: which ops each op waits for, and which ops start together (model, section 2)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import TypeAlias

from udfs.kernel import op_type as ot
from udfs.kernel.graph.graph import Cell, Layout, Meetings, StageProgram, TraceDefectError, op_ref

Waits: TypeAlias = tuple[Sequence[int], Sequence[int]]
"""Ops, and for each of them an op that waits for it; ranges where they are consecutive."""


@dataclass
class Draft:
    """A graph that is being built, in which ops are numbered cell by cell.

    first_op  : number of the first op of each cell, followed by the number of all ops.
    waits     : all waits, one entry for each chain or pair of sequences; `alone`, the first entry, collects
                single waits.
    sends, recvs : (direction, stage, dp_rank) -> transfers that have a peer, in start order.
    """

    layout: Layout
    cells: tuple[Cell, ...]
    first_op: tuple[int, ...] = field(init=False)
    waits: list[Waits] = field(init=False)
    sends: dict[tuple[int, int, int], list[int]] = field(default_factory=dict)
    recvs: dict[tuple[int, int, int], list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.first_op = tuple(accumulate((cell.program.size for cell in self.cells), initial=0))
        self.alone: tuple[list[int], list[int]] = ([], [])
        self.waits = [self.alone]

    def ops_by_type(self, number: int) -> list[range]:
        """Return the ops of one cell by start, as one range per op type."""
        return self.cells[number].program.ops_by_type(self.first_op[number])

    def let_wait(self, ops: Sequence[int], sources: Sequence[int]) -> None:
        """Let each op wait for the source in the same position; ops beyond the last source have none."""
        both = min(len(ops), len(sources))
        if both > 1:
            self.waits.append((sources[:both], ops[:both]))
        elif both:
            self.alone[0].append(sources[0])
            self.alone[1].append(ops[0])

    def chain(self, ops: Sequence[int]) -> None:
        """Let each op wait for the op before it."""
        self.let_wait(ops[1:], ops[:-1])

    def waits_for(self) -> list[list[int]]:
        """Return for each op the ops that must have ended before it starts."""
        found: list[list[int]] = [[] for _ in range(self.first_op[-1])]
        for sources, ops in self.waits:
            for source, op in zip(sources, ops, strict=True):
                found[op].append(source)
        return found


def add_edges(draft: Draft) -> None:
    """Add all dependencies within stages, and list the transfers that have a peer on another stage."""
    for number, cell in enumerate(draft.cells):
        ops = draft.ops_by_type(number)
        base = draft.first_op[number]
        stream = [base + op for op in cell.program.compute_order]
        draft.chain(stream)
        for turn, following in pairwise(cell.program.worker_order):
            for source in turn:
                draft.let_wait([base + op for op in following], [base + source] * len(following))
        for transfer in ot.TRANSFERS:
            draft.chain(ops[transfer])
        for direction in (0, 1):
            _match_transfers(draft, cell, base, ops, direction)
        if ops[ot.BACKWARD_COMPUTE]:
            # First backward transfers wait for the compute two places before the first backward-compute.
            before = stream.index(ops[ot.BACKWARD_COMPUTE].start) - 2
            for transfer in (ot.BACKWARD_RECV, ot.BACKWARD_SEND) if before >= 0 else ():
                draft.let_wait(ops[transfer], [stream[before]])
        if draft.layout.has_data_parallelism:
            draft.chain([base + op for op in cell.program.dp_order])
            _wait_by_chunk(draft, cell.program, base, ops[ot.FORWARD_COMPUTE], ops[ot.PARAMS_ALL_GATHER])
        _add_tail(draft, cell, base, stream, ops)
    if any(cell.program.loaded_for for cell in draft.cells):
        _add_loads(draft)


def _match_transfers(draft: Draft, cell: Cell, base: int, ops: list[range], direction: int) -> None:
    """Connect the transfers of one direction with its computes, and list those that have a peer."""
    compute, send, recv = ot.DIRECTIONS[direction]
    chunks, computes = cell.program.chunks, ops[compute]
    no_ops = {base + op for op in cell.program.no_ops}
    sends = [op for op in ops[send] if op not in no_ops] if no_ops else ops[send]
    recvs = [op for op in ops[recv] if op not in no_ops] if no_ops else ops[recv]
    # The model chunks that receive nothing and send nothing; None if they are not on this stage.
    entry = 0 if cell.stage == 0 else None
    end = draft.layout.vpp_size - 1 if cell.stage == draft.layout.pp_size - 1 else None
    entry, end = (entry, end) if direction == 0 else (end, entry)
    sending = _those_that_move(computes, chunks, base, end, len(sends))
    draft.let_wait(sends, sending)
    first_had_nothing = len(recvs) == len(computes) - 1
    receiving = (
        computes[1:] if first_had_nothing else _those_that_move(computes, chunks, base, entry, len(recvs))
    )
    draft.let_wait(receiving, recvs)
    lead = 1 if receiving and receiving[0] == computes.start else 0
    before = computes if isinstance(receiving, range) else [op - 1 for op in receiving[lead:]]
    draft.let_wait(recvs[lead : len(receiving)], before)
    key = (direction, cell.stage, cell.dp_rank)
    with_peer = ((draft.sends, sends, sending, end), (draft.recvs, recvs, receiving, entry))
    for found, transfers, of_transfers, without in with_peer:
        found[key] = [
            op
            for position, op in enumerate(transfers)
            if position >= len(of_transfers) or chunks[of_transfers[position] - base] != without
        ]


def _those_that_move(
    computes: range, chunks: Sequence[int], base: int, end: int | None, transfers: int
) -> Sequence[int]:
    """Return, in order, the computes to which the transfers of a stage belong.

    The log of a virtual pipeline may lack the transfers that moved nothing. If exactly as many are missing as
    the chunk at an end of the model has computes, these computes have no transfers.

    chunks : of the cell's ops. end : the chunk at an end of the model; None if it is not on this stage.
    """
    if end is None or not 0 < transfers < len(computes):
        return computes
    others = [op for op in computes if chunks[op - base] != end]
    return others if transfers == len(others) else computes


def _add_loads(draft: Draft) -> None:
    """Chain the data-loads of a worker, and let each forward-compute wait for its load.

    A load that runs in turn, not ahead, also waits for all ops for which its forward-compute waits.
    """
    waits_for = draft.waits_for()
    for number, cell in enumerate(draft.cells):
        base, loads = draft.first_op[number], draft.ops_by_type(number)[ot.DATA_LOAD]
        draft.chain(loads)
        of_loads = zip(loads, cell.program.loaded_for, cell.program.in_turn, strict=True)
        for load, forward, is_in_turn in of_loads:
            if forward >= 0:
                for source in waits_for[base + forward] if is_in_turn else ():
                    draft.let_wait([load], [source])
                draft.let_wait([base + forward], [load])


def _wait_by_chunk(draft: Draft, program: StageProgram, base: int, ops: range, sources: range) -> None:
    """Let the first op of each chunk wait for the last source op of the same chunk."""
    source_of = {program.chunks[source - base]: source for source in sources}
    for op in ops if source_of else ():
        source = source_of.pop(program.chunks[op - base], None)
        if source is not None:
            draft.let_wait([op], [source])


def _add_tail(draft: Draft, cell: Cell, base: int, stream: list[int], ops: list[range]) -> None:
    """Chain the ops after the last compute, in the order that the kind of data parallelism requires."""
    layout = draft.layout
    held = [base + op for op in cell.program.worker_order[-1]] if cell.program.worker_order else []
    frontier = _follow(draft, list(dict.fromkeys(stream[-1:] + held)), ops[ot.GC])
    types: tuple[int, ...] = (ot.LAYERNORM_GRADS_ALL_REDUCE,)
    if cell.stage in (0, layout.pp_size - 1):
        types += (ot.EMBEDDING_GRADS_ALL_REDUCE,)
    if layout.has_data_parallelism and ops[ot.SEPARATE_GRADS_ALL_REDUCE]:
        scatters = ops[ot.GRADS_REDUCE_SCATTER]
        _wait_by_chunk(draft, cell.program, base, scatters, ops[ot.BACKWARD_COMPUTE])
        frontier = frontier + list(scatters[-1:])
        types += (ot.SEPARATE_GRADS_ALL_REDUCE,)
    elif layout.has_data_parallelism:
        types += (ot.GRADS_REDUCE_SCATTER,)
    for op_type in (*types, ot.OPTIMIZER_CLIP_MAIN_GRAD, ot.OPTIMIZER):
        frontier = _follow(draft, frontier, ops[op_type])


def _follow(draft: Draft, frontier: list[int], ops: range) -> list[int]:
    """Chain `ops` after all ops of `frontier`, and return the frontier after them."""
    if not ops:
        return frontier
    draft.let_wait([ops[0]] * len(frontier), frontier)
    draft.chain(ops)
    return [ops[-1]]


def transfer_pairs(draft: Draft) -> list[Meetings]:
    """Pair each stage's i-th send that moves data with its neighbour's i-th recv that moves data.

    raises : TraceDefectError if a send or a recv has no partner.
    """
    pairs: list[Meetings] = []
    for (direction, stage, dp_rank), sends in draft.sends.items():
        neighbour = (stage + (1 if direction == 0 else -1)) % draft.layout.pp_size
        recvs = draft.recvs.get((direction, neighbour, dp_rank), [])
        if len(sends) != len(recvs):
            alone = sends[len(recvs) :] or recvs[len(sends) :]
            raise TraceDefectError(
                f"{len(sends)} sends of stage {stage} meet {len(recvs)} recvs of stage {neighbour}",
                [op_ref(draft.cells, draft.first_op, op) for op in alone[:4]],
            )
        if sends:
            pairs.append(Meetings((as_range(sends), as_range(recvs)), across_dp=False))
    return pairs


def as_range(ops: list[int]) -> Sequence[int]:
    """Convert consecutive ops to a range, because slicing arrays by a range copies nothing."""
    is_range = ops[-1] - ops[0] == len(ops) - 1
    return range(ops[0], ops[-1] + 1) if is_range else ops


def collectives(draft: Draft) -> list[Meetings]:
    """Return the collectives that start together: the k-th of a type on all stages and dp ranks that meet."""
    who_meets: dict[tuple[int, ...], list[range]] = {}
    ends = (0, draft.layout.pp_size - 1)
    for number, cell in enumerate(draft.cells):
        ops = draft.ops_by_type(number)
        for op_type in ot.MEETS_ACROSS_DP:
            stage = -1 if op_type == ot.OPTIMIZER_CLIP_MAIN_GRAD else cell.stage
            who_meets.setdefault((op_type, stage), []).append(ops[op_type])
        if cell.stage in ends:
            key = (ot.EMBEDDING_GRADS_ALL_REDUCE, -1, cell.dp_rank)
            who_meets.setdefault(key, []).append(ops[ot.EMBEDDING_GRADS_ALL_REDUCE])
    meetings = []
    for (op_type, *_), ranges in who_meets.items():
        # Ranges may differ in length: in each stretch of ordinals, all ranges that reach so far meet.
        first = 0
        for last in sorted({len(ops) for ops in ranges} - {0}):
            members = tuple(ops[first:last] for ops in ranges if len(ops) >= last)
            meetings.append(Meetings(members, across_dp=op_type in ot.MEETS_ACROSS_DP))
            first = last
    return meetings
