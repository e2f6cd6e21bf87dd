"""Replay planned garbage collection: all workers pause at the same time, instead of at different times."""

import math
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Mask
from udfs.kernel.diagnosis.block_times import Tensor
from udfs.kernel.diagnosis.fixes import Replays
from udfs.kernel.diagnosis.found import Found
from udfs.kernel.diagnosis.works import has_slow

LEAST_COLLECTION: Final = 0.5
"""A pause counts as a collection if it is at least this share of the usual collection."""

LEAST_OFTEN: Final = 2.0
"""If workers with pauses have this number on average, workers without are taken never to pause."""

ROUNDS_OF_POISSON: Final = 20
"""Rounds that solve often = seen * (1 - exp(-often)); if seen >= 2, each leaves at most 0.41 of the error."""

MOST_OF_STEP: Final = 0.5
"""If more than this share of a worker's computes in a step is long, the worker is slow and does not pause."""

MOST_PAUSED: Final = 0.2
"""If more than this share of computes pauses, their usual duration is not known, and there is no answer."""

LEAST_PAUSES: Final = 4
MOST_OF_FEW: Final = 0.01
"""Fewer pauses may be long ops by chance; if they cost more than this share of the step, there is no answer.
"""


class Collections(NamedTuple):
    """Interval, pause and step time if all workers collect garbage at the same time.

    every_steps : number of steps between two collections of a worker, the same as now.
    pause_s     : expected longest pause of all workers that pause, for which all would wait. [s]
    step_s      : mean replayed step time with planned collections. [s]
    pays_from   : planned collections save time if there are at least this number of steps between two.
    """

    every_steps: int
    pause_s: float
    step_s: float
    pays_from: float


def planned_collections(replays: Replays) -> Collections | None:
    """Replay with all workers pausing together after a step, as often as a pausing worker does now.

    returns : None with one worker, without pauses, if more than MOST_PAUSED of the computes pause, or if
              fewer than LEAST_PAUSES long ops cost more than MOST_OF_FEW. None also if workers have one
              compute of each direction in a step, and a pause may be slowness instead: with up to two stages,
              or with slow workers.
    """
    found, factors = replays.found, replays.found.factors
    # Pauses by op and not by step, because many computes that are a little longer are no collection.
    parts = list(found.own.pauses.values())
    if factors is not None and factors.pause_s is not None:
        parts.append(factors.pause_s)
    computes = 0 if factors is None else factors.noise[0, 0, :, :, 0, 0].size
    # Pauses shorter than the usual one make up half of the total time. Without a limit, ops that are long by
    # chance, which are far shorter than collections, would make these look frequent.
    every_s = np.sort(np.concatenate([np.empty(0), *(part.ravel() for part in parts)]))
    every_s = every_s[every_s > 0.0]
    before_s = np.cumsum(every_s)
    least_s = np.inf
    if every_s.size:
        least_s = LEAST_COLLECTION * float(every_s[np.searchsorted(before_s, before_s[-1] / 2.0)])
    are_long = [_collected(part, least_s) for part in parts]
    # Pauses of each worker. Computes may cover fewer steps than other ops, and are extrapolated to all steps.
    steps = max((each.shape[-2] for each in are_long), default=0)
    rates = [each.sum(axis=tuple(range(1, each.ndim - 1))) / each.shape[-2] for each in are_long]
    pauses: Floats = steps * np.sum(rates, axis=0)
    most = MOST_PAUSED * steps * max(computes, 1)
    is_known = computes > 1 or (factors is not None and len(factors.noise) > 2 and not has_slow(factors))
    if not pauses.any() or found.job.hosts.size == 1 or not is_known or pauses.mean() > most:
        return None
    often = usual_number(pauses)
    every_steps = max(1, round(steps / often))
    lengths_s = np.sort(np.concatenate([part[each] for part, each in zip(parts, are_long, strict=True)]))
    share = np.arange(len(lengths_s) + 1) / len(lengths_s)
    longest_s = float(lengths_s @ np.diff(share ** (pauses.sum() / often)))
    without_s = Replays(_uncollected(found, least_s), replays.work).mean_s()
    saved_s = replays.mean_s() - without_s
    if pauses.sum() < LEAST_PAUSES and saved_s > MOST_OF_FEW * replays.mean_s():
        return None
    pays_from = longest_s / saved_s if saved_s > 0.0 else np.inf
    return Collections(every_steps, longest_s, without_s + longest_s / every_steps, float(pays_from))


def usual_number(pauses: Floats) -> float:
    """Estimate the mean number of pauses of workers that pause; by chance, some of them show no pause.

    pauses : number of pauses of each worker.
    """
    of_all, seen = float(pauses.mean()), float(pauses[pauses > 0.0].mean())
    if seen < LEAST_OFTEN:
        return of_all
    often = seen
    for _ in range(ROUNDS_OF_POISSON):
        often = -seen * math.expm1(-often)
    return max(often, of_all)


def _collected(pause_s: Tensor, least_s: float) -> Mask:
    """Mark pauses of at least least_s, unless most computes of the worker are long in that step."""
    is_long: Mask = pause_s >= least_s
    is_of_computes = pause_s.ndim > 3  # pauses of other ops have the axes stage, step and dp rank
    if is_of_computes and pause_s[0, 0, :, :, 0, 0].size > 1:
        is_long &= is_long.mean(axis=(2, 3), keepdims=True) <= MOST_OF_STEP
    return is_long


def _uncollected(found: Found, least_s: float) -> Found:
    """Return the measured slowness of the job without the pauses that count as collections."""
    factors = found.factors
    if factors is not None and factors.pause_s is not None:
        left_s = np.where(_collected(factors.pause_s, least_s), 0.0, factors.pause_s)
        factors = factors._replace(pause_s=left_s)
    own_times = [
        own._replace(pause_s=np.where(own.pause_s < least_s, own.pause_s, 0.0)) for own in found.own_times
    ]
    return found._replace(factors=factors, own_times=own_times)
