"""Planned garbage collection: pauses that single workers make at different times are made together."""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Mask
from udfs.kernel.diagnosis.block_times import Tensor
from udfs.kernel.diagnosis.factors import Factors
from udfs.kernel.diagnosis.fixes import Replays
from udfs.kernel.diagnosis.found import Found
from udfs.kernel.diagnosis.works import has_slow

LEAST_COLLECTION: Final = 0.5
"""Collections take at least this part of the usual one."""

LEAST_OFTEN: Final = 2.0
"""Pauses of a worker, in the mean of those that paused, from which on one that did not is one that does not.
"""

ROUNDS_OF_POISSON: Final = 20
"""Rounds that solve often = seen (1 - exp(-often)): from 2 on, each leaves at most 0.41 of the error."""

MOST_OF_STEP: Final = 0.5
"""A worker of which a larger share of a step's computes is long is slow in that step."""

MOST_PAUSED: Final = 0.2
"""If a larger share of a direction's computes pauses, their usual length is not known."""


LEAST_PAUSES: Final = 4
MOST_OF_FEW: Final = 0.01
"""Fewer pauses may be single long ops: what they cost is known only up to this share of the step."""

_OF_COMPUTES: Final = 6
"""Axes of the pauses of computes; those of other ops have fewer."""


class Collections(NamedTuple):
    """What collecting on all workers at the same time gives: interval, pause and step time.

    every_steps : how often each worker that pauses does so now, and all would together; whole steps.
    pause_s     : how long they then all wait: the longest of as many pauses as there are workers that pause.
                  [s]
    step_s      : mean replayed step time with it. [s]
    pays_from   : least number of steps between collections from which on it saves anything.
    """

    every_steps: int
    pause_s: float
    step_s: float
    pays_from: float


def planned_collections(replays: Replays) -> Collections | None:
    """Replay with all workers pausing together after a step, as often as a pausing worker did alone.

    returns : None where no worker pauses, where there is one worker, where a step is one compute each way,
              whose pause looks like a slow worker or a heavy microbatch unless other stages tell, where too
              many computes pause to know what is usual, or where few long ops that may be chance cost much.
    """
    found, parts = replays.found, _pauses(replays.found)
    workers = found.job.hosts.size
    computes = 0 if found.factors is None else found.factors.noise[0, 0, :, :, 0, 0].size
    least_s = _least_collection(np.concatenate([part.ravel() for part in parts])) if parts else np.inf
    are_long = [_collected(part, least_s) for part in parts]
    steps, pauses = _by_worker(are_long)
    most = MOST_PAUSED * steps * max(computes, 1)
    is_known = computes > 1 or _do_stages_tell(found.factors)
    if not pauses.any() or workers == 1 or not is_known or pauses.mean() > most:
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


def _do_stages_tell(factors: Factors | None) -> bool:
    """Return whether other stages show if a worker with one compute a step pauses or is slow."""
    return factors is not None and len(factors.noise) > 2 and not has_slow(factors)


def _by_worker(paused: Sequence[Mask]) -> tuple[int, Floats]:
    """Return the number of steps, and how often each worker paused in them; shape (stage, dp_rank).

    Of computes only usual steps are known, of other ops all.

    paused : of each kind of op; the last axes are step and dp_rank, the first is the stage.
    """
    steps = max((each.shape[-2] for each in paused), default=0)
    rates = [each.sum(axis=tuple(range(1, each.ndim - 1))) / each.shape[-2] for each in paused]
    return steps, steps * np.sum(rates, axis=0)


def usual_number(pauses: Floats) -> float:
    """Estimate the mean number of pauses of workers that pause; by chance, some of them show none.

    pauses : of each worker.
    """
    of_all, seen = float(pauses.mean()), float(pauses[pauses > 0.0].mean())
    if seen < LEAST_OFTEN:
        return of_all
    often = seen
    for _ in range(ROUNDS_OF_POISSON):
        often = -seen * math.expm1(-often)
    return max(often, of_all)


def _least_collection(lengths_s: Floats) -> float:
    """Return how long a pause must be to count as a collection, by the lengths that make up most time. [s]

    Single ops that chance made longer are far shorter, and would make collections look frequent.
    """
    ascending_s = np.sort(lengths_s[lengths_s > 0.0])
    if not ascending_s.size:
        return np.inf
    before_s = np.cumsum(ascending_s)
    return LEAST_COLLECTION * float(ascending_s[np.searchsorted(before_s, before_s[-1] / 2.0)])


def _pauses(found: Found) -> list[Tensor]:
    """Return the pause of each op, by kind of op; axes: first the stage, last step and dp_rank. [s]

    Not summed over a step: many computes that are a little longer are no collection.
    """
    own = list(found.own.pauses.values())
    of_computes = None if found.factors is None else found.factors.pause_s
    return own if of_computes is None else [*own, of_computes]


def _collected(pause_s: Tensor, least_s: float) -> Mask:
    """Mark pauses that may be collections: long ones, unless most ops of the worker pause in that step."""
    is_long: Mask = pause_s >= least_s
    if pause_s.ndim == _OF_COMPUTES and pause_s[0, 0, :, :, 0, 0].size > 1:
        is_long &= is_long.mean(axis=(2, 3), keepdims=True) <= MOST_OF_STEP
    return is_long


def _uncollected(found: Found, least_s: float) -> Found:
    """Return the measured slowness of the job without the pauses that may be collections."""
    factors = found.factors
    if factors is not None and factors.pause_s is not None:
        left_s = np.where(_collected(factors.pause_s, least_s), 0.0, factors.pause_s)
        factors = factors._replace(pause_s=left_s)
    own_times = [
        own._replace(pause_s=np.where(own.pause_s < least_s, own.pause_s, 0.0)) for own in found.own_times
    ]
    return found._replace(factors=factors, own_times=own_times)
