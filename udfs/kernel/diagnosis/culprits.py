"""Name the culprits of each cause: workers, hosts or stages, since when they are slow, and the evidence."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from udfs.kernel import cause
from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.cause import ALL, BOTH, Culprit, Evidence
from udfs.kernel.diagnosis.block_times import in_time
from udfs.kernel.diagnosis.course import course_of
from udfs.kernel.diagnosis.factors import Factors
from udfs.kernel.diagnosis.found import Found
from udfs.kernel.diagnosis.own_ops import by_worker
from udfs.kernel.diagnosis.reach import Series, grouped
from udfs.kernel.diagnosis.totals import TINY_S

MOST_CULPRITS: Final = 16
"""Largest number of culprits of a cause."""

LEAST_HEAVY: Final = 0.01
"""A heavy stage takes longer than the mean stage by at least this share."""

LEAST_LOST: Final = 0.005
"""A step counts as slow for a worker that loses at least this share of the mean step time in it."""

LEAST_PART: Final = 0.1
LEAST_OF_STEP: Final = 0.015
"""A culprit is left out if it lost less than LEAST_PART of the largest loss and less than LEAST_OF_STEP of
the step."""

MEDIAN_ERROR: Final = 1.2533
"""Standard error of a median over that of a mean."""

ONE_DIRECTION: Final = 4.0
"""If one direction's excess is more than this multiple of the other's, only the first counts as slow."""
ONE_WAY: Final = 1.5
"""The same for the two directions of a link, where slow transfers of one make some of the other late."""

NAN: Final = float("nan")

Blame = tuple[tuple[Culprit, ...], Evidence]
"""Culprits of one cause, the worst first, and the evidence for the worst."""

Span = tuple[int, int]
"""First and last step whose computes are compared, as positions among the job's steps."""


def blame(each: int, found: Found, indicator: float) -> Blame:
    """Return the culprits of the cause `each`, and the evidence.

    indicator : the paper's indicator of the cause, which is copied into the evidence.
    """
    if each in cause.IN_SECONDS:
        return _blame_for_lost(_lost(each, found), found, indicator)
    factors = found.factors
    if factors is None or found.computes is None or each == cause.UNEXPLAINED:
        slow = _of_own_ops(found) if each == cause.SLOW_WORKER else []
        named = _together(slow, found)
        effect = named[0].effect if named else NAN
        return tuple(named), Evidence(effect, NAN, NAN, NAN, indicator)
    stages, directions, chunks, microbatches, steps, dp_ranks = factors.noise.shape
    per_cell = directions * chunks * microbatches * steps
    span = int(found.computes.steps[0]), int(found.computes.steps[-1])
    if each == cause.DATA_IMBALANCE:
        measured = stages * directions * chunks
        error = factors.scatter / np.sqrt(measured)
        peers = microbatches * dp_ranks - 1
        return (), Evidence(factors.data.spread, error, peers, measured, indicator)
    if each == cause.MIXED_HARDWARE:
        return _blame_for_types(factors, per_cell, span)
    if each == cause.SLOW_WORKER:
        slow = _slow_computes(found) + _of_own_ops(found)
        named = _together(slow, found)
        if not named:
            # All workers of heavy stages of which the log cannot show if a slow host is the reason.
            heavy = [each for each in _stages(factors, span) if factors.workers.ambiguous[each.stage]]
            named = [each._replace(dp_rank=d, reach=cause.WORKER) for each in heavy for d in range(dp_ranks)]
        samples, peers = per_cell, dp_ranks - 1
    else:
        named, samples, peers = _worst_first(_stages(factors, span)), per_cell * dp_ranks, stages - 1
    effect = named[0].effect if named else NAN
    error = MEDIAN_ERROR * factors.scatter / np.sqrt(samples)
    return tuple(named), Evidence(effect, error, peers, samples, indicator)


def _together(slow: Sequence[Series], found: Found) -> list[Culprit]:
    """Group slow workers into culprits, sorted by lost time, the largest first."""
    return _costliest_first(grouped(slow, found.job.hosts, found.job.racks), found.job.actual_s)


def slow_apart(found: Found) -> int:
    """Count the workers with slow computes that are not in the largest slow host, rack, stage or replica."""
    named = _together(_slow_computes(found), found)
    workers_of = [set(each.workers) or {(each.stage, each.dp_rank)} for each in named]
    groups = [len(workers) for workers in workers_of if len(workers) > 1]
    return len(set().union(*workers_of)) - max(groups, default=0)


def _blame_for_types(factors: Factors, per_cell: int, span: Span) -> Blame:
    """Name the workers on slower GPU types; whole dp ranks or stages if all their workers have one type."""
    types = factors.types
    if types is None or not types.is_slower.any():
        return (), Evidence(NAN, NAN, NAN, NAN, NAN)
    numbers = np.where((types.worker_type >= 0) & types.is_slower[types.worker_type], types.worker_type, -1)
    effect = types.factor.mean(axis=1) - 1.0
    stages, dp_ranks = numbers.shape
    whole_dp = [d for d in range(dp_ranks) if stages > 1 and _is_one(numbers[:, d])]
    whole_stage = [p for p in range(stages) if dp_ranks > 1 and _is_one(numbers[p])]
    places = [(ALL, d, numbers[0, d]) for d in whole_dp] + [(p, ALL, numbers[p, 0]) for p in whole_stage]
    places += [
        (p, d, numbers[p, d])
        for p, d in np.argwhere(numbers >= 0).tolist()
        if d not in whole_dp and p not in whole_stage
    ]
    named = _worst_first([Culprit(p, d, float(effect[each]), 1.0, *span) for p, d, each in places])
    worst = int(np.where(types.is_slower, effect, 0.0).argmax())
    peers = int(np.isin(types.worker_type, np.flatnonzero(types.measured[:, 0] == 0.0)).sum())
    error = float(types.error[worst]) * (1.0 + float(effect[worst]))
    return tuple(named), Evidence(float(effect[worst]), error, peers, per_cell, NAN)


def _is_one(numbers: Ints) -> bool:
    return bool(numbers[0] >= 0 and (numbers == numbers[0]).all())


def _worst_first(named: Sequence[Culprit]) -> list[Culprit]:
    return sorted(named, key=lambda culprit: -culprit.effect * culprit.share_of_steps)[:MOST_CULPRITS]


def _costliest_first(named: Sequence[Culprit], actual_s: float) -> list[Culprit]:
    """Sort culprits by lost time, the largest first, without those that lost little (LEAST_PART)."""
    ordered = sorted(named, key=lambda culprit: -culprit.lost_s)
    least_s = min(LEAST_PART * ordered[0].lost_s, LEAST_OF_STEP * actual_s) if ordered else 0.0
    return [each for each in ordered if each.lost_s >= least_s][:MOST_CULPRITS]


def _slow_computes(found: Found) -> list[Series]:
    """Return the slowness of each worker with slow computes, by direction if the directions differ."""
    factors, computes = found.factors, found.computes
    if factors is None or computes is None:
        return []
    cells = factors.workers.cells()
    microbatches = factors.noise.shape[3]
    work_s = factors.work_s.mean(axis=(3, 4, 5)).sum(axis=2) * microbatches
    error = float(factors.workers.error.max())
    named = []
    for p, d in np.argwhere((cells > 0.0).any(axis=(1, 2))).tolist():
        own = cells[p, :, :, d]
        is_slow, totals = own > 0.0, own.sum(axis=1).tolist()
        together = is_slow.all(axis=0).sum() >= 0.5 * is_slow.any(axis=0).sum()
        if together and max(totals) <= ONE_DIRECTION * min(totals):
            parts = [(BOTH, own.mean(axis=0))]
        else:
            kinds = zip(ot.COMPUTE, totals, own, strict=True)
            parts = [(kind, series) for kind, total, series in kinds if total > 0.0]
        for direction, series in parts:
            usual_s = float(work_s[p].sum() if direction == BOTH else work_s[p, direction])
            named.append(Series(p, d, direction, np.expm1(series), computes.steps, error, usual_s))
    return named


def _of_own_ops(found: Found) -> list[Series]:
    """Return the slowness of workers with slow ops other than computes, or late entries, by op type."""
    steps, named = np.arange(found.steps), []
    for op_type, log_factor in found.own.slow.items():
        for p, d in np.argwhere(log_factor.any(axis=1)).tolist():
            usual_s = found.own.usual_s[op_type]
            named.append(Series(p, d, op_type, np.expm1(log_factor[p, :, d]), steps, 0.0, usual_s))
    for op_type, late_s in found.own.late_s.items():
        for p, d in np.argwhere(late_s.any(axis=1)).tolist():
            share = late_s[p, :, d] / found.job.actual_s
            named.append(Series(p, d, op_type, share, steps, 0.0, found.job.actual_s))
    return named


def _stages(factors: Factors, span: Span) -> list[Culprit]:
    """Return the stages with more work than the mean stage."""
    work_s = factors.work_s.mean(axis=(3, 4, 5)).sum(axis=(1, 2)) * factors.noise.shape[3]
    effect, over_s = work_s / max(work_s.mean(), TINY_S) - 1.0, (work_s - work_s.mean()).tolist()
    return [
        Culprit(stage, ALL, float(effect[stage]), 1.0, *span, reach=cause.STAGE, lost_s=over_s[stage])
        for stage in np.flatnonzero(effect > max(LEAST_HEAVY, LEAST_PART * float(effect.max()))).tolist()
    ]


def _blame_for_lost(lost: dict[int, Floats], found: Found, indicator: float) -> Blame:
    """Name the workers that lost most time, counting only steps with a large loss.

    lost : op type -> time that each worker lost, shape (stage, step, dp_rank). [s]
    """
    layout, steps = found.job.layout, found.steps
    total_s = sum(lost.values(), start=np.zeros((layout.pp_size, steps, layout.dp_size)))
    least_s = LEAST_LOST * found.job.actual_s
    if total_s.sum() / steps > least_s:
        least_s = min(least_s, float(total_s.max()) / 2.0)  # The loss may be divided over many workers.
    is_struck = total_s > least_s
    peers = layout.pp_size * layout.dp_size - 1
    if not is_struck.any():
        return (), Evidence(NAN, NAN, peers, total_s.size // layout.pp_size, indicator)
    by_cell = np.where(is_struck, total_s, 0.0).sum(axis=1)
    worst = np.argsort(-by_cell, axis=None, kind="stable")[:MOST_CULPRITS]
    worst = worst[is_struck.any(axis=1).reshape(-1)[worst]]
    p, d = np.divmod(worst, layout.dp_size)
    of_types_s = np.array([of_type_s[p, :, d].sum(axis=1) for of_type_s in lost.values()]).T.tolist()
    directions = [_main_type(dict(zip(lost, each, strict=True))) for each in of_types_s]
    cells = list(zip(p.tolist(), d.tolist(), strict=True))
    named = _struck(cells, total_s[p, :, d], is_struck[p, :, d], directions)
    if ot.FORWARD_COMPUTE not in lost and ot.BACKWARD_COMPUTE not in lost:
        named = _costliest_first(named, found.job.actual_s)
    first = named[0].stage, slice(None), named[0].dp_rank
    hits_s = total_s[first][is_struck[first]]
    error_s = float(hits_s.std()) / np.sqrt(len(hits_s)) if len(hits_s) > 1 else NAN
    return tuple(named), Evidence(named[0].effect, error_s, peers, len(hits_s), indicator)


def _struck(
    cells: Sequence[tuple[int, int]], own_s: Floats, struck: Mask, directions: Sequence[int]
) -> list[Culprit]:
    """Return one culprit for each worker (stage, dp rank) in `cells`.

    own_s      : lost time, shape (worker, step), steps in the order of time. [s]
    struck     : bool, same shape; steps in which the worker lost much.
    directions : op type or BOTH, for each worker.
    """
    within_s = np.where(struck, own_s, 0.0)
    shares, lost_s = struck.mean(axis=1).tolist(), within_s.mean(axis=1).tolist()
    first = struck.argmax(axis=1).tolist()
    last = (struck.shape[1] - 1 - struck[:, ::-1].argmax(axis=1)).tolist()
    courses = [course_of(of_worker_s, 0.0).kind for of_worker_s in within_s]
    return [
        Culprit(
            stage,
            dp_rank,
            float(own_s[row, struck[row]].mean()),
            shares[row],
            first[row],
            last[row],
            courses[row],
            directions[row],
            lost_s=lost_s[row],
        )
        for row, (stage, dp_rank) in enumerate(cells)
    ]


def _main_type(totals_s: dict[int, float]) -> int:
    """Return the op type with the largest loss; BOTH if forward and backward, or send and recv, lose alike.

    totals_s : a worker's lost time by op type. [s]
    """
    ordered = sorted(totals_s.items(), key=lambda item: -item[1])
    most_s, next_s = (each for _, each in [*ordered, (BOTH, 0.0)][:2])
    first_two = {each for each, _ in ordered[:2]}
    if first_two == set(ot.COMPUTE) and next_s * ONE_DIRECTION > most_s > 0.0:
        return BOTH
    # A worker's transfers over one link: with the next stage, and with the previous one.
    of_links = ({ot.FORWARD_SEND, ot.BACKWARD_RECV}, {ot.FORWARD_RECV, ot.BACKWARD_SEND})
    return BOTH if first_two in of_links and next_s * ONE_WAY > most_s > 0.0 else ordered[0][0]


def _lost(each: int, found: Found) -> dict[int, Floats]:
    """Return the time that each worker lost to a cause, by op type and step; (stage, step, dp_rank). [s]"""
    if each == cause.LAUNCH_DELAY:
        return _by_type(found, [(block.delays.ops, block.delays.delay_s) for block in found.blocks])
    if each != cause.PAUSE:
        return _by_type(found, [(slow.ops, slow.as_is_s - slow.usual_s) for slow in found.slow[each]])
    lost, factors, computes = dict(found.own.pauses), found.factors, found.computes
    shape = found.job.layout.pp_size, found.steps, found.job.layout.dp_size
    if factors is None or factors.pause_s is None or computes is None:
        return lost or {ot.FORWARD_COMPUTE: np.zeros(shape)}
    for k, op_type in enumerate(ot.COMPUTE[: factors.pause_s.shape[1]]):
        lost[op_type] = np.zeros(shape)
        lost[op_type][:, computes.steps] = factors.pause_s[:, k].sum(axis=(1, 2))
    return lost


def _by_type(found: Found, parts: Sequence[tuple[Ints, Floats]]) -> dict[int, Floats]:
    """Return the lost time of each worker by op type and step; shape (stage, step, dp_rank). [s]

    parts : for each block its ops, and the time that each op lost, shape (op, step, dp). [s]
    """
    own = [(block, *part, block.types_of(part[0])) for block, part in zip(found.blocks, parts, strict=True)]
    lost = {}
    for op_type in np.unique(np.concatenate([types for *_, types in own])).tolist():
        sums = [
            by_worker(found.job.layout, block, ops[types == op_type], lost_s[types == op_type])
            for block, ops, lost_s, types in own
        ]
        lost[op_type] = in_time(found.blocks, sums, 1)
    return lost
