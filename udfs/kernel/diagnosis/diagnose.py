"""Diagnose a job: for each cause what its fix saves, its share of the loss, its flag, and its culprits."""

from typing import Final

from udfs.kernel import cause
from udfs.kernel.cause import CauseFound, Diagnosis
from udfs.kernel.diagnosis.culprits import blame, slow_apart
from udfs.kernel.diagnosis.fixes import Replays, busiest, without_transfers
from udfs.kernel.diagnosis.flags import MOST_MOVING, flags_of, is_skew
from udfs.kernel.diagnosis.savings import savings_of

LEAST_SAVED: Final = 0.025
"""A cause holds if its fix saves at least this share of T_actual, and wrong clocks cannot be the reason."""

NAN: Final = float("nan")


def diagnose(replays: Replays) -> Diagnosis:
    """Return the savings, flag, culprits and evidence of each cause of slowdown of a job."""
    found = replays.found
    job = found.job
    savings = savings_of(replays.times_s, job.actual_s, found.shown)
    rest = savings.unexplained
    apart = slow_apart(found) if savings.alone[cause.SLOW_WORKER] >= LEAST_SAVED else 0
    held = {
        each
        for each, saved in savings.alone.items()
        if saved >= LEAST_SAVED and not is_skew(each, found, saved, LEAST_SAVED)
    }
    # The share of T_actual that transfers take, or an upper bound without a replay if that is small.
    moving = 0.0
    for computing in (busiest, without_transfers):
        computing_s = sum(float(computing(block).sum()) for block in found.blocks) / found.steps
        moving = savings.replayed - computing_s / job.actual_s
        if moving - savings.alone[cause.COMMUNICATION] <= MOST_MOVING:
            break
    flags = flags_of(found, savings, held, moving, apart)
    causes = [
        CauseFound(
            savings.alone[each],
            savings.attributed[each],
            each in held,
            flags[each],
            *blame(each, found, job.indicators.get(each, NAN)),
        )
        for each in cause.FIXABLE
    ]
    # The indicator is the part of the paper's waste that all fixes and the replay's error do not explain.
    unknown = blame(
        cause.UNEXPLAINED, found, savings.replayed - savings.together - job.ideal_s / job.actual_s
    )
    causes.append(CauseFound(rest, 0.0, rest >= LEAST_SAVED, flags[cause.UNEXPLAINED], *unknown))
    types = None if found.factors is None else found.factors.types
    shown = found.shown | {cause.UNEXPLAINED}
    return Diagnosis(tuple(causes), shown, savings.together, types, savings.by_step)
