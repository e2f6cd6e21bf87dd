"""Transfers far above the usual transfer of the same kind, and steps in which all of them are slow."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel import op_type as ot
from udfs.kernel.diagnosis.compute_times import BlockTimes
from udfs.kernel.diagnosis.congestion import TRAFFIC, step_factors
from udfs.kernel.diagnosis.usual_transfers import ALL, LEAST_S, NO_PEER, NOTHING_KNOWN, Kind, Usual, limits_of
from udfs.kernel.program import Floats, Ints
from udfs.kernel.selection import medians_of_rows


class SlowTransfers(NamedTuple):
    """Transfers of one block that are not replayed as they stand.

    ops     : int, shape (op,); transfers of which some are faults, or of no known length.
    as_is_s : float64, shape (op, step, dp); as they ran, at most the usual where the length is not known. [s]
    usual_s : the same with the faults at their usual time, without congestion. [s]
    """

    ops: Ints
    as_is_s: Floats
    usual_s: Floats


class _Part(NamedTuple):
    """Transfers of one kind in one block.

    ops    : int, shape (op,).
    time_s : float64, shape (op, step, dp). [s]
    known  : bool, of the same shape: where a transfer's own length is known; None if everywhere.
    """

    ops: Ints
    time_s: Floats
    known: npt.NDArray[np.bool_] | None


def slow_transfers(blocks: Sequence[BlockTimes]) -> list[SlowTransfers]:
    """Faults of every block, measured over all blocks together."""
    parts = [_parts(block) for block in blocks]
    factors = _congestion(blocks, parts)
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
            time_s[kind].reshape(-1) if found[kind].known is None else time_s[kind][found[kind].known]
            for found, time_s in zip(parts, calm, strict=True)
            if kind in found
        ]
        known[kind] = values[0] if len(values) == 1 else np.concatenate(values)
    limits = limits_of(known)
    return [_faults(*block, limits) for block in zip(parts, calm, factors, strict=True)]


def _parts(block: BlockTimes) -> dict[Kind, _Part]:
    """Transfers that meet somebody, by kind; and those without a peer that are part of a call."""
    graph = block.graph
    chunks = [chunk for cell in graph.cells for chunk in cell.program.chunks]
    ops_of: dict[Kind, list[int]] = {}
    free = block.calls.is_free
    meeting = {op for members, _ in graph.meetings for ops in members for op in ops}
    for op in sorted(meeting | free.keys()):
        op_type = graph.op_types[op]
        if op_type in ot.TRANSFERS:
            kind = (op_type, ALL if op in meeting else NO_PEER, ALL)
        else:
            kind = (op_type, graph.stages[op], chunks[op])
        ops_of.setdefault(kind, []).append(op)
    parts = {}
    for kind, members in ops_of.items():
        ops = np.array(members)
        known = None
        if any(op in free for op in members):
            shape = block.duration_s.shape[1:]
            everywhere = np.zeros(shape, dtype=bool)
            known = np.array([~free.get(op, everywhere) for op in members])
        parts[kind] = _Part(ops, block.duration_s[ops], known)
    return parts


def _congestion(blocks: Sequence[BlockTimes], parts: Sequence[dict[Kind, _Part]]) -> list[dict[int, Floats]]:
    """For each block and congested op type by how much its transfers took longer; shape (step,)."""
    steps = [block.number_of_steps for block in blocks]
    found: list[dict[int, Floats]] = [{} for _ in blocks]
    kinds = sorted({kind for found in parts for kind in found})
    together = {
        traffic: [kind for kind in kinds if kind[0] in traffic and kind[1] != NO_PEER] for traffic in TRAFFIC
    }
    factors: dict[int, Floats] = {}
    for traffic, members in together.items():
        medians = [
            np.concatenate(
                [
                    _step_medians(part[kind]) if kind in part else np.full(count, np.nan)
                    for part, count in zip(parts, steps, strict=True)
                ]
            )
            for kind in members
        ]
        if medians:
            factors |= dict.fromkeys(traffic, step_factors(np.array(medians)))
    ends = np.cumsum(steps).tolist()
    for of_block, count, end in zip(found, steps, ends, strict=True):
        parts_of_block = {op_type: values[end - count : end] for op_type, values in factors.items()}
        of_block |= {op_type: values for op_type, values in parts_of_block.items() if (values > 1.0).any()}
    return found


def _step_medians(part: _Part) -> Floats:
    """Lower median of the known transfers of each step, nan where none is known; shape (step,). [s]"""
    values = part.time_s if part.known is None else np.where(part.known, part.time_s, np.inf)
    steps = values.shape[1]
    flat = np.moveaxis(values, 1, 0).reshape(steps, -1)
    if part.known is None:
        return np.maximum(medians_of_rows(flat, low=True), LEAST_S)
    count = part.known.sum(axis=(0, 2))
    middles = np.maximum(count - 1, 0) // 2
    medians = np.maximum(np.sort(flat, axis=1)[np.arange(steps), middles], LEAST_S)
    return np.where(count > 0, medians, np.nan)


def _faults(
    parts: dict[Kind, _Part], calm: dict[Kind, Floats], factors: dict[int, Floats], limits: dict[Kind, Usual]
) -> SlowTransfers:
    ops, as_is, fixed = [], [], []
    for kind, part in parts.items():
        base_s, limit_s = limits.get(kind, NOTHING_KNOWN)
        is_congested = kind[0] in factors
        if part.known is None and not is_congested and not calm[kind].max() > limit_s:
            continue
        is_fault = calm[kind] > limit_s
        if part.known is not None:
            is_fault &= part.known
        changes = is_fault.any(axis=(1, 2)) | is_congested
        if part.known is not None:
            changes |= ~part.known.all(axis=(1, 2))
        as_is_s, calm_s = part.time_s[changes], calm[kind][changes]
        if part.known is not None:
            known = part.known[changes]
            factor = factors[kind[0]][:, None] if is_congested else 1.0
            as_is_s = np.where(known, as_is_s, np.minimum(as_is_s, base_s * factor))
            calm_s = np.where(known, calm_s, np.minimum(calm_s, base_s))
        ops.append(part.ops[changes])
        as_is.append(as_is_s)
        fixed.append(np.where(is_fault[changes], base_s, calm_s))
    if not ops:
        steps, lanes = next(iter(parts.values())).time_s.shape[1:] if parts else (0, 0)
        nothing = np.empty((0, steps, lanes))
        return SlowTransfers(np.empty(0, dtype=np.int64), nothing, nothing)
    return SlowTransfers(np.concatenate(ops), np.concatenate(as_is), np.concatenate(fixed))
