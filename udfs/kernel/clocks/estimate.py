"""Estimate a job's clocks from its blocks, decide whether to correct them, and correct blocks."""

from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints, alike
from udfs.kernel.clocks.calls import calls
from udfs.kernel.clocks.course import FEW, SURE, Course, course, levelled
from udfs.kernel.clocks.ends import heard
from udfs.kernel.clocks.joined import Joined, agreed, join
from udfs.kernel.clocks.ties import RESOLUTION_S, HeardSteps, all_ties
from udfs.kernel.graph.graph import Layout, OpGraph
from udfs.kernel.recorded.durations import clock_of_cells
from udfs.kernel.recorded.ends import Ends
from udfs.kernel.recorded.trace import StepBlock
from udfs.kernel.selection import median_of_all, medians_along

BEYOND: Final = 4.0
"""An offset is significant if it exceeds its doubt by this number of standard errors."""

TOO_VAGUE: Final = 0.005
"""If clocks differ, and their error exceeds this share of a step, the slowdown may be wrong by that share."""

LEAST_STEPS: Final = 4
"""With fewer steps, noise and clock differences cannot be separated, and clocks are not corrected."""

FEW_STEPS: Final = 5
GROSS_S: Final = 10e-3
"""With fewer steps than FEW_STEPS, offsets up to this may be noise, and are not corrected. [s]"""

LEAST_FLOOR_S: Final = 50e-6
"""Offsets up to this are never corrected, because the two ends of one transfer differ by as much. [s]"""


class Limits(NamedTuple):
    """Limits for a clock's mean offset over the steps; offsets below the smaller limit are not corrected.

    floor_s        : limit in seconds. [s]
    floor_fraction : limit as a share of the step time.
    """

    floor_s: float
    floor_fraction: float


USUAL_LIMITS: Final = Limits(floor_s=1e-3, floor_fraction=1.5e-4)


class Clocks(NamedTuple):
    """The estimated clocks of a job, and whether they are corrected.

    ahead_s      : float64, shape (clock, step); how far each is ahead of the median clock of its part. [s]
    error_s      : float64, shape (clock,); error of ahead_s by noise and doubt together. [s]
    drift        : float64, shape (clock,); relative to the median clock of the part. [s/s]
    jumps        : int, shape (clock,); number of jumps.
    jump_s       : float64, shape (clock,); the clock's largest jump, negative if backward. [s]
    part         : int, shape (clock,); equal for clocks that transfers or collectives connect.
    residual_s   : median absolute residual of clock differences after the least squares fit. [s]
    is_corrected : whether some clock's mean offset exceeds both its uncertainty and the floor.
    is_known     : whether all clocks are connected, and either agree up to the floor or are known to
                   TOO_VAGUE of a step.
    unsteady_s   : largest scatter of a clock over steps, or 0 if no scatter exceeds BEYOND times both the
                   clock's doubt and residual_s. [s]
    """

    ahead_s: Floats
    error_s: Floats
    drift: Floats
    jumps: Ints
    jump_s: Floats
    part: Ints
    residual_s: float
    is_corrected: bool
    is_known: bool
    unsteady_s: float

    @property
    def parts(self) -> int:
        """Number of groups of clocks that no transfer and no collective connects with each other."""
        return len(np.unique(self.part))

    @property
    def skew_s(self) -> float:
        """Error of clock differences after the correction; infinite if some clocks are not connected. [s]"""
        if self.parts > 1:
            return inf
        return self.unsteady_s if self.is_known else float(self.error_s.max())


def estimate(
    found: Sequence[HeardSteps], clocks: int, time_s: Floats, step_s: float, limits: Limits
) -> Clocks:
    """Estimate offset, drift and jumps of every clock of a job, and whether to correct the clocks.

    found  : measured clock differences of all steps.
    clocks : number of clocks.
    time_s : float64, shape (step,); start of each step. [s]
    step_s : median step time. [s]
    """
    floor_s = max(min(limits.floor_s, limits.floor_fraction * step_s), LEAST_FLOOR_S)
    if len(time_s) < FEW_STEPS:
        floor_s = max(limits.floor_s, GROSS_S)
    ties = all_ties(found, clocks, len(time_s))
    joined = join(ties, clocks, time_s)
    ahead_s = _from_median(np.nan_to_num(joined.ahead_s), joined.part)
    noise_s, drift, leap_s = joined.noise_s, np.zeros(clocks), np.zeros((clocks, 1))
    residual_s = np.abs(joined.residual_s[np.isfinite(joined.residual_s)])
    disagree_s = median_of_all(residual_s) if len(residual_s) else 0.0
    is_corrected = is_vague = False
    unsteady_s = 0.0
    if len(time_s) >= LEAST_STEPS and np.abs(ahead_s).mean(axis=1).max() > floor_s:
        known_s = joined.ahead_s if len(time_s) < FEW else agreed(joined, ties, floor_s)
        joined = joined._replace(ahead_s=levelled(known_s, time_s, joined.part))
        fitted = course(joined.ahead_s, time_s)
        followed_s = _followed(joined, fitted)
        ahead_s = _from_median(followed_s, joined.part)
        drift = _from_median(fitted.drift[:, None], joined.part)[:, 0]
        leap_s = _leaps(ahead_s - drift[:, None] * (time_s - time_s[0]), fitted)
        if len(time_s) >= FEW:  # with fewer steps no jump is fitted, and jumps would enlarge the scatter
            noise_s = np.maximum(fitted.scatter_s / np.sqrt(len(time_s)), noise_s)
        mean_s = np.abs(ahead_s).mean(axis=1)
        # Tested relative to the part's mean, as fitted, because the median clock has an error of its own.
        is_sure = np.abs(_from_mean(followed_s, joined.part)).mean(axis=1) > BEYOND * noise_s + joined.doubt_s
        is_corrected = bool((is_sure & (mean_s > floor_s)).any())
        error_s = np.hypot(noise_s, joined.doubt_s)
        is_vague = bool(mean_s.max() > floor_s and error_s.max() > TOO_VAGUE * step_s)
        left_s = fitted.scatter_s[fitted.scatter_s > BEYOND * np.maximum(joined.doubt_s, disagree_s)]
        unsteady_s = float(left_s.max(initial=0.0))
    return Clocks(
        ahead_s=ahead_s,
        error_s=np.hypot(noise_s, joined.doubt_s),
        drift=drift,
        jumps=np.count_nonzero(leap_s, axis=1),
        jump_s=leap_s[np.arange(clocks), np.abs(leap_s).argmax(axis=1)],
        part=joined.part,
        residual_s=disagree_s,
        is_corrected=is_corrected,
        is_known=len(np.unique(joined.part)) == 1 and not is_vague,
        unsteady_s=unsteady_s,
    )


def _leaps(level_s: Floats, fitted: Course) -> Floats:
    """Return the jump of each clock between steps, 0 where it does not jump; shape (clock, step - 1). [s]

    Jumps are measured relative to the median clock. Relative to the mean, every clock would jump a little if
    one clock does.

    level_s : offsets relative to the median clock, without drift, shape (clock, step). [s]
    """
    leap_s = np.where(fitted.is_leap, np.diff(level_s, axis=1), 0.0)
    least_s = np.maximum(SURE * fitted.scatter_s, LEAST_FLOOR_S)[:, None]
    return np.where(np.abs(leap_s) > least_s, leap_s, 0.0)


def _followed(joined: Joined, fitted: Course) -> Floats:
    """Return fitted offsets, replaced by the step's own estimate where that differs significantly. [s]"""
    chance_s = SURE * np.maximum(fitted.scatter_s, joined.noise_s)[:, None] + RESOLUTION_S
    is_own = np.abs(joined.ahead_s - fitted.ahead_s) > chance_s
    return np.where(is_own, joined.ahead_s, fitted.ahead_s)


def _from_mean(ahead_s: Floats, part: Ints) -> Floats:
    """Return offsets relative to the mean clock of each group of connected clocks; (clock, step). [s]"""
    total_s = np.zeros((len(part), ahead_s.shape[1]))
    np.add.at(total_s, part, ahead_s)
    return np.asarray(ahead_s - total_s[part] / np.bincount(part, minlength=len(part))[part][:, None])


def _from_median(ahead_s: Floats, part: Ints) -> Floats:
    """Return offsets relative to the median clock of each group of connected clocks; (clock, step). [s]"""
    moved_s = ahead_s.copy()
    for number in set(part.tolist()):
        own = part == number
        moved_s[own] -= medians_along(moved_s[own], 0)
    return moved_s


class Listener:
    """Collects the clock differences that a job's blocks of steps show, and estimates the clocks from them.

    clock  : int, shape (stage, step, dp_rank); number of the clock that a worker uses in a step, from 0.
    time_s : float64, shape (step,); start of each step. [s]
    """

    def __init__(self, clock: Ints, time_s: Floats, layout: Layout, limits: Limits) -> None:
        self.clock, self.time_s, self.layout, self.limits = clock, time_s, layout, limits
        self._found: list[HeardSteps] = []
        self._spans_s: list[Floats] = []
        # By id of a graph: the calls in its first block, so that results do not depend on the size of blocks.
        self._calls: dict[int, tuple[OpGraph, Ints]] = {}

    def hear(self, block: StepBlock, ends: Ends, first_step: int) -> None:
        """Add the clock differences that a block of steps shows.

        first_step : number that is added to block.steps to get positions among the job's steps.
        """
        steps = first_step + block.steps
        self._spans_s.append((ends.last_s - ends.first_s).max(axis=(0, 2)))
        if id(block.graph) not in self._calls:
            self._calls[id(block.graph)] = block.graph, calls(block)
        _, call = self._calls[id(block.graph)]
        by_step = self.clock[:, steps].transpose(1, 0, 2).reshape(len(steps), -1)
        for members in alike(by_step):
            some_ends = ends.of_steps(members) if len(members) < len(steps) else ends
            own = by_step[members[0]]
            self._found.append(HeardSteps(steps[members], own, heard(some_ends, self.layout, own, call)))

    def clocks(self) -> Clocks:
        """Estimate the clocks from all blocks added so far."""
        step_s = median_of_all(np.concatenate(self._spans_s))
        return estimate(self._found, int(self.clock.max()) + 1, self.time_s, step_s, self.limits)


def by_one_clock(block: StepBlock, clock: Ints, clocks: Clocks | None, first_step: int = 0) -> StepBlock:
    """Return the block with all starts converted to one clock; the block itself if clocks are not corrected.

    clock      : as in Listener.
    first_step : number that is added to block.steps to get positions among the job's steps.
    """
    if clocks is None or not clocks.is_corrected:
        return block
    graph, steps, start_s = block.graph, first_step + block.steps, block.start_s.copy()
    of_cells = clock_of_cells(graph, clock[:, steps])
    for (first, end), of_cell in zip(pairwise(graph.first_op), of_cells, strict=True):
        start_s[first:end] -= clocks.ahead_s[of_cell, steps[:, None]]
    return block._replace(start_s=start_s)
