"""Slow computes: of a worker, of a whole dp rank, or of all hosts of a stage.

Axes p, k, c, m, s, d: stage, direction, chunk, microbatch, step, dp rank. All values are logs of times.
"""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.cause import COMES_AND_GOES
from udfs.kernel.diagnosis.block_times import Tensor
from udfs.kernel.diagnosis.course import course_of
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
from udfs.kernel.diagnosis.variation import LEAST_STEPS, MEDIAN_ERROR, Variation, levels_and_variation
from udfs.kernel.selection import median_of_all, medians_along

ERRORS_OF_DATA: Final = 4.0
"""A dp rank is slow itself if it is longer in a step by more standard errors than that step's data explain.
"""

OFTEN: Final = 0.2
"""Share of the steps in which a worker must be slow where a single long microbatch would look the same."""


class Workers(NamedTuple):
    """Log factors by which workers are slower than their peers; 0 where they are not.

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
        """Total log factor of each worker, direction and step; shape (p, k, s, d)."""
        in_steps = np.maximum(self.own + self.stage[..., None], 0.0)
        together: Floats = in_steps + self.always[:, None, None, None]
        return together

    def log_factor(self) -> Floats:
        """The total log factors as a tensor; shape (p, k, 1, 1, s, d)."""
        return self.cells()[:, :, None, None]


def slow_workers(
    logs: Tensor, hosts: Ints, order: Ints, fitted: Mask | None = None
) -> tuple[Workers, Tensor, Tensor]:
    """Slow workers; usual log times (p, k, c, 1, 1, 1); log weights of microbatches (1, k, 1, m, s, d).

    hosts  : int, shape (p, d); -1 where unknown.
    order  : positions of the steps in the order of time.
    fitted : bool, shape (s,); steps whose data were taken away, but for what no line fits; None: none.
    """
    found = levels_and_variation(logs)
    level = found.level
    of_step = found.error_of_step()
    # Stages share their data: what one is slower than the others is known as well as with even data.
    of_base = found.error[:, None] * found.restless if len(level) > 1 else of_step
    base_error, step_error = (np.sqrt(np.square(each).mean(axis=1)) for each in (of_base, of_step))
    usual = usual_levels(level, base_error, hosts, ~found.is_uneven, order, step_error, fitted)
    if found.is_single and level.shape[0] * level.shape[3] == 1:
        usual = usual._replace(common=_without_long_ops(usual.common, base_error, order))
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


def _without_long_ops(common: Floats, error: Floats, order: Ints) -> Floats:
    """What steps of one op a direction take longer, without what comes and goes in one direction alone.

    A step that is slow lengthens both; shape (k, s). error : of one step, shape (k,).
    """
    found = common.copy()
    for kind, series in enumerate(common):
        course = course_of(series[order], float(error[kind]))
        is_slow, nearer = order[course.is_slow], common.min(axis=0)
        if not is_slow.size or course.kind != COMES_AND_GOES:
            continue
        if np.median(nearer[is_slow]) < np.median(series[is_slow]) / 2.0:
            found[kind, is_slow] = nearer[is_slow]
    return found


def _beside_data(beyond: Floats, found: Variation, order: Ints) -> tuple[Floats, Floats]:
    """Separate the excess of workers from that of a dp rank's data, shape (k, s, d).

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
    # Steps of even data show it too: there nothing is luck, but all of it counts.
    lasting = np.zeros_like(shared)
    is_luck: Mask = np.asarray((shared <= limit).all(axis=0))
    may_be_luck = (is_luck | ~uneven[:, None])[order]
    series = shared[:, order].min(axis=0)
    luck = np.hypot(found.luck, found.error[:, None, None])[:, order].max(axis=0)
    lasting[:, order] = lasting_levels(series, may_be_luck, luck, is_one_stage=p == 1)
    of_luck = shared - lasting
    is_luck = np.asarray((of_luck <= limit).all(axis=0))
    if found.is_single:
        # One microbatch may be far longer than others; a worker is slow more often than now and then.
        is_luck |= np.count_nonzero(~is_luck & uneven[:, None], axis=0) < OFTEN * np.count_nonzero(uneven)
    is_data = uneven[:, None] & is_luck
    of_data = np.where(is_data, of_luck, 0.0)
    return beyond - of_data, of_data


ENOUGH_DP_RANKS: Final = 6
"""With fewer dp ranks, their scatter says nothing about what is healthy."""

ENOUGH_STEPS: Final = 10
ENOUGH_PEERS: Final = 3
MOST_OF_SEEN: Final = 2.0
"""From these steps and dp ranks on, data give by chance at most this many times the scatter over steps."""

LEAST_WORKER: Final = 0.015
LEAST_DP_RANK: Final = 0.03
ERRORS_OF_DP_RANK: Final = 3.5
"""Log of the least factor, and standard errors, from which a dp rank is slow and not unlucky in its data."""


def lasting_levels(shared: Floats, may_be_luck: Mask, luck: Floats, *, is_one_stage: bool) -> Floats:
    """Lasting log excess of dp ranks over all steps, or from or until one step; shape (s, d).

    shared      : by which all a dp rank does takes longer than its peers, in the order of time, shape (s, d).
    may_be_luck : bool, of the same shape; other steps are known already.
    luck        : standard error of what its data give, of the same shape.
    """
    steps, dp_ranks = shared.shape
    error = MEDIAN_ERROR * medians_along(luck, 0)
    first, end = _stretch(np.where(may_be_luck, shared, 0.0), may_be_luck, error)
    at = np.arange(steps)[:, None]
    inside = (at >= first) & (at < end)
    sampled = [shared[inside[:, d] & may_be_luck[:, d], d] for d in range(dp_ranks)]
    level = np.array([median_of_all(each) if each.size else 0.0 for each in sampled])
    number = np.array([max(each.size, 1) for each in sampled])
    sure = np.where(
        end - first == steps, ERRORS_OF_DP_RANK * np.minimum(error, _seen(shared)), ERRORS * error
    )
    least = np.maximum(LEAST_WORKER if is_one_stage else LEAST_DP_RANK, sure / np.sqrt(number))
    if dp_ranks >= ENOUGH_DP_RANKS:
        deviation = float(medians_along(np.abs(level - medians_along(level, 0)), 0))
        least = np.maximum(least, ERRORS * deviation)
    found: Floats = np.where(inside & (level > least), level, 0.0)
    return found


def _seen(shared: Floats) -> Floats:
    """Largest error of a dp rank's excess in one step, by its scatter over steps; shape (d,).

    Few microbatches far heavier than all others scatter widely, and move no median.
    """
    steps, dp_ranks = shared.shape
    if steps < ENOUGH_STEPS or dp_ranks < ENOUGH_PEERS:
        return np.full(dp_ranks, np.inf)
    deviation = MAD_TO_SIGMA * medians_along(np.abs(shared - medians_along(shared, 0)), 0)
    # The dp rank that is the peer of the others in most steps has none.
    most: Floats = MEDIAN_ERROR * MOST_OF_SEEN * np.maximum(deviation, median_of_all(deviation))
    return most


def _stretch(shared: Floats, counts: Mask, error: Floats) -> tuple[Ints, Ints]:
    """Steps [first, end) in which each dp rank's excess lasts: all steps, or from or until one.

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
