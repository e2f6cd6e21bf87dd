"""Decide which flag each cause gets: the reason why its result is less reliable (diagnosis, section 4)."""

from collections.abc import Container, Iterable
from typing import Final

import numpy as np

from udfs.kernel import cause
from udfs.kernel.diagnosis.found import Found
from udfs.kernel.diagnosis.round_trips import sure_share
from udfs.kernel.diagnosis.savings import Savings

ENOUGH_STEPS: Final = 4
LARGEST_GAP: Final = 0.05
"""Largest difference between T_actual and the replay with nothing fixed, as a share of T_actual."""

MANY_CELLS: Final = 0.5
"""If a larger share of the workers is slow, comparisons with the usual worker are not reliable."""

MOST_SKEW_S: Final = 1e-3
MOST_MOVING: Final = 0.4
"""If transfers take more of the step than this, only other jobs can show whether all of them are slow."""

MOST_UNEXPLAINED: Final = 0.3
LEAST_WASTE: Final = 0.05
LEAST_CLAIM: Final = 0.01
"""Flags for causes that can be confused need a saving of more than this share of T_actual by one of them."""

FEW_MICROBATCHES: Final = 4

WORKER_STAGE: Final = (cause.SLOW_WORKER, cause.STAGE_IMBALANCE)
WORKER_DATA: Final = (cause.SLOW_WORKER, cause.DATA_IMBALANCE)


def flags_of(found: Found, savings: Savings, held: Container[int], moving: float, apart: int) -> list[int]:
    """Return the flag of each cause, by code: the first reason that applies, or NO_FLAG.

    held   : causes that hold.
    moving : share of T_actual that transfers take.
    apart  : number of slow workers outside the largest slow group.
    """
    layout = found.job.layout
    together, rest = max(0.0, savings.together), savings.unexplained
    # The attributed part of a cause that does not hold counts as nameless, as in udfs/lost.py.
    named = sum(max(0.0, part) for each, part in savings.attributed.items() if each in held)
    waste, nameless = together + rest, max(0.0, together - named) + rest
    is_mostly_unexplained = waste > LEAST_WASTE and nameless / waste > MOST_UNEXPLAINED
    # If most workers are slow, each at other times, slowness is not a property of single workers.
    are_most_apart = apart > max(2.0, MANY_CELLS * layout.dp_size * layout.pp_size)
    is_mostly_moving = moving - savings.alone[cause.COMMUNICATION] > MOST_MOVING
    every_cause = range(cause.COUNT)
    types = None if found.factors is None else found.factors.types
    # If types share no stage, even a saving of 0 does not show that they are equally fast.
    is_confounded = types is not None and types.is_confounded
    is_type_or_stage = is_confounded and _claims(savings, (cause.MIXED_HARDWARE, cause.STAGE_IMBALANCE))
    # With one stage and few microbatches, a slow rank may have more data instead.
    is_short = layout.pp_size == 1 and found.microbatches < FEW_MICROBATCHES
    reasons: list[tuple[int, Container[int], bool]] = [
        (cause.FEW_STEPS, every_cause, found.steps < ENOUGH_STEPS),
        (cause.HIGH_DISCREPANCY, every_cause, abs(1.0 - savings.replayed) > LARGEST_GAP),
        (cause.CLOCK_SKEW, (cause.COMMUNICATION, cause.LAUNCH_DELAY), found.job.skew_s > MOST_SKEW_S),
        (cause.NO_USUAL_TRANSFER, (cause.COMMUNICATION,), is_mostly_moving),
        (cause.FEW_PEERS, WORKER_STAGE, layout.dp_size == layout.pp_size == 1),
        (cause.WORKER_OR_STAGE, (cause.STAGE_IMBALANCE,), _is_worker_or_stage(found, savings)),
        (cause.WORKER_OR_STAGE, (cause.SLOW_WORKER,), _is_stage_or_worker(found, savings)),
        (cause.WORKER_OR_DATA, WORKER_DATA, is_short and _claims(savings, WORKER_DATA)),
        (cause.TYPE_OR_STAGE, (cause.MIXED_HARDWARE,), is_confounded),
        (cause.TYPE_OR_STAGE, (cause.STAGE_IMBALANCE,), is_type_or_stage),
        (cause.TYPE_OR_WORKER, (cause.MIXED_HARDWARE,), _is_type_or_worker(found, savings)),
        (cause.MANY_SLOW_CELLS, (cause.SLOW_WORKER,), _slow_cells(found) > MANY_CELLS or are_most_apart),
        (cause.MOSTLY_UNEXPLAINED, (cause.UNEXPLAINED,), is_mostly_unexplained),
    ]
    return [
        next((flag for flag, causes, holds in reasons if holds and each in causes), cause.NO_FLAG)
        for each in every_cause
    ]


def is_skew(each: int, found: Found, saved: float, least: float) -> bool:
    """Return whether wrong clocks could explain the saving by the fix of the cause `each`.

    saved, least : saving by the fix, and the least saving of a cause; shares of T_actual.
    """
    waits = {cause.LAUNCH_DELAY: 4, cause.COMMUNICATION: 2 * found.microbatches}
    job = found.job
    may_be = job.skew_s > MOST_SKEW_S and saved * job.actual_s < waits.get(each, 0) * job.skew_s
    if not may_be or each != cause.COMMUNICATION:
        return may_be
    return saved * sure_share(found.blocks, found.transfers, job.before_s) < least


def _slow_cells(found: Found) -> float:
    """Return the share of workers that are slow in the median step, in the direction with more of them."""
    if found.factors is None:
        return 0.0
    return float(np.median((found.factors.workers.own > 0.0).mean(axis=(0, 3)).max(axis=0)))


def _claims(savings: Savings, causes: Iterable[int]) -> bool:
    return max(savings.alone[each] for each in causes) > LEAST_CLAIM


def _is_worker_or_stage(found: Found, savings: Savings) -> bool:
    """Return whether a heavy stage may instead be a slow worker or host that has exactly that stage."""
    if found.job.layout.dp_size == 1:
        return found.job.layout.pp_size > 1 and _claims(savings, WORKER_STAGE)
    is_ambiguous = found.factors is not None and bool(found.factors.workers.ambiguous.any())
    return is_ambiguous and _claims(savings, WORKER_STAGE)


def _is_stage_or_worker(found: Found, savings: Savings) -> bool:
    """Return whether a slow worker may instead be a heavy stage.

    It may not if slowness differs between steps or within a stage, because the work of a stage does not.
    """
    factors = found.factors
    if factors is None or not _is_worker_or_stage(found, savings):
        return False
    workers = factors.workers
    in_time = bool(workers.own.any() or workers.stage.any() or found.own.slow or found.own.late_s)
    return not in_time or bool(workers.always.any())


def _is_type_or_worker(found: Found, savings: Savings) -> bool:
    """Return whether a slow GPU type may be a slow host instead, because only one host has this type."""
    types = None if found.factors is None else found.factors.types
    if types is None or not _claims(savings, (cause.MIXED_HARDWARE,)):
        return False
    hosts = found.job.hosts
    slower = np.flatnonzero(types.is_slower).tolist()
    return any(len(np.unique(hosts[types.worker_type == number])) == 1 for number in slower)
