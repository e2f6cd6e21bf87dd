"""Compute durations as factors with a meaning: stage, data, GPU type, worker, pause (additive), noise.

D = work(stage, direction, chunk, data) * type * worker * noise + pause. Axes p, k, c, m, s, d: stage,
direction, chunk, microbatch, step, dp rank.
"""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.cause import TypeFactors
from udfs.kernel.diagnosis.block_times import Tensor
from udfs.kernel.diagnosis.gpu_types import type_factors
from udfs.kernel.diagnosis.workers import Workers, slow_workers
from udfs.kernel.selection import median_of_all, medians_along

LEAST_PAUSE: Final = 0.15
PAUSE_MADS: Final = 6.0
"""A pause takes this much longer, as a log factor, and as a multiple of the usual scatter."""

SAMPLE: Final = 256
"""Values sampled to estimate the median of all."""

LEAST_RELIABILITY: Final = 0.3
LEAST_SPREAD: Final = 0.01
LEAST_ERRORS: Final = 3.0
"""Weights of microbatches are real if two halves of their measurements agree on this share of their variance,
they scatter by this much, and the agreement is this many times its standard error."""

LEAST_PART: Final = 0.01
"""Least work of a compute, as a share of its kind's mean."""

TINY_S: Final = 1e-9

SUMS: Final = "...l,...l->..."
"""Sums of products along the last axis, for np.einsum."""


class Data(NamedTuple):
    """How heavy microbatches are on all stages.

    weight  : as measured, shape (k, m, s, d), mean 1; all 1 without such an effect.
    spread  : standard deviation of the log weight within a step.
    is_real : whether the effect exists.
    """

    weight: Floats
    spread: float
    is_real: bool


class Factors(NamedTuple):
    """The decomposition.

    work_s  : Tensor, or broadcastable to one; what the work takes on a usual worker. [s]
    worker  : factors of slow workers, shape (p, k, 1, 1, s, d).
    noise   : Tensor; what is left, a factor.
    pause_s : additive, of forwards, 0 without any; shape (p, 1, c, m, s, d). [s]
    scatter : of the log of the noise.
    types   : factors of the types of GPU, beside those of workers; None where fewer than two are known.
    """

    work_s: Tensor
    worker: Floats
    noise: Tensor
    pause_s: Tensor
    workers: Workers
    data: Data
    scatter: float
    types: TypeFactors | None = None


def decompose(times_s: Tensor, hosts: Ints, worker_type: Ints | None = None) -> Factors:
    """Split compute durations into factors.

    times_s     : Tensor. [s]
    hosts       : int, shape (stage, dp_rank); which host, -1 where unknown.
    worker_type : the same of types of GPU; None where fewer than two are known.
    """
    if worker_type is None:
        return _decompose(times_s, hosts)
    types = type_factors(np.maximum(medians_along(times_s, 3), TINY_S), worker_type)
    found = _decompose(times_s / types.of_workers, hosts)
    # A pause is the host's: it is as long on every type.
    return found._replace(types=types, pause_s=found.pause_s * types.of_workers[:, :1])


def _decompose(times_s: Tensor, hosts: Ints) -> Factors:
    """Split durations of computes that are on one type of GPU, or as if."""
    logs = _logs(times_s)
    workers, usual, weight = slow_workers(logs, hosts)
    rest = logs - (workers.log_factor() + usual)
    pauses = _pauses(rest[:, 0] - weight[:, 0])
    data = _data(rest, usual, weight, pauses)
    found = _factors(times_s, workers, data, pauses)
    if not data.is_real:
        return found
    again = _beside_work(times_s, _First(workers, usual, weight, logs, pauses, data), hosts)
    return again if again is not None and again.scatter < found.scatter else found


class _First(NamedTuple):
    """What is found at a first look; `usual`, `weight` and `logs` are logs."""

    workers: Workers
    usual: Tensor
    weight: Tensor
    logs: Tensor
    pauses: Mask
    data: Data


def _logs(values: Tensor) -> Tensor:
    """Logs; in place of a copy, because every array of that size pushes another out of the cache."""
    found = np.maximum(values, TINY_S)
    return np.log(found, out=found)


def _beside_work(times_s: Tensor, first: _First, hosts: Ints) -> Factors | None:
    """The decomposition once more, slow workers looked for beside the work as fitted to what was not slow.

    Where a stage takes a constant beside what goes with the data, its light microbatches looked slow.
    None if workers and pauses come out as before.
    """
    steady_s = np.maximum(times_s, TINY_S)
    always = first.workers.without_steps().log_factor()
    if always.any():
        steady_s /= np.exp(always)
    doubtful = np.zeros(times_s.shape, dtype=bool) | (first.workers.in_steps > 0.0)[:, None, None, None]
    doubtful[:, 0] |= first.pauses
    beside = _logs(_work(steady_s, _trusted(first.data, steady_s, doubtful), doubtful))
    np.subtract(first.logs, beside, out=beside)
    workers, usual, weight = slow_workers(beside, hosts)
    slow = workers.log_factor()
    pauses = _pauses(beside[:, 0] - (slow + usual)[:, 0] - weight[:, 0])
    if np.array_equal(slow, first.workers.log_factor()) and np.array_equal(pauses, first.pauses):
        return None
    data = _data(first.logs - (slow + first.usual), first.usual, first.weight, pauses)
    return _factors(times_s, workers._replace(ambiguous=first.workers.ambiguous), data, pauses)


def _factors(times_s: Tensor, workers: Workers, data: Data, pauses: Mask) -> Factors:
    slow = workers.log_factor()
    worker = np.exp(slow)
    is_any_slow = slow.any()
    left_out = np.zeros(times_s.shape, dtype=bool)
    left_out[:, 0] = pauses
    work_s = _work(times_s / worker if is_any_slow else times_s, data, left_out)
    model_s = work_s * worker if is_any_slow else work_s
    if model_s.min() > 0.0:
        noise = times_s / model_s
    else:
        noise = np.divide(times_s, model_s, out=np.ones(times_s.shape), where=model_s > 0.0)
    logs = _logs(noise)
    pauses = _pauses(logs[:, 0])
    pause_s = np.zeros((times_s.shape[0], 1, *times_s.shape[2:]))
    if pauses.any():
        pause_s[:, 0][pauses] = (times_s - model_s)[:, 0][pauses]
        noise[:, 0][pauses], logs[:, 0][pauses] = 1.0, 0.0
    return Factors(work_s, worker, noise, pause_s, workers, data, float(logs.std()))


def _pauses(over: Floats) -> Mask:
    """Forward computes far above what is usual; `over`, logs, and the mask have the shape (p, c, m, s, d)."""
    if not over.max() > LEAST_PAUSE:
        return np.zeros(over.shape, dtype=bool)
    flat = over.reshape(-1)
    scatter = 0.0 if _is_calm(flat) else median_of_all(np.abs(flat - median_of_all(flat)))
    return np.asarray(over > max(LEAST_PAUSE, PAUSE_MADS * scatter))


def _is_calm(values: Floats) -> bool:
    """Whether the least pause is sure to be beyond the usual scatter: half of all lie close together."""
    middle = medians_along(values[:: max(1, values.size // SAMPLE)], 0)
    width = LEAST_PAUSE / PAUSE_MADS
    close = (values >= middle - width / 2) & (values <= middle + width / 2)
    return 2 * int(np.count_nonzero(close)) > values.size


def _data(rest: Tensor, usual: Tensor, weight: Tensor, pauses: Mask) -> Data:
    """Weight of the microbatches from what is left after stage and worker, which is overwritten.

    rest, usual, weight : logs.
    """
    p, k, c, m, s, d = rest.shape
    if pauses.any():
        rest[:, 0][pauses] = np.broadcast_to(weight[:, 0], pauses.shape)[pauses]
    halves = _halves(rest)
    if halves is None:
        return Data(np.ones((k, m, s, d)), 0.0, is_real=False)
    first, second = (half - half.mean(axis=(0, 2), keepdims=True) for half in halves)
    both = (first + second) / 2
    variance, covariance = float((both**2).mean()), float((first * second).mean())
    reliability = min(covariance / variance, 1.0) if variance > 0.0 else 0.0
    error = float(first.std() * second.std()) / np.sqrt(first.size)
    spread = float(np.sqrt(max(covariance, 0.0)))
    is_real = reliability > LEAST_RELIABILITY and spread > LEAST_SPREAD and covariance > LEAST_ERRORS * error
    if not is_real:
        return Data(np.ones((k, m, s, d)), spread, is_real=False)
    # Times and not their logs, because a stage may take a constant beside what goes with the data.
    rest += usual
    of_all_s = np.exp(rest, out=rest).sum(axis=(0, 2))
    relative = of_all_s / of_all_s.mean(axis=(1, 2, 3), keepdims=True)
    if p * c == 1:
        relative = np.broadcast_to(relative.mean(axis=0), (k, m, s, d))
    return Data(relative, spread, is_real=True)


def _trusted(data: Data, steady_s: Tensor, doubtful: Mask) -> Data:
    """The data with weights from those computes alone that are not in doubt.

    steady_s : times of computes without what is always slow. [s]
    """
    p, k, c, m, s, d = steady_s.shape
    usual_s = steady_s.mean(axis=(3, 4, 5), keepdims=True)
    if doubtful.any():
        trusted = ~(doubtful & ~doubtful.all(axis=(0, 2), keepdims=True))
        relative = (steady_s * trusted).sum(axis=(0, 2)) / (usual_s * trusted).sum(axis=(0, 2))
    else:
        total_s = usual_s.swapaxes(1, 2).reshape(p * c, k).sum(axis=0)
        relative = steady_s.sum(axis=(0, 2)) / total_s[:, None, None, None]
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


def _work(clean_s: Tensor, data: Data, left_out: Mask) -> Tensor:
    """Work of each stage, direction and chunk: a fixed part and one that goes with the data."""
    flat_s = clean_s.reshape(*clean_s.shape[:3], -1)
    share = np.full(flat_s.shape[-1], 1.0 / flat_s.shape[-1])
    if left_out.any():
        share = np.logical_not(left_out.reshape(flat_s.shape)).astype(np.float64)
        share *= 1.0 / np.maximum(share.sum(axis=-1, keepdims=True), 1.0)
    mean_s: Tensor = np.einsum(SUMS, flat_s, share)[..., None]
    if not data.is_real:
        return mean_s[..., None, None]
    weight = data.weight.reshape(1, -1, 1, flat_s.shape[-1])
    deviation = weight - np.einsum(SUMS, weight, share)[..., None]
    shared = deviation * share
    spread = np.einsum(SUMS, deviation, shared)[..., None]
    spread[spread <= 0.0] = 1.0  # Of a direction that is recorded as of no length.
    # A stage without a constant falls faster than the weights, which hold the constants of all stages.
    slope_s = np.maximum(np.einsum(SUMS, shared, flat_s)[..., None] / spread, 0.0)
    work_s: Tensor = slope_s * deviation
    work_s += mean_s
    least_s = LEAST_PART * mean_s
    if (slope_s * deviation.min(axis=-1, keepdims=True) + mean_s < least_s).any():
        np.maximum(work_s, least_s, out=work_s)
    return work_s.reshape(clean_s.shape)
