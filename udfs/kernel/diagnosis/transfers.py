"""Find transfers and data-loads that take far longer than usual, and steps in which all transfers do."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.diagnosis.block_times import BlockTimes, in_time
from udfs.kernel.diagnosis.levels import LEAST_QUIET, quietest
from udfs.kernel.diagnosis.usual_transfers import (
    ALL,
    LEAST_FACTOR,
    LEAST_S,
    LOW_QUANTILE,
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
from udfs.kernel.selection import SORTED, ascending, medians_of_rows, quantile_of_all

ENOUGH_WHOLE: Final = 0.1
"""If at least this share of a kind's transfers was recorded whole, only these define the usual time."""


class _Part(NamedTuple):
    """Transfers of one kind in one block.

    ops     : int, shape (op,).
    time_s  : float64, shape (op, step, dp). [s]
    known   : bool, same shape; whether the time is the transfer's own and not a call's; None if all are.
    telling : bool, same shape; transfers from which the usual time is computed; None if all are used.
    is_cut  : whether fewer than ENOUGH_WHOLE of the transfers were recorded whole.
    """

    ops: Ints
    time_s: Floats
    known: Mask | None
    telling: Mask | None
    is_cut: bool


def slow_transfers(blocks: Sequence[BlockTimes], before_s: Mapping[int, float] = NO_DAYS) -> list[SlowOps]:
    """Find slow transfers of each block, compared with the usual times in all blocks and on earlier days.

    before_s : usual time of an op type on earlier days. [s]
    """
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
    """Return transfers with a peer, and transfers without a peer that are in a call, by kind."""
    free = block.calls.is_free
    nowhere = np.zeros(block.duration_s.shape[1:], dtype=bool)
    parts = {}
    for kind, ops in _ops_by_kind(block.graph, frozenset(free)).items():
        known = sure = None
        if not free.keys().isdisjoint(ops.tolist()):
            known = ~np.array([free.get(op, nowhere) for op in ops.tolist()])
        if kind[0] in ot.TRANSFERS and kind[1] != NO_PEER:
            cut = np.array([block.is_cut[op] for op in ops.tolist()])
            if cut.any():
                sure = ~cut if known is None else known & ~cut
        is_cut = sure is not None and bool(np.count_nonzero(sure) < ENOUGH_WHOLE * sure.size)
        telling = known if sure is None or is_cut else sure
        parts[kind] = _Part(ops, block.duration_s[ops], known, telling, is_cut)
    return parts


@once_per_graph
def _ops_by_kind(graph: OpGraph, of_calls: frozenset[int]) -> dict[Kind, Ints]:
    """Return the ops of each kind, ascending; kinds are ordered by their first op.

    of_calls : ops whose transfer was issued in a call with others.
    """
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
    """Return the factors by which congestion slows op types, and step medians of kinds without congestion.

    returns : for each block with congested steps {op type: factors of its steps, (step,)}; and {kind: median
              transfer of each step of the job, divided by the factor, (step,)}. [s]
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
    """Return for each kind and step the lower median of its transfers of known length; (kind, step). [s]"""
    found = np.full((len(kinds), steps), np.nan)
    alike: dict[int, list[int]] = {}
    for row, kind in enumerate(kinds):
        part = parts.get(kind)
        if part is None:
            continue
        if part.telling is None:
            alike.setdefault(len(part.ops), []).append(row)
            continue
        count = part.telling.sum(axis=(0, 2))
        ranks, telling_s = np.maximum(count - 1, 0) // 2, np.where(part.telling, part.time_s, np.inf)
        if part.time_s[:, 0].size <= SORTED:
            medians = ascending(telling_s, 0, 2)[np.arange(steps), ranks]
        else:
            each = zip(telling_s.swapaxes(0, 1).reshape(steps, -1), ranks.tolist(), strict=True)
            medians = np.array([np.partition(of_step, rank)[rank] for of_step, rank in each])
        found[row] = np.where(count > 0, medians, np.nan)
    for rows in alike.values():
        # Kinds with equal numbers of ops together, for speed: most kinds have one op.
        times_s = np.array([parts[kinds[row]].time_s.swapaxes(0, 1) for row in rows])
        medians = medians_of_rows(times_s.reshape(len(rows) * steps, -1), low=True)
        found[rows] = medians.reshape(len(rows), steps)
    return np.asarray(np.maximum(found, LEAST_S))


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


def has_loads(blocks: Sequence[BlockTimes]) -> bool:
    """Return whether any data-load was recorded."""
    return any(_loads_by_stage(block.graph) for block in blocks)


def slow_loads(blocks: Sequence[BlockTimes]) -> list[SlowOps]:
    """Find the slow data-loads of each block.

    A load is compared with the usual load of its stage over all blocks, because stages load different data.
    """
    loads = [(block, _loads_by_stage(block.graph)) for block in blocks]
    limits: dict[Kind, Usual] = {}
    for stage in sorted({stage for _, of_block in loads for stage in of_block}):
        times_s = [block.duration_s[ops_of[stage]] for block, ops_of in loads if stage in ops_of]
        by_step_s = np.concatenate([np.median(each, axis=(0, 2)) for each in times_s])
        of_steps = [of_step_s.reshape(-1) for each in times_s for of_step_s in each.swapaxes(0, 1)]
        usual = np.concatenate(of_steps)
        # If a few steps are far faster, only loads as fast as in these define what is usual.
        enough = by_step_s.size >= 2 * LEAST_QUIET
        most_s = LEAST_FACTOR * quietest(np.sort(by_step_s)) if enough else np.inf
        if quantile_of_all(usual, LOW_QUANTILE) > most_s:
            usual = np.concatenate([of_steps[step] for step in np.flatnonzero(by_step_s <= most_s).tolist()])
        limits |= limits_of({(ot.DATA_LOAD, stage, ALL): usual})
    found = []
    for block, of_block in loads:
        ops: list[int] = []
        usual_s = [np.empty((0, *block.duration_s.shape[1:]))]
        for stage, of_stage in of_block.items():
            base_s, limit_s = limits[ot.DATA_LOAD, stage, ALL]
            as_is_s = block.duration_s[of_stage]
            is_slow = as_is_s > limit_s
            changes = is_slow.any(axis=(1, 2))
            ops += np.array(of_stage)[changes].tolist()
            usual_s.append(np.where(is_slow, base_s, as_is_s)[changes])
        found.append(SlowOps(np.array(ops, dtype=int), block.duration_s[ops], np.concatenate(usual_s)))
    return found


@once_per_graph
def _loads_by_stage(graph: OpGraph) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for cell, by_type in zip(graph.cells, graph.ops_by_type, strict=True):
        if by_type[ot.DATA_LOAD]:
            found.setdefault(cell.stage, []).extend(by_type[ot.DATA_LOAD])
    return found
