"""Find hosts that slow all workers of whole stages, so that these have no healthy peers."""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.selection import medians_along

LEAST_LOG: Final = 0.03
"""Log factor from which a stage counts as slower than the others."""

ALIKE: Final = 0.15
LEAST_ALIKE: Final = 0.01
"""Largest spread, as a share of the log factor, of stages, directions and chunks that are equally slow."""

CLEAR_LOG: Final = float(np.log(1.5))
"""Above this, equal slowness in all ops of a stage is not due to a few more layers."""

HALF: Final = 0.5
"""If a host is slow, its other workers have at least this part of the stage's log factor."""

ONE_DIRECTION: Final = 0.25
"""If one direction's log factor is below this part of the other's, it is not slow."""

UNKNOWN: Final = -1


class StagesOfHosts(NamedTuple):
    """Stages on one host, or of one worker, and the factor by which the host slows them.

    log_factor : by which they are slow because that host is, 0 where not; shape (stage,).
    is_ambiguous : bool, shape (stage,); slower than the others, by their host or by more work
    """

    log_factor: Floats
    is_ambiguous: Mask


def stages_of_hosts(usual: Floats, hosts: Ints, own: Floats) -> StagesOfHosts:
    """Find stages that are slow because their host is slow.

    A host slows everything its workers compute, by one factor. A stage with more work differs by direction
    and chunk (a loss layer), or by a few layers among many, and is seldom just what one host holds: several
    stages.

    usual : log time of the computes of each stage, shape (stage, direction, chunk).
    hosts : int, shape (stage, dp_rank); UNKNOWN where the log does not say.
    own   : log factor by which workers are slower than their stage's, shape (stage, dp_rank).
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
        # With one replica no worker has peers: nothing says how fast the others are.
        of_host = float(np.median(own[beside])) if beside.any() and dp_size > 1 else np.nan
        if of_host < HALF * over.log_factor:
            continue  # Other workers of the host are as fast as their peers.
        if of_host > LEAST_LOG:
            found.log_factor[whole] = of_host  # They are as slow: what remains is work.
            continue
        found.is_ambiguous[whole] = True
        if over.is_likely:
            found.log_factor[whole] = over.log_factor
    return found


class Over(NamedTuple):
    """By how much the durations of some stages exceed those of the others, as log factors.

    log_factor : median over stages, directions and chunks; of_directions: over stages and chunks.
    is_alike   : all take longer by about the same factor.
    is_one_direction : forwards or backwards alone take longer, which no layer does.
    is_likely  : that, and more than a stage's work would explain.
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
    by_direction : whether forwards and backwards may each take longer by a factor of their own.
    """
    over = usual[whole] - medians_along(usual[~whole], 0, low=True)
    of_directions = np.median(over, axis=(0, 2))
    apart = over - of_directions[:, None] if by_direction else over
    factor, spread = float(np.median(over)), float(apart.max() - apart.min())
    is_alike = spread <= max(ALIKE * factor, LEAST_ALIKE)
    # The loss layer makes the last stage heavy, whatever its workers do.
    is_clear = factor > CLEAR_LOG and not (whole.sum() == 1 and whole[-1])
    is_likely = factor > LEAST_LOG and is_alike and (is_clear or bool(whole.sum() > 1))
    is_one_direction = bool(of_directions.min() < ONE_DIRECTION * of_directions.max())
    return Over(factor, of_directions, is_alike, is_one_direction, is_likely)


def mostly_on_one_host(hosts: Ints) -> list[tuple[int, Mask]]:
    """Return stages with at least half, but not all, workers on one host; also masks of the others.

    hosts   : int, shape (stage, dp_rank).
    returns : stage, and bool, shape (dp_rank,); twice where two hosts have half each.
    """
    found = []
    for stage, own in enumerate(hosts):
        names, workers = np.unique(own, return_counts=True)
        is_main = (2 * workers >= own.size) & (workers < own.size) & (names != UNKNOWN)
        found += [(stage, own != main) for main in names[is_main].tolist()]
    return found
