"""Faults that cost time and to which no cause applies: every cause that is named for them is wrong."""

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
    """In some steps every worker is slow, as under a power cap of the whole data centre."""
    onset = str(rng.choice((FROM, UNTIL, COMES_AND_GOES)))
    size, strength = rng.uniform(1.1, 1.5), draw_strength(onset, layout.steps, rng)
    return _fault("all slow in some steps", onset, size, strength, _by_step(layout, size, strength))


def drift(layout: Layout, rng: np.random.Generator) -> Fault:
    """All ops become slower from step to step."""
    size, strength = rng.uniform(1.1, 1.5), draw_strength(GROWS, layout.steps, rng)
    return _fault("drift", GROWS, size, strength, _by_step(layout, size, strength))


def slow_backwards_of_all(layout: Layout, rng: np.random.Generator) -> Fault:
    """In some steps the backwards of all workers are slow."""
    size, strength = rng.uniform(1.15, 1.6), draw_strength(COMES_AND_GOES, layout.steps, rng)
    factor = _by_step(layout, size, strength)
    factor[FORWARD] = 1.0
    return _fault("all backwards slow in some steps", COMES_AND_GOES, size, strength, factor)


def random_bursts(layout: Layout, rng: np.random.Generator) -> Fault:
    """In some steps a random half of all ops is slow, on any worker, microbatch and stage."""
    size, strength = rng.uniform(1.2, 1.8), draw_strength(COMES_AND_GOES, layout.steps, rng)
    shape = (2, layout.pp, layout.vpp, layout.microbatches, *layout.lanes)
    factor = 1 + (size - 1) * (rng.random(shape) < 0.5) * strength[:, None]
    return _fault("random bursts", COMES_AND_GOES, size, strength, factor, ("pause",))


def first_microbatches(layout: Layout, rng: np.random.Generator) -> Fault:
    """In some steps the first forward takes longer on all workers, as if caches were cold."""
    size, strength = rng.uniform(1.5, 3.0), draw_strength(COMES_AND_GOES, layout.steps, rng)
    factor = np.ones((2, 1, 1, layout.microbatches, layout.steps, 1))
    factor[FORWARD, :, :, 0, :, 0] += (size - 1) * strength
    return _fault("first forwards slow", COMES_AND_GOES, size, strength, factor, ("pause",))


def microbatches_of_a_stage(layout: Layout, rng: np.random.Generator) -> Fault:
    """In some steps one stage takes longer for a third of the microbatches, the same in all replicas.

    Without a pipeline, the microbatches would count as heavy; random bursts are drawn instead.
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
    """In every step a different random half of the workers is slow."""
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
