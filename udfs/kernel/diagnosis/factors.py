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
from udfs.kernel.selection import median_of_all, medians_along

Mask = npt.NDArray[np.bool_]

LEAST_PAUSE: Final = 0.15
PAUSE_MADS: Final = 6.0
"""A pause takes this much longer, as a log factor, and so many times the usual scatter."""

SAMPLE: Final = 256
"""Values that tell about where the middle of all is."""

LEAST_RELIABILITY: Final = 0.3
LEAST_SPREAD: Final = 0.01
LEAST_ERRORS: Final = 3.0
"""Weights of microbatches are real if two halves of their measurements agree on so much of their variance,
they scatter by so much, and the agreement is so many times its standard error."""

LEAST_PART: Final = 0.01
"""Of the mean work of its kind, the least that a compute is taken to need."""

TINY_S: Final = 1e-9
ROUNDING: Final = 1e-12

SUMS: Final = "...l,...l->..."
"""Sums of products along the last axis, for np.einsum."""


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

    work_s  : Tensor, or broadcastable to one; what the work takes on a usual worker. [s]
    worker  : factors of slow workers, shape (p, k, 1, 1, s, d).
    noise   : Tensor; what is left, a factor.
    pause_s : Tensor; additive, 0 where there is none. [s]
    scatter : of the log of the noise.
    """

    work_s: Tensor
    worker: Floats
    noise: Tensor
    pause_s: Tensor
    workers: Workers
    data: Data
    scatter: float


def decompose(times_s: Tensor, hosts: Ints) -> Factors:
    """Split compute durations into factors.

    times_s : Tensor. [s]
    hosts   : int, shape (stage, dp_rank); which host, -1 where unknown.
    """
    logs = _logs(times_s)
    workers, usual, weight = slow_workers(logs, hosts)
    rest = logs - (workers.log_factor() + usual)
    pauses = _pauses(rest, weight)
    data = _data(rest, weight, pauses)
    if not data.is_real or len(times_s) == 1:
        return _factors(times_s, workers, data, pauses)
    return _beside_work(times_s, logs, workers, data, pauses, hosts)


def _logs(values: Tensor) -> Tensor:
    """Logs; in place of a copy, because every array of that size pushes another out of the cache."""
    found = np.maximum(values, TINY_S)
    return np.log(found, out=found)


def _beside_work(
    times_s: Tensor, logs: Tensor, first: Workers, data: Data, pauses: Mask, hosts: Ints
) -> Factors:
    """The decomposition once more, slow workers looked for beside the work as fitted to what was not slow.

    Where a stage takes a constant beside what goes with the data, its light microbatches looked slow.
    """
    doubtful = pauses | (first.in_steps > 0.0)[:, None, None, None]
    steady_s = np.maximum(times_s, TINY_S)
    steady_s /= np.exp(first.without_steps().log_factor())
    beside = _logs(_work(steady_s, _weighed(data, steady_s, doubtful), doubtful))
    np.subtract(logs, beside, out=beside)
    workers, usual, weight = slow_workers(beside, hosts)
    beside -= workers.log_factor() + usual
    workers = workers._replace(suspects=first.suspects)
    pauses = _pauses(beside, weight)
    return _factors(times_s, workers, data, pauses)


def _factors(times_s: Tensor, workers: Workers, data: Data, pauses: Mask) -> Factors:
    worker = np.exp(workers.log_factor())
    noise = times_s / worker
    if data.is_real:
        data = _weighed(data, noise, pauses)
    work_s = _work(noise, data, pauses)
    if work_s.min() > 0.0:
        noise /= work_s
    else:
        noise = np.divide(noise, work_s, out=np.ones(noise.shape), where=work_s > 0.0)
    logs = _logs(noise)
    pauses = _pauses(logs, np.zeros((1,) * 6))
    pause_s = np.zeros(times_s.shape)
    if pauses.any():
        usual_s, factor = (np.broadcast_to(values, times_s.shape)[pauses] for values in (work_s, worker))
        pause_s[pauses] = times_s[pauses] - usual_s * factor
        noise[pauses], logs[pauses] = 1.0, 0.0
    flat = logs.reshape(-1)
    scatter = float(np.sqrt(max(np.einsum(SUMS, flat, flat) / flat.size - flat.mean() ** 2, 0.0)))
    return Factors(work_s, worker, noise, pause_s, workers, data, scatter)


def _pauses(rest: Tensor, usual: Tensor) -> Mask:
    """Forward computes far above what is usual; logs; shape of the tensor."""
    over = rest[:, 0] - usual[:, 0]
    found = np.zeros(rest.shape, dtype=bool)
    if over.max() > LEAST_PAUSE:
        flat = over.reshape(-1)
        scatter = 0.0 if _is_calm(flat) else median_of_all(np.abs(flat - median_of_all(flat)))
        found[:, 0] = over > max(LEAST_PAUSE, PAUSE_MADS * scatter)
    return found


def _is_calm(values: Floats) -> bool:
    """Whether the least pause is sure to be beyond the usual scatter: half of all lie close together."""
    middle = medians_along(values[:: max(1, values.size // SAMPLE)], 0)
    width = LEAST_PAUSE / PAUSE_MADS
    close = (values >= middle - width / 2) & (values <= middle + width / 2)
    return 2 * int(np.count_nonzero(close)) > values.size


def _data(rest: Tensor, weight: Tensor, pauses: Mask) -> Data:
    """Whether microbatches differ, from what is left after stage and worker; not yet how heavy each is.

    rest, weight : logs.
    """
    unknown = np.ones((rest.shape[1], 1, 1, 1))
    halves = _halves(np.where(pauses, weight, rest) if pauses.any() else rest)
    if halves is None:
        return Data(unknown, 0.0, 0.0, is_real=False)
    first, second = (half - half.mean(axis=(0, 2), keepdims=True) for half in halves)
    both = (first + second) / 2
    variance, covariance = float((both**2).mean()), float((first * second).mean())
    reliability = min(covariance / variance, 1.0) if variance > 0.0 else 0.0
    error = float(first.std() * second.std()) / np.sqrt(first.size)
    spread = float(np.sqrt(max(covariance, 0.0)))
    is_real = reliability > LEAST_RELIABILITY and spread > LEAST_SPREAD and covariance > LEAST_ERRORS * error
    return Data(unknown, reliability, spread, is_real)


def _weighed(data: Data, clean_s: Tensor, doubtful: Mask) -> Data:
    """The data with weights from all computes but those in doubt, wherever others tell.

    Times and not their logs, because a stage may take a constant beside what goes with the data.

    clean_s : times of computes on usual workers. [s]
    """
    p, k, c, *lanes = clean_s.shape
    # Of one stage and chunk the other direction tells: both as shares of what they usually take.
    groups, axes = (1, (0, 1, 2)) if p * c == 1 else (k, (0, 2))
    if groups == 1:
        clean_s = np.divide(clean_s, clean_s.mean(axis=(3, 4, 5), keepdims=True))
    flat_s = clean_s.reshape(p, k, c, -1)
    relative = flat_s.sum(axis=axes).reshape(groups, -1)
    at = np.flatnonzero(doubtful)
    if at.size:
        size, length = relative.size, relative.shape[1]
        kind, lane = np.divmod(at, length)
        where = kind // c % groups * length + lane
        count = np.bincount(where, minlength=size)
        # What is usual by those microbatches alone that all of them tell.
        calm = (count == 0).reshape(groups, 1, length)
        calm |= ~calm.any(axis=-1, keepdims=True)
        usual_s = np.einsum(SUMS, flat_s, calm.astype(np.float64))
        others = (count < p * k * c // groups)[where]
        where = where[others]
        relative -= np.bincount(where, flat_s.ravel()[at[others]], size).reshape(groups, length)
        in_doubt_s = np.bincount(where, usual_s.ravel()[kind[others]], size).reshape(groups, length)
        relative /= usual_s.sum(axis=axes).reshape(groups, 1) - in_doubt_s
    relative /= relative.mean(axis=1, keepdims=True)
    return data._replace(weight=np.broadcast_to(relative, (k, relative.shape[1])).reshape(k, *lanes))


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
    p, k, c = clean_s.shape[:3]
    flat_s = clean_s.reshape(p, k, c, -1)
    kind, lane = np.divmod(np.flatnonzero(left_out), flat_s.shape[-1])

    def without(sums: Floats, left: Floats) -> Floats:
        found: Floats = sums - np.bincount(kind, left, p * k * c).reshape(p, k, c)
        return found[..., None]

    left_s = flat_s.reshape(p * k * c, -1)[kind, lane]
    number = np.maximum(without(np.full((p, k, c), flat_s.shape[-1]), np.ones(len(kind))), 1.0)
    mean_s: Tensor = without(flat_s.sum(axis=-1), left_s) / number
    if not data.is_real:
        return mean_s[..., None, None]
    # Above the mean of all, so that little is lost where squares are subtracted.
    weight = (data.weight - 1.0).reshape(k, 1, -1)
    left = weight[kind // c % k, 0, lane]
    mean = without(weight.sum(axis=-1), left) / number
    square = without(np.einsum(SUMS, weight, weight), left * left)
    spread = square - number * mean**2
    spread[spread <= ROUNDING * square] = np.inf  # Of a direction that is recorded as of no length.
    slope_s = without(np.einsum(SUMS, weight, flat_s), left * left_s) - number * mean * mean_s
    # A stage without a constant falls faster than the weights, which hold the constants of all stages.
    slope_s = np.maximum(slope_s / spread, 0.0)
    work_s: Tensor = slope_s * weight
    work_s += mean_s - slope_s * mean
    return np.maximum(work_s, LEAST_PART * mean_s, out=work_s).reshape(clean_s.shape)
