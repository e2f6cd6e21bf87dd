"""Transfers far above the usual transfer of the same kind."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel import op_type as ot
from udfs.kernel.diagnosis.compute_times import BlockTimes
from udfs.kernel.graph import as_index
from udfs.kernel.program import Floats, Ints

LOW_QUANTILE: Final = 0.25
USUAL_BAND: Final = (0.5, 1.6)
"""The usual transfer is the median of those within this band around the low quantile."""

LEAST_FACTOR: Final = 1.8
MADS: Final = 5.0
SAME_KIND: Final = 3.0
"""A collective of a stage is measured by its own usual time, unless that is so many times its type's."""

LEAST_S: Final = 1e-6


class SlowTransfers(NamedTuple):
    """Transfers of one block that are not replayed as they stand.

    ops     : int, shape (op,); transfers of which some are faults, or of no known length.
    as_is_s : float64, shape (op, step, dp); as they ran, at most the usual time where the length is not known. [s]
    usual_s : the same with the faults at their usual time. [s]
    """

    ops: Ints
    as_is_s: Floats
    usual_s: Floats


def slow_transfers(blocks: Sequence[BlockTimes]) -> list[SlowTransfers]:
    """Faults of every block, measured over all blocks together."""
    kinds = [_kinds(block) for block in blocks]
    known = [_known(block) for block in blocks]
    usual: dict[tuple[int, int, int], tuple[float, float]] = {}
    for kind in sorted({kind for found in kinds for kind in found}):
        values = np.concatenate(
            [
                block.duration_s[found[kind]][is_known[found[kind]]]
                for block, found, is_known in zip(blocks, kinds, known, strict=True)
                if kind in found
            ]
        )
        usual[kind] = _usual(values) if values.size else (LEAST_S, np.inf)
    of_type = {
        op_type: _low([base for kind, (base, _) in usual.items() if kind[0] == op_type])
        for op_type, *_ in usual
    }
    return [_faults(block, found, usual, of_type) for block, found in zip(blocks, kinds, strict=True)]


def _known(block: BlockTimes) -> npt.NDArray[np.bool_]:
    """Where a transfer's own length is known; shape (op, step, dp)."""
    is_known = np.ones(block.duration_s.shape, dtype=bool)
    for op, is_free in block.calls.is_free.items():
        is_known[op] = ~is_free
    return is_known


def _kinds(block: BlockTimes) -> dict[tuple[int, int, int], list[int]]:
    """Transfers by kind: pipeline transfers by type, collectives by (type, stage, chunk)."""
    graph = block.graph
    found: dict[tuple[int, int, int], list[int]] = {}
    chunks = [chunk for cell in graph.cells for chunk in cell.program.chunks]
    for members, _ in graph.meetings:
        for ops in members:
            for op in ops:
                op_type = graph.op_types[op]
                is_pipeline = op_type in ot.TRANSFERS
                kind = (op_type, -1, -1) if is_pipeline else (op_type, graph.stages[op], chunks[op])
                found.setdefault(kind, []).append(op)
    return found


def _usual(values: Floats) -> tuple[float, float]:
    """Usual time of a kind, and above which a transfer is a fault. [s]"""
    low = float(np.quantile(values, LOW_QUANTILE))
    base = max(low, LEAST_S)
    band = values[(values >= USUAL_BAND[0] * base) & (values <= USUAL_BAND[1] * base)]
    if not band.size:
        return base, np.inf
    usual = max(float(np.median(band)), LEAST_S)
    scatter = float(np.median(np.abs(np.log(np.maximum(band, LEAST_S) / usual))))
    return usual, usual * max(LEAST_FACTOR, float(np.exp(MADS * scatter)))


def _low(values: list[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2]


def _faults(
    block: BlockTimes,
    kinds: dict[tuple[int, int, int], list[int]],
    usual: dict[tuple[int, int, int], tuple[float, float]],
    of_type: dict[int, float],
) -> SlowTransfers:
    ops: list[int] = []
    as_is: list[Floats] = []
    fixed: list[Floats] = []
    is_free = block.calls.is_free
    for kind, members in kinds.items():
        base, limit = usual[kind]
        if base > SAME_KIND * of_type[kind[0]]:
            limit = limit / base * of_type[kind[0]]
            base = of_type[kind[0]]
        changes = (block.duration_s[members] > limit).any(axis=(1, 2))
        for op in (
            op for op, any_fault in zip(members, changes.tolist(), strict=True) if any_fault or op in is_free
        ):
            values = block.duration_s[op]
            if op in is_free:
                values = np.where(is_free[op], np.minimum(values, base), values)
            ops.append(op)
            as_is.append(values)
            fixed.append(np.where(values > limit, base, values))
    for op in sorted(is_free.keys() - set(ops)):
        base, _ = usual.get((block.graph.op_types[op], -1, -1), (LEAST_S, 0.0))
        values = np.where(is_free[op], np.minimum(block.duration_s[op], base), block.duration_s[op])
        ops.append(op)
        as_is.append(values)
        fixed.append(values)
    shape = (-1, *block.duration_s.shape[1:])
    return SlowTransfers(
        np.array(ops, dtype=np.int64), np.array(as_is).reshape(shape), np.array(fixed).reshape(shape)
    )
