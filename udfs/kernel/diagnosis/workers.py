"""Computes slower than their peers': of a worker, of a whole dp rank, of all hosts of a stage.

Axes p, k, c, m, s, d: stage, direction, chunk, microbatch, step, dp rank. All values are logs of times.
"""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.diagnosis.block_times import Tensor
from udfs.kernel.diagnosis.hosts import stages_of_hosts
from udfs.kernel.diagnosis.levels import (
    ERRORS,
    LEAST_STEP,
    MAD_TO_SIGMA,
    apart_when_healthy,
    scatter_over_steps,
    slow_series,
    usual_levels,
)
from udfs.kernel.selection import median_of_all, medians_along

LEAST_STEPS: Final = 4
"""From fewer steps nothing is known of how single ops vary."""

MEDIAN_ERROR: Final = 1.25
"""Standard error of a median over that of a mean."""

LEAST_UNEVEN: Final = 0.012
UNEVEN_ERRORS: Final = 2.5
"""Microbatches of a step are uneven if they scatter by this log, and by so many standard errors."""

LEAST_SHARED: Final = 0.3
"""Share of the scatter of microbatches within a step that two halves of the measurements must agree on."""

LEAST_SPREAD: Final = 0.01
ERRORS_OF_SHARED: Final = 3.0
"""Steps in which one by one nothing is uneven are so together if what two halves share scatters by this log,
and is this many times what they share by chance."""

RESTLESS: Final = 2.0
TINY: Final = 1e-9
"""A step whose ops scatter by so many times what they do in others says less of its workers."""

MOSTLY: Final = 2.0 / 3.0
"""If more than this share of the steps is uneven, the others are so by less than can be seen."""

ERRORS_OF_DATA: Final = 4.0
"""A dp rank that is longer in a step by more standard errors than that step's data give is slow itself."""

ENOUGH_DP_RANKS: Final = 6
"""With fewer dp ranks their scatter says nothing about what is healthy."""

FEW_MICROBATCHES: Final = 4
"""Of no more the lower median is a level: one long op among them must not raise it."""

OFTEN: Final = 0.2
"""Share of the steps in which a worker is slow, where a single long microbatch would look like it."""

LEAST_WORKER: Final = 0.015
LEAST_DP_RANK: Final = 0.03
ERRORS_OF_DP_RANK: Final = 3.5
"""Log of the least factor, and standard errors, by which a dp rank is slow and not unlucky in its data."""


class Workers(NamedTuple):
    """Log factors by which workers are slower than their peers; 0 where not.

    own        : of single workers and dp ranks, beyond `stage`, shape (p, k, s, d); below 0 where a worker is
                 fast though its stage is slow.
    stage      : of all workers of a stage, in steps in which its hosts are slow, shape (p, k, s).
    always     : of stages whose one host or worker is always slow, shape (p,).
    ambiguous  : bool, shape (p,); stages that are heavy, or whose one host or worker is slow.
    error      : standard error of the level of a worker in a step, shape (k,).
    common     : by which all workers take longer in a step, whatever the reason; shape (k, s).
    is_uneven  : bool, shape (s,); steps whose microbatches differ.
    """

    own: Floats
    stage: Floats
    always: Floats
    ambiguous: Mask
    error: Floats
    common: Floats
    is_uneven: Mask

    def cells(self) -> Floats:
        """All together by worker, direction and step; shape (p, k, s, d)."""
        in_steps = np.maximum(self.own + self.stage[..., None], 0.0)
        together: Floats = in_steps + self.always[:, None, None, None]
        return together

    def log_factor(self) -> Floats:
        """The same; shape (p, k, 1, 1, s, d)."""
        return self.cells()[:, :, None, None]


class _Levels(NamedTuple):
    """Levels and what varies within a step.

    chunk  : usual level of a chunk beside the others of its stage, shape (p, k, c, 1, 1, 1).
    level  : shape (p, k, s, d).
    weight : of each microbatch beside its step's level, 0 where microbatches are even; (1, k, 1, m, s, d).
    error  : standard error of a level, from the scatter of the ops, shape (k,).
    restless : how many times that is in steps in which ops scatter far more, shape (k, s).
    data   : that of a step's data, shape (k, s). luck: of those of each dp rank, shape (k, s, d).
    is_uneven : bool, shape (s,).
    is_single : whether a level is that of one op.
    """

    chunk: Tensor
    level: Floats
    weight: Tensor
    error: Floats
    restless: Floats
    data: Floats
    luck: Floats
    is_uneven: Mask
    is_single: bool = False

    def error_of_step(self) -> Floats:
        """Standard error of the level of one worker in a step, shape (k, s)."""
        return np.hypot(self.error[:, None] * self.restless, medians_along(self.luck, 2))


def slow_workers(logs: Tensor, hosts: Ints, order: Ints) -> tuple[Workers, Tensor, Tensor]:
    """Slow workers, usual log time (p, k, c, 1, 1, 1) and log weight of microbatches (1, k, 1, m, s, d).

    hosts : int, shape (p, d); -1 where unknown.
    order : positions of the steps in the order of time.
    """
    found = _levels(logs)
    level = found.level
    of_step = found.error_of_step()
    # Stages share their data: what one is slower than the others is known as well as with even data.
    of_base = found.error[:, None] * found.restless if len(level) > 1 else of_step
    usual = usual_levels(level, np.sqrt(np.square(of_base).mean(axis=1)), hosts, ~found.is_uneven)
    beyond = level - usual.level[..., None]
    own, of_data = _beside_data(beyond, found, order)
    noise = np.maximum(found.error, scatter_over_steps(own))
    error = np.maximum(of_step, noise[:, None])
    slow = slow_series(own, error, apart_when_healthy(own), order, noise, is_single=found.is_single)
    stage_error = np.maximum(of_step, scatter_over_steps(usual.stage[..., None])[:, None])
    stage = slow_series(usual.stage[..., None], stage_error, np.zeros(len(error)), order)[..., 0]
    if stage.any():
        is_fast = own < -np.maximum(LEAST_STEP, ERRORS * error)[None, :, :, None]
        slow = np.where(is_fast & (stage > 0.0)[..., None], own, slow)
    base = usual.base[:, :, None] + found.chunk[..., 0, 0, 0]
    of_hosts = stages_of_hosts(base, hosts, slow.mean(axis=(1, 2)))
    base = base - of_hosts.log_factor[:, None, None]
    workers = Workers(
        slow,
        stage,
        of_hosts.log_factor,
        of_hosts.is_ambiguous,
        noise,
        usual.common,
        found.is_uneven,
    )
    weight = found.weight + (of_data + usual.common[..., None])[None, :, None, None]
    return workers, base[..., None, None, None], weight


def _levels(logs: Tensor) -> _Levels:
    p, k, c, m, s, d = logs.shape
    is_low = m <= FEW_MICROBATCHES
    by_step = medians_along(logs, 3, low=is_low)
    typical = medians_along(by_step.reshape(p, k, c, s * d), 3)
    chunk = (typical - typical.mean(axis=2, keepdims=True))[..., None, None, None]
    level = (by_step - chunk[..., 0, :, :]).mean(axis=2)
    if m * c == 1:
        return _single(level, chunk)
    varied = logs - (level[:, :, None, None] + chunk)
    weight, (scatter, restless) = _weight(varied), _scatter(varied)
    uneven = _uneven_steps(varied, weight, scatter * MEDIAN_ERROR / np.sqrt(p * c))
    weight = np.where(uneven[:, None], weight, 0.0)
    if uneven.any():
        level = level + medians_along(varied - weight, 3, low=is_low).mean(axis=2)
    error = MEDIAN_ERROR * scatter / np.sqrt(c * m)
    data = MEDIAN_ERROR * weight[0, :, 0].std(axis=(1, 3)) / np.sqrt(m)
    return _Levels(chunk, level, weight, error, restless, data, _luck(weight[0, :, 0], data), uneven)


def _luck(weight: Floats, of_step: Floats) -> Floats:
    """Standard error of the level that its microbatches give a dp rank in a step, shape (k, s, d).

    weight  : shape (k, m, s, d). of_step: the same of all dp ranks of a step together, shape (k, s).
    """
    k, m, s, d = weight.shape
    if m <= FEW_MICROBATCHES:
        return np.broadcast_to(of_step[..., None], (k, s, d))
    # A dp rank whose own microbatches are alike is not lucky because those of another are not.
    own = MEDIAN_ERROR * weight.std(axis=1) / np.sqrt(m)
    luck: Floats = np.maximum(own, medians_along(own, 2)[..., None])
    return luck


def _single(level: Floats, chunk: Tensor) -> _Levels:
    """Levels of single ops: what stages and directions share from step to step is data, the rest noise."""
    p, k, s, d = level.shape
    weight, calm = np.zeros((1, k, 1, 1, s, d)), np.ones((k, s))
    if s < LEAST_STEPS:
        nothing, even = np.zeros((k, s)), np.zeros(s, dtype=bool)
        luck = np.zeros((k, s, d))
        return _Levels(chunk, level, weight, np.zeros(k), calm, nothing, luck, even, is_single=True)
    apart = np.diff(level, axis=2)[:, :, None, None] / np.sqrt(2.0)
    shared = _weight(apart - medians_along(apart, 5, low=True)[..., None])[0, :, 0, 0]
    error, _ = _scatter(apart)
    data = MAD_TO_SIGMA * medians_along(np.abs(shared).reshape(k, -1), 1)
    is_uneven = bool((data > np.maximum(LEAST_UNEVEN, UNEVEN_ERRORS * error / np.sqrt(p))).all()) and d > 1
    of_data = np.repeat((data if is_uneven else np.zeros(k))[:, None], s, axis=1)
    luck = np.broadcast_to(of_data[..., None], (k, s, d))
    return _Levels(chunk, level, weight, error, calm, of_data, luck, np.full(s, is_uneven), is_single=True)


def _weight(varied: Tensor) -> Tensor:
    """How much longer microbatches take than their step's level on all stages; shape (1, k, 1, m, s, d)."""
    p, k, c, *lanes = varied.shape
    if p * c > 1:
        return medians_along(varied.swapaxes(1, 2).reshape(p * c, k, *lanes), 0, low=True)[None, :, None]
    if k == 1:
        return varied
    # One measurement a direction: what both say, so that what lengthens one alone does not look like data.
    first, second = varied[0, 0, 0], varied[0, 1, 0]
    nearer = np.where(np.abs(first) < np.abs(second), first, second)
    both = np.where(first * second > 0.0, nearer, 0.0)
    return np.broadcast_to(both, (k, *lanes))[None, :, None]


def _scatter(varied: Tensor) -> tuple[Floats, Floats]:
    """Standard deviation of ops without data and rare long ones, and what a restless step adds to its log.

    From differences of two that did the same microbatch: what the data do to both is not in them.

    returns : shape (k,), and factors of the steps in which ops scatter far more than in others, shape (k, s).
    """
    p, k, c, *lanes = varied.shape
    by_place = varied.swapaxes(1, 2).reshape(p * c, k, *lanes)
    if p * c > 1:
        pairs = p * c // 2
        apart = np.abs(by_place[: 2 * pairs : 2] - by_place[1 : 2 * pairs : 2]).swapaxes(0, 1)
    else:
        apart = np.abs(by_place[:, :1] - by_place[:, -1:]).swapaxes(0, 1).repeat(k, axis=0)
    of_all = np.array([median_of_all(of_kind.reshape(-1)) for of_kind in apart])
    by_step = apart.mean(axis=(1, 2, 4))
    restless = by_step / np.maximum(medians_along(by_step, 1, low=True), TINY)[:, None]
    return MAD_TO_SIGMA / np.sqrt(2.0) * of_all, np.where(restless > RESTLESS, restless, 1.0)


def _uneven_steps(varied: Tensor, weight: Tensor, error: Floats) -> Mask:
    """Steps whose microbatches differ in their work, as two halves of them agree; bool, shape (s,).

    error : standard error of a weight, shape (k,).
    """
    spread = weight[0, :, 0].std(axis=(1, 3)).min(axis=0)
    is_uneven = spread > max(LEAST_UNEVEN, UNEVEN_ERRORS * float(error.max()))
    halves = halves_of(varied)
    if halves is None:
        return is_uneven
    first, second = (half - half.mean(axis=(0, 2), keepdims=True) for half in halves)
    shared = (first * second).mean(axis=(0, 2))
    of_all = (np.square(first + second) / 4.0).mean(axis=(0, 2))
    is_uneven &= shared > LEAST_SHARED * of_all
    left = ~is_uneven
    if left.any() and _is_uneven_together(first[:, left], second[:, left], weight[0, :, 0][:, :, left]):
        is_uneven[:] = True
    return np.ones_like(is_uneven) if is_uneven.mean() > MOSTLY else is_uneven


def _is_uneven_together(first: Floats, second: Floats, weight: Floats) -> bool:
    """Whether some steps are uneven together: what is too little to be seen in one may be seen in all.

    Two halves of the measurements must agree, and two directions: data lengthen both.

    first, second : the halves, shape (m, s, d). weight: shape (k, m, s, d).
    """
    shared = float((first * second).mean())
    least = max(LEAST_SPREAD**2, LEAST_SHARED * float(np.square((first + second) / 2.0).mean()))
    if shared <= max(least, ERRORS_OF_SHARED * float(first.std() * second.std()) / np.sqrt(first.size)):
        return False
    weight = weight - weight.mean(axis=(1, 3), keepdims=True)
    both = float(np.square(weight).mean(axis=(1, 2, 3)).prod() ** 0.5)
    return len(weight) == 1 or float((weight[0] * weight[1]).mean()) > LEAST_SHARED * both


def halves_of(rest: Tensor) -> tuple[Floats, Floats] | None:
    """Two independent measurements of each microbatch: even and odd stages, else chunks, else directions."""
    p, k, c, *_ = rest.shape
    if p > 1:
        return rest[::2].mean(axis=(0, 1, 2)), rest[1::2].mean(axis=(0, 1, 2))
    if c > 1:
        return rest[:, :, ::2].mean(axis=(0, 1, 2)), rest[:, :, 1::2].mean(axis=(0, 1, 2))
    return (rest[0, 0, 0], rest[0, 1, 0]) if k > 1 else None


def _beside_data(beyond: Floats, found: _Levels, order: Ints) -> tuple[Floats, Floats]:
    """What is the workers' own, and what the data of a dp rank give in a step, shape (k, s, d).

    beyond : levels beyond the peers of the same step, shape (p, k, s, d).
    """
    p, k, s, d = beyond.shape
    nothing = np.zeros((k, s, d))
    if d == 1 or not found.is_uneven.any():
        return beyond, nothing
    if p > 1:
        shared = medians_along(beyond, 0, low=True)
    else:
        nearer = np.abs(beyond[0]).min(axis=0) * np.sign(beyond[0, 0])
        agree = (np.sign(beyond[0]) == np.sign(beyond[0, 0])).all(axis=0)
        shared = np.broadcast_to(np.where(agree, nearer, 0.0), (k, s, d))
    if k > 1:
        error = found.data
        # Data lengthen both directions: what one has beyond the other is the dp rank's own.
        apart = found.weight[0, 1, 0] - found.weight[0, 0, 0]
        of_apart = error.max(axis=0)
        if len(apart) > 1:
            of_apart = MEDIAN_ERROR * apart.std(axis=(0, 2)) / np.sqrt(len(apart))
        least = np.maximum(LEAST_STEP, ERRORS * np.hypot(of_apart, np.hypot(*found.error)))
        is_apart = np.abs(shared[1] - shared[0]) > least[:, None]
        shared = np.where(is_apart, shared.min(axis=0), shared)
    error, uneven = found.data, found.is_uneven
    limit = ERRORS_OF_DATA * np.hypot(found.luck, found.error[:, None, None])
    # What a dp rank has beyond the others for long is not luck, nor what luck does not give in one step.
    in_time = order[uneven[order]]
    lasting = np.zeros_like(shared)
    is_luck = (shared <= limit).all(axis=0)
    series, luck = shared[:, in_time].min(axis=0), found.luck[:, in_time].max(axis=0)
    lasting[:, in_time] = _lasting(series, is_luck[in_time], luck, is_one_stage=p == 1)
    of_luck = shared - lasting
    is_luck = (of_luck <= limit).all(axis=0)
    if found.is_single:
        # One microbatch may be far longer than others; a worker is slow more often than now and then.
        is_luck |= np.count_nonzero(~is_luck & uneven[:, None], axis=0) < OFTEN * np.count_nonzero(uneven)
    is_data = uneven[:, None] & is_luck
    of_data = np.where(is_data, of_luck, 0.0)
    return beyond - of_data, of_data


def _lasting(shared: Floats, may_be_luck: Mask, luck: Floats, *, is_one_stage: bool) -> Floats:
    """What dp ranks have beyond the others in all steps, or from or until one of them; shape (s, d).

    shared      : by which all a dp rank does takes longer than its peers, in the order of time, shape (s, d).
    may_be_luck : bool, of the same shape; other steps are known already.
    luck        : standard error of what its data give, of the same shape.
    """
    steps, dp_ranks = shared.shape
    error = MEDIAN_ERROR * medians_along(luck, 0)
    first, end = _stretch(np.where(may_be_luck, shared, 0.0), may_be_luck, error)
    at = np.arange(steps)[:, None]
    inside = (at >= first) & (at < end)
    told = [shared[inside[:, d] & may_be_luck[:, d], d] for d in range(dp_ranks)]
    level = np.array([np.median(each) if each.size else 0.0 for each in told])
    number = np.array([max(each.size, 1) for each in told])
    errors = np.where(end - first == steps, ERRORS_OF_DP_RANK, ERRORS)
    least = np.maximum(LEAST_WORKER if is_one_stage else LEAST_DP_RANK, errors * error / np.sqrt(number))
    if dp_ranks >= ENOUGH_DP_RANKS:
        deviation = float(medians_along(np.abs(level - medians_along(level, 0)), 0))
        least = np.maximum(least, ERRORS * deviation)
    found: Floats = np.where(inside & (level > least), level, 0.0)
    return found


def _stretch(shared: Floats, counts: Mask, error: Floats) -> tuple[Ints, Ints]:
    """Steps in which each dp rank is longest for long: all, or from or until one of them; first, and end.

    shared : 0 where a step does not count, shape (s, d). counts: of the same shape.
    error  : of one step, shape (d,).
    """
    steps = len(shared)
    until, number = np.cumsum(shared, axis=0), np.cumsum(counts, axis=0)
    since, number_since = until[-1] - until + shared, number[-1] - number + counts
    # Squares that a level explains; that of all steps, unless another explains clearly more.
    of_until = np.square(np.maximum(until, 0.0)) / np.maximum(number, LEAST_STEPS)
    of_since = np.square(np.maximum(since, 0.0)) / np.maximum(number_since, LEAST_STEPS)
    clearly = np.square(ERRORS * error) + of_until[-1]
    last, first = of_until.argmax(axis=0), of_since.argmax(axis=0)
    is_until = (of_until.max(axis=0) > clearly) & (of_until.max(axis=0) >= of_since.max(axis=0))
    is_since = (of_since.max(axis=0) > clearly) & ~is_until
    return np.where(is_since, first, 0), np.where(is_until, last + 1, steps)
