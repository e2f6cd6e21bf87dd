"""Replay one run with the durations of another run, to find which ops make the difference.

Ops correspond if they have the same key: op type, model chunk, stage and dp rank, or fewer of these if the
layouts differ. Within a key, the longest op takes the duration of the longest op of the other run, and so on
by rank. Unevenness within a key, for example by lengths of sequences, therefore stays with the ops that have
it.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.graph.graph import OpGraph
from udfs.kernel.recorded.first_pass import Block
from udfs.kernel.replay.masked import STACKED_VALUES, op_dp_ranks, op_stages
from udfs.kernel.replay.replay import replay

_PLACES: Final = 2**20
"""Larger than any number of stages or dp ranks."""
_CHUNKS: Final = 2**12


class Match(Enum):
    """Attributes that must agree for ops of two runs to be compared."""

    WORKERS = "op type, chunk, stage and dp rank"
    STAGES = "op type, chunk and stage"
    OP_TYPES = "op type"


class Times(NamedTuple):
    """Durations of all ops, sorted and grouped by the key of the op.

    keys       : ascending.
    first      : position of the first duration of each key, followed by the number of all durations.
    duration_s : ascending within a key. [s]
    """

    keys: Ints
    first: Ints
    duration_s: Floats


class Parts(NamedTuple):
    """How the step time changes as groups of ops take the durations of the other run; means over steps. [s]

    recorded_s : T as recorded.
    all_s      : T if all ops take the durations of the other run.
    parts_s    : shape (group,); each group's part of recorded_s - all_s; the parts add up to it.
    """

    recorded_s: float
    all_s: float
    parts_s: Floats


def times_by_key(blocks: Sequence[Block], dp_size: int, match: Match) -> Times:
    """Collect the durations of all ops by key: those attributes of an op that `match` compares."""
    keys, duration_s, order = _in_order(blocks, dp_size, match)
    found, first = np.unique(keys[order], return_index=True)
    return Times(found, np.append(first, len(order)), duration_s[order])


def with_other_times(blocks: Sequence[Block], dp_size: int, match: Match, other: Times) -> list[Floats]:
    """Return each op's duration in the other run: that of the equally ranked op with the same key. [s]

    Ops whose key the other run lacks keep their own durations.
    """
    keys, duration_s, order = _in_order(blocks, dp_size, match)
    own, first = np.unique(keys[order], return_index=True)
    counts = np.diff(np.append(first, len(order)))
    at = np.minimum(np.searchsorted(other.keys, own), len(other.keys) - 1)
    is_known = np.repeat(other.keys[at] == own, counts)
    # Rank of each op as a share of its key's ops, and the place of this share among the other run's ops.
    share = (np.arange(len(order)) - np.repeat(first, counts) + 0.5) / np.repeat(counts, counts)
    start, size = np.repeat(other.first[at], counts), np.repeat(np.diff(other.first)[at], counts)
    place = np.clip(share * size - 0.5, 0.0, size - 1)
    below = place.astype(np.int64)
    above = np.minimum(below + 1, size - 1)
    lower_s, upper_s = other.duration_s[start + below], other.duration_s[start + above]
    taken_s = lower_s + (place - below) * (upper_s - lower_s)
    changed_s = np.empty_like(duration_s)
    changed_s[order] = np.where(is_known, taken_s, duration_s[order])
    ends = np.cumsum([block.duration_s.size for block in blocks])[:-1]
    shaped = zip(np.split(changed_s, ends), blocks, strict=True)
    return [each.reshape(block.duration_s.shape) for each, block in shaped]


def _in_order(blocks: Sequence[Block], dp_size: int, match: Match) -> tuple[Ints, Floats, Ints]:
    """Return keys and durations of all ops, and the permutation that sorts them by both."""
    keys = np.concatenate(
        [
            np.broadcast_to(_keys(block.graph, dp_size, match)[:, None], block.duration_s.shape).ravel()
            for block in blocks
        ]
    )
    duration_s = np.concatenate([block.duration_s.ravel() for block in blocks])
    return keys, duration_s, np.lexsort((duration_s, keys))


def _keys(graph: OpGraph, dp_size: int, match: Match) -> Ints:
    """Return each op's key, shape (op, dp), or (op, 1) if dp ranks share keys or have ops of their own."""
    keys: Ints = np.array(graph.op_types, dtype=np.int64)[:, None]
    if match is Match.OP_TYPES:
        return keys
    chunks = np.array([chunk for cell in graph.cells for chunk in cell.program.chunks])[:, None]
    keys = (keys * _CHUNKS + chunks + 1) * _PLACES + op_stages(graph)
    if match is Match.WORKERS:
        keys = keys * _PLACES + op_dp_ranks(graph, dp_size)
    return keys


def parts_of(
    blocks: Sequence[Block], other_s: Sequence[Floats], groups: Sequence[Ints], number: int
) -> Parts:
    """Divide a change of the step time among groups of ops.

    The groups take the other run's durations one after the other, once from the first to the last and once
    from the last to the first. A part is the mean of both, because the effect of a group may show only after
    another group has changed.

    other_s : durations from with_other_times.
    groups  : for each block int, broadcastable to (op, step, dp); each op's group, below `number`.
    """
    sums = np.zeros(2 * number)
    for block, taken_s, group in zip(blocks, other_s, groups, strict=True):
        size, steps, lanes = block.duration_s.shape
        of_op = np.broadcast_to(group, block.duration_s.shape)
        together = max(1, STACKED_VALUES // block.duration_s.size)
        found = []
        for first in range(0, 2 * number, together):
            # In row i the groups below i take the other run's durations; in `number` + i those from i on.
            row = np.arange(first, min(first + together, 2 * number))[:, None, None]
            is_other = np.where(row <= number, of_op[:, None] < row, of_op[:, None] >= row - number)
            scenario_s = np.where(is_other, taken_s[:, None], block.duration_s[:, None])
            shape = (len(row), steps, lanes)
            found.append(replay(block.graph, list(scenario_s.reshape(size, len(row), -1)), shape))
        sums += np.concatenate(found).sum(axis=1)
    means = sums / sum(len(block.steps) for block in blocks)
    upwards, downwards = means[: number + 1], np.append(means[number:], means[0])
    parts_s = (np.diff(downwards) - np.diff(upwards)) / 2
    return Parts(float(means[0]), float(means[number]), parts_s)


def change_by_group(
    blocks: Sequence[Block], other_s: Sequence[Floats], groups: Sequence[Ints], number: int
) -> Floats:
    """Return by how much durations change in each group, as a sum of absolute values; shape (group,). [s]"""
    change_s = np.zeros(number)
    for block, taken_s, group in zip(blocks, other_s, groups, strict=True):
        of_op = np.broadcast_to(group, taken_s.shape).ravel()
        change_s += np.bincount(of_op, np.abs(taken_s - block.duration_s).ravel(), number)
    return change_s
