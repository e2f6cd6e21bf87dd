"""Replay a job with work moved between workers, whose speed does not change.

A fix removes all unevenness. A mitigation only moves what can be moved: whole layers between stages, or whole
microbatches between dp ranks.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import cause
from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.diagnosis.block_times import Tensor
from udfs.kernel.diagnosis.factors import LEAST_PART, Factors
from udfs.kernel.diagnosis.fixes import STACKED_VALUES, Replays
from udfs.kernel.diagnosis.works import (
    are_told_apart,
    error_of_weights,
    has_slow,
    in_steps,
    lasting_of_slow,
    left_beside,
    slowness_in_weights,
    weighed_steps,
)
from udfs.kernel.selection import medians_along

BALANCED: Final = frozenset({cause.DATA_IMBALANCE})
NEIGHBOURS: Final = 2
"""From the most even split, one layer is moved from each of this number of heaviest stages to each of the
lightest."""

LEAST_BESIDE_SLOW: Final = 4
"""With a slow worker and fewer microbatches, the step time depends on which microbatches that worker gets."""

ORDERS: Final = 8
"""The step time is averaged over this number of assignments, each with other errors of the weights."""

MOST_CHANCE: Final = 0.0028
"""If step times of the ORDERS assignments scatter by more than this share, their mean may be wrong by 1 %."""


class Layers(NamedTuple):
    """Layers per model chunk before and after some of them move between stages, and the step time after.

    before, after : int, shape (chunk of the model,); number of layers of each chunk.
    layer_s       : time of one layer for a microbatch, shape (direction,). [s]
    step_s        : mean replayed step time with the layers of `after`. [s]
    """

    before: Ints
    after: Ints
    layer_s: Floats
    step_s: float


def layers_between_stages(replays: Replays, layers: Ints, memory: float = np.inf) -> Layers | None:
    """Find the split of whole layers over the model's chunks with the shortest step time, of those tried.

    The time of a layer is the lower median over chunks of a chunk's time divided by its number of layers. The
    rest of a chunk's time, such as that of the loss or of an embedding, stays in the chunk.

    layers  : int, shape (chunk of the model,); chunk c of stage p is chunk c * stages + p.
    memory  : bound on the layers of a stage, as a multiple of the most layers that a stage has now.
    returns : None without a pipeline, if computes were not decomposed, or if some chunk was left out of the
              decomposition because it takes hardly any time.
    """
    factors = replays.found.factors
    if factors is None or replays.found.job.layout.pp_size == 1:
        return None
    p, k, c = factors.noise.shape[:3]
    if p * c != len(layers):
        return None
    usual_s = np.broadcast_to(factors.work_s.mean(axis=(3, 4, 5)), (p, k, c))
    by_chunk_s = usual_s.transpose(2, 0, 1).reshape(c * p, k)
    layer_s = medians_along(by_chunk_s / layers[:, None], 0, low=True)
    candidates = list(_splits(by_chunk_s, layers, layer_s, p, memory))
    weight = factors.data.weight[None, :, None]
    least_s = LEAST_PART * factors.work_s.mean(axis=(3, 4, 5), keepdims=True)
    works_s: list[Tensor] = []
    for after in candidates:
        more_s = (after - layers).reshape(c, p).T[:, None, :] * layer_s[None, :, None]
        work_s = np.maximum(factors.work_s + more_s[..., None, None, None] * weight, least_s)
        works_s.append(work_s * factors.noise)
    times_s = replays.of_works_s(works_s)
    best = int(np.argmin(times_s))
    return Layers(layers, candidates[best], layer_s, times_s[best])


def _splits(by_chunk_s: Floats, layers: Ints, layer_s: Floats, stages: int, memory: float) -> Iterator[Ints]:
    """Yield splits of layers to replay: the present one, the most even one, and some near the most even.

    by_chunk_s : time of each chunk, shape (chunk of the model, direction). [s]
    """
    yield layers
    total_s, each_s = by_chunk_s.sum(axis=1), float(layer_s.sum())
    beside_s = total_s - layers * each_s
    even = np.ones_like(layers)
    most = memory * layers.reshape(-1, stages).sum(axis=0).max()

    def of_stages() -> tuple[Floats, Mask]:
        """Return the time of each stage, and whether it has room for one more layer."""
        room: Mask = even.reshape(-1, stages).sum(axis=0) + 1 <= most
        return (beside_s + even * each_s).reshape(-1, stages).sum(axis=0), room

    def chunk_of(stage: int, sign: int) -> int:
        """Return the stage's chunk with the fewest (sign 1) or the most layers (sign -1)."""
        own = np.arange(stage, len(even), stages)
        return int(own[np.argmin(sign * even[own])])

    for _ in range(int(layers.sum()) - len(layers)):
        of_stage_s, has_room = of_stages()
        even[chunk_of(int(np.where(has_room, of_stage_s, np.inf).argmin()), 1)] += 1
    yield even
    of_stage_s, has_room = of_stages()
    by_time = np.argsort(of_stage_s, kind="stable")
    for heavy in by_time[-NEIGHBOURS:].tolist():
        for light in by_time[:NEIGHBOURS].tolist():
            moved = even.copy()
            moved[chunk_of(heavy, -1)] -= 1
            moved[chunk_of(light, 1)] += 1
            if heavy != light and moved.min() > 0 and has_room[light]:
                yield moved


def microbatches_over_dp_ranks(replays: Replays) -> float | None:
    """Return the mean replayed step time if whole microbatches are moved between dp ranks in each step. [s]

    Microbatches are assigned in order of weight, the heaviest first, to the rank with the least work that has
    room; each rank keeps its number of microbatches. Because weights have errors, the result is the mean over
    assignments with ORDERS different errors.

    returns : None with even microbatches, with one rank, with too few microbatches, if heavy microbatches and
              slow workers cannot be separated, or if step times differ too much between assignments.
    """
    factors = replays.found.factors
    if factors is None or not factors.data.is_real or not are_told_apart(factors):
        return None
    least, weighed = LEAST_BESIDE_SLOW if has_slow(factors) else 2, weighed_steps(factors)
    if replays.found.job.layout.dp_size == 1 or factors.noise.shape[3] < least or not weighed.size:
        return None
    part, slowness = in_steps(factors, weighed), slowness_in_weights(factors)
    together = max(1, STACKED_VALUES // factors.noise.size)
    total_s, weight = part.work_s.mean(axis=(3, 4, 5)).sum(axis=(0, 2)), factors.data.weight[:, :, weighed]
    error = np.log(error_of_weights(part.noise / lasting_of_slow(part))[0, :, 0])
    known, unknown = (np.einsum("k,kmsd->smd", total_s / total_s.sum(), each) for each in (weight, error))
    # Errors are taken from other microbatches, because a microbatch's weight already contains its own error.
    places = {min(each * unknown.size // ORDERS + 1, unknown.size - 1) for each in range(ORDERS)}
    others = [np.roll(unknown.reshape(-1), each).reshape(unknown.shape) for each in sorted(places)]
    # All weights in one call: `assigned` loops over microbatches, as often for one order as for all.
    sources = np.split(assigned(np.concatenate([known * np.exp(each) for each in others])), len(others))
    times_s: list[float] = []
    for first in range(0, len(sources), together):
        works_s = [factors.work_s * factors.noise for _ in sources[first : first + together]]
        for work_s, source in zip(works_s, sources[first:], strict=False):
            work_s[:, :, :, :, weighed] = _moved(part, source, slowness)
        times_s += replays.of_works_s(works_s)
    is_known = np.std(times_s, ddof=1) <= MOST_CHANCE * replays.mean_s()
    return float(np.mean(times_s)) if is_known else None


def _moved(factors: Factors, source: Ints, slowness: Floats) -> Tensor:
    """Return the work of steps with unequal microbatches after these are moved between dp ranks. [s]

    source   : as returned by `assigned`.
    slowness : as returned by slowness_in_weights.
    """
    own_s = factors.work_s / slowness
    steps, microbatches, ranks = source.shape
    by_step_s = own_s.transpose(4, 0, 1, 2, 3, 5).reshape(steps, -1, microbatches * ranks)
    moved_s = np.take_along_axis(by_step_s, source.reshape(steps, 1, -1), axis=2)
    moved_s = moved_s.reshape(steps, *own_s.shape[:3], microbatches, ranks).transpose(1, 2, 3, 4, 0, 5)
    return moved_s * slowness * left_beside(factors, own_s, moved_s)


def assigned(weight: Floats) -> Ints:
    """Assign microbatches to dp ranks greedily, so that all ranks have about equal work in a step.

    weight  : shape (step, microbatch, dp_rank).
    returns : int, same shape; the present position, microbatch * dp_ranks + dp_rank, of each assigned
              microbatch, the heaviest of each rank first.
    """
    steps, microbatches, ranks = weight.shape
    flat = weight.reshape(steps, -1)
    order = np.argsort(-flat, axis=1, kind="stable")
    heaviest_first = np.ascontiguousarray(np.take_along_axis(flat, order, axis=1).T)
    load = np.zeros((steps, ranks))
    of_all, first = load.reshape(-1), np.arange(steps) * ranks
    chosen = np.empty((microbatches * ranks, steps), dtype=np.int64)
    kept, counted, none_full_until = np.zeros(steps * ranks, dtype=np.int64), 0, microbatches
    for place, own in enumerate(heaviest_first, 1):
        at = np.add(load.argmin(axis=1), first, out=chosen[place - 1])
        of_all[at] += own
        if place == none_full_until:
            kept += np.bincount(chosen[counted:place].reshape(-1), minlength=kept.size)
            of_all[kept == microbatches] = np.inf
            # No other rank is full before as many microbatches are assigned as the fullest has room for.
            room = microbatches - kept
            none_full_until = place + int(room[room > 0].min(initial=microbatches))
            counted = place
    # Sort by rank; within a rank, the heaviest stay first.
    by_rank = np.argsort(chosen.T, axis=1, kind="stable")
    return np.take_along_axis(order, by_rank, axis=1).reshape(steps, ranks, microbatches).swapaxes(1, 2)
