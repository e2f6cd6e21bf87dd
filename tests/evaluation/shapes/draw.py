"""Draw a job, with no fault or with faults that differ in direction, onset, reach and size."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from tests.evaluation.shapes import faults
from tests.evaluation.shapes.faults import (
    BOTH,
    DIRECTIONS,
    HOST,
    ONSETS,
    WORKER,
    Fault,
    draw_strength,
)
from tests.evaluation.shapes.layout import Layout
from tests.evaluation.shapes.noise import KINDS, draw_layout, draw_times
from tests.evaluation.shapes.oddities import ODDITIES
from tests.evaluation.shapes.single import (
    draw_computes,
    draw_data,
    draw_fault,
    draw_onset,
    draw_place,
    draw_size,
)
from tests.evaluation.shapes.times import Times

HEALTHY, SINGLE, SEVERAL, NO_CAUSE = "healthy", "single", "several", "no cause"
CLASS_OF_DIGIT: Final = (*[HEALTHY] * 3, *[SINGLE] * 4, *[SEVERAL] * 2, NO_CAUSE)
"""Class of a job by the last digit of its seed; a thousand consecutive seeds give 300 healthy jobs, 400 with
a single fault, 200 with several, and 100 with a fault without a cause."""


@dataclass(frozen=True)
class Job:
    """A drawn job: its layout, the times of its ops without faults, and its faults."""

    seed: int
    kind: str
    noise: str
    layout: Layout
    times: Times
    faults: tuple[Fault, ...]


def draw_job(seed: int) -> Job:
    """Draw a job; the last digit of the seed chooses the class of its faults."""
    rng = np.random.default_rng(seed)
    kind = CLASS_OF_DIGIT[seed % 10]
    noise = KINDS[rng.integers(len(KINDS))]
    layout = draw_layout(rng)
    times = draw_times(layout, noise, rng)
    return Job(seed, kind, noise, layout, times, _draw_faults(kind, layout, times, rng))


def _draw_faults(kind: str, layout: Layout, times: Times, rng: np.random.Generator) -> tuple[Fault, ...]:
    if kind == HEALTHY:
        return ()
    if kind == NO_CAUSE:
        return (ODDITIES[rng.integers(len(ODDITIES))](layout, rng),)
    if kind == SINGLE:
        return (draw_fault(layout, times, rng),)
    return _draw_several(layout, times, rng)


def _draw_several(layout: Layout, times: Times, rng: np.random.Generator) -> tuple[Fault, ...]:
    choice = rng.random()
    if choice < 0.2:
        return _worker_of_slow_host(layout, rng)
    if choice < 0.4:
        onset = str(rng.choice(ONSETS[:-1]))
        return (draw_data(layout, times, onset, rng), draw_computes(layout, times, draw_onset(rng), rng))
    if choice < 0.6:
        return _two_directions(layout, rng)
    return tuple(draw_fault(layout, times, rng) for _ in range(2 if choice < 0.85 else 3))


def _worker_of_slow_host(layout: Layout, rng: np.random.Generator) -> tuple[Fault, ...]:
    workers, reach, host = draw_place(layout, (HOST,), rng)
    if reach != HOST:
        return _two_directions(layout, rng)
    onset = draw_onset(rng)
    how, strength = (BOTH, onset, draw_size(rng)), draw_strength(onset, layout.steps, rng)
    of_host = faults.slow_computes(layout, workers, reach, how, strength, host)
    one = frozenset({sorted(workers)[rng.integers(len(workers))]})
    onset = draw_onset(rng)
    how = (str(rng.choice(tuple(DIRECTIONS))), onset, draw_size(rng))
    return of_host, faults.slow_computes(layout, one, WORKER, how, draw_strength(onset, layout.steps, rng))


def _two_directions(layout: Layout, rng: np.random.Generator) -> tuple[Fault, ...]:
    """Draw one worker with slow forwards and another with slow backwards."""
    order = rng.permutation(layout.pp * layout.dp)
    found = []
    for number, direction in zip(order, ("forward", "backward"), strict=False):
        onset = draw_onset(rng)
        stage, dp_rank = divmod(int(number), layout.dp)
        how = (direction, onset, draw_size(rng))
        strength = draw_strength(onset, layout.steps, rng)
        found.append(faults.slow_computes(layout, frozenset({(stage, dp_rank)}), WORKER, how, strength))
    return tuple(found)
