"""Compute durations as factors with a meaning: stage, data, worker, pause (additive), and noise.

D = work(stage, direction, chunk, data) * worker * noise + pause. Axes p, k, c, m, s, d: stage, direction,
chunk, microbatch, step, dp rank.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel.diagnosis.compute_times import Tensor
from udfs.kernel.diagnosis.workers import Workers, slow_workers
from udfs.kernel.program import Floats, Ints

LEAST_PAUSE: Final = 0.15
PAUSE_MADS: Final = 6.0
"""A pause takes this much longer, as a log factor, and so many times the usual scatter."""

LEAST_RELIABILITY: Final = 0.3
LEAST_SPREAD: Final = 0.01
LEAST_ERRORS: Final = 3.0
"""Weights of microbatches are real if two halves of their measurements agree on so much of their variance,
they scatter by so much, and the agreement is so many times its standard error."""

LEAST_PART: Final = 0.01
"""Of the mean work of its kind, the least that a compute is taken to need."""

TINY_S: Final = 1e-9


class Data(NamedTuple):
    """How heavy microbatches are on all stages.

    weight      : as measured, shape (k, m, s, d), mean 1; all 1 where there is no such effect.
    reliability : share of the variance that two halves of the measurements agree on.
    spread      : standard deviation of the log weight within a step.
    is_real     : whether there is such an effect.
    """

    weight: Floats
    reliability: float
    spread: float
    is_real: bool


class Factors(NamedTuple):
    """The decomposition.

    work_s  : Tensor; what the work takes on a usual worker. [s]
    worker  : factors of slow workers, shape (p, k, 1, 1, s, d).
    noise   : Tensor; what is left, a factor.
    pause_s : Tensor; additive, 0 where there is none. [s]
    """

    work_s: Tensor
    worker: Floats
    noise: Tensor
    pause_s: Tensor
    workers: Workers
    data: Data


def decompose(times_s: Tensor, hosts: Ints) -> Factors:
    """Split compute durations into factors.

    times_s : Tensor. [s]
    hosts   : int, shape (stage, dp_rank); which host, -1 where unknown.
    """
    logs = np.log(np.maximum(times_s, TINY_S))
    first = _First(*slow_workers(logs, hosts), logs)
    pauses = _pauses(first.rest() - first.weight)
    data = _data(first.rest(), first.usual, first.weight, pauses)
    found = _factors(times_s, first.workers, data, pauses)
    if not data.is_real:
        return found
    again = _beside_work(times_s, first, data, pauses, hosts)
    return again if _misfit(again) < _misfit(found) else found


class _First(NamedTuple):
    """What is slow and usual at a first look; logs."""

    workers: Workers
    usual: Tensor
    weight: Tensor
    logs: Tensor

    def rest(self) -> Tensor:
        """What is left beside stage and worker."""
        return self.logs - self.workers.log_factor() - self.usual


def _beside_work(
    times_s: Tensor, first: _First, data: Data, pauses: npt.NDArray[np.bool_], hosts: Ints
) -> Factors:
    """The decomposition once more, slow workers looked for beside the work as fitted to what was not slow.

    Where a stage takes a constant beside what goes with the data, its light microbatches looked slow.
    """
    doubtful = pauses | (first.workers.in_steps > 0.0)[:, None, None, None]
    steady = first.logs - first.workers.without_steps().log_factor()
    data = _trusted(data, np.exp(steady), doubtful)
    beside = first.logs - np.log(np.maximum(_work(np.exp(steady), data, doubtful), TINY_S))
    workers, usual, weight = slow_workers(beside, hosts)
    workers = workers._replace(suspects=first.workers.suspects)
    log_worker = workers.log_factor()
    pauses = _pauses(beside - log_worker - usual - weight)
    data = _data(first.logs - log_worker - first.usual, first.usual, first.weight, pauses)
    return _factors(times_s, workers, data, pauses)


def _factors(times_s: Tensor, workers: Workers, data: Data, pauses: npt.NDArray[np.bool_]) -> Factors:
    worker = np.exp(workers.log_factor())
    work_s = _work(times_s / worker, data, pauses)
    model_s = work_s * worker
    with np.errstate(divide="ignore", invalid="ignore"):
        noise = np.where(model_s > 0.0, times_s / model_s, 1.0)
    pauses = _pauses(np.log(np.maximum(noise, TINY_S)))
    pause_s = np.where(pauses, times_s - model_s, 0.0)
    noise = np.where(pauses, 1.0, noise)
    return Factors(work_s, worker, noise, pause_s, workers, data)


def _misfit(factors: Factors) -> float:
    """Scatter of what no factor explains."""
    return float(np.log(np.maximum(factors.noise, TINY_S)).std())


def _pauses(rest: Tensor) -> npt.NDArray[np.bool_]:
    """Forward computes far above the model; shape of the tensor."""
    scatter = float(np.median(np.abs(rest[:, 0] - np.median(rest[:, 0]))))
    found = np.zeros(rest.shape, dtype=bool)
    found[:, 0] = rest[:, 0] > max(LEAST_PAUSE, PAUSE_MADS * scatter)
    return found


def _data(rest: Tensor, usual: Tensor, weight: Tensor, pauses: npt.NDArray[np.bool_]) -> Data:
    """Weight of the microbatches from what is left after stage and worker.

    rest, usual, weight : logs.
    """
    p, k, c, m, s, d = rest.shape
    calm = np.where(pauses, weight, rest)
    halves = _halves(calm)
    if halves is None:
        return Data(np.ones((k, m, s, d)), 0.0, 0.0, is_real=False)
    first, second = (half - half.mean(axis=(0, 2), keepdims=True) for half in halves)
    both = (first + second) / 2
    variance, covariance = float((both**2).mean()), float((first * second).mean())
    reliability = min(covariance / variance, 1.0) if variance > 0.0 else 0.0
    error = float(first.std() * second.std()) / np.sqrt(first.size)
    spread = float(np.sqrt(max(covariance, 0.0)))
    is_real = reliability > LEAST_RELIABILITY and spread > LEAST_SPREAD and covariance > LEAST_ERRORS * error
    if not is_real:
        return Data(np.ones((k, m, s, d)), reliability, spread, is_real=False)
    # Times and not their logs, because a stage may take a constant beside what goes with the data.
    of_all_s = np.exp(calm + usual).sum(axis=(0, 2))
    relative = of_all_s / of_all_s.mean(axis=(1, 2, 3), keepdims=True)
    if p * c == 1:
        relative = np.broadcast_to(relative.mean(axis=0), (k, m, s, d))
    return Data(relative, reliability, spread, is_real=True)


def _trusted(data: Data, steady_s: Tensor, doubtful: npt.NDArray[np.bool_]) -> Data:
    """The data with weights from those computes alone that are not in doubt.

    steady_s : times of computes without what is always slow. [s]
    """
    p, k, c, m, s, d = steady_s.shape
    trusted = ~(doubtful & ~doubtful.all(axis=(0, 2), keepdims=True))
    usual_s = np.broadcast_to(steady_s.mean(axis=(3, 4, 5), keepdims=True), steady_s.shape)
    relative = (steady_s * trusted).sum(axis=(0, 2)) / (usual_s * trusted).sum(axis=(0, 2))
    if p * c == 1:
        relative = np.broadcast_to(relative.mean(axis=0), (k, m, s, d))
    return data._replace(weight=relative / relative.mean(axis=(1, 2, 3), keepdims=True))


def _halves(rest: Tensor) -> tuple[Floats, Floats] | None:
    """Two independent measurements of each microbatch: even and odd stages, else chunks, else directions."""
    p, k, c, *_ = rest.shape
    if p > 1:
        return rest[::2].mean(axis=(0, 1, 2)), rest[1::2].mean(axis=(0, 1, 2))
    if c > 1:
        return rest[:, :, ::2].mean(axis=(0, 1, 2)), rest[:, :, 1::2].mean(axis=(0, 1, 2))
    return (rest[0, 0, 0], rest[0, 1, 0]) if k > 1 else None


def _work(clean_s: Tensor, data: Data, pauses: npt.NDArray[np.bool_]) -> Tensor:
    """Work of each stage, direction and chunk: a fixed part and one that goes with the data."""
    lanes = (3, 4, 5)
    calm = ~pauses
    count = np.maximum(calm.sum(axis=lanes, keepdims=True), 1)
    mean_s = np.where(calm, clean_s, 0.0).sum(axis=lanes, keepdims=True) / count
    if not data.is_real:
        return np.broadcast_to(mean_s, clean_s.shape)
    weight = data.weight[None, :, None]
    mean_weight = np.where(calm, weight, 0.0).sum(axis=lanes, keepdims=True) / count
    deviation = np.where(calm, weight - mean_weight, 0.0)
    spread = (deviation**2).sum(axis=lanes, keepdims=True)  # 0 where a direction is recorded as of no length
    slope_s = (deviation * clean_s).sum(axis=lanes, keepdims=True) / np.where(spread > 0.0, spread, 1.0)
    # A stage without a constant falls faster than the weights, which hold the constants of all stages.
    work_s = mean_s + np.maximum(slope_s, 0.0) * (weight - mean_weight)
    return np.asarray(np.maximum(work_s, LEAST_PART * mean_s))
