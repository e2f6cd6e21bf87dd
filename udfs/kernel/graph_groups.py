"""Which ops start together: pairs of transfers, and collectives (model, section 2, rendezvous)."""

from typing import TypeAlias

from udfs.kernel import op_type as ot
from udfs.kernel.errors import TraceDefectError
from udfs.kernel.graph import op_ref
from udfs.kernel.graph_edges import Draft


Group: TypeAlias = tuple[tuple[int, ...], bool]
"""Ops that meet, and whether they do so on all dp lanes."""


def transfer_pairs(draft: Draft) -> list[Group]:
    """The i-th real send of a stage with the i-th real recv of its neighbour.

    raises : TraceDefectError where one stays alone.
    """
    pairs: list[Group] = []
    for (direction, stage, dp_rank), sends in draft.sends.items():
        neighbour = (stage + (1 if direction == 0 else -1)) % draft.layout.pp_size
        recvs = draft.recvs.get((direction, neighbour, dp_rank), [])
        if len(sends) != len(recvs):
            _refuse_unmatched(draft, sends, recvs, stage, neighbour)
        pairs.extend((pair, False) for pair in zip(sends, recvs, strict=True))
    return pairs


def _refuse_unmatched(draft: Draft, sends: list[int], recvs: list[int], stage: int, peer: int) -> None:
    alone = sends[len(recvs) :] or recvs[len(sends) :]
    raise TraceDefectError(
        f"{len(sends)} sends of stage {stage} meet {len(recvs)} recvs of stage {peer}",
        [op_ref(draft.cells, draft.first_op, op) for op in alone[:4]],
    )


def collectives(draft: Draft) -> list[Group]:
    """Groups of the collectives: k-th with k-th over the stages and dp ranks that meet."""
    meetings: dict[tuple[int, ...], list[int]] = {}
    ends = (0, draft.layout.pp_size - 1)
    for number, cell in enumerate(draft.cells):
        ops = draft.ops_by_type(number)
        for op_type in ot.MEETS_ACROSS_DP:
            stage = -1 if op_type == ot.OPTIMIZER_CLIP_MAIN_GRAD else cell.stage
            for ordinal, op in enumerate(ops[op_type]):
                meetings.setdefault((op_type, ordinal, stage), []).append(op)
        if cell.stage in ends:
            for ordinal, op in enumerate(ops[ot.EMBEDDING_GRADS_ALL_REDUCE]):
                key = (ot.EMBEDDING_GRADS_ALL_REDUCE, ordinal, -1, cell.dp_rank)
                meetings.setdefault(key, []).append(op)
    return [(tuple(ops), key[0] in ot.MEETS_ACROSS_DP) for key, ops in meetings.items()]
