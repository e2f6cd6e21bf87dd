"""Replay a job with a slow host replaced, or with a slow replica removed or given lighter microbatches.

Axes p, k, c, m, s, d: stage, direction, chunk, microbatch, step, dp rank.
"""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Mask
from udfs.kernel.diagnosis.block_times import BlockTimes, KeptDelays, Tensor
from udfs.kernel.diagnosis.factors import Factors
from udfs.kernel.diagnosis.fixes import STACKED_VALUES, Replays, may_end
from udfs.kernel.diagnosis.found import Found
from udfs.kernel.replay.masked import op_dp_ranks, op_stages
from udfs.kernel.replay.replay import replay

MOST_TRIED: Final = 3
"""Number of hosts, or of replicas, that are tried: those whose workers lose most."""

LEAST_EXCHANGED: Final = 0.001
"""There is no answer if replacing a host saves less than this share: another host may be the slow one."""

LEAST_REPLICAS: Final = 3
"""With fewer replicas, none is removed, because a single replica would exchange no gradients."""

SHARES_MOVED: Final = (0.5, 0.75, 1.0)
"""Tried shares of the change that would balance the computes of replicas. Less than 1 may be better, because
other waits of a step do not change with the work."""


class Exchanged(NamedTuple):
    """A host, and the mean replayed step time (step_s) after a healthy host has replaced it. [s]"""

    host: int
    step_s: float


class Removed(NamedTuple):
    """A replica that is removed, with the step time after its removal.

    replicas    : number of replicas now.
    step_s      : mean replayed step time without it, for fewer samples. [s]
    same_work_s : time for as many samples as a step has now. [s]
    """

    dp_rank: int
    replicas: int
    step_s: float
    same_work_s: float


class Lightened(NamedTuple):
    """A slow replica that gets lighter microbatches, while the work of all replicas together stays the same.

    weight, others : work of its microbatches, and of those of other replicas, relative to now.
    step_s         : mean replayed step time after that. [s]
    """

    dp_rank: int
    weight: float
    others: float
    step_s: float


def host_exchanged(replays: Replays) -> Exchanged | None:
    """Find the host that saves most if a healthy one replaces it.

    None if no slow worker's host is known, or if replacing it saves less than LEAST_EXCHANGED.
    """
    found = replays.found
    lost_s = _lost(found)
    hosts = found.job.hosts
    by_host = {
        host: float(lost_s[hosts == host].sum())
        for host in np.unique(hosts[lost_s > 0.0]).tolist()
        if host >= 0
    }
    tried = sorted(by_host, key=lambda host: -by_host[host])[:MOST_TRIED]
    answers = [
        Exchanged(host, Replays(_healthy(found, hosts == host), replays.work).mean_s()) for host in tried
    ]
    best = min(answers, key=lambda each: each.step_s, default=None)
    saves = best is not None and best.step_s < (1.0 - LEAST_EXCHANGED) * replays.mean_s()
    return best if saves else None


def _lost(found: Found, *, with_type: bool = False) -> Floats:
    """Return the time that each worker's slowness adds to its ops in the mean step, shape (p, d). [s]

    with_type : whether to add the time that a slow GPU type costs.
    """
    lost_s = np.zeros(found.job.hosts.shape)
    if found.factors is not None:
        lost_s += _over_usual(found.factors, found.factors.worker)
    for op_type, logs in found.own.slow.items():
        lost_s += np.expm1(logs).mean(axis=1) * found.own.usual_s[op_type]
    for late_s in found.own.late_s.values():
        lost_s += late_s.mean(axis=1)
    if with_type and found.factors is not None and found.factors.types is not None:
        lost_s += _over_usual(found.factors, found.factors.types.of_workers)
    return lost_s


def _over_usual(factors: Factors, factor: Floats) -> Floats:
    """Return the time that a factor adds to a worker's computes in the mean step, shape (p, d). [s]"""
    usual_s = factors.work_s.mean(axis=(3, 4, 5), keepdims=True)
    over_s: Floats = (usual_s * (factor - 1.0).mean(axis=4, keepdims=True)).sum(axis=(1, 2, 3, 4))
    over_s *= factors.noise.shape[3]
    return over_s


def _healthy(found: Found, cells: Mask) -> Found:
    """Return the measured slowness of the job if some workers were healthy. cells : bool, shape (p, d)."""
    factors = found.factors
    if factors is not None:
        of_workers = cells[:, None, None, None, None, :]
        factors = factors._replace(worker=np.where(of_workers, 1.0, factors.worker))
    own_times, late = [], []
    for block, own, entries in zip(found.blocks, found.own_times, found.late, strict=True):
        is_healthy = _of_ops(block, cells)
        own_times.append(own._replace(slow=np.where(is_healthy[own.ops], 1.0, own.slow)))
        kept_s = np.where(is_healthy[entries.ops], 0.0, entries.delay_s)
        late.append(KeptDelays(entries.ops, kept_s))
    return found._replace(factors=factors, own_times=own_times, late=late)


def _of_ops(block: BlockTimes, cells: Mask) -> Mask:
    """Return which ops are those of the given workers, shape (op, 1, dp) or (op, 1, 1)."""
    graph = block.graph
    of_ops: Mask = cells[op_stages(graph), op_dp_ranks(graph, cells.shape[1])]
    return of_ops[:, None]


def replica_removed(replays: Replays) -> Removed | None:
    """Find the replica whose removal shortens steps most; None with few replicas, or without a slow one.

    In the replay, the removed replica's ops take no time, so that no worker waits for it. Collectives of the
    other replicas take as long as recorded.
    """
    found, replicas = replays.found, replays.found.job.layout.dp_size
    lost_s = _lost(found, with_type=True).max(axis=0)
    tried = [int(each) for each in np.argsort(-lost_s, kind="stable")[:MOST_TRIED] if lost_s[each] > 0.0]
    if replicas < LEAST_REPLICAS or not tried:
        return None
    # In the first row no replica is removed, and in each other row one of those that are tried.
    cells = np.zeros((1 + len(tried), *found.job.hosts.shape), dtype=bool)
    cells[np.arange(len(tried)) + 1, :, tried] = True
    total_s = np.zeros(len(cells))
    for block, late in zip(found.blocks, found.late, strict=True):
        together = max(1, STACKED_VALUES // block.duration_s.size)
        for first in range(0, len(cells), together):
            some = slice(first, first + together)
            total_s[some] += _without(block, late, cells[some]).sum(axis=1)
    with_all_s, *without_s = (total_s / found.steps).tolist()
    dp_rank, least_s = min(zip(tried, without_s, strict=True), key=lambda each: each[1])
    # Only the difference is used, because replays.mean_s replaces the unknown durations of some transfers.
    step_s = replays.mean_s() + least_s - with_all_s
    return Removed(dp_rank, replicas, step_s, step_s * replicas / (replicas - 1))


def _without(block: BlockTimes, late: KeptDelays, cells: Mask) -> Floats:
    """Return step times if ops of some workers took no time, shape (row, step). [s]

    cells : bool, shape (row, p, d); for each row the workers whose ops take no time.
    """
    is_kept = np.array([~_of_ops(block, of_row) for of_row in cells]).swapaxes(0, 1)
    duration_s = block.duration_s[:, None] * is_kept
    rows, lanes = len(cells), block.duration_s[0].size
    delays: dict[int, Floats] = {}
    for ops, delay_s in (block.delays, late):
        for op, of_op_s in zip(ops.tolist(), delay_s[:, None] * is_kept[ops], strict=True):
            delays[op] = delays.get(op, 0.0) + of_op_s.reshape(rows, lanes)
    # An op that may end a step in some row is examined in all rows.
    lasts = may_end(block._replace(duration_s=duration_s.min(axis=1)))
    shape = (rows, *block.duration_s.shape[1:])
    return replay(block.graph, list(duration_s.reshape(-1, rows, lanes)), shape, lasts, delays)


def replica_lightened(replays: Replays, memory: float) -> Lightened | None:
    """Find the weight of a slow replica's microbatches with which steps are shortest, of those tried.

    The duration of computes is proportional to the weight of their microbatches.

    memory  : bound on the weight of other replicas' microbatches, relative to now.
    returns : None if no replica is slow, or if computes were not decomposed.
    """
    found, factors, replicas = replays.found, replays.found.factors, replays.found.job.layout.dp_size
    if factors is None or replicas == 1:
        return None
    lost_s = _lost(found, with_type=True).max(axis=0)
    slow = int(lost_s.argmax())
    if not lost_s[slow] > 0.0:
        return None
    as_is_s = factors.work_s * factors.noise
    own_s = as_is_s * factors.worker
    if factors.types is not None:
        own_s *= factors.types.of_workers
    by_replica_s = own_s.mean(axis=(3, 4)).sum(axis=(1, 2)).max(axis=0)
    others_s = float(np.delete(by_replica_s, slow).max())
    if not by_replica_s[slow] > 0.0:  # slow only in other ops, while its computes take no time
        return None
    even = replicas * others_s / (others_s + (replicas - 1) * float(by_replica_s[slow]))
    even = min(max(even, replicas - memory * (replicas - 1)), 1.0)
    weights = [1.0 + share * (even - 1.0) for share in SHARES_MOVED]
    of_others = [(replicas - weight) / (replicas - 1) for weight in weights]
    lighter_s: list[Tensor] = []
    for weight, others in zip(weights, of_others, strict=True):
        of_replicas = np.full(replicas, others)
        of_replicas[slow] = weight
        lighter_s.append(as_is_s * of_replicas)
    times_s = replays.of_works_s(lighter_s)
    answers = [Lightened(slow, *each) for each in zip(weights, of_others, times_s, strict=True)]
    return min(answers, key=lambda each: each.step_s)
