"""All causes of one job: what fixing each alone saves, fixing all together, and each one's share of that."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from udfs.kernel import cause
from udfs.kernel.arrays import Floats
from udfs.kernel.cause import CauseFound, Diagnosis
from udfs.kernel.diagnosis.block_times import Tensor
from udfs.kernel.diagnosis.culprits import blame, slow_apart
from udfs.kernel.diagnosis.fixes import (
    Causes,
    Fixable,
    Fixed,
    Split,
    Works,
    busiest,
    may_end,
    step_times,
    without_transfers,
    works,
)
from udfs.kernel.diagnosis.flags import MOST_MOVING, flags_of, is_skew
from udfs.kernel.diagnosis.found import Found, order_of
from udfs.kernel.diagnosis.loads import has_loads
from udfs.kernel.diagnosis.savings import ALL_FIXES, Savings, savings_of

LEAST_SAVED: Final = 0.025
"""A cause holds if its fix saves at least this share of the step time."""

NAN: Final = float("nan")


def diagnose(found: Found) -> Diagnosis:
    """Find the causes of a job's slowdown."""
    job = found.job
    logged = {cause.DATA_LOADING: has_loads(found.blocks), cause.MIXED_HARDWARE: job.worker_type is not None}
    shown = ALL_FIXES - {each for each, is_logged in logged.items() if not is_logged}
    savings = savings_of(step_replays(found), job.actual_s, shown)
    rest = savings.unexplained
    apart = slow_apart(found) if savings.alone[cause.SLOW_WORKER] >= LEAST_SAVED else 0
    flags = flags_of(found, savings, rest, _moving(found, savings), apart)
    causes = []
    for each in cause.FIXABLE:
        saved = savings.alone[each]
        causes.append(
            CauseFound(
                saved,
                savings.attributed[each],
                saved >= LEAST_SAVED and not is_skew(each, found, saved),
                flags[each],
                *blame(each, found, job.indicators.get(each, NAN)),
            )
        )
    # Beside it what neither fixes nor deviations take of the paper's waste.
    unknown = blame(
        cause.UNEXPLAINED, found, savings.replayed - savings.together - job.ideal_s / job.actual_s
    )
    causes.append(CauseFound(rest, 0.0, rest >= LEAST_SAVED, flags[cause.UNEXPLAINED], *unknown))
    types = None if found.factors is None else found.factors.types
    by_step = savings.by_step[..., order_of(found.blocks)]
    return Diagnosis(tuple(causes), shown | {cause.UNEXPLAINED}, savings.together, types, by_step)


def _moving(found: Found, savings: Savings) -> float:
    """Share of T_actual spent on transfers; only an upper bound if that is below the limit already."""
    most = 0.0
    for computing in (busiest, without_transfers):
        computing_s = sum(float(computing(block).sum()) for block in found.blocks) / found.steps
        most = savings.replayed - computing_s / found.job.actual_s
        if most - savings.alone[cause.COMMUNICATION] <= MOST_MOVING:
            break
    return most


def replays(found: Found, as_is_s: Tensor | None = None) -> Callable[[Sequence[Fixed]], dict[Fixed, float]]:
    """Return a function: mean replayed step time for each given set of causes fixed. [s]

    as_is_s : another work of the computes, which fixes of imbalances leave alone; left out: the job's. [s]
    """
    times_s = step_replays(found, as_is_s)
    return lambda fixes: {fixed: float(of_fixed_s[0]) for fixed, of_fixed_s in times_s(fixes).items()}


def step_replays(
    found: Found, as_is_s: Tensor | None = None
) -> Callable[[Sequence[Fixed]], dict[Fixed, Floats]]:
    """Return a function: replayed step times for each given set of causes fixed, behind their mean. [s]

    Causes of which nothing was found are never replayed: their fixes change nothing.
    """
    factors = found.factors
    present = _present(found)
    split = Split(factors, works(factors), found.rest) if factors is not None else None
    if split is not None and as_is_s is not None:
        split = split._replace(work=Works(as_is_s, as_is_s, as_is_s, as_is_s))
    computes = found.computes.blocks if found.computes is not None else [None] * len(found.blocks)
    parts = (found.blocks, computes, found.transfers, found.loads, found.own_times, found.late)
    fixable = [
        Fixable(times, of_computes, transfers, loads, own, late, may_end(times))
        for times, of_computes, transfers, loads, own, late in zip(*parts, strict=True)
    ]
    known: dict[Causes, Floats] = {}

    def times_s(fixes: Sequence[Fixed]) -> dict[Fixed, Floats]:
        left = {fixed: present - fixed for fixed in fixes}
        unknown = [causes for causes in dict.fromkeys(left.values()) if causes not in known]
        if unknown:
            of_blocks_s = [step_times(block, split, unknown) for block in fixable]
            mean_s = sum(each.sum(axis=1) for each in of_blocks_s) / found.steps
            known.update(zip(unknown, np.column_stack([mean_s, *of_blocks_s]), strict=True))
        return {fixed: known[causes] for fixed, causes in left.items()}

    return times_s


def _present(found: Found) -> Causes:
    """Causes whose fix changes any duration."""
    is_present = {
        cause.LAUNCH_DELAY: any(block.delays.delay_s.any() for block in found.blocks),
        cause.COMMUNICATION: any((slow.as_is_s != slow.usual_s).any() for slow in found.transfers),
        cause.DATA_LOADING: any(slow.ops.size for slow in found.loads),
        cause.SLOW_WORKER: bool(found.own.slow or found.own.late_s),
        cause.PAUSE: bool(found.own.pauses),
        cause.UNEXPLAINED: bool(found.own.shared) or found.rest is not None,
    }
    if found.factors is not None:
        stages, _, chunks, *_ = found.factors.noise.shape
        types = found.factors.types
        is_present |= {
            cause.SLOW_WORKER: is_present[cause.SLOW_WORKER] or bool((found.factors.worker != 1.0).any()),
            cause.STAGE_IMBALANCE: stages * chunks > 1,
            cause.DATA_IMBALANCE: found.factors.data.is_real,
            cause.PAUSE: is_present[cause.PAUSE] or found.factors.pause_s is not None,
            cause.MIXED_HARDWARE: types is not None and bool(types.is_slower.any()),
        }
    return frozenset(each for each, holds in is_present.items() if holds)
