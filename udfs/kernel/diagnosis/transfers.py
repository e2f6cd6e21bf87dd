"""Transfers far above the usual transfer of the same kind, and steps in which all of them are slow."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel import op_type as ot
from udfs.kernel.diagnosis.compute_times import BlockTimes
from udfs.kernel.diagnosis.congestion import TRAFFIC, step_factors
from udfs.kernel.program import Floats, Ints
from udfs.kernel.selection import medians_of_rows, neighbours, quantile_of_all

LOW_QUANTILE: Final = 0.25
USUAL_BAND: Final = (0.5, 1.6)
"""The usual transfer is the median of those within this band around the low quantile."""

LEAST_FACTOR: Final = 1.8
MADS: Final = 5.0
SAME_KIND: Final = 3.0
"""A collective of a stage is measured by its own usual time, unless that is so many times its type's."""

LEAST_S: Final = 1e-6

Kind = tuple[int, int, int]
"""Transfers that take alike: pipeline transfers by type, collectives by (type, stage, chunk)."""

ALL: Final = -1
NO_PEER: Final = -2
"""In place of a stage: pipeline transfers of all stages, and those of a call that move nothing themselves."""


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


class _Usual(NamedTuple):
    """Usual time of a kind, and above which a transfer is a fault. [s]"""

    base_s: float
    limit_s: float


NOTHING_KNOWN: Final = _Usual(LEAST_S, np.inf)


def slow_transfers(blocks: Sequence[BlockTimes]) -> list[SlowTransfers]:
    """Faults of every block, measured over all blocks together."""
    parts = [_parts(block) for block in blocks]
    factors = _congestion(blocks, parts)
    calm = [
        {kind: _calm(part.time_s, factor[kind[0]]) for kind, part in found.items()}
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
    limits = _limits(known)
    return [_faults(*block, limits) for block in zip(parts, calm, factors, strict=True)]


def _calm(time_s: Floats, factor: Floats) -> Floats:
    """Transfers without congestion, whose factor has the shape (step,). [s]"""
    return time_s / factor[:, None] if (factor > 1.0).any() else time_s


def _limits(known: dict[Kind, Floats]) -> dict[Kind, _Usual]:
    """Usual times; a kind that is always far slower than others of its type is measured by those."""
    usual = {kind: _usual_s(values) for kind, values in known.items()}
    bases: dict[int, list[float]] = {}
    for kind, base_s in usual.items():
        bases.setdefault(kind[0], []).append(base_s)
    limits = {(op_type, NO_PEER, ALL): _Usual(_low(base_s), np.inf) for op_type, base_s in bases.items()}
    for kind, values in known.items():
        of_type_s = _low(bases[kind[0]])
        measure_s = usual[kind] if usual[kind] <= SAME_KIND * of_type_s else of_type_s
        factor = LEAST_FACTOR
        if values.size and values.max() > factor * measure_s:
            factor = max(factor, float(np.exp(MADS * _scatter(values, usual[kind]))))
        limits[kind] = _Usual(measure_s, factor * measure_s)
    return limits


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
    """For each block and op type by how much its transfers took longer; shape (step,)."""
    steps = [block.number_of_steps for block in blocks]
    found: list[dict[int, Floats]] = [{} for _ in blocks]
    kinds = sorted({kind for found in parts for kind in found})
    together = {
        traffic: [kind for kind in kinds if kind[0] in traffic and kind[1] != NO_PEER] for traffic in TRAFFIC
    }
    factors = dict.fromkeys((kind[0] for kind in kinds), np.ones(sum(steps)))
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
        of_block |= {op_type: values[end - count : end] for op_type, values in factors.items()}
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


def _band(values: Floats) -> tuple[float, float, float]:
    """Low quantile, or the least time, and the band around it. [s]"""
    low_s = max(quantile_of_all(values, LOW_QUANTILE), LEAST_S)
    return low_s, USUAL_BAND[0] * low_s, USUAL_BAND[1] * low_s


def _usual_s(values: Floats) -> float:
    """Median of the transfers within the band; what is found there is a range of ranks. [s]"""
    if not values.size:
        return LEAST_S
    low_s, first_s, last_s = _band(values)
    below = int(np.count_nonzero(values < first_s))
    number = values.size - below - int(np.count_nonzero(values > last_s))
    if not number:
        return low_s
    lower, upper = neighbours(values, below + (number - 1) // 2)
    return max(lower if number % 2 else (lower + upper) / 2, LEAST_S)


def _scatter(values: Floats, usual_s: float) -> float:
    """Median absolute log deviation within the band; infinite where nothing is."""
    _, first_s, last_s = _band(values)
    band = values[(values >= first_s) & (values <= last_s)]
    if not band.size:
        return float("inf")
    ratio = np.maximum(band, LEAST_S) / usual_s
    np.maximum(ratio, 1.0 / ratio, out=ratio)
    lower, upper = np.log(neighbours(ratio, (band.size - 1) // 2)).tolist()
    return float(lower if band.size % 2 else (lower + upper) / 2)


def _low(values: list[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2]


def _faults(
    parts: dict[Kind, _Part], calm: dict[Kind, Floats], factors: dict[int, Floats], limits: dict[Kind, _Usual]
) -> SlowTransfers:
    ops, as_is, fixed = [], [], []
    for kind, part in parts.items():
        base_s, limit_s = limits.get(kind, NOTHING_KNOWN)
        factor = factors[kind[0]][:, None]
        is_congested = bool((factor > 1.0).any())
        if part.known is None and not is_congested and not calm[kind].max() > limit_s:
            continue
        is_fault = calm[kind] > limit_s
        changes = is_fault.any(axis=(1, 2)) | is_congested
        as_is_s, calm_s = part.time_s, calm[kind]
        if part.known is not None:
            changes |= ~part.known.all(axis=(1, 2))
            is_fault &= part.known
            as_is_s = np.where(part.known, as_is_s, np.minimum(as_is_s, base_s * factor))
            calm_s = np.where(part.known, calm_s, np.minimum(calm_s, base_s))
        if not changes.any():
            continue
        ops.append(part.ops[changes])
        as_is.append(as_is_s[changes])
        fixed.append(np.where(is_fault[changes], base_s, calm_s[changes]))
    if not ops:
        steps, lanes = next(iter(parts.values())).time_s.shape[1:] if parts else (0, 0)
        nothing = np.empty((0, steps, lanes))
        return SlowTransfers(np.empty(0, dtype=np.int64), nothing, nothing)
    return SlowTransfers(np.concatenate(ops), np.concatenate(as_is), np.concatenate(fixed))
