"""All causes of one job: each fixed alone, all together, and what each contributes to that."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import cause
from udfs.kernel.arrays import Ints
from udfs.kernel.cause import CauseFound, Diagnosis
from udfs.kernel.diagnosis.block_times import BlockTimes, compute_times
from udfs.kernel.diagnosis.culprits import Found, blame
from udfs.kernel.diagnosis.factors import decompose
from udfs.kernel.diagnosis.fixes import (
    Causes,
    Fixable,
    Fixed,
    busiest,
    may_end,
    step_times,
    without_transfers,
    works,
)
from udfs.kernel.diagnosis.flags import MOST_MOVING, Trust, flag_of, is_skew
from udfs.kernel.diagnosis.savings import Savings, savings_of
from udfs.kernel.diagnosis.transfers import slow_transfers
from udfs.kernel.graph.graph import Layout

LEAST_SAVED: Final = 0.025
"""A cause holds if its fix saves at least this share of the step time."""

NAN: Final = float("nan")


class Job(NamedTuple):
    """What is known of a job beside its durations. Times are means over steps. [s]

    hosts      : int, shape (stage, dp_rank); which host a worker is on, -1 where unknown.
    indicators : the paper's, by cause; nan where it has none.
    skew_s     : how far clocks may be apart that were not corrected; infinite if unknown. [s]
    """

    layout: Layout
    hosts: Ints
    actual_s: float
    ideal_s: float
    indicators: dict[int, float]
    skew_s: float = 0.0


def diagnose(blocks: Sequence[BlockTimes], job: Job) -> Diagnosis:
    """Find the causes of a job."""
    computes = compute_times(blocks, job.layout)
    factors = decompose(computes.times_s, job.hosts) if computes is not None else None
    transfers = slow_transfers(blocks)
    found = Found(job.layout, job.actual_s, blocks, computes, factors, transfers, job.skew_s)
    savings = savings_of(_replays(found), job.actual_s)
    rest = savings.replayed - savings.together - job.ideal_s / job.actual_s
    trust = Trust.of(found, savings, rest, _moving(found, savings))
    causes = []
    for each in cause.FIXABLE:
        saved = savings.alone[each]
        culprits, evidence = blame(each, found, job.indicators.get(each, NAN))
        causes.append(
            CauseFound(
                time_saved_fraction=saved,
                attributed_fraction=savings.attributed[each],
                is_cause=saved >= LEAST_SAVED and not is_skew(each, trust, saved, job.actual_s),
                flag=flag_of(each, trust, savings.alone),
                culprits=culprits,
                evidence=evidence,
            )
        )
    flag = flag_of(cause.UNEXPLAINED, trust, savings.alone)
    unknown = blame(cause.UNEXPLAINED, found, NAN)
    causes.append(CauseFound(rest, 0.0, rest >= LEAST_SAVED, flag, unknown.culprits, unknown.evidence))
    return Diagnosis(tuple(causes), savings.together)


def _moving(found: Found, savings: Savings) -> float:
    """Share of T_actual that transfers take; an upper bound if even that is not too much."""
    steps = sum(block.number_of_steps for block in found.blocks)
    most = 0.0
    for computing in (busiest, without_transfers):
        computing_s = sum(float(computing(block).sum()) for block in found.blocks) / steps
        most = savings.replayed - computing_s / found.actual_s
        if most - savings.alone[cause.COMMUNICATION] <= MOST_MOVING:
            break
    return most


def _replays(found: Found) -> Callable[[Sequence[Fixed]], dict[Fixed, float]]:
    """Function that gives the mean step time with each of several sets of causes fixed. [s]

    Causes of which nothing was found are never replayed: their fixes change nothing.
    """
    factors = found.factors
    present = _present(found)
    work = works(factors) if factors is not None else None
    computes = found.computes.blocks if found.computes is not None else [None] * len(found.blocks)
    fixable = [
        Fixable(*of_block, may_end(of_block[0]))
        for of_block in zip(found.blocks, computes, found.transfers, strict=True)
    ]
    steps = sum(block.number_of_steps for block in found.blocks)
    known: dict[Causes, float] = {}

    def mean_s(fixes: Sequence[Fixed]) -> dict[Fixed, float]:
        left = {fixed: present - fixed for fixed in fixes}
        unknown = [causes for causes in dict.fromkeys(left.values()) if causes not in known]
        if unknown:
            total = np.zeros(len(unknown))
            for block in fixable:
                total += step_times(block, factors, work, unknown).sum(axis=1)
            known.update(zip(unknown, (total / steps).tolist(), strict=True))
        return {fixed: known[causes] for fixed, causes in left.items()}

    return mean_s


def _present(found: Found) -> Causes:
    """Causes whose fixes change any duration."""
    is_present = {
        cause.LAUNCH_DELAY: any(block.delays.delay_s.any() for block in found.blocks),
        cause.COMMUNICATION: any((slow.as_is_s != slow.usual_s).any() for slow in found.transfers),
    }
    if found.factors is not None:
        stages, _, chunks, *_ = found.factors.noise.shape
        is_present |= {
            cause.SLOW_WORKER: bool((found.factors.worker != 1.0).any()),
            cause.STAGE_IMBALANCE: stages * chunks > 1,
            cause.DATA_IMBALANCE: found.factors.data.is_real,
            cause.PAUSE: bool(found.factors.pause_s.any()),
        }
    return frozenset(each for each, holds in is_present.items() if holds)
