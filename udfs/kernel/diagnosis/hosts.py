"""Hosts that slow all workers of whole stages: within those stages no peer is left to tell."""

from typing import Final

import numpy as np

from udfs.kernel.program import Floats, Ints

LEAST_LOG: Final = 0.03
"""Log factor from which a stage counts as slower than the others."""

ALIKE: Final = 0.15
LEAST_ALIKE: Final = 0.01
"""Spread, as a share of the log factor, up to which stages, directions and chunks are slow alike."""

CLEAR_LOG: Final = float(np.log(1.5))
"""Beyond, a stage that is slow alike in all it does is not one of a few layers more."""

UNKNOWN: Final = -1


def slow_stages(usual: Floats, hosts: Ints) -> Floats:
    """Log factor of stages that are slow because their one host is; shape (stage,), 0 where not.

    A host slows everything its workers compute, by one factor. A stage with more work differs by direction and
    chunk (a loss layer), or by a few layers among many, and seldom is it all that one host holds: several stages,
    or stages and parts of others.

    usual : log time of the computes of each stage, shape (stage, direction, chunk).
    hosts : int, shape (stage, dp_rank); UNKNOWN where the log does not say.
    """
    found = np.zeros(len(usual))
    for host in np.unique(hosts[hosts != UNKNOWN]).tolist():
        whole = (hosts == host).all(axis=1)
        if not whole.any() or whole.all():
            continue
        over = usual[whole] - _low_median(usual[~whole])
        factor, spread = float(np.median(over)), float(over.max() - over.min())
        is_alike = factor > LEAST_LOG and spread <= max(ALIKE * factor, LEAST_ALIKE)
        if is_alike and (factor > CLEAR_LOG or whole.sum() > 1):
            found[whole] = factor
    return found


def base_off_host(typical: Floats, base: Floats, hosts: Ints) -> Floats:
    """What is usual in each stage, where most of its workers are on one host that may itself be slow.

    typical : log time of each cell over what is usual, shape (stage, direction, dp_rank).
    base    : what was taken as usual in a stage, shape (stage, direction).
    hosts   : int, shape (stage, dp_rank).
    """
    found = base.copy()
    for stage, of_stage in enumerate(hosts):
        names, counts = np.unique(of_stage, return_counts=True)
        most = int(counts.argmax())
        if names[most] == UNKNOWN or not len(of_stage) <= 2 * counts[most] < 2 * len(of_stage):
            continue
        elsewhere = np.median(typical[stage][:, of_stage != names[most]], axis=1)
        if (base[stage] - elsewhere > LEAST_LOG).all():
            found[stage] = elsewhere
    return found


def has_stages_of_one_host(hosts: Ints) -> bool:
    """Whether a stage lies on one host, alone or with others, and the job on several."""
    is_whole = (hosts == hosts[:, :1]).all(axis=1) & (hosts[:, 0] != UNKNOWN)
    return bool(is_whole.any()) and not is_one_host(hosts)


def is_one_host(hosts: Ints) -> bool:
    """Whether all workers are on one host."""
    return bool((hosts == hosts.flat[0]).all()) and hosts.flat[0] != UNKNOWN


def _low_median(values: Floats) -> Floats:
    middle = (len(values) - 1) // 2
    found: Floats = np.partition(values, middle, axis=0)[middle]
    return found
