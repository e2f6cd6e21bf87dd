"""Which ops start together: pairs of transfers, and collectives (model, section 2, rendezvous)."""

from collections.abc import Sequence

from udfs.kernel import op_type as ot
from udfs.kernel.errors import TraceDefectError
from udfs.kernel.graph.graph import Meetings, op_ref
from udfs.kernel.graph.graph_edges import Draft


def transfer_pairs(draft: Draft) -> list[Meetings]:
    """The i-th real send of a stage with the i-th real recv of its neighbour.

    raises : TraceDefectError where one stays alone.
    """
    pairs: list[Meetings] = []
    for (direction, stage, dp_rank), sends in draft.sends.items():
        neighbour = (stage + (1 if direction == 0 else -1)) % draft.layout.pp_size
        recvs = draft.recvs.get((direction, neighbour, dp_rank), [])
        if len(sends) != len(recvs):
            _refuse_unmatched(draft, sends, recvs, stage, neighbour)
        if sends:
            pairs.append(Meetings((_as_range(sends), _as_range(recvs)), across_dp=False))
    return pairs


def _as_range(ops: list[int]) -> Sequence[int]:
    """The same as a range, where they follow each other: arrays are sliced by it without a copy."""
    is_range = ops[-1] - ops[0] == len(ops) - 1
    return range(ops[0], ops[-1] + 1) if is_range else ops


def _refuse_unmatched(draft: Draft, sends: list[int], recvs: list[int], stage: int, peer: int) -> None:
    alone = sends[len(recvs) :] or recvs[len(sends) :]
    raise TraceDefectError(
        f"{len(sends)} sends of stage {stage} meet {len(recvs)} recvs of stage {peer}",
        [op_ref(draft.cells, draft.first_op, op) for op in alone[:4]],
    )


def collectives(draft: Draft) -> list[Meetings]:
    """Groups of the collectives: k-th with k-th over the stages and dp ranks that meet."""
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
    return [
        Meetings(members, across_dp=op_type in ot.MEETS_ACROSS_DP)
        for (op_type, *_), ranges in who_meets.items()
        for members in _equally_long(ranges)
    ]


def _equally_long(ranges: list[range]) -> list[tuple[range, ...]]:
    """Stretches of ordinals that the same members have."""
    found = []
    first = 0
    for last in sorted({len(ops) for ops in ranges}):
        if last > first:
            found.append(tuple(ops[first:last] for ops in ranges if len(ops) >= last))
        first = last
    return found
