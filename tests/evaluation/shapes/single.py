"""Draw one fault that the layout of a job allows, by direction, onset, reach and size."""

from collections.abc import Callable
from typing import Final

import numpy as np

from tests.evaluation.shapes import faults
from tests.evaluation.shapes.faults import (
    BOTH,
    BOUNDARY,
    DIRECTIONS,
    HOST,
    LINK,
    ONSETS,
    REPLICA,
    STAGE,
    WORKER,
    Fault,
    Workers,
    draw_strength,
)
from tests.evaluation.shapes.layout import Floats, Layout
from tests.evaluation.shapes.times import Times


def draw_onset(rng: np.random.Generator) -> str:
    return str(rng.choice(ONSETS, p=(0.3, 0.25, 0.15, 0.15, 0.15)))


def draw_size(rng: np.random.Generator) -> float:
    return float(np.exp(rng.uniform(np.log(1.05), np.log(2.0))))


def draw_fault(layout: Layout, times: Times, rng: np.random.Generator) -> Fault:
    """Draw one of the faults that the layout allows."""
    kinds: dict[Callable[[Layout, Times, str, np.random.Generator], Fault], float] = {
        draw_computes: 0.46,
        _tail: 0.12,
        _entry: 0.08,
        _start: 0.05,
        _load: 0.15 if layout.has_loads else 0.0,
        _pause: 0.09,
        _link: 0.12 if layout.pp > 1 else 0.0,
        _collective: 0.03 if layout.dp > 1 else 0.0,
        draw_data: 0.1,
        _layers: 0.08 if layout.pp > 1 else 0.0,
    }
    weights = np.array(list(kinds.values()))
    chosen = list(kinds)[rng.choice(len(kinds), p=weights / weights.sum())]
    return chosen(layout, times, draw_onset(rng), rng)


def draw_place(
    layout: Layout, reaches: tuple[str, ...], rng: np.random.Generator, stages: int | None = None
) -> tuple[Workers, str, int | None]:
    """Draw workers that are slow together; return them, their reach, and their host if the reach is HOST.

    The workers are never all workers of the job.

    stages : number of first stages from which workers are drawn; all by default.
    """
    stage, dp_rank = int(rng.integers(stages or layout.pp)), int(rng.integers(layout.dp))
    host = int(layout.host[stage, dp_rank])
    places = {
        WORKER: frozenset({(stage, dp_rank)}),
        HOST: layout.workers_of_host(host),
        STAGE: frozenset((stage, each) for each in range(layout.dp)),
        REPLICA: frozenset((each, dp_rank) for each in range(layout.pp)),
    }
    reach = str(rng.choice(reaches))
    if not 1 < len(places[reach]) < layout.pp * layout.dp:
        reach = WORKER
    return places[reach], reach, host if reach == HOST else None


_REACHES: Final = (*[WORKER] * 4, *[HOST] * 3, *[STAGE] * 2, REPLICA)


def draw_computes(layout: Layout, times: Times, onset: str, rng: np.random.Generator) -> Fault:
    workers, reach, host = draw_place(layout, _REACHES, rng)
    direction = str(rng.choice((BOTH, *DIRECTIONS)))
    strength = draw_strength(onset, layout.steps, rng)
    return faults.slow_computes(layout, workers, reach, (direction, onset, draw_size(rng)), strength, host)


def _share_of_step_s(layout: Layout, times: Times, rng: np.random.Generator) -> float:
    """Draw a time of 2 to 25 % of a step's computes, for faults of one op per worker and step. [s]"""
    computes_s = (layout.computes + layout.pp - 1) * float(
        np.median(times.compute, axis=(1, 2, 3, 4, 5)).sum()
    )
    return computes_s * float(np.exp(rng.uniform(np.log(0.02), np.log(0.25))))


def _tail(layout: Layout, times: Times, onset: str, rng: np.random.Generator) -> Fault:
    workers, reach, host = draw_place(layout, (WORKER, WORKER, HOST), rng)
    op_type = str(rng.choice([each for each in faults.TAIL_FIELDS if each != "gc" or layout.has_gc]))
    usual_s = float(np.median(getattr(times, faults.TAIL_FIELDS[op_type])))
    size = 1 + _share_of_step_s(layout, times, rng) / usual_s
    strength = draw_strength(onset, layout.steps, rng)
    return faults.slow_tail(layout, workers, reach, (op_type, onset, size), strength, host)


def _late(layout: Layout, times: Times, how: tuple[str, str], rng: np.random.Generator) -> Fault:
    stages = 1 if how[0] == "start" else layout.pp  # later stages wait for the first one
    workers, reach, host = draw_place(layout, (WORKER, WORKER, HOST), rng, stages)
    length_s = _share_of_step_s(layout, times, rng)
    seconds = length_s * draw_strength(how[1], layout.steps, rng)
    size = length_s / float(np.median(times.compute[0]))
    return faults.late(layout, workers, reach, (*how, size), seconds, host)


def _entry(layout: Layout, times: Times, onset: str, rng: np.random.Generator) -> Fault:
    can_scatter = layout.dp > 1 and rng.random() < 0.6
    op_type = "grads-reduce-scatter" if can_scatter else "optimizer-clip-main-grad"
    return _late(layout, times, (op_type, onset), rng)


def _start(layout: Layout, times: Times, onset: str, rng: np.random.Generator) -> Fault:
    return _late(layout, times, ("start", onset), rng)


def _load(layout: Layout, times: Times, onset: str, rng: np.random.Generator) -> Fault:
    workers = frozenset({(0, int(rng.integers(layout.dp)))})
    strength = draw_strength(onset, layout.steps, rng)
    return faults.slow_loads(layout, workers, WORKER, onset, rng.uniform(3, 30), strength)


def _pause(layout: Layout, times: Times, onset: str, rng: np.random.Generator) -> Fault:
    direction = str(rng.choice(tuple(DIRECTIONS)))
    onset = onset if onset in ONSETS[:3] else ONSETS[0]
    is_of_one = rng.random() < 0.5
    rate = rng.uniform(0.2, 0.6) if is_of_one else min(0.5, rng.uniform(0.3, 1.5) / (layout.dp * layout.pp))
    struck = _struck(layout, rate, rng, direction)
    if is_of_one:
        (only,) = draw_place(layout, (WORKER,), rng)[0]
        is_there = np.zeros((layout.pp, layout.dp))
        is_there[only] = 1.0
        struck = struck * is_there[None, :, None, None, None, :]
    struck = struck * draw_strength(onset, layout.steps, rng)[:, None]
    if not struck.any():
        struck[0, 0, 0, 0, layout.steps // 2, 0] = 1.0
    return faults.spikes(layout, times, (direction, onset, rng.uniform(0.5, 6)), struck)


def _struck(layout: Layout, rate: float, rng: np.random.Generator, direction: str) -> Floats:
    """Mask of the computes that a pause lengthens: at most one compute per worker and step."""
    lanes = (layout.pp, *layout.lanes)
    flat = np.zeros((2, layout.computes, *lanes))
    kind = rng.choice(DIRECTIONS[direction], lanes)
    number = rng.integers(layout.computes, size=lanes)
    flat[kind, number, *np.indices(lanes)] = rng.random(lanes) < rate
    shape = (2, layout.vpp, layout.microbatches, *lanes)
    return flat.reshape(shape).transpose(0, 3, 1, 2, 4, 5)


def _link(layout: Layout, times: Times, onset: str, rng: np.random.Generator) -> Fault:
    stage = int(rng.integers(layout.pp - 1))
    is_boundary = layout.dp > 1 and rng.random() < 0.4
    replicas = range(layout.dp) if is_boundary else (int(rng.integers(layout.dp)),)
    links = frozenset((stage, dp_rank) for dp_rank in replicas)
    how = (str(rng.choice(tuple(DIRECTIONS))), onset, rng.uniform(10, 60))
    strength = draw_strength(onset, layout.steps, rng)
    return faults.slow_transfers(layout, links, BOUNDARY if is_boundary else LINK, how, strength)


def _collective(layout: Layout, times: Times, onset: str, rng: np.random.Generator) -> Fault:
    op_type = str(rng.choice(("params-all-gather", "grads-reduce-scatter")))
    strength = draw_strength(onset, layout.steps, rng)
    stage = int(rng.integers(layout.pp))
    return faults.slow_collective(layout, stage, (op_type, onset, rng.uniform(2, 8)), strength)


def draw_data(layout: Layout, times: Times, onset: str, rng: np.random.Generator) -> Fault:
    onset = onset if onset in ONSETS[:4] else ONSETS[0]
    strength = draw_strength(onset, layout.steps, rng)
    return faults.uneven_data(layout, onset, rng.uniform(0.04, 0.5), strength, rng)


def _layers(layout: Layout, times: Times, onset: str, rng: np.random.Generator) -> Fault:
    if rng.random() < 0.6:
        weight = np.ones(layout.pp)
        weight[rng.integers(layout.pp)] = draw_size(rng)
    else:
        weight = rng.lognormal(0, 0.15, layout.pp)
    return faults.uneven_layers(layout, weight)
