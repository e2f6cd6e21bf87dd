"""Find transfers that take far longer than is usual for their kind, and steps in which all transfers do."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.diagnosis.block_times import BlockTimes, in_time
from udfs.kernel.diagnosis.usual_transfers import (
    ALL,
    LEAST_S,
    NO_DAYS,
    NO_PEER,
    NOTHING_KNOWN,
    TRAFFIC,
    Kind,
    SlowOps,
    Usual,
    limits_of,
    step_factors,
)
from udfs.kernel.graph.graph import OpGraph, once_per_graph
from udfs.kernel.selection import SORTED, ascending, medians_of_rows

ENOUGH_WHOLE: Final = 0.1
"""Share of the transfers of a kind that must be uncut for them alone to define the usual time."""


class _Part(NamedTuple):
    """Transfers of one kind in one block.

    ops     : int, shape (op,).
    time_s  : float64, shape (op, step, dp). [s]
    known   : bool, of the same shape: where a transfer's own length is known; None if everywhere.
    telling : bool, of the same shape: transfers that show the usual time; None if all do.
    is_cut  : whether too few transfers cannot have been longer than they look.
    """

    ops: Ints
    time_s: Floats
    known: Mask | None
    telling: Mask | None
    is_cut: bool

    @classmethod
    def of(cls, block: BlockTimes, ops: Ints, known: Mask | None, whole: Mask | None) -> "_Part":
        """Select transfers of a block; whole : where no transfer was cut, None if none was."""
        sure = whole if whole is None or known is None else known & whole
        is_cut = sure is not None and bool(np.count_nonzero(sure) < ENOUGH_WHOLE * sure.size)
        return cls(ops, block.duration_s[ops], known, known if sure is None or is_cut else sure, is_cut)


def slow_transfers(blocks: Sequence[BlockTimes], before_s: Mapping[int, float] = NO_DAYS) -> list[SlowOps]:
    """Find slow transfers of each block, by what is usual in all blocks and on earlier days."""
    parts = [_parts(block) for block in blocks]
    factors, medians_s = _congestion(blocks, parts)
    calm = [
        {
            kind: part.time_s / factor[kind[0]][:, None] if kind[0] in factor else part.time_s
            for kind, part in found.items()
        }
        for found, factor in zip(parts, factors, strict=True)
    ]
    known = {}
    for kind in sorted({kind for found in parts for kind in found if kind[1] != NO_PEER}):
        values = [
            time_s[kind].reshape(-1) if found[kind].telling is None else time_s[kind][found[kind].telling]
            for found, time_s in zip(parts, calm, strict=True)
            if kind in found
        ]
        known[kind] = values[0] if len(values) == 1 else np.concatenate(values)
    cut = {kind for found in parts for kind, part in found.items() if part.is_cut}
    limits = limits_of(known, before_s, medians_s, cut)
    return [_faults(*block, limits) for block in zip(blocks, parts, calm, factors, strict=True)]


def _parts(block: BlockTimes) -> dict[Kind, _Part]:
    """Return transfers with a peer, by kind, and transfers without a peer that are in a call."""
    free = block.calls.is_free
    nowhere = np.zeros(block.duration_s.shape[1:], dtype=bool)
    parts = {}
    for kind, members in _ops_by_kind(block.graph, frozenset(free)).items():
        known = None
        if not free.keys().isdisjoint(members.tolist()):
            known = ~np.array([free.get(op, nowhere) for op in members.tolist()])
        parts[kind] = _Part.of(block, members, known, _whole(block, kind, members))
    return parts


def _whole(block: BlockTimes, kind: Kind, members: Ints) -> Mask | None:
    """Mask pipeline transfers that are not cut; None if no transfer is cut or none has a peer."""
    if kind[0] not in ot.TRANSFERS or kind[1] == NO_PEER:
        return None
    cut = np.array([block.is_cut[op] for op in members.tolist()])
    return ~cut if cut.any() else None


@once_per_graph
def _ops_by_kind(graph: OpGraph, of_calls: frozenset[int]) -> dict[Kind, Ints]:
    """Return the ops of each kind, ascending, kinds by first op. of_calls : ops that belong to a call."""
    chunks = [chunk for cell in graph.cells for chunk in cell.program.chunks]
    ops_of: dict[Kind, list[int]] = {}
    alone = set(of_calls)
    for ops in (ops for members, _ in graph.meetings for ops in members):
        op_type = graph.op_types[ops[0]]
        if op_type in ot.TRANSFERS:
            ops_of.setdefault((op_type, ALL, ALL), []).extend(ops)
            alone.difference_update(ops)
        else:
            for op in ops:
                ops_of.setdefault((op_type, graph.stages[op], chunks[op]), []).append(op)
    for op in alone:
        ops_of.setdefault((graph.op_types[op], NO_PEER, ALL), []).append(op)
    return {
        kind: np.array(sorted(ops)) for kind, ops in sorted(ops_of.items(), key=lambda item: min(item[1]))
    }


def _congestion(
    blocks: Sequence[BlockTimes], parts: Sequence[dict[Kind, _Part]]
) -> tuple[list[dict[int, Floats]], dict[Kind, Floats]]:
    """Return by which factor op types are slower in congested steps, for each block; shape (step,).

    And for each kind the median transfer of each step without congestion, shape (step,). [s]
    """
    kinds = sorted({kind for found in parts for kind in found})
    together = {
        traffic: [kind for kind in kinds if kind[0] in traffic and kind[1] != NO_PEER] for traffic in TRAFFIC
    }
    factors: dict[int, Floats] = {}
    medians_s: dict[Kind, Floats] = {}
    for traffic, members in together.items():
        if members:
            own = zip(blocks, parts, strict=True)
            medians = [_step_medians(part, members, block.number_of_steps) for block, part in own]
            median_s = in_time(blocks, medians, 1)
            of_traffic = step_factors(median_s)
            factors |= dict.fromkeys(traffic, of_traffic)
            medians_s |= zip(members, median_s / of_traffic, strict=True)
    of_blocks = [{each: values[block.steps] for each, values in factors.items()} for block in blocks]
    congested = [{each: of for each, of in of_block.items() if (of > 1.0).any()} for of_block in of_blocks]
    return congested, medians_s


def _step_medians(parts: dict[Kind, _Part], kinds: Sequence[Kind], steps: int) -> Floats:
    """Return per kind and step the lower median of known transfers, or nan; shape (kind, step). [s]"""
    found = np.full((len(kinds), steps), np.nan)
    alike: dict[int, list[int]] = {}
    for row, kind in enumerate(kinds):
        part = parts.get(kind)
        known = None if part is None else part.telling
        if part is None:
            continue
        time_s = part.time_s
        if known is not None:
            count = known.sum(axis=(0, 2))
            medians = _of_ranks(np.where(known, time_s, np.inf), np.maximum(count - 1, 0) // 2)
            found[row] = np.where(count > 0, medians, np.nan)
        else:
            alike.setdefault(len(part.ops), []).append(row)
    for rows in alike.values():
        # Kinds of as many ops at once: most have one op.
        times_s = np.array([parts[kinds[row]].time_s.swapaxes(0, 1) for row in rows])
        medians = medians_of_rows(times_s.reshape(len(rows) * steps, -1), low=True)
        found[rows] = medians.reshape(len(rows), steps)
    return np.asarray(np.maximum(found, LEAST_S))


def _of_ranks(time_s: Floats, ranks: Ints) -> Floats:
    """Return each step's time of rank ranks[step], counted from the shortest; time_s : (op, step, dp)."""
    ops, steps, lanes = time_s.shape
    if ops * lanes <= SORTED:
        return ascending(time_s, 0, 2)[np.arange(steps), ranks]
    by_step = time_s.swapaxes(0, 1).reshape(steps, -1)
    each = zip(by_step, ranks.tolist(), strict=True)
    return np.array([np.partition(of_step, rank)[rank] for of_step, rank in each])


def _faults(
    block: BlockTimes,
    parts: dict[Kind, _Part],
    calm: dict[Kind, Floats],
    factors: dict[int, Floats],
    limits: dict[Kind, Usual],
) -> SlowOps:
    nothing = np.empty((0, *block.duration_s.shape[1:]))
    ops, as_is, fixed = [np.empty(0, dtype=np.int64)], [nothing], [nothing]
    for kind, part in parts.items():
        base_s, limit_s = limits.get(kind, NOTHING_KNOWN)
        is_congested = kind[0] in factors
        if part.known is None and not is_congested and not calm[kind].max() > limit_s:
            continue
        is_fault = calm[kind] > limit_s
        is_known = np.ones(is_fault.shape, dtype=bool) if part.known is None else part.known
        is_fault &= is_known
        changes = (is_fault | ~is_known).any(axis=(1, 2)) | is_congested
        as_is_s, calm_s, known = part.time_s[changes], calm[kind][changes], is_known[changes]
        if part.known is not None:
            factor = factors[kind[0]][:, None] if is_congested else 1.0
            as_is_s = np.where(known, as_is_s, np.minimum(as_is_s, base_s * factor))
            calm_s = np.where(known, calm_s, np.minimum(calm_s, base_s))
        ops.append(part.ops[changes])
        as_is.append(as_is_s)
        fixed.append(np.where(is_fault[changes], base_s, calm_s))
    return SlowOps(np.concatenate(ops), np.concatenate(as_is), np.concatenate(fixed))
