"""Divide compute durations into factors of stage, data, GPU type, worker and noise, and into pauses.

D = work(stage, direction, chunk, data) * type * worker * noise + pause. Axes p, k, c, m, s, d: stage,
direction, chunk, microbatch, step in the order of time, dp rank.
"""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.cause import TypeFactors
from udfs.kernel.diagnosis.block_times import Tensor
from udfs.kernel.diagnosis.gpu_types import type_factors
from udfs.kernel.diagnosis.totals import TINY_S, totals
from udfs.kernel.diagnosis.variation import halves_of
from udfs.kernel.diagnosis.workers import Workers, slow_workers
from udfs.kernel.selection import deviation_of_all, medians_along

LEAST_PAUSE: Final = 0.15
PAUSE_MADS: Final = 6.0
"""A pause takes this much longer, as a log factor, and as a multiple of the usual scatter."""

ROUNDS: Final = 3
"""Rounds of re-estimating slow workers: each trusts the data of workers less that the round before named."""

MOST_MISFIT: Final = 0.5
"""Residuals of computes are cut at this log: a pause of a light microbatch says nothing about the model."""

LEAST_CHANGE: Final = 0.005
"""Another round is made while the mean factor of a worker changes by this log."""

SAMPLE: Final = 256
"""Values sampled to estimate the median of all."""

LEAST_RELIABILITY: Final = 0.3
LEAST_SPREAD: Final = 0.01
LEAST_ERRORS: Final = 3.0
"""Weights of microbatches are real if two halves of their measurements agree on this share of their variance,
they scatter by this much, and the agreement is this many times its standard error."""

LEAST_PART: Final = 0.01
"""Least work of a compute, as a share of its kind's mean."""

SUMS: Final = "...l,...l->..."
"""Sums of products along the last axis, for np.einsum."""


class Data(NamedTuple):
    """Relative weight of microbatches, shared by all stages.

    weight  : as measured, shape (k, m, s, d), mean 1; all 1 without such an effect.
    spread  : standard deviation of the log weight within a step.
    is_real : whether the effect exists.
    """

    weight: Floats
    spread: float
    is_real: bool


class Factors(NamedTuple):
    """Compute durations divided into work, slowness of workers, noise and pauses.

    work_s  : Tensor, or broadcastable to one; what the work takes on a usual worker. [s]
    worker  : factors of slow workers, shape (p, k, 1, 1, s, d).
    noise   : Tensor; what is left, a factor. log_noise: its logarithm.
    pause_s : additive, 0 without any; Tensor, or None without pauses. [s]
    scatter : of the log of the noise. misfit: the same, with what is taken as pauses.
    types   : factors of the types of GPU, beside those of workers; None where fewer than two are known.
    """

    work_s: Tensor
    worker: Floats
    noise: Tensor
    log_noise: Tensor
    pause_s: Tensor | None
    workers: Workers
    data: Data
    scatter: float
    misfit: float
    types: TypeFactors | None = None


def decompose(times_s: Tensor, hosts: Ints, worker_type: Ints | None = None) -> Factors:
    """Decompose compute durations into factors.

    times_s     : Tensor. [s]
    hosts       : int, shape (stage, dp_rank); which host, -1 where unknown.
    worker_type : the same as hosts, of types of GPU; None where fewer than two are known.
    """
    if worker_type is None:
        return _decompose(times_s, hosts)
    types = type_factors(np.maximum(medians_along(times_s, 3), TINY_S), worker_type)
    found = _decompose(times_s / types.of_workers, hosts)
    # A pause is the host's: it is as long on every type.
    pause_s = None if found.pause_s is None else found.pause_s * types.of_workers
    return found._replace(types=types, pause_s=pause_s)


def _decompose(times_s: Tensor, hosts: Ints) -> Factors:
    """Divide compute durations of workers on one GPU type, or as if on one type, into factors."""
    logs = _logs(times_s)
    workers, usual, weight = slow_workers(logs, hosts)
    rest = logs - (workers.log_factor() + usual)
    pauses = _pauses(rest - weight)
    if logs.shape[0] * logs.shape[1] > 1 and logs.shape[2] * logs.shape[3] == 1:
        # Of single microbatches few steps may be uneven, and too few to say so.
        pauses &= ~_is_shared(rest - weight)
    data = _data(rest, usual, weight, pauses, workers)
    found = _factors(times_s, workers, data, pauses)
    if not data.is_real:
        return found
    first = _First(workers, usual, weight, logs, pauses, data)
    doubt = first
    for _ in range(ROUNDS):
        again = _beside_work(times_s, first, doubt, hosts)
        if again is None:
            break
        doubt, factors, is_settled = again
        if factors.misfit < found.misfit:
            found = factors
        if is_settled:
            break
    return found


def _is_shared(over: Tensor) -> Mask:
    """Return where most stages and directions exceed the least pause, as they do if data are uneven."""
    stages, directions, *lanes = over.shape
    of_most = medians_along(over.reshape(stages * directions, *lanes), 0, low=True)
    return np.asarray(of_most > LEAST_PAUSE)


class _First(NamedTuple):
    """What the first pass finds; `usual`, `weight` and `logs` are logarithms."""

    workers: Workers
    usual: Tensor
    weight: Tensor
    logs: Tensor
    pauses: Mask
    data: Data


def _logs(values: Tensor) -> Tensor:
    """Return natural logarithms, floored at TINY_S, in one array, because a copy would evict the cache."""
    found = np.maximum(values, TINY_S)
    return np.log(found, out=found)


def _beside_work(
    times_s: Tensor, first: _First, doubt: _First, hosts: Ints
) -> tuple[_First, Factors, bool] | None:
    """In a second pass, find slow workers and pauses again, relative to the work of healthy computes.

    Where a stage takes a constant beside what goes with the data, its light microbatches looked slow.
    returns : what is in doubt after it, the decomposition, and whether workers came out as before; None if
              pauses did so too.
    """
    before = doubt.workers.log_factor()
    steady_s = np.maximum(times_s, TINY_S)
    if before.any():
        steady_s /= np.exp(before)
    doubtful = doubt.pauses | (before > 0.0)
    beside = _logs(_work(steady_s, _trusted(first.data, steady_s, doubtful, first.workers), doubtful))
    np.subtract(first.logs, beside, out=beside)
    workers, usual, weight = slow_workers(beside, hosts, first.workers.is_uneven)
    slow = workers.log_factor()
    pauses = _pauses(beside - (slow + usual + weight))
    is_settled = bool(np.abs((slow - before).mean(axis=4)).max() < LEAST_CHANGE)
    if is_settled and np.array_equal(pauses, doubt.pauses):
        return None
    data = _data(first.logs - (slow + first.usual), first.usual, first.weight, pauses, first.workers)
    workers = workers._replace(ambiguous=first.workers.ambiguous)
    doubt = doubt._replace(workers=workers, pauses=pauses)
    return doubt, _factors(times_s, workers, data, pauses), is_settled


def _factors(times_s: Tensor, workers: Workers, data: Data, pauses: Mask) -> Factors:
    slow = workers.log_factor()
    worker = np.exp(slow)
    is_any_slow = slow.any()
    clean_s = times_s / worker if is_any_slow else times_s
    # Weights hold what all workers take longer in a step, but not those of even steps beside uneven ones.
    is_held = data.is_real & (workers.is_uneven | ~workers.is_uneven.any())
    common = np.where(is_held, 0.0, workers.common)[None, :, None, None, :, None]
    work_s, noise, logs = _fitted(clean_s, data, pauses)
    shown = _pauses(logs - common)
    if not np.array_equal(shown, pauses):
        work_s, noise, logs = _fitted(clean_s, data, shown)
        shown = _pauses(logs - common)
    pauses = shown
    model_s = work_s * worker if is_any_slow else work_s
    pause_s = None
    misfit = float(np.clip(logs, -MOST_MISFIT, MOST_MISFIT).std())
    if pauses.any():
        pause_s = np.where(pauses, times_s - model_s, 0.0)
        noise[pauses], logs[pauses] = 1.0, 0.0
    return Factors(work_s, worker, noise, logs, pause_s, workers, data, float(logs.std()), misfit)


def _fitted(clean_s: Tensor, data: Data, pauses: Mask) -> tuple[Tensor, Tensor, Tensor]:
    """Fit the work of usual workers [s]; return it, and what remains as noise: a factor and its logarithm."""
    work_s = _work(clean_s, data, pauses)
    if work_s.min() > 0.0:
        noise = clean_s / work_s
    else:
        noise = np.divide(clean_s, work_s, out=np.ones(clean_s.shape), where=work_s > 0.0)
    return work_s, noise, _logs(noise)


def _pauses(over: Tensor) -> Mask:
    """Mark computes so far above usual that they are pauses. over : log excess."""
    if not over.max() > LEAST_PAUSE:
        return np.zeros(over.shape, dtype=bool)
    flat = over.reshape(-1)
    scatter = 0.0 if _is_calm(flat) else deviation_of_all(flat)
    return np.asarray(over > max(LEAST_PAUSE, PAUSE_MADS * scatter))


def _is_calm(values: Floats) -> bool:
    """Return whether half of the values are so close together that LEAST_PAUSE is above the noise limit."""
    middle = medians_along(values[:: max(1, values.size // SAMPLE)], 0)
    width = LEAST_PAUSE / PAUSE_MADS
    close = (values >= middle - width / 2) & (values <= middle + width / 2)
    return 2 * int(np.count_nonzero(close)) > values.size


def _data(rest: Tensor, usual: Tensor, weight: Tensor, pauses: Mask, workers: Workers) -> Data:
    """Compute weights of microbatches from what stages and workers leave unexplained; overwrite `rest`.

    rest, usual, weight : logs.
    """
    p, k, c, m, s, d = rest.shape
    # Where microbatches are even, data do not explain why a step is longer than others.
    even = np.flatnonzero(~workers.is_uneven) if workers.is_uneven.any() else np.empty(0, dtype=np.int64)
    if even.size:
        rest[:, :, :, :, even] -= workers.common[None, :, None, None, even, None]
    if pauses.any():
        rest[pauses] = np.broadcast_to(weight, pauses.shape)[pauses]
    halves = halves_of(rest)
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
    of_all_s = totals(np.exp(rest, out=rest), pauses)
    relative = of_all_s / of_all_s.mean(axis=(1, 2, 3), keepdims=True)
    if p * c == 1:
        relative = np.repeat(relative.mean(axis=0, keepdims=True), k, axis=0)
    _even_out(relative, workers)
    return Data(relative, spread, is_real=True)


def _even_out(weight: Floats, workers: Workers) -> None:
    """Give all microbatches of steps with even work the same weight; overwrite weight (k, m, s, d)."""
    even = ~workers.is_uneven
    # With one microbatch only the neighbouring steps show whether it is even.
    if even.any() and (weight.shape[1] > 1 or not even.all()):
        weight[:, :, even] = weight[:, :, even].mean(axis=(1, 3), keepdims=True)


def _trusted(data: Data, steady_s: Tensor, doubtful: Mask, workers: Workers) -> Data:
    """Compute weights of microbatches again, with doubtful computes as the other computes imply them.

    steady_s : times of computes without what is always slow. [s]
    """
    p, k, c, *_ = steady_s.shape
    relative = totals(steady_s, doubtful)
    if p * c == 1:
        relative = np.repeat(relative.mean(axis=0, keepdims=True), k, axis=0)
    _even_out(relative, workers)
    return data._replace(weight=relative / relative.mean(axis=(1, 2, 3), keepdims=True))


def _work(clean_s: Tensor, data: Data, left_out: Mask) -> Tensor:
    """Return the work of each stage, direction and chunk: a constant, and a part proportional to data. [s]"""
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
