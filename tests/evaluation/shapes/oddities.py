"""Faults that no cause fits: they cost time, and any name for them would be wrong."""

from collections.abc import Callable
from typing import Final

import numpy as np

from tests.evaluation.shapes.faults import (
    BOTH,
    COMES_AND_GOES,
    EVERYWHERE,
    FROM,
    GROWS,
    UNTIL,
    Fault,
    draw_strength,
)
from tests.evaluation.shapes.layout import FORWARD, Floats, Layout
from tests.evaluation.shapes.times import Change

Draw = Callable[[Layout, np.random.Generator], Fault]


def _fault(
    kind: str, onset: str, size: float, strength: Floats, factor: Floats, also: tuple[str, ...] = ()
) -> Fault:
    change = Change(factor={"compute": factor})
    return Fault(
        None, BOTH, onset, f"{EVERYWHERE}: {kind}", size, strength, frozenset(), change, None, frozenset(also)
    )


def _by_step(layout: Layout, size: float, strength: Floats) -> Floats:
    return (1 + (size - 1) * strength)[None, None, None, None, :, None] * np.ones(
        (2, 1, 1, 1, layout.steps, 1)
    )


def all_slow_in_some_steps(layout: Layout, rng: np.random.Generator) -> Fault:
    """A power cap of the whole hall: every worker is slow, in the same steps."""
    onset = str(rng.choice((FROM, UNTIL, COMES_AND_GOES)))
    size, strength = rng.uniform(1.1, 1.5), draw_strength(onset, layout.steps, rng)
    return _fault("all slow in some steps", onset, size, strength, _by_step(layout, size, strength))


def drift(layout: Layout, rng: np.random.Generator) -> Fault:
    """Everything becomes slower, step by step."""
    size, strength = rng.uniform(1.1, 1.5), draw_strength(GROWS, layout.steps, rng)
    return _fault("drift", GROWS, size, strength, _by_step(layout, size, strength))


def slow_backwards_of_all(layout: Layout, rng: np.random.Generator) -> Fault:
    """Every worker's backwards are slow in some steps."""
    size, strength = rng.uniform(1.15, 1.6), draw_strength(COMES_AND_GOES, layout.steps, rng)
    factor = _by_step(layout, size, strength)
    factor[FORWARD] = 1.0
    return _fault("all backwards slow in some steps", COMES_AND_GOES, size, strength, factor)


def random_bursts(layout: Layout, rng: np.random.Generator) -> Fault:
    """In some steps every second op of the job, drawn anew, is slow: no worker, no microbatch, no stage."""
    size, strength = rng.uniform(1.2, 1.8), draw_strength(COMES_AND_GOES, layout.steps, rng)
    shape = (2, layout.pp, layout.vpp, layout.microbatches, *layout.lanes)
    factor = 1 + (size - 1) * (rng.random(shape) < 0.5) * strength[:, None]
    return _fault("random bursts", COMES_AND_GOES, size, strength, factor, ("pause",))


def first_microbatches(layout: Layout, rng: np.random.Generator) -> Fault:
    """Caches are cold at the start of some steps: the first forwards take longer everywhere."""
    size, strength = rng.uniform(1.5, 3.0), draw_strength(COMES_AND_GOES, layout.steps, rng)
    factor = np.ones((2, 1, 1, layout.microbatches, layout.steps, 1))
    factor[FORWARD, :, :, 0, :, 0] += (size - 1) * strength
    return _fault("first forwards slow", COMES_AND_GOES, size, strength, factor, ("pause",))


def microbatches_of_a_stage(layout: Layout, rng: np.random.Generator) -> Fault:
    """In some steps a stage takes longer over a third of the microbatches, the same ones in all replicas.

    Without a pipeline that would be longer microbatches; then random bursts are drawn.
    """
    if layout.pp == 1:
        return random_bursts(layout, rng)
    size, strength = rng.uniform(1.3, 2.0), draw_strength(COMES_AND_GOES, layout.steps, rng)
    chosen = rng.permutation(layout.microbatches)[: max(1, layout.microbatches // 3)]
    factor = np.ones((2, layout.pp, 1, layout.microbatches, layout.steps, 1))
    factor[:, rng.integers(layout.pp), :, chosen, :, 0] += (size - 1) * strength
    also = ("pause", "slow_worker") if layout.dp == 1 else ("pause",)
    return _fault("microbatches of a stage", COMES_AND_GOES, size, strength, factor, also)


def swapping_groups(layout: Layout, rng: np.random.Generator) -> Fault:
    """In every step another half of the job's workers, drawn anew, is slow."""
    size, strength = rng.uniform(1.1, 1.5), draw_strength(COMES_AND_GOES, layout.steps, rng)
    is_slow = rng.random((layout.pp, 1, 1, *layout.lanes)) < 0.5
    factor = (1 + (size - 1) * is_slow * strength[:, None])[None] * np.ones((2, 1, 1, 1, 1, 1))
    return _fault("swapping groups", COMES_AND_GOES, size, strength, factor, ("slow_worker",))


ODDITIES: Final[tuple[Draw, ...]] = (
    all_slow_in_some_steps,
    drift,
    slow_backwards_of_all,
    random_bursts,
    first_microbatches,
    microbatches_of_a_stage,
    swapping_groups,
)
