"""Find workers, dp ranks and stages whose computes are slow, apart from uneven data.

Axes p, k, c, m, s, d: stage, direction, chunk, microbatch, step in the order of time, dp rank. All values are
logs of times.
"""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.cause import COMES_AND_GOES
from udfs.kernel.diagnosis.block_times import Tensor
from udfs.kernel.diagnosis.course import course_of
from udfs.kernel.diagnosis.hosts import stages_of_hosts
from udfs.kernel.diagnosis.lasting import lasting_levels, peers_of
from udfs.kernel.diagnosis.levels import (
    ERRORS,
    LEAST_STEP,
    MAD_TO_SIGMA,
    Doubt,
    Usual,
    apart_when_healthy,
    scatter_over_steps,
    slow_series,
    usual_levels,
)
from udfs.kernel.diagnosis.variation import FEW_MICROBATCHES, MEDIAN_ERROR, Variation, levels_and_variation
from udfs.kernel.selection import medians_along

ERRORS_OF_DATA: Final = 4.0
"""Data may explain a dp rank's excess in a step up to this number of standard errors."""

OFTEN: Final = 0.2
"""With one microbatch per chunk, a slow dp rank is slow in at least this share of the uneven steps."""

LIGHT: Final = 0.5
"""Light microbatches of a slow worker have at least this share of its excess; heavy data do not change them.
"""


class Workers(NamedTuple):
    """Log factors by which workers are slower than their peers; 0 if they are not slower.

    own        : factors of single workers and dp ranks, in addition to `stage`, shape (p, k, s, d); below 0
                 where a worker is fast although its stage is slow.
    stage      : factors of all workers of a stage, in steps in which its hosts are slow, shape (p, k, s).
    always     : factors of stages on one host, or with one worker, that is slow in all steps, shape (p,).
    ambiguous  : bool, shape (p,); stages that either have more work or are on one slow host or worker.
    error      : standard error of a worker's level in a step, shape (k,).
    common     : log by which all workers take longer in a step, for any reason; shape (k, s).
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
        """Return the total log factor of each worker, direction and step; shape (p, k, s, d)."""
        in_steps = np.maximum(self.own + self.stage[..., None], 0.0)
        return in_steps + self.always[:, None, None, None]

    def log_factor(self) -> Floats:
        """Return the total log factors as a tensor; shape (p, k, 1, 1, s, d)."""
        return self.cells()[:, :, None, None]


def slow_workers(logs: Tensor, hosts: Ints, fitted: Mask | None = None) -> tuple[Workers, Tensor, Tensor]:
    """Find slow workers; also return usual log times (p, k, c, 1, 1, 1) and log weights (1, k, 1, m, s, d).

    hosts  : int, shape (p, d); -1 where unknown.
    fitted : bool, shape (s,); steps from whose logs fitted work was subtracted; None if it was from none.
    """
    found = levels_and_variation(logs)
    usual = _usual(found, hosts, fitted)
    own, of_data, lasts = _beside_data(found.level - usual.level[..., None], found)
    noise = np.maximum(found.error, scatter_over_steps(own))
    error = np.maximum(found.error_of_step, noise[:, None])
    least = np.maximum(LEAST_STEP, ERRORS * error)[None, :, :, None]
    # With few microbatches, the error of a single step is not known well.
    known = lasts | (own > least) if found.weight.shape[3] > FEW_MICROBATCHES else lasts
    slow = slow_series(own, Doubt(error, apart_when_healthy(own), noise, known, found.is_single))
    series = usual.stage[..., None]
    error = np.maximum(found.error_of_step, scatter_over_steps(series)[:, None])
    stage = slow_series(series, Doubt(error, np.zeros(len(error)), is_single=found.is_single))[..., 0]
    if stage.any():
        is_fast = own < -least
        slow = np.where(is_fast & (stage > 0.0)[..., None], own, slow)
    base = usual.base[:, :, None] + found.chunk[..., 0, 0, 0]
    of_hosts = stages_of_hosts(base, hosts, slow.mean(axis=(1, 2)))
    base = base - of_hosts.log_factor[:, None, None]
    workers = Workers(
        slow, stage, of_hosts.log_factor, of_hosts.is_ambiguous, noise, usual.common, found.is_uneven
    )
    weight = found.weight + (of_data + usual.common[..., None])[None, :, None, None]
    return workers, base[..., None, None, None], weight


def _usual(found: Variation, hosts: Ints, fitted: Mask | None) -> Usual:
    """Return the usual levels of stages; fitted : as in slow_workers."""
    of_step, even = found.error_of_step, ~found.is_uneven
    # Stages share their data, so uneven data do not add to the error of differences between stages.
    of_base = found.error[:, None] * found.restless if len(found.level) > 1 else of_step
    error, uneven_error = (np.sqrt(np.square(each).mean(axis=1)) for each in (of_base, of_step))
    # Where the fitted work was subtracted, errors of that fit add to the scatter, in even steps too.
    calm = even if fitted is None or not fitted.any() else np.zeros_like(even)
    usual = usual_levels(found.level, error, hosts, even, calm, uneven_error)
    if not found.is_single or found.level.shape[0] * found.level.shape[3] > 1:
        return usual
    # A slow step lengthens both directions. If intermittent slow steps of one direction are mostly not slow
    # in the other, they are long ops, and the smaller of both excesses is used for them.
    common, nearer = usual.common.copy(), usual.common.min(axis=0)
    for kind, series in enumerate(usual.common):
        course = course_of(series, float(error[kind]))
        is_slow = course.is_slow
        if not is_slow.any() or course.kind != COMES_AND_GOES:
            continue
        if np.median(nearer[is_slow]) < np.median(series[is_slow]) / 2.0:
            common[kind, is_slow] = nearer[is_slow]
    return usual._replace(common=common)


def _beside_data(beyond: Floats, found: Variation) -> tuple[Floats, Floats, Mask]:
    """Divide the excess of workers into their own (p, k, s, d) and the part due to data (k, s, d).

    beyond  : levels minus those of the peers of the same step, shape (p, k, s, d).
    returns : both parts, and where a dp rank has a lasting excess of its own, bool, shape (s, d).
    """
    p, k, s, d = beyond.shape
    nothing = np.zeros((k, s, d))
    if d == 1 or not found.is_uneven.any():
        return beyond, nothing, nothing[0] > 0.0
    uneven = found.is_uneven
    luck, shared = np.hypot(found.luck, found.error[:, None, None]), _shared(beyond, found)
    limit, light = ERRORS_OF_DATA * luck, _light(found.weight[0, :, 0])
    # An excess is a rank's own if it lasts, or if it is too large to be the chance effect of a step's data.
    # In steps of even data, all of it is the rank's own, and these steps count in finding what lasts.
    may_be_luck = _is_luck(shared, limit, light) | ~uneven[:, None]
    peers = peers_of(beyond)
    series = _shared(beyond - beyond[..., peers].mean(axis=3, keepdims=True), found).min(axis=0)
    lasting = lasting_levels(
        series, may_be_luck, luck.max(axis=0), peers, _within(found), is_one_stage=p == 1
    )
    of_luck = shared - lasting
    is_luck = _is_luck(of_luck, limit, light)
    if found.is_single:
        # A single microbatch may be far longer than others, but a slow worker is slow in many steps.
        is_luck |= np.count_nonzero(~is_luck & uneven[:, None], axis=0) < OFTEN * np.count_nonzero(uneven)
    is_data = uneven[:, None] & is_luck
    of_data = np.where(is_data, of_luck, 0.0)
    return beyond - of_data, of_data, lasting > 0.0


def _is_luck(shared: Floats, limit: Floats, light: Floats) -> Mask:
    """Return whether a dp rank's data may explain why it is slower than its peers; bool, shape (s, d).

    shared : log excess that all stages of a rank have; limit : of the chance effect; both (k, s, d).
    light  : as returned by `_light`.
    """
    is_luck: Mask = np.asarray((shared <= limit).all(axis=0))
    return is_luck | np.asarray((light < -LIGHT * shared).any(axis=0))


def _light(weight: Floats) -> Floats:
    """Return the lower quartile of each dp rank's log weights minus that of the median rank; shape (k, s, d).

    weight : relative to the median of the rank's microbatches, shape (k, m, s, d). Zeros if these are few.
    """
    microbatches = weight.shape[1]
    if microbatches <= FEW_MICROBATCHES:
        return np.zeros_like(weight[:, 0])
    light = np.partition(weight, (microbatches - 1) // 4, axis=1)[:, (microbatches - 1) // 4]
    return light - medians_along(light, 2)[..., None]


def _shared(beyond: Floats, found: Variation) -> Floats:
    """Return the log excess that most stages of a dp rank have, because they share its data; (k, s, d)."""
    p, k, s, d = beyond.shape
    if p > 1:
        shared = medians_along(beyond, 0, low=True)
    else:
        nearer = np.abs(beyond[0]).min(axis=0) * np.sign(beyond[0, 0])
        agree = (np.sign(beyond[0]) == np.sign(beyond[0, 0])).all(axis=0)
        shared = np.broadcast_to(np.where(agree, nearer, 0.0), (k, s, d))
    if k > 1:
        error = found.data
        # Data lengthen both directions, so a significant excess of only one direction is the rank's own.
        apart = found.weight[0, 1, 0] - found.weight[0, 0, 0]
        of_apart = error.max(axis=0)
        if len(apart) > 1:
            of_apart = MEDIAN_ERROR * apart.std(axis=(0, 2)) / np.sqrt(len(apart))
        least = np.maximum(LEAST_STEP, ERRORS * np.hypot(of_apart, np.hypot(*found.error)))
        is_apart = np.abs(shared[1] - shared[0]) > least[:, None]
        shared = np.where(is_apart, shared.min(axis=0), shared)
    return shared


def _within(found: Variation) -> Floats | None:
    """Return the standard error of a dp rank's level in a step, from the middle half of microbatches; (d,).

    None if microbatches are few.
    """
    weight = found.weight[0, :, 0]
    k, m, s, d = weight.shape
    if m <= FEW_MICROBATCHES:
        return None
    apart = np.abs(weight - medians_along(weight, 1)[:, None])
    scatter = MAD_TO_SIGMA * medians_along(apart.reshape(k, m * s, d), 1).max(axis=0)
    error: Floats = MEDIAN_ERROR * scatter / np.sqrt(m)
    return error
