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
from udfs.kernel.diagnosis.lasting import lasting_levels, peers_of
from udfs.kernel.diagnosis.levels import (
    ERRORS,
    LEAST_STEP,
    MAD_TO_SIGMA,
    apart_when_healthy,
    scatter_over_steps,
    slow_series,
    usual_levels,
)
from udfs.kernel.diagnosis.variation import FEW_MICROBATCHES, MEDIAN_ERROR, Variation, levels_and_variation
from udfs.kernel.selection import medians_along

ERRORS_OF_DATA: Final = 4.0
"""A dp rank is slow itself if it is longer in a step by more standard errors than that step's data explain.
"""

OFTEN: Final = 0.2
"""Share of the steps in which a worker must be slow where a single long microbatch would look the same."""


LIGHT: Final = 0.5
"""Part of a slow worker's excess that its light microbatches have at least: it lengthens them too."""


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
        return in_steps + self.always[:, None, None, None]

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
    own, of_data, known = _beside_data(beyond, found, order)
    noise = np.maximum(found.error, scatter_over_steps(own))
    error = np.maximum(of_step, noise[:, None])
    # The error of a step is known where it has enough microbatches.
    if logs.shape[3] > FEW_MICROBATCHES:
        known = known | (own > np.maximum(LEAST_STEP, ERRORS * error)[None, :, :, None])
    slow = slow_series(own, error, apart_when_healthy(own), order, noise, known, is_single=found.is_single)
    stage_error = np.maximum(of_step, scatter_over_steps(usual.stage[..., None])[:, None])
    stage = slow_series(
        usual.stage[..., None], stage_error, np.zeros(len(error)), order, is_single=found.is_single
    )[..., 0]
    if stage.any():
        is_fast = own < -np.maximum(LEAST_STEP, ERRORS * error)[None, :, :, None]
        slow = np.where(is_fast & (stage > 0.0)[..., None], own, slow)
    base = usual.base[:, :, None] + found.chunk[..., 0, 0, 0]
    of_hosts = stages_of_hosts(base, hosts, slow.mean(axis=(1, 2)))
    base = base - of_hosts.log_factor[:, None, None]
    workers = Workers(
        slow, stage, of_hosts.log_factor, of_hosts.is_ambiguous, noise, usual.common, found.is_uneven
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


def _beside_data(beyond: Floats, found: Variation, order: Ints) -> tuple[Floats, Floats, Mask]:
    """Separate the excess of workers from that of a dp rank's data, (k, s, d), and where it lasts, (s, d).

    beyond : levels beyond the peers of the same step, shape (p, k, s, d).
    """
    p, k, s, d = beyond.shape
    nothing = np.zeros((k, s, d))
    if d == 1 or not found.is_uneven.any():
        return beyond, nothing, nothing[0] > 0.0
    uneven = found.is_uneven
    limit = ERRORS_OF_DATA * np.hypot(found.luck, found.error[:, None, None])
    shared = _shared(beyond, found)
    # What a dp rank has beyond the others for long is not luck, nor what luck does not give in one step.
    # Steps of even data show it too: there nothing is luck, but all of it counts.
    lasting, light = np.zeros_like(shared), _light(found.weight[0, :, 0])
    is_luck = _is_luck(shared, limit, light)
    may_be_luck = (is_luck | ~uneven[:, None])[order]
    peers = peers_of(beyond)
    series = _shared(beyond - beyond[..., peers].mean(axis=3, keepdims=True), found)[:, order].min(axis=0)
    luck = np.hypot(found.luck, found.error[:, None, None])[:, order].max(axis=0)
    lasting[:, order] = lasting_levels(series, may_be_luck, luck, peers, _within(found), is_one_stage=p == 1)
    of_luck = shared - lasting
    is_luck = _is_luck(of_luck, limit, light)
    if found.is_single:
        # One microbatch may be far longer than others; a worker is slow more often than now and then.
        is_luck |= np.count_nonzero(~is_luck & uneven[:, None], axis=0) < OFTEN * np.count_nonzero(uneven)
    is_data = uneven[:, None] & is_luck
    of_data = np.where(is_data, of_luck, 0.0)
    return beyond - of_data, of_data, lasting[0] > 0.0


def _is_luck(shared: Floats, limit: Floats, light: Floats) -> Mask:
    """Whether what dp ranks have beyond their peers may be their data, shape (s, d).

    shared, limit : shape (k, s, d). light : as of `_light`.
    """
    is_luck: Mask = np.asarray((shared <= limit).all(axis=0))
    return is_luck | np.asarray((light < -LIGHT * shared).any(axis=0))


def _light(weight: Floats) -> Floats:
    """Log weight of each dp rank's light microbatches beside those of its peers, shape (k, s, d).

    weight : beside the median of a dp rank's microbatches, shape (k, m, s, d); the lower quartile is light.
    """
    microbatches = weight.shape[1]
    if microbatches <= FEW_MICROBATCHES:
        return np.zeros_like(weight[:, 0])
    light = np.partition(weight, (microbatches - 1) // 4, axis=1)[:, (microbatches - 1) // 4]
    return light - medians_along(light, 2)[..., None]


def _shared(beyond: Floats, found: Variation) -> Floats:
    """Excess that all stages of a dp rank share, as they share its data; shape (k, s, d)."""
    p, k, s, d = beyond.shape
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
    return shared


def _within(found: Variation) -> Floats | None:
    """Standard error of a dp rank's level in a step, by the middle half of its microbatches; shape (d,)."""
    weight = found.weight[0, :, 0]
    k, m, s, d = weight.shape
    if m <= FEW_MICROBATCHES:
        return None
    apart = np.abs(weight - medians_along(weight, 1)[:, None])
    scatter = MAD_TO_SIGMA * medians_along(apart.reshape(k, m * s, d), 1).max(axis=0)
    error: Floats = MEDIAN_ERROR * scatter / np.sqrt(m)
    return error
