"""Decompose compute durations into factors for work, GPU type, worker and noise, and into pauses.

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
"""A compute is a pause if its log excess exceeds LEAST_PAUSE, and PAUSE_MADS median absolute deviations."""

ROUNDS: Final = 3
"""Most rounds that estimate slow workers again, without the computes that the round before found slow."""

MOST_MISFIT: Final = 0.5
"""Log residuals are limited to this in the misfit, as a pause of a light microbatch is a large factor."""

LEAST_CHANGE: Final = 0.005
"""Rounds go on as long as some worker's mean log factor changes by at least this."""

SAMPLE: Final = 256
"""Number of values from which the median of all values is estimated."""

LEAST_RELIABILITY: Final = 0.3
LEAST_SPREAD: Final = 0.01
LEAST_ERRORS: Final = 3.0
"""Weights of microbatches are used if two halves of their measurements have a covariance of more than
LEAST_RELIABILITY of the variance, LEAST_SPREAD^2, and LEAST_ERRORS of its standard errors."""

LEAST_PART: Final = 0.01
"""Least work of a compute, as a share of the mean over its stage, direction and chunk."""

SUMS: Final = "...l,...l->..."
"""Sums of products along the last axis, for np.einsum."""


class Data(NamedTuple):
    """Relative weights of microbatches, which all stages share.

    weight  : shape (k, m, s, d), mean 1; all 1 if microbatches do not differ.
    spread  : standard deviation of the log weights within a step.
    is_real : whether microbatches differ significantly.
    """

    weight: Floats
    spread: float
    is_real: bool


class Factors(NamedTuple):
    """Durations of computes, decomposed as work_s * types * worker * noise + pause_s.

    work_s  : Tensor, or broadcastable to one; duration on a usual worker of the fastest type. [s]
    worker  : factors of slow workers, shape (p, k, 1, 1, s, d).
    noise   : Tensor; residual factor. log_noise : its logarithm.
    pause_s : Tensor; additional time of computes that are pauses, else 0; None without pauses. [s]
    data    : weights of microbatches, from which work_s was fitted.
    scatter : standard deviation of log_noise. misfit : the same, with the residuals of pauses included.
    types   : factors of GPU types; None if fewer than two types are known.
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
    hosts       : int, shape (stage, dp_rank); number of the host, -1 where unknown.
    worker_type : int, shape (stage, dp_rank); number of the GPU type, -1 where unknown; None if fewer than
                  two types are known.
    """
    if worker_type is None:
        return _decompose(times_s, hosts)
    types = type_factors(np.maximum(medians_along(times_s, 3), TINY_S), worker_type)
    found = _decompose(times_s / types.of_workers, hosts)
    # Pauses are caused by hosts, and are equally long on every GPU type.
    pause_s = None if found.pause_s is None else found.pause_s * types.of_workers
    return found._replace(types=types, pause_s=pause_s)


def _decompose(times_s: Tensor, hosts: Ints) -> Factors:
    """Decompose compute durations as on one GPU type: the factors of GPU types are already divided out."""
    logs = _logs(times_s)
    workers, usual, weight = slow_workers(logs, hosts)
    rest = logs - (workers.log_factor() + usual)
    pauses = _pauses(rest - weight)
    p, k, c, m, *lanes = logs.shape
    if p * k > 1 and c * m == 1:
        # With one microbatch, heavy data of few steps are not found, but lengthen most stages and directions.
        of_most = medians_along((rest - weight).reshape(p * k, 1, 1, *lanes), 0, low=True)
        pauses &= ~(of_most > LEAST_PAUSE)
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


class _First(NamedTuple):
    """Results of the first pass: slow workers, pauses, and logs of usual times, weights and durations."""

    workers: Workers
    usual: Tensor
    weight: Tensor
    logs: Tensor
    pauses: Mask
    data: Data


def _logs(values: Tensor) -> Tensor:
    """Return logarithms of the values, or of TINY_S if that is larger; makes only one array, for speed."""
    found = np.maximum(values, TINY_S)
    return np.log(found, out=found)


def _beside_work(
    times_s: Tensor, first: _First, doubt: _First, hosts: Ints
) -> tuple[_First, Factors, bool] | None:
    """Find slow workers and pauses again, relative to the work that was fitted to healthy computes.

    In the first pass, light microbatches looked slow on stages whose work has a part that is independent of
    the data, such as a loss layer.

    first   : results of the first pass. doubt : the same, with workers and pauses of the round before.
    returns : `doubt` with the new workers and pauses, the decomposition, and whether workers are as in the
              round before; None if pauses are unchanged too.
    """
    before = doubt.workers.log_factor()
    steady_s = np.maximum(times_s, TINY_S)
    if before.any():
        steady_s /= np.exp(before)
    doubtful = doubt.pauses | (before > 0.0)
    # Weights are computed again, in which other computes replace doubtful ones.
    p, k, c, *_ = steady_s.shape
    relative = totals(steady_s, doubtful)
    if p * c == 1:
        relative = np.repeat(relative.mean(axis=0, keepdims=True), k, axis=0)
    _even_out(relative, first.workers)
    trusted = first.data._replace(weight=relative / relative.mean(axis=(1, 2, 3), keepdims=True))
    beside = _logs(_work(steady_s, trusted, doubtful))
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
    # Weights contain the common excess of a step, except in even steps of a job that has uneven steps.
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
    """Fit the work of usual workers [s]; also return each compute's remaining factor and its logarithm."""
    work_s = _work(clean_s, data, pauses)
    if work_s.min() > 0.0:
        noise = clean_s / work_s
    else:
        noise = np.divide(clean_s, work_s, out=np.ones(clean_s.shape), where=work_s > 0.0)
    return work_s, noise, _logs(noise)


def _pauses(over: Tensor) -> Mask:
    """Mark computes so far above usual that they are pauses. over : log excess, as a tensor."""
    if not over.max() > LEAST_PAUSE:
        return np.zeros(over.shape, dtype=bool)
    flat = over.reshape(-1)
    # If half of the values are this close together, LEAST_PAUSE is the higher limit, and no sort is needed.
    middle = medians_along(flat[:: max(1, flat.size // SAMPLE)], 0)
    width = LEAST_PAUSE / PAUSE_MADS
    close = (flat >= middle - width / 2) & (flat <= middle + width / 2)
    is_calm = 2 * int(np.count_nonzero(close)) > flat.size
    scatter = 0.0 if is_calm else deviation_of_all(flat)
    return np.asarray(over > max(LEAST_PAUSE, PAUSE_MADS * scatter))


def _data(rest: Tensor, usual: Tensor, weight: Tensor, pauses: Mask, workers: Workers) -> Data:
    """Compute weights of microbatches from residual logs; overwrites `rest`.

    rest   : log times without usual times of stages and without slow workers, a tensor.
    usual, weight : logs, as returned by slow_workers.
    """
    p, k, c, m, s, d = rest.shape
    # In a step of even microbatches, data are not the reason why the step is longer than others.
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
    # In seconds, because a stage's work may be the sum of a constant and a part proportional to the data.
    rest += usual
    of_all_s = totals(np.exp(rest, out=rest), pauses)
    relative = of_all_s / of_all_s.mean(axis=(1, 2, 3), keepdims=True)
    if p * c == 1:
        relative = np.repeat(relative.mean(axis=0, keepdims=True), k, axis=0)
    _even_out(relative, workers)
    return Data(relative, spread, is_real=True)


def _even_out(weight: Floats, workers: Workers) -> None:
    """Give all microbatches of a step with even work the same weight; overwrites weight (k, m, s, d)."""
    even = ~workers.is_uneven
    # With one microbatch, only the other steps show whether a step is even.
    if even.any() and (weight.shape[1] > 1 or not even.all()):
        weight[:, :, even] = weight[:, :, even].mean(axis=(1, 3), keepdims=True)


def _work(clean_s: Tensor, data: Data, left_out: Mask) -> Tensor:
    """Fit the work of each stage, direction and chunk: a constant plus a part proportional to weights. [s]

    left_out : bool, shape of the tensor; computes that are not used in the fit.
    """
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
    spread[spread <= 0.0] = 1.0  # if all computes of a direction have zero duration
    # Weights contain the constants of all stages, so the fitted work of a stage without one may be negative.
    slope_s = np.maximum(np.einsum(SUMS, shared, flat_s)[..., None] / spread, 0.0)
    work_s: Tensor = slope_s * deviation
    work_s += mean_s
    least_s = LEAST_PART * mean_s
    if (slope_s * deviation.min(axis=-1, keepdims=True) + mean_s < least_s).any():
        np.maximum(work_s, least_s, out=work_s)
    return work_s.reshape(clean_s.shape)
