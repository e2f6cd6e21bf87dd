"""Decide which flag each cause gets: the reason why its result is less reliable (diagnosis, section 4).

A clock that is ahead makes the transfers of one direction look longer and those of the other direction
shorter by the same amount. In the sum of both directions of a link, the round trip, this error cancels.
"""

from collections.abc import Container, Iterable
from typing import Final

import numpy as np

from udfs.kernel import cause
from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.clocks.ties import middle_of_known
from udfs.kernel.diagnosis.block_times import BlockTimes
from udfs.kernel.diagnosis.found import Found
from udfs.kernel.diagnosis.savings import Savings
from udfs.kernel.diagnosis.usual_transfers import ALL, NO_DAYS, Kind, limits_of
from udfs.kernel.graph.graph import OpGraph, once_per_graph
from udfs.kernel.recorded.ends import links

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

ROUND_TRIPS: Final[Kind] = (ot.FORWARD_RECV, ALL, ALL)
"""Kind under which round trips are passed to limits_of."""


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
    # The share of workers that are slow in the median step, in the direction with more of them.
    workers = None if found.factors is None else found.factors.workers
    slow = 0.0 if workers is None else float(np.median((workers.own > 0.0).mean(axis=(0, 3)).max(axis=0)))
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
        (cause.MANY_SLOW_CELLS, (cause.SLOW_WORKER,), slow > MANY_CELLS or are_most_apart),
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
    return saved * _sure_share(found) < least


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


def _sure_share(found: Found) -> float:
    """Return the share of the slow receives' excess that also appears in the round trips of their links."""
    joined = [
        (block, slow, both_ways)
        for block, slow in zip(found.blocks, found.transfers, strict=True)
        if (both_ways := _both_ways(block.graph))
    ]
    if not joined:
        return 0.0
    trips_s, middles_s = [], []
    for block, _, both_ways in joined:
        own_s = np.array([_whole(block, one) + _whole(block, other) for one, other in both_ways])
        trips_s.append(own_s[np.isfinite(own_s)])
        middles_s.append(middle_of_known(own_s.swapaxes(1, 2).reshape(-1, own_s.shape[1])))
    before_s = found.job.before_s
    ways_s = [before_s[each] for each in (ot.FORWARD_RECV, ot.BACKWARD_RECV) if each in before_s]
    trip_before = {ROUND_TRIPS[0]: sum(ways_s)} if len(ways_s) > 1 else NO_DAYS
    known_s, of_steps_s = ({ROUND_TRIPS: np.concatenate(each)} for each in (trips_s, middles_s))
    usual = limits_of(known_s, trip_before, of_steps_s)[ROUND_TRIPS]
    sure_s = beyond_s = 0.0
    for block, (ops, as_is_s, usual_s), both_ways in joined:
        place = {op: row for row, op in enumerate(ops.tolist())}
        for recvs, others in both_ways + [both[::-1] for both in both_ways]:
            own = [op for op in recvs.tolist() if op in place]
            rows = [place[op] for op in own]
            own_beyond_s = np.maximum(as_is_s[rows] - usual_s[rows], 0.0)
            # A round trip adds the median of the other direction, or 0 if that is unknown.
            trip_s = block.duration_s[own] + np.nan_to_num(_whole(block, others))
            own_sure_s = np.where(trip_s > usual.limit_s, trip_s - usual.base_s, 0.0)
            beyond_s += float(own_beyond_s.sum())
            sure_s += float(np.minimum(own_beyond_s, own_sure_s).sum())
    return sure_s / beyond_s if beyond_s > 0.0 else 0.0


@once_per_graph
def _both_ways(graph: OpGraph) -> list[tuple[Ints, Ints]]:
    """Return the receives of the forward and the backward direction of each link that has both."""
    backward = {link[1:4]: link.recvs for link in links(graph) if link.is_backward}
    forward = [link for link in links(graph) if not link.is_backward and link[1:4] in backward]
    return [(link.recvs, backward[link[1:4]]) for link in forward]


def _whole(block: BlockTimes, recvs: Ints) -> Floats:
    """Return the median duration of receives whose whole transfer was recorded; nan without any. [s]

    returns : shape (step, dp).
    """
    ops = recvs.tolist()
    is_hidden = np.array([block.is_cut[op] for op in ops])
    for row, op in enumerate(ops):
        if op in block.calls.is_free:
            is_hidden[row] |= block.calls.is_free[op]
    return middle_of_known(np.where(is_hidden, np.nan, block.duration_s[recvs]))
