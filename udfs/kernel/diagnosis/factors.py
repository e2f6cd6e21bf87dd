"""Compute durations as factors with a meaning: stage, data, worker, pause (additive), and noise.

D = work(stage, direction, chunk, data) * worker * noise + pause. Axes p, k, c, m, s, d: stage, direction, chunk,
microbatch, step, dp rank.
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
"""Weights of microbatches are real if two halves of their measurements agree on so much of their variance, they
scatter by so much, and the agreement is so many times its standard error."""

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
    error   : a factor that scatters like the error of the data's weights, shape (1, k, 1, m, s, d).
    pause_s : Tensor; additive, 0 where there is none. [s]
    """

    work_s: Tensor
    worker: Floats
    noise: Tensor
    error: Floats
    pause_s: Tensor
    workers: Workers
    data: Data


def decompose(times_s: Tensor, hosts: Ints) -> Factors:
    """Split compute durations into factors.

    times_s : Tensor. [s]
    hosts   : int, shape (stage, dp_rank); which host, -1 where unknown.
    """
    logs = np.log(np.maximum(times_s, TINY_S))
    workers, usual, weight = slow_workers(logs, hosts)
    log_worker = workers.log_factor()
    clean = logs - log_worker
    pauses = _pauses(clean - usual - weight)
    data = _data(clean - usual, weight, pauses)
    worker = np.exp(log_worker)
    work_s = _work(times_s / worker, data, pauses)
    model_s = work_s * worker
    with np.errstate(divide="ignore", invalid="ignore"):
        noise = np.where(model_s > 0.0, times_s / model_s, 1.0)
    pauses = _pauses(np.log(np.maximum(noise, TINY_S)))
    pause_s = np.where(pauses, times_s - model_s, 0.0)
    noise = np.where(pauses, 1.0, noise)
    return Factors(work_s, worker, noise, _error(noise), pause_s, workers, data)


def _pauses(rest: Tensor) -> npt.NDArray[np.bool_]:
    """Forward computes far above the model; shape of the tensor."""
    scatter = float(np.median(np.abs(rest[:, 0] - np.median(rest[:, 0]))))
    found = np.zeros(rest.shape, dtype=bool)
    found[:, 0] = rest[:, 0] > max(LEAST_PAUSE, PAUSE_MADS * scatter)
    return found


def _data(rest: Tensor, weight: Tensor, pauses: npt.NDArray[np.bool_]) -> Data:
    """Weight of the microbatches from what is left after stage and worker.

    rest, weight : logs.
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
    by_direction = (
        calm.mean(axis=(0, 2)) if p * c > 1 else np.broadcast_to(calm.mean(axis=(0, 1, 2)), (k, m, s, d))
    )
    weight = np.exp(by_direction)
    return Data(weight / weight.mean(axis=(1, 2, 3), keepdims=True), reliability, spread, is_real=True)


def _error(noise: Tensor) -> Floats:
    """A factor that scatters like the error of the weights, from two halves of their measurements; (1, k, 1, m, s, d).

    The weights hold their share of the noise, which a fix of the data must not take away: steps end with the slowest.
    """
    p, k, c, m, s, d = noise.shape
    measured = np.log(np.maximum(noise, TINY_S)).swapaxes(1, 2).reshape(p * c, k, m, s, d)
    if p * c > 1:
        error = (measured[::2].mean(axis=0) - measured[1::2].mean(axis=0)) / 2
    else:
        error = np.broadcast_to((measured[0, 0] - measured[0, -1]) / 2, (k, m, s, d))
    return np.exp(error - error.mean(axis=(1, 3), keepdims=True))[None, :, None]


def _halves(rest: Tensor) -> tuple[Floats, Floats] | None:
    """Two independent measurements of each microbatch: even and odd stages, else chunks, else directions."""
    p, k, c, *_ = rest.shape
    if p > 1:
        return rest[::2].mean(axis=(0, 1, 2)), rest[1::2].mean(axis=(0, 1, 2))
    if c > 1:
        return rest[:, :, ::2].mean(axis=(0, 1, 2)), rest[:, :, 1::2].mean(axis=(0, 1, 2))
    return (rest[0, 0, 0], rest[0, 1, 0]) if k > 1 else None


def _work(clean_s: Tensor, data: Data, pauses: npt.NDArray[np.bool_]) -> Tensor:
    """What the work takes: a fixed part and one that goes with the data, of each stage, direction and chunk."""
    lanes = (3, 4, 5)
    calm = ~pauses
    count = np.maximum(calm.sum(axis=lanes, keepdims=True), 1)
    mean_s = np.where(calm, clean_s, 0.0).sum(axis=lanes, keepdims=True) / count
    if not data.is_real:
        return np.broadcast_to(mean_s, clean_s.shape)
    weight = data.weight[None, :, None]
    mean_weight = np.where(calm, weight, 0.0).sum(axis=lanes, keepdims=True) / count
    deviation = np.where(calm, weight - mean_weight, 0.0)
    slope_s = (deviation * clean_s).sum(axis=lanes, keepdims=True) / (deviation**2).sum(
        axis=lanes, keepdims=True
    )
    slope_s = np.clip(slope_s, 0.0, mean_s / mean_weight)
    return mean_s + slope_s * (weight - mean_weight)
