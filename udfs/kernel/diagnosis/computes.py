"""Collect the durations of all computes in one tensor, also if steps or dp ranks differ in microbatches."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.diagnosis.block_times import BlockTimes, Tensor, in_time
from udfs.kernel.graph.graph import Index, Layout

LEAST_CHUNK: Final = 0.01
"""A chunk is left out if its mean compute time, on its slowest stage, is below this share of the longest."""

NO_OP: Final = -1
"""Instead of an op's number, where a dp rank has no such microbatch."""

MOST_SHORTER: Final = 0.05
"""Largest share of the steps that is left out because they have fewer microbatches than the tensor."""

LEAST_LEVEL: Final = 0.03
"""Smallest log factor by which microbatches of steps with more or fewer of them count as other work."""

LEAST_ALIKE: Final = 0.1
"""Smallest share of the steps that must have a number of microbatches for its own level to be known."""

_QUIET: Final = 0.3
"""Quantile of the times of a worker's computes that is compared between numbers of microbatches."""


class Computes(NamedTuple):
    """Positions of a block's computes in the tensor of all computes.

    ops   : int, shape (stage, direction, chunk, microbatch, dp_rank); dp_rank has length 1 if dp ranks are
            lanes. NO_OP where a dp rank has fewer microbatches.
    steps : positions of the block's steps along the tensor's axis of steps.
    rows  : int, shape (microbatch, dp_rank); position of each microbatch along the tensor's axis of
            microbatches. None if each has a position of its own, and the tensor has the times as recorded.
    """

    ops: Ints
    steps: Index
    rows: Ints | None


class ComputeTimes(NamedTuple):
    """Durations of the computes of all steps that can be compared.

    times_s : Tensor; of microbatches that share a position, the mean. [s]
    blocks  : positions of each block's computes; None for a block that is not part of the tensor.
    steps   : int, shape (step,); positions of the tensor's steps among the job's steps, ascending.
    """

    times_s: Tensor
    blocks: list[Computes | None]
    steps: Ints


def compute_times(blocks: Sequence[BlockTimes], layout: Layout) -> ComputeTimes | None:
    """Return the durations of computes as one tensor; None if stages differ in their computes.

    Steps and dp ranks may differ in their number of microbatches. The tensor has as many microbatches as all
    steps but MOST_SHORTER of them have in each dp rank; where there are more, neighbours share a position.
    Only steps with the most common chunks are used. Chunks that take hardly any time, such as the root of
    FSDP, are left out, because their durations vary by multiples on healthy workers too.
    """
    known = [(block, ops) for block in blocks if (ops := _compute_ops(block, layout)) is not None]
    weight: Counter[tuple[int, ...]] = Counter()
    for block, ops in known:
        weight[ops.shape[:3]] += block.number_of_steps
    if not weight:
        return None
    usual, _ = weight.most_common(1)[0]
    alike = [(block, ops) for block, ops in known if ops.shape[:3] == usual]
    microbatches = _compared(alike)
    some = [(block, ops) for block, ops in alike if _per_rank(ops).min() >= microbatches]
    rows = [_rows(ops, microbatches) for _, ops in some]
    parts = [_times_of(block, ops, at, microbatches) for (block, ops), at in zip(some, rows, strict=True)]
    for place in _on_one_level(parts, [ops.shape[3] for _, ops in some]):
        rows[place] = _rows_of_all(some[place][1]) if rows[place] is None else rows[place]
    of_blocks = [block for block, _ in some]
    steps = np.sort(np.concatenate([block.steps for block in of_blocks]))
    times_s = in_time(of_blocks, parts, 4)
    chosen = {
        id(block): Computes(ops, slice(None) if len(some) == 1 else np.searchsorted(steps, block.steps), at)
        for (block, ops), at in zip(some, rows, strict=True)
    }
    computes = [chosen.get(id(block)) for block in blocks]
    mean_s = times_s.mean(axis=(1, 3, 4, 5)).max(axis=0)
    is_notable = mean_s >= LEAST_CHUNK * mean_s.max()
    if not is_notable.all():
        times_s = times_s[:, :, is_notable]
        computes = [own and own._replace(ops=own.ops[:, :, is_notable]) for own in computes]
    return ComputeTimes(times_s, computes, steps)


def _per_rank(ops: Ints) -> Ints:
    """Return the number of microbatches of each dp rank; shape (dp_rank,)."""
    counts: Ints = np.count_nonzero(ops[0, 0, 0] != NO_OP, axis=0)
    return counts


def _compared(alike: Sequence[tuple[BlockTimes, Ints]]) -> int:
    """Return the number of microbatches of the tensor: as many as nearly all steps have in each dp rank."""
    counts = np.repeat(
        [_per_rank(ops).min() for _, ops in alike], [block.number_of_steps for block, _ in alike]
    )
    return int(np.sort(counts)[int(MOST_SHORTER * len(counts))])


def _rows(ops: Ints, microbatches: int) -> Ints | None:
    """Return the position of each microbatch in the tensor, as in Computes; None if each has its own."""
    counts = _per_rank(ops)
    if (counts == microbatches).all():
        return None
    return np.arange(ops.shape[3])[:, None] * microbatches // counts


def _rows_of_all(ops: Ints) -> Ints:
    """Return positions in a tensor with as many microbatches as the ops have; shape as in Computes."""
    return np.repeat(np.arange(ops.shape[3])[:, None], ops.shape[-1], axis=1)


def _times_of(block: BlockTimes, ops: Ints, rows: Ints | None, microbatches: int) -> Tensor:
    """Return the part of the tensor that a block's computes are. [s]"""
    has_lanes = ops.shape[-1] == 1
    own_s = block.duration_s[ops[..., 0] if has_lanes else ops]
    if rows is None:
        return own_s if has_lanes else np.moveaxis(own_s[..., 0], -1, -2)
    by_rank = [own_s] if has_lanes else [own_s[..., rank, :, :] for rank in range(ops.shape[-1])]
    means_s = []
    for rank, (of_rank_s, count) in enumerate(zip(by_rank, _per_rank(ops).tolist(), strict=True)):
        firsts = np.searchsorted(rows[:count, rank], np.arange(microbatches))
        sums_s = np.add.reduceat(of_rank_s[:, :, :, :count], firsts, axis=3)
        means_s.append(sums_s / np.diff([*firsts, count]).reshape(-1, 1, 1))
    return np.concatenate(means_s, axis=-1)


def _on_one_level(parts: Sequence[Tensor], counts: Sequence[int]) -> list[int]:
    """Divide, in place, the times of steps with another number of microbatches by the factor of their level.

    A batch that is cut into more microbatches makes each of them shorter, which is nobody's slowness. Returns
    the positions of the parts that were changed.
    """
    changed: list[int] = []
    steps: Counter[int] = Counter()
    for part, count in zip(parts, counts, strict=True):
        steps[count] += part.shape[4]
    level: dict[int, Floats] = {}
    for each, number in steps.items():
        if len(steps) > 1 and number >= LEAST_ALIKE * steps.total():
            alike = [part for part, count in zip(parts, counts, strict=True) if count == each]
            quiet_s = np.quantile(np.concatenate(alike, axis=4), _QUIET, axis=(3, 4))
            level[each] = np.log(np.maximum(quiet_s, np.finfo(np.float64).tiny))
    usual, _ = steps.most_common(1)[0]
    for place, count in enumerate(counts):
        if count in level and usual in level:
            over = float(np.median(level[count] - level[usual]))
            if abs(over) > LEAST_LEVEL:
                np.divide(parts[place], np.exp(over), out=parts[place])
                changed.append(place)
    return changed


def _compute_ops(block: BlockTimes, layout: Layout) -> Ints | None:
    """Return the op number of each compute, or None if some stage, direction or chunk lacks computes."""
    width = 1 if block.graph.has_dp_lanes else layout.dp_size
    cells: dict[tuple[int, int], dict[tuple[int, int], list[int]]] = {}
    of_cells = zip(block.graph.cells, block.graph.first_op, block.microbatch, strict=False)
    for cell, base, microbatch in of_cells:
        own: dict[tuple[int, int], list[int]] = {}
        firsts, chunk_of = cell.program.first_ops, cell.program.chunks
        for direction, op_type in enumerate(ot.COMPUTE):
            for op in range(firsts[op_type], firsts[op_type + 1]):
                own.setdefault((direction, chunk_of[op]), []).append(op)
        for kind, ops in own.items():
            # Ordered by microbatch, or by start if lanes differ in order.
            order = np.argsort(microbatch[ops].reshape(len(ops), -1), axis=0, kind="stable")
            agreed = order[:, 0].tolist() if (order == order[:, :1]).all() else range(len(ops))
            own[kind] = [base + ops[at] for at in agreed]
        cells[cell.stage, max(cell.dp_rank, 0)] = own
    if len(cells) != layout.pp_size * width:
        return None
    kinds = sorted(cells[0, 0])
    directions, chunks = sorted({kind[0] for kind in kinds}), sorted({kind[1] for kind in kinds})
    if len(kinds) != len(directions) * len(chunks) or any(sorted(found) != kinds for found in cells.values()):
        return None
    counts = [{len(ops) for p in range(layout.pp_size) for ops in cells[p, d].values()} for d in range(width)]
    if any(len(of_rank) != 1 for of_rank in counts):
        return None
    most = max(map(max, counts))
    by_rank = [
        [
            [[(cells[p, d][k, c] + [NO_OP] * most)[:most] for d in range(width)] for c in chunks]
            for k in directions
        ]
        for p in range(layout.pp_size)
    ]
    return np.moveaxis(np.array(by_rank), 3, 4)
