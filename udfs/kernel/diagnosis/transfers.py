"""Transfers far above the usual transfer of the same kind."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

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
    """Faults of one block.

    ops     : int, shape (op,); transfers of which some are faults.
    usual_s : float64, shape (op, step, dp); durations with the faults at their usual time. [s]
    """

    ops: Ints
    usual_s: Floats


def slow_transfers(blocks: Sequence[BlockTimes]) -> list[SlowTransfers]:
    """Faults of every block, measured over all blocks together."""
    kinds = [_kinds(block) for block in blocks]
    usual: dict[tuple[int, int, int], tuple[float, float]] = {}
    for kind in sorted({kind for found in kinds for kind in found}):
        values = [block.duration_s[found[kind]] for block, found in zip(blocks, kinds, strict=True) if kind in found]
        usual[kind] = _usual(np.concatenate([part.reshape(-1) for part in values]))
    of_type = {op_type: _low([base for kind, (base, _) in usual.items() if kind[0] == op_type]) for op_type, *_ in usual}
    return [_faults(block, found, usual, of_type) for block, found in zip(blocks, kinds, strict=True)]


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
    fixed: list[Floats] = []
    for kind, members in kinds.items():
        base, limit = usual[kind]
        if base > SAME_KIND * of_type[kind[0]]:
            limit = limit / base * of_type[kind[0]]
            base = of_type[kind[0]]
        values = block.duration_s[members]
        is_fault = values > limit
        for place in np.flatnonzero(is_fault.any(axis=(1, 2))).tolist():
            ops.append(members[place])
            fixed.append(np.where(is_fault[place], base, values[place]))
    shape = block.duration_s.shape[1:]
    return SlowTransfers(np.array(ops, dtype=np.int64), np.array(fixed).reshape(-1, *shape))
