"""Clocks of a job from its blocks of steps, and blocks with their clocks corrected."""

from itertools import pairwise

import numpy as np

from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.clocks.ends import calls, heard
from udfs.kernel.clocks.estimate import Clocks, Limits, estimate
from udfs.kernel.clocks.ties import HeardSteps
from udfs.kernel.graph.graph import Layout, OpGraph
from udfs.kernel.recorded.trace import StepBlock
from udfs.kernel.selection import median_of_all


class Listener:
    """Collects what the blocks of a job say about its clocks.

    clock  : int, shape (stage, step, dp_rank); the clock of each row, numbered from 0.
    time_s : float64, shape (step,); when each step began. [s]
    """

    def __init__(self, clock: Ints, time_s: Floats, layout: Layout, limits: Limits) -> None:
        self.clock, self.time_s, self.layout, self.limits = clock, time_s, layout, limits
        self._found: list[HeardSteps] = []
        self._spans_s: list[Floats] = []
        # By the graph's identity: the first steps that have it decide, however many are laid out together.
        self._calls: dict[int, tuple[OpGraph, dict[int, int]]] = {}

    def hear(self, block: StepBlock, first_step: int = 0) -> None:
        """Take in a block whose steps are counted from first_step on."""
        steps = first_step + block.steps
        self._spans_s.append(_longest_span(block))
        if id(block.graph) not in self._calls:
            self._calls[id(block.graph)] = block.graph, calls(block)
        _, call_of = self._calls[id(block.graph)]
        by_step = self.clock[:, steps].transpose(1, 0, 2).reshape(len(steps), -1)
        for members in _alike(by_step):
            part = block
            if len(members) < len(steps):
                part = block._replace(
                    start_s=block.start_s[:, members], duration_s=block.duration_s[:, members]
                )
            own = by_step[members[0]]
            self._found.append(HeardSteps(steps[members], own, heard(part, self.layout, own, call_of)))

    def clocks(self) -> Clocks:
        """What all blocks say together."""
        step_s = median_of_all(np.concatenate(self._spans_s))
        return estimate(self._found, int(self.clock.max()) + 1, self.time_s, step_s, self.limits)

    def correct(self, block: StepBlock, clocks: Clocks, first_step: int = 0) -> None:
        """Move the starts of a block to one clock, in place."""
        steps = first_step + block.steps
        graph = block.graph
        for cell, (first, last) in zip(graph.cells, pairwise(graph.first_op), strict=True):
            rows = self.clock[cell.stage, steps]
            if not graph.has_dp_lanes:
                rows = rows[:, [cell.dp_rank]]
            block.start_s[first:last] -= clocks.ahead_s[rows, steps[:, None]]


def _alike(by_step: Ints) -> list[Ints]:
    """Positions of steps with equal rows, one array per distinct row."""
    if (by_step == by_step[0]).all():
        return [np.arange(len(by_step))]
    _, inverse = np.unique(by_step, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    return [np.flatnonzero(inverse == number) for number in range(inverse.max() + 1)]


def _longest_span(block: StepBlock) -> Floats:
    """Time from first start to last end of the longest worker, by its clock; shape (step,). [s]"""
    spans = []
    for cell, first in zip(block.graph.cells, block.graph.first_op, strict=False):
        edges = cell.program.first_ops
        filled = [(start, end) for start, end in pairwise(edges) if end > start]
        starts = [first + start for start, _ in filled]
        lasts = [first + end - 1 for _, end in filled]
        ends_s = block.start_s[lasts] + block.duration_s[lasts]
        spans.append((ends_s.max(axis=0) - block.start_s[starts].min(axis=0)).max(axis=-1))
    longest: Floats = np.max(spans, axis=0)
    return longest
