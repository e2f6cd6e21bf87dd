"""Compute the share of workers that compute, by plain loops, from udfs/README.md alone."""

import cmath
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from tests.oracle.records import Layout, Op

BINS = 128
HARMONICS = 8
COMPUTING = ("forward-compute", "backward-compute", "optimizer")


@dataclass
class Power:
    """Power results of one job; shares are per bin, and times are in seconds."""

    share: list[float]
    low: list[float]
    high: list[float]
    step_swing: float
    amplitudes: list[float]
    dominant: int
    peak: float

    @property
    def swing(self) -> float:
        return max(self.share) - min(self.share)


def power(ops: Sequence[Op], workers: int) -> Power:
    """Compute the share of computing workers in each bin of a step, and its swing, from complete steps."""
    by_step: dict[int, list[Op]] = defaultdict(list)
    for op in ops:
        by_step[op.step].append(op)
    shares = [_of_step(some, workers) for _, some in sorted(by_step.items())]
    share = [fmean(values) for values in zip(*shares, strict=True)]
    parts = [_component(share, number) for number in range(1, BINS // 2)]
    sizes = [abs(part) for part in parts]
    dominant = sizes.index(max(sizes)) + 1
    turn = -cmath.phase(parts[dominant - 1]) / (2 * math.pi)
    return Power(
        share,
        [min(values) for values in zip(*shares, strict=True)],
        [max(values) for values in zip(*shares, strict=True)],
        fmean(max(values) - min(values) for values in shares),
        sizes[:HARMONICS],
        dominant,
        turn % 1.0 / dominant,
    )


def complete_steps(ops: Sequence[Op], layout: Layout) -> list[Op]:
    """Return the ops of the steps that every worker recorded."""
    workers: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for op in ops:
        workers[op.step].add((op.dp_rank, op.pp_rank))
    return [op for op in ops if len(workers[op.step]) == layout.dp_size * layout.pp_size]


def _of_step(ops: Sequence[Op], workers: int) -> list[float]:
    """Return the share of computing workers in each bin of one step, at most 1."""
    began = min(op.start_s for op in ops)
    bin_s = (max(op.end_s for op in ops) - began) / BINS
    share = []
    for number in range(BINS):
        first, last = began + number * bin_s, began + (number + 1) * bin_s
        busy = 0.0
        for op in ops:
            if op.op_type in COMPUTING:
                busy += max(0.0, min(op.end_s, last) - max(op.start_s, first))
        share.append(min(1.0, busy / (workers * bin_s)))
    return share


def _component(share: Sequence[float], number: int) -> complex:
    """Return twice a Fourier coefficient of the share, with the value of each bin at its middle."""
    turns = [number * (place + 0.5) / BINS for place in range(BINS)]
    turned = (value * cmath.exp(-2j * math.pi * turn) for value, turn in zip(share, turns, strict=True))
    return sum(turned) * 2 / BINS


def beat(steps: Sequence[int], began_s: Sequence[float]) -> tuple[float, float, float]:
    """Fit a line to starts of steps; return the time per step, the scatter, and the middle start. [s]"""
    mean_n, mean_t = fmean(steps), fmean(began_s)
    slope = sum((n - mean_n) * (t - mean_t) for n, t in zip(steps, began_s, strict=True)) / sum(
        (n - mean_n) ** 2 for n in steps
    )
    line = [mean_t + slope * (n - mean_n) for n in steps]
    scatter = math.sqrt(fmean((t - at) ** 2 for t, at in zip(began_s, line, strict=True)))
    return slope, scatter, mean_t + slope * ((min(steps) + max(steps)) // 2 - mean_n)


def in_phase(
    units: Sequence[tuple[float, float, float, float]],
) -> dict[tuple[int, int], tuple[float, float]]:
    """Return drift and phase difference of each pair of units in phase.

    units : (period, peak, first, last) of each unit [s]
    """
    found = {}
    for one, (period, peak, first, last) in enumerate(units):
        for other in range(one + 1, len(units)):
            period2, peak2, first2, last2 = units[other]
            begin, end = max(first, first2), min(last, last2)
            drift = abs((end - begin) / period - (end - begin) / period2)
            middle = (begin + end) / 2
            gone, gone2 = (middle - peak) / period, (middle - peak2) / period2
            apart = (gone - gone2 + 0.5) % 1.0 - 0.5
            if end - begin >= 10 * max(period, period2) and drift <= 0.25 and abs(apart) <= 0.125:
                found[one, other] = drift, apart
    return found
