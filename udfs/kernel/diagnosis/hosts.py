"""Find slow hosts that run a whole stage, so that the stage has no other worker to compare with."""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.selection import medians_along

LEAST_LOG: Final = 0.03
"""Log factor from which a stage counts as slower than the others."""

ALIKE: Final = 0.15
LEAST_ALIKE: Final = 0.01
"""Stages, directions and chunks are equally slow if their log factors differ by at most ALIKE times the
median log factor, or by LEAST_ALIKE."""

CLEAR_LOG: Final = float(np.log(1.5))
"""If all ops of a stage are slower by an equal log factor above this, more layers are not the reason."""

HALF: Final = 0.5
"""A host is slow if its workers in other stages have at least this share of the stage's log factor."""

ONE_DIRECTION: Final = 0.25
"""If one direction's log factor is below this share of the other direction's, only the other is slow."""

UNKNOWN: Final = -1


class StagesOfHosts(NamedTuple):
    """How far slow hosts slow the stages of which they have all workers.

    log_factor   : log factor by which a slow host slows the stage, else 0; shape (stage,).
    is_ambiguous : bool, shape (stage,); whether either a slow host or more work may be the reason.
    """

    log_factor: Floats
    is_ambiguous: Mask


def stages_of_hosts(usual: Floats, hosts: Ints, own: Floats) -> StagesOfHosts:
    """Find stages that are slow because their host is slow.

    A slow host lengthens all computes of its workers by one factor. More work of a stage lengthens directions
    and chunks by different factors (a loss layer), or all by a small factor (a few more layers). It seldom
    affects exactly the stages of one host.

    usual : log time of the computes of each stage, shape (stage, direction, chunk).
    hosts : int, shape (stage, dp_rank); UNKNOWN where the log does not say.
    own   : log factor by which a worker is slower than its stage's peers, shape (stage, dp_rank).
    """
    stages, dp_size = hosts.shape
    found = StagesOfHosts(np.zeros(stages), np.zeros(stages, dtype=bool))
    only = np.where((hosts == hosts[:, :1]).all(axis=1), hosts[:, 0], UNKNOWN)
    together = [only == host for host in set(only.tolist()) - {UNKNOWN}]
    if dp_size == 1:
        together += list(np.eye(stages, dtype=bool))
    for whole in together:
        if whole.all():
            continue
        over = over_others(usual, whole)
        is_host = over.is_alike or over.is_one_direction or dp_size == 1
        if max(over.log_factor, over.of_directions.max()) <= LEAST_LOG or not is_host:
            continue
        beside = (hosts == hosts[whole][0, 0]) & ~whole[:, None] & (hosts != UNKNOWN)
        # With one replica, no worker has peers, and the speed of the host's other workers is unknown.
        of_host = float(np.median(own[beside])) if beside.any() and dp_size > 1 else np.nan
        if of_host < HALF * over.log_factor:
            continue  # The host's other workers are not slow, so the host is not.
        if of_host > LEAST_LOG:
            found.log_factor[whole] = of_host  # As slow as the host's other workers; the rest is work.
            continue
        found.is_ambiguous[whole] = True
        if over.is_likely:
            found.log_factor[whole] = over.log_factor
    return found


class Over(NamedTuple):
    """By how much the durations of some stages exceed those of the others, as log factors.

    log_factor    : median over stages, directions and chunks.
    of_directions : median over stages and chunks, shape (direction,).
    is_alike      : whether all stages, directions and chunks are longer by about the same factor.
    is_one_direction : whether only forwards or only backwards are longer, which more layers cannot explain.
    is_likely     : whether is_alike holds and the excess is larger than more work would explain.
    """

    log_factor: float
    of_directions: Floats
    is_alike: bool
    is_one_direction: bool
    is_likely: bool


def over_others(usual: Floats, whole: Mask, *, by_direction: bool = False) -> Over:
    """Compare the durations of some stages with those of the others.

    usual : log time of the computes of each stage, shape (stage, direction, chunk).
    whole : bool, shape (stage,).
    by_direction : whether is_alike allows a different factor for each direction.
    """
    over = usual[whole] - medians_along(usual[~whole], 0, low=True)
    of_directions = np.median(over, axis=(0, 2))
    apart = over - of_directions[:, None] if by_direction else over
    factor, spread = float(np.median(over)), float(apart.max() - apart.min())
    is_alike = spread <= max(ALIKE * factor, LEAST_ALIKE)
    # The loss layer alone makes the last stage heavy, however fast its workers are.
    is_clear = factor > CLEAR_LOG and not (whole.sum() == 1 and whole[-1])
    is_likely = factor > LEAST_LOG and is_alike and (is_clear or bool(whole.sum() > 1))
    is_one_direction = bool(of_directions.min() < ONE_DIRECTION * of_directions.max())
    return Over(factor, of_directions, is_alike, is_one_direction, is_likely)


def mostly_on_one_host(hosts: Ints) -> list[tuple[int, Mask]]:
    """Return stages of which one host has at least half of the workers, but not all.

    hosts   : int, shape (stage, dp_rank).
    returns : each stage, and a mask of its workers on other hosts, shape (dp_rank,); a stage appears twice if
              two hosts have half of its workers each.
    """
    found = []
    for stage, own in enumerate(hosts):
        names, workers = np.unique(own, return_counts=True)
        is_main = (2 * workers >= own.size) & (workers < own.size) & (names != UNKNOWN)
        found += [(stage, own != main) for main in names[is_main].tolist()]
    return found
