"""Random draws of mechanisms: one function per cause, with effects from undetectable to severe."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from jobs.synthetic.mechanisms.mechanism import ALWAYS, Mechanism, Window
from jobs.synthetic.mechanisms.nuisances import (
    ClockSkew,
    ExpertImbalance,
    HeavyTailedNoise,
    PlannedGc,
    UnlikeGpus,
)
from jobs.synthetic.mechanisms.transfers import CongestedNetwork, FlappingLink, SlowStorage
from jobs.synthetic.mechanisms.work import LossLayer, PackedSequences, UnevenLayers
from jobs.synthetic.mechanisms.workers import (
    AllocatorStalls,
    SickHost,
    ThermalThrottling,
    UnsynchronisedGc,
    WeakGpu,
)
from jobs.synthetic.shape import JobShape, Workload


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """Draw a number between two bounds whose logarithm is uniformly distributed."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


@dataclass(frozen=True)
class Setting:
    """A job for which a mechanism is drawn.

    steps : number of the job's recorded steps over all days, within which windows are drawn
    hosts : hosts that may be drawn as sick; empty in a fleet, whose SickSpells decide which hosts are sick
    """

    shape: JobShape
    workload: Workload
    steps: int
    hosts: Sequence[str] = ()

    @property
    def compute_s(self) -> float:
        """Return the usual time of a forward-compute. [s]"""
        return self.workload.forward_s / self.shape.vpp_size

    @property
    def step_s(self) -> float:
        """Return the approximate usual time of a step: its computes and the pipeline's bubble. [s]"""
        passes = self.shape.microbatches + (self.shape.pp_size - 1) / self.shape.vpp_size
        return passes * self.workload.forward_s * (1 + self.workload.backward_ratio)


def slow_worker(rng: np.random.Generator, setting: Setting) -> Mechanism | None:
    """Draw a GPU that is slow in all or some steps, a throttled GPU, or a slow host: by 2 to 120 %.

    Returns None for a job with one worker, which cannot be compared with peers.
    """
    shape, excess = setting.shape, log_uniform(rng, 0.02, 1.2)
    dp_rank, pp_rank = int(rng.integers(shape.dp_size)), int(rng.integers(shape.pp_size))
    kind = rng.choice(["constant", "constant", "some steps", "throttling", "host"])
    window = some_window(rng, setting)
    if shape.dp_size * shape.pp_size == 1:
        return None
    if kind == "host" and setting.hosts:
        return SickHost(str(rng.choice(setting.hosts)), 1 + excess, window=window)
    if kind == "throttling":
        return ThermalThrottling(dp_rank, pp_rank, excess, log_uniform(rng, 2.0, 20.0), window=window)
    share = float(rng.uniform(0.15, 0.7)) if kind == "some steps" else 1.0
    backward = 1 + excess * float(rng.uniform(0.7, 1.2))
    return WeakGpu(dp_rank, pp_rank, 1 + excess, share, backward, window=window)


def stage_imbalance(rng: np.random.Generator, setting: Setting) -> Mechanism | None:
    """Draw a loss layer of 5 to 200 % of a forward-compute, or chunks with different numbers of layers."""
    chunks = setting.shape.last_chunk + 1
    forward_s = setting.compute_s * log_uniform(rng, 0.05, 2.0)
    backward_s = forward_s * float(rng.uniform(0.8, 2.0))
    layers = np.full(chunks, float(rng.integers(4, 13)))
    heavy = rng.permutation(chunks)[: int(rng.integers(1, max(chunks // 2, 1) + 1))]
    layers[heavy] += rng.integers(1, 3)
    if chunks == 1:
        return None
    if rng.random() < 0.6:
        return LossLayer(forward_s, backward_s)
    return UnevenLayers(tuple(layers.tolist()))


def data_imbalance(rng: np.random.Generator, setting: Setting) -> Mechanism:
    """Draw packed sequences: limit 4,096 to 131,072 tokens, median 1 to 20 % of the limit, spread 0.3-1.5."""
    limit = int(4096 * 2 ** rng.integers(0, 6))
    median = limit * log_uniform(rng, 0.01, 0.2)
    hidden = int(rng.choice([2048, 4096, 8192]))
    return PackedSequences(
        limit, median, float(rng.uniform(0.3, 1.5)), hidden, window=some_window(rng, setting)
    )


def pause(rng: np.random.Generator, setting: Setting) -> Mechanism:
    """Draw unsynchronised garbage collection, or stalls of the memory allocator.

    A collection takes as long as 1 to 15 forward-computes, a stall half of that; stalls occur in 0.2 to 4 %
    of the forward-computes.
    """
    length_s = setting.compute_s * log_uniform(rng, 1.0, 15.0)
    if rng.random() < 0.65:
        return UnsynchronisedGc(length_s, log_uniform(rng, 2.0, 30.0), window=some_window(rng, setting))
    return AllocatorStalls(length_s / 2, log_uniform(rng, 0.002, 0.04), window=some_window(rng, setting))


def communication(rng: np.random.Generator, setting: Setting) -> Mechanism | None:
    """Draw a link that adds the time of 0.2 to 6 forwards, or a network at 4 to 60 % of its bandwidth."""
    shape, window = setting.shape, some_window(rng, setting)
    extra_s = setting.compute_s * log_uniform(rng, 0.2, 6.0)
    step_share, transfer_share = log_uniform(rng, 0.1, 1.0), log_uniform(rng, 0.1, 1.0)
    left = log_uniform(rng, 0.04, 0.6)
    dp_rank = int(rng.integers(shape.dp_size)) if rng.random() < 0.5 else None
    flaps, has_replicas = rng.random() < 0.6, shape.dp_size * shape.cp_size > 1
    if shape.pp_size > 1 and (flaps or not has_replicas):
        pp_rank = int(rng.integers(shape.pp_size))
        return FlappingLink(pp_rank, extra_s, step_share, transfer_share, dp_rank, window=window)
    if has_replicas:
        on_pipeline = shape.pp_size > 1 and rng.random() < 0.4
        return CongestedNetwork("pipeline" if on_pipeline else "replicas", left, step_share, window=window)
    return None


def launch_delay(rng: np.random.Generator, setting: Setting) -> Mechanism:
    """Draw slow storage: data is late by 1 to 40 % of a step on average, on one dp rank or on all."""
    mean_s = setting.step_s * log_uniform(rng, 0.01, 0.4)
    share = 1.0 if rng.random() < 0.5 else float(rng.uniform(0.1, 0.8))
    dp_rank = int(rng.integers(setting.shape.dp_size)) if rng.random() < 0.3 else None
    return SlowStorage(mean_s, share, dp_rank, window=some_window(rng, setting))


FAULTS: Final[dict[str, Callable[[np.random.Generator, Setting], Mechanism | None]]] = {
    each.__name__: each
    for each in (slow_worker, stage_imbalance, data_imbalance, pause, communication, launch_delay)
}
"""By cause, the function that draws a mechanism; it returns None if the layout cannot have this cause."""


def nuisances(rng: np.random.Generator, setting: Setting) -> list[Mechanism]:
    """Draw the nuisances of a job, each with its own probability.

    All jobs have clocks that are up to 0.2 ms off, one job in twenty up to 3 ms. Half of the jobs have
    heavy-tailed noise, one in five planned garbage collection, one in eight expert imbalance of 1 to 8 %, and
    one in three workers that differ by 0.2 to 2 %.
    """
    clocks = ClockSkew(log_uniform(rng, 1e-3, 3e-3) if rng.random() < 0.05 else rng.uniform(0.0, 2e-4))
    drawn: list[tuple[float, Mechanism]] = [
        (1.0, clocks),
        (0.5, HeavyTailedNoise(log_uniform(rng, 1e-4, 3e-3), float(rng.uniform(0.2, 1.0)))),
        (0.2, PlannedGc(setting.compute_s * log_uniform(rng, 0.5, 5.0), int(rng.integers(3, 20)))),
        (0.125, ExpertImbalance(log_uniform(rng, 0.01, 0.08))),
        (1 / 3, UnlikeGpus(log_uniform(rng, 0.002, 0.02))),
    ]
    return [mechanism for chance, mechanism in drawn if rng.random() < chance]


def some_window(rng: np.random.Generator, setting: Setting) -> Window:
    """Draw a window: all steps with probability 2/3, else successive steps, 20 to 80 % of all."""
    share, place, is_part = rng.uniform(0.2, 0.8), rng.random(), rng.random() < 1 / 3
    if not is_part:
        return ALWAYS
    length = max(int(share * setting.steps), 1)
    first = int(place * (setting.steps - length + 1))
    return Window(first, first + length)
