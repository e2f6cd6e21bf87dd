"""Time saved by mitigations of slow workers, by replay: a host exchanged, a replica removed, lighter work.

Axes p, k, c, m, s, d: stage, direction, chunk, microbatch, step, dp rank.
"""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Mask
from udfs.kernel.diagnosis.block_times import BlockTimes, KeptDelays, Tensor
from udfs.kernel.diagnosis.fixes import may_end
from udfs.kernel.diagnosis.found import Found
from udfs.kernel.diagnosis.replays import Replays
from udfs.kernel.replay.masked import op_dp_ranks, op_stages
from udfs.kernel.replay.replay import replay

MOST_TRIED: Final = 3
"""Hosts, or replicas, that are tried: those whose workers lose most."""

LEAST_REPLICAS: Final = 3
"""Of fewer none is removed: one that is left has nobody to exchange gradients with."""

SHARES_MOVED: Final = (0.5, 0.75, 1.0)
"""Parts tried of the work that would make replicas even by their computes: what else a step waits for does
not move with it."""


class Exchanged(NamedTuple):
    """A host whose workers are as fast as their peers; step_s : mean replayed step time then. [s]"""

    host: int
    step_s: float


class Removed(NamedTuple):
    """A job without one of its replicas.

    step_s       : mean replayed step time without it, of fewer samples. [s]
    same_work_s  : the time for as many samples as a step has now. [s]
    """

    dp_rank: int
    replicas: int
    step_s: float
    same_work_s: float


class Lightened(NamedTuple):
    """A slow replica whose microbatches are lighter, as heavy in all as before.

    weight, others : of its microbatches, and of those of other replicas, beside the usual weight, 1.
    step_s         : mean replayed step time then. [s]
    """

    dp_rank: int
    weight: float
    others: float
    step_s: float


def host_exchanged(replays: Replays) -> Exchanged | None:
    """Find the host whose exchange for a healthy one saves most; None where no slow worker's is known."""
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
    return min(answers, key=lambda each: each.step_s, default=None)


def _lost(found: Found) -> Floats:
    """Time that each worker loses by itself in the mean step, shape (p, d). [s]"""
    job = found.job
    lost_s = np.zeros(job.hosts.shape)
    if found.factors is not None:
        usual_s = found.factors.work_s.mean(axis=(3, 4, 5), keepdims=True)
        over = (found.factors.worker - 1.0).mean(axis=4, keepdims=True)
        lost_s += (usual_s * over).sum(axis=(1, 2, 3, 4)) * found.microbatches
    for op_type, logs in found.own.slow.items():
        lost_s += np.expm1(logs).mean(axis=1) * found.own.usual_s[op_type]
    for late_s in found.own.late_s.values():
        lost_s += late_s.mean(axis=1)
    return lost_s


def _healthy(found: Found, cells: Mask) -> Found:
    """What was found, without what makes some workers slow. cells : bool, shape (p, d)."""
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
    """Whether each op is of one of some workers, shape (op, 1, dp) or (op, 1, 1)."""
    graph = block.graph
    of_ops: Mask = cells[op_stages(graph), op_dp_ranks(graph, cells.shape[1])]
    return of_ops[:, None]


def replica_removed(replays: Replays) -> Removed | None:
    """Find the replica without which the others are fastest; None where there are too few, or none is slow.

    Its ops take no time, so that nobody waits for it; collectives of the others take as long as they did.
    """
    found, replicas = replays.found, replays.found.job.layout.dp_size
    lost_s = _lost_with_type(found).max(axis=0)
    tried = [int(each) for each in np.argsort(-lost_s, kind="stable")[:MOST_TRIED] if lost_s[each] > 0.0]
    if replicas < LEAST_REPLICAS or not tried:
        return None
    times_s = {dp_rank: _without_replica(found, dp_rank) for dp_rank in (None, *tried)}
    dp_rank = min(tried, key=lambda each: times_s[each])
    # What the diagnosis replays beside, such as usual transfers, is the same with and without it.
    step_s = replays.mean_s() + times_s[dp_rank] - times_s[None]
    return Removed(dp_rank, replicas, step_s, step_s * replicas / (replicas - 1))


def _lost_with_type(found: Found) -> Floats:
    """The same as _lost, with what a worker's type of GPU costs it. [s]"""
    lost_s = _lost(found)
    factors = found.factors
    if factors is not None and factors.types is not None:
        usual_s = factors.work_s.mean(axis=(3, 4, 5), keepdims=True)
        lost_s = (
            lost_s + (usual_s * (factors.types.of_workers - 1.0)).sum(axis=(1, 2, 3, 4)) * found.microbatches
        )
    return lost_s


def _without_replica(found: Found, dp_rank: int | None) -> float:
    """Mean replayed step time if a replica's ops took no time; None: as it is. [s]"""
    cells = np.zeros(found.job.hosts.shape, dtype=bool)
    if dp_rank is not None:
        cells[:, dp_rank] = True
    total_s = 0.0
    for block, late in zip(found.blocks, found.late, strict=True):
        is_kept = ~_of_ops(block, cells)
        duration_s = block.duration_s * is_kept
        shape = (1, *duration_s.shape[1:])
        delays: dict[int, Floats] = {}
        for ops, delay_s in (block.delays, late):
            for op, of_op_s in zip(ops.tolist(), delay_s * is_kept[ops], strict=True):
                delays[op] = delays.get(op, 0.0) + of_op_s.reshape(1, -1)
        lasts = list(duration_s.reshape(len(duration_s), 1, -1))
        times = block._replace(duration_s=duration_s)
        total_s += float(replay(block.graph, lasts, shape, may_end(times), delays).sum())
    return total_s / found.steps


def replica_lightened(replays: Replays, memory: float = np.inf) -> Lightened | None:
    """Find the weight of a slow replica's microbatches at which a step is shortest.

    Computes take as much less, or more, as their microbatches weigh; None where no replica is slow, or
    computes could not be told apart. memory : bound on what microbatches of others weigh, relative to now.
    """
    found, factors, replicas = replays.found, replays.found.factors, replays.found.job.layout.dp_size
    if factors is None or replicas == 1:
        return None
    lost_s = _lost_with_type(found).max(axis=0)
    slow = int(lost_s.argmax())
    if not lost_s[slow] > 0.0:
        return None
    as_is_s = factors.work_s * factors.noise
    own_s = as_is_s * factors.worker
    if factors.types is not None:
        own_s *= factors.types.of_workers
    by_replica_s = own_s.mean(axis=(3, 4)).sum(axis=(1, 2)).max(axis=0)
    others_s = float(np.delete(by_replica_s, slow).max())
    if not by_replica_s[slow] > 0.0:  # late by its own ops alone, of computes that take no time
        return None
    even = replicas * others_s / (others_s + (replicas - 1) * float(by_replica_s[slow]))
    even = min(max(even, replicas - memory * (replicas - 1)), 1.0)
    answers = []
    for share in SHARES_MOVED:
        weight = 1.0 + share * (even - 1.0)
        others = (replicas - weight) / (replicas - 1)
        weights = np.full(replicas, others)
        weights[slow] = weight
        lighter_s: Tensor = as_is_s * weights
        answers.append(Lightened(slow, weight, others, replays.of_work_s(lighter_s)))
    return min(answers, key=lambda each: each.step_s)
