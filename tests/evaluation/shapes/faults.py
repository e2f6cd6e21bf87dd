"""Faults of a job: which ops of which workers are slow, in which steps, and by how much."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from tests.evaluation.shapes.layout import BACKWARD, FORWARD, Floats, Layout
from tests.evaluation.shapes.times import Change, Times

ALWAYS: Final = "always"
FROM: Final = "from"
UNTIL: Final = "until"
COMES_AND_GOES: Final = "comes_and_goes"
GROWS: Final = "grows"
ONSETS: Final = (ALWAYS, FROM, UNTIL, COMES_AND_GOES, GROWS)

BOTH: Final = "both"
DIRECTIONS: Final = {BOTH: (FORWARD, BACKWARD), "forward": (FORWARD,), "backward": (BACKWARD,)}

WORKER, HOST, STAGE, REPLICA = "worker", "host", "stage", "replica"
LINK, BOUNDARY, COLLECTIVE = "link", "boundary", "collective"
SPIKES, DATA, LAYERS, EVERYWHERE = "spikes", "data", "layers", "everywhere"

Workers = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Fault:
    """A fault of a job: which ops are slow, on which workers, in which steps, and by how much.

    cause     : the cause that the diagnosis must name; None if no cause fits.
    direction : which ops are slow: both (computes), forward, backward, or an op type.
    strength  : shape (step,); from 0 (the step has no fault) to 1 (the whole fault).
    workers   : slow workers, as (stage, dp_rank); of a link both ends, of uneven layers the stages with more
                layers than the mean; empty if the fault is not about workers.
    size      : factor on the time of ops; of pauses and lateness the loss per event, in forward-computes.
    change    : changes of the times of ops.
    also      : other causes that may be named for the fault without being counted as wrong.
    """

    cause: str | None
    direction: str
    onset: str
    reach: str
    size: float
    strength: Floats
    workers: Workers
    change: Change
    host: int | None = None
    also: frozenset[str] = frozenset()

    @property
    def first(self) -> int:
        """Index of the first step in which the fault is present."""
        return int(np.flatnonzero(self.strength)[0])

    @property
    def last(self) -> int:
        """Index of the last step in which the fault is present."""
        return int(np.flatnonzero(self.strength)[-1])

    @property
    def text(self) -> str:
        """Describe the drawn fault in one line."""
        who = sorted(self.workers) if len(self.workers) <= 4 else f"{len(self.workers)} workers"
        return (
            f"{self.cause}: {self.direction}, {self.reach} {who}, {self.onset} "
            f"[{self.first}-{self.last} of {len(self.strength)}], size {self.size:.2f}"
        )


def draw_strength(onset: str, steps: int, rng: np.random.Generator) -> Floats:
    """Draw the strength of a fault in each step, from 0 to 1; shape (step,)."""
    bounds = max(3, steps // 6), steps - max(3, steps // 6)
    turn = int(rng.integers(bounds[0], bounds[1] + 1))
    number = np.arange(steps)
    if onset == FROM:
        return (number >= turn).astype(float)
    if onset == UNTIL:
        return (number < turn).astype(float)
    if onset == GROWS:
        begin = int(rng.integers(0, max(1, int(0.4 * steps))))
        return np.clip((number - begin) / (steps - 1 - begin), 0, 1)
    if onset == COMES_AND_GOES:
        while True:
            on = np.zeros(steps)
            on[rng.permutation(steps)[: max(3, round(0.4 * steps))]] = 1.0
            if np.count_nonzero(np.diff(on)) >= 4:
                return on
    return np.ones(steps)


def slow_computes(
    layout: Layout,
    workers: Workers,
    reach: str,
    how: tuple[str, str, float],
    strength: Floats,
    host: int | None = None,
) -> Fault:
    """Make computes of some workers longer; `how` is (direction, onset, size)."""
    direction, onset, size = how
    excess = np.zeros((2, layout.pp, 1, 1, *layout.lanes))
    for stage, dp_rank in workers:
        for kind in DIRECTIONS[direction]:
            excess[kind, stage, 0, 0, :, dp_rank] = (size - 1) * strength
    change = Change(factor={"compute": 1 + excess})
    return Fault("slow_worker", direction, onset, reach, size, strength, workers, change, host)


TAIL_FIELDS: Final = {"optimizer": "optimizer", "optimizer-clip-main-grad": "clip", "gc": "gc"}


def slow_tail(
    layout: Layout,
    workers: Workers,
    reach: str,
    how: tuple[str, str, float],
    strength: Floats,
    host: int | None = None,
) -> Fault:
    """Make the optimizer, clip or gc of some workers longer; `how` is (op type, onset, size)."""
    op_type, onset, size = how
    change = Change(factor={TAIL_FIELDS[op_type]: 1 + (size - 1) * _cells(layout, workers, strength)})
    return Fault("slow_worker", op_type, onset, reach, size, strength, workers, change, host)


def late(
    layout: Layout,
    workers: Workers,
    reach: str,
    how: tuple[str, str, float],
    seconds: Floats,
    host: int | None = None,
) -> Fault:
    """Delay workers by `seconds`, shape (step,), at the start of a step or before a collective."""
    op_type, onset, size = how
    names = {"grads-reduce-scatter": "late_scatter", "optimizer-clip-main-grad": "late_clip"}
    change = Change(extra_s={names.get(op_type, "late_start"): _cells(layout, workers, seconds)})
    is_start = op_type not in names
    return Fault(
        cause="launch_delay" if is_start else "slow_worker",
        direction="start" if is_start else f"late {op_type}",
        onset=onset,
        reach=reach,
        size=size,
        strength=(seconds > 0).astype(float),
        workers=workers,
        change=change,
        host=host,
        also=frozenset({"slow_worker"}) if is_start else frozenset({"launch_delay"}),
    )


def _cells(layout: Layout, workers: Workers, by_step: Floats) -> Floats:
    cells = np.zeros((layout.pp, *layout.lanes))
    for stage, dp_rank in workers:
        cells[stage, :, dp_rank] = by_step
    return cells


def slow_loads(
    layout: Layout, workers: Workers, reach: str, onset: str, size: float, strength: Floats
) -> Fault:
    """Make data-loads of some replicas longer, by the factor `size` at full strength."""
    factor = np.ones((1, *layout.lanes))
    for _, dp_rank in workers:
        factor[0, :, dp_rank] += (size - 1) * strength
    change = Change(factor={"load": factor})
    return Fault("data_loading", "data-load", onset, reach, size, strength, workers, change)


def spikes(layout: Layout, times: Times, how: tuple[str, str, float], is_struck: Floats) -> Fault:
    """Add pauses of `size` forward-computes to single computes.

    is_struck : 1 for a compute with a pause, else 0; (direction, stage, chunk, microbatch, step,
    dp_rank).
    """
    direction, onset, size = how
    extra_s = size * float(np.median(times.compute[FORWARD])) * is_struck
    struck = is_struck.max(axis=(0, 2, 3)) > 0
    workers = frozenset((int(s), int(d)) for s, d in np.argwhere(struck.any(axis=1)))
    strength = struck.any(axis=(0, 2)).astype(float)
    change = Change(extra_s={"compute": extra_s})
    return Fault("pause", direction, onset, SPIKES, size, strength, workers, change)


def slow_transfers(
    layout: Layout, links: Workers, reach: str, how: tuple[str, str, float], strength: Floats
) -> Fault:
    """Make links slow; a link is named by the (stage, dp_rank) of its end at the lower stage number."""
    direction, onset, size = how
    factor = np.ones((2, layout.pp, 1, 1, *layout.lanes))
    ends = set()
    for stage, dp_rank in links:
        below = (stage + 1) % layout.pp
        ends |= {(stage, dp_rank), (below, dp_rank)}
        for kind in DIRECTIONS[direction]:
            factor[kind, stage if kind == FORWARD else below, 0, 0, :, dp_rank] += (size - 1) * strength
    change = Change(factor={"transfer": factor})
    return Fault("communication", direction, onset, reach, size, strength, frozenset(ends), change)


def slow_collective(layout: Layout, stage: int, how: tuple[str, str, float], strength: Floats) -> Fault:
    """Make the collectives of one stage longer; `how` is (op type, onset, size)."""
    op_type, onset, size = how
    name = {"params-all-gather": "gather", "grads-reduce-scatter": "scatter"}[op_type]
    factor = np.ones((layout.pp, 1, layout.steps))
    factor[stage] += (size - 1) * strength
    workers = frozenset((stage, dp_rank) for dp_rank in range(layout.dp))
    change = Change(factor={name: factor})
    return Fault("communication", op_type, onset, COLLECTIVE, size, strength, workers, change)


def uneven_data(
    layout: Layout, onset: str, spread: float, strength: Floats, rng: np.random.Generator
) -> Fault:
    """Give microbatches uneven work; the total work of each step stays the same."""
    weight = rng.lognormal(0, spread, (layout.microbatches, *layout.lanes))
    weight /= weight.mean(axis=(0, 2), keepdims=True)
    weight = np.where(strength[:, None] > 0, weight, 1.0)
    change = Change(factor={"compute": weight[None, None, None]})
    return Fault("data_imbalance", BOTH, onset, DATA, spread, strength, frozenset(), change)


def uneven_layers(layout: Layout, weight: Floats) -> Fault:
    """Give stages uneven work; `weight`, shape (stage,), is scaled to mean 1 to keep the total work."""
    even = weight / weight.mean()
    change = Change(factor={"compute": even[None, :, None, None, None, None]})
    heavy = np.flatnonzero(even > 1)
    workers = frozenset((int(stage), dp_rank) for stage in heavy for dp_rank in range(layout.dp))
    size = float(even.max() / even.min())
    return Fault("stage_imbalance", BOTH, ALWAYS, LAYERS, size, np.ones(layout.steps), workers, change)
