"""Compute durations of a job as one tensor, and the way back into the blocks of ops they came from."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.diagnosis.calls import Calls
from udfs.kernel.graph.graph import Cell, OpGraph

Tensor = npt.NDArray[np.float64]
"""Float64, shape (stage, direction, chunk, microbatch, step, dp_rank)."""


class KeptDelays(NamedTuple):
    """Launch delays of a block that are kept in replays: data loading, not waiting.

    ops     : int, shape (op,).
    delay_s : float64, shape (op, step, dp). [s]
    """

    ops: Ints
    delay_s: Floats


class BlockTimes(NamedTuple):
    """Steps with one graph, as the diagnosis needs them.

    duration_s : float64, shape (op, step, dp), transfers in a rendezvous. [s]
    microbatch : per cell int32, shape (compute op, step, dp), or (compute op, 1, 1) where all rows agree.
    calls      : transfers that were issued together; `graph` knows them.
    delays     : launch delays that are kept in replays.
    """

    graph: OpGraph
    duration_s: Floats
    microbatch: tuple[npt.NDArray[np.int32], ...]
    calls: Calls
    delays: KeptDelays

    @property
    def number_of_steps(self) -> int:
        """Steps in this block."""
        return len(self.duration_s[0])


class ComputeOps(NamedTuple):
    """Where a block's computes stand.

    ops : int, shape (stage, direction, chunk, microbatch, dp_rank), dp_rank 1 long where dp ranks are lanes.
    """

    ops: Ints

    def gather(self, duration_s: Floats) -> Tensor:
        """Durations of a block, shape (op, step, dp), as a tensor."""
        if self.ops.shape[-1] == 1:
            lanes: Tensor = duration_s[self.ops[..., 0]]
            return lanes
        return np.moveaxis(duration_s[self.ops][..., 0], -1, -2)


class ComputeTimes(NamedTuple):
    """Computes of all steps that did the same amount of work.

    times_s : Tensor. [s]
    blocks  : position of each block that is part of it, with its ops; their steps in turn.
    """

    times_s: Tensor
    blocks: list[tuple[int, ComputeOps]]


def compute_times(blocks: Sequence[BlockTimes], pp_size: int, dp_size: int) -> ComputeTimes | None:
    """Tensor of the computes of the most usual steps; None where stages or chunks differ in their number.

    Steps with another number of microbatches or chunks are left out: no other step is their measure.
    """
    found = {number: _compute_ops(block, pp_size, dp_size) for number, block in enumerate(blocks)}
    weight: Counter[tuple[int, ...]] = Counter()
    for number, ops in found.items():
        if ops is not None:
            weight[ops.ops.shape[:-1]] += blocks[number].number_of_steps
    if not weight:
        return None
    usual, _ = weight.most_common(1)[0]
    chosen = [
        (number, ops) for number, ops in found.items() if ops is not None and ops.ops.shape[:-1] == usual
    ]
    parts = [ops.gather(blocks[number].duration_s) for number, ops in chosen]
    times_s = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=4)
    return ComputeTimes(times_s, chosen)


def _compute_ops(block: BlockTimes, pp_size: int, dp_size: int) -> ComputeOps | None:
    """Computes by (stage, direction, chunk, microbatch); None where the numbers do not make a rectangle."""
    width = 1 if block.graph.has_dp_lanes else dp_size
    cells: dict[tuple[int, int], dict[tuple[int, int], list[int]]] = {}
    for cell, base, microbatch in zip(
        block.graph.cells, block.graph.first_op, block.microbatch, strict=False
    ):
        cells[cell.stage, max(cell.dp_rank, 0)] = _ops_of_cell(cell, base, microbatch)
    if len(cells) != pp_size * width:
        return None
    kinds = sorted(cells[0, 0])
    counts = {len(ops) for found in cells.values() for ops in found.values()}
    directions, chunks = sorted({kind[0] for kind in kinds}), sorted({kind[1] for kind in kinds})
    is_rectangle = len(counts) == 1 and len(kinds) == len(directions) * len(chunks)
    if not is_rectangle or any(sorted(found) != kinds for found in cells.values()):
        return None
    ops = np.array(
        [
            [[[cells[p, d][k, c] for d in range(width)] for c in chunks] for k in directions]
            for p in range(pp_size)
        ]
    )
    return ComputeOps(np.moveaxis(ops, 3, 4))


def _ops_of_cell(
    cell: Cell, base: int, microbatch: npt.NDArray[np.int32]
) -> dict[tuple[int, int], list[int]]:
    """Ops of each (direction, chunk) by microbatch; by start where the rows do not agree on an order."""
    found: dict[tuple[int, int], list[int]] = {}
    firsts, chunks = cell.program.first_ops, cell.program.chunks
    for direction, op_type in enumerate(ot.COMPUTE):
        for op in range(firsts[op_type], firsts[op_type + 1]):
            found.setdefault((direction, chunks[op]), []).append(op)
    for kind, ops in found.items():
        order = np.argsort(microbatch[ops].reshape(len(ops), -1), axis=0, kind="stable")
        agreed = order[:, 0].tolist() if (order == order[:, :1]).all() else range(len(ops))
        found[kind] = [base + ops[at] for at in agreed]
    return found
