"""When not to trust an answer like others (diagnosis, section 4)."""

from typing import Final, NamedTuple

from udfs.kernel import cause
from udfs.kernel.diagnosis.culprits import Found
from udfs.kernel.diagnosis.savings import Savings
from udfs.kernel.graph.graph import Layout

ENOUGH_STEPS: Final = 4
LARGEST_GAP: Final = 0.05
"""Share of T_actual by which the replay with kept delays may miss it."""

MANY_CELLS: Final = 0.3
"""Share of slow cells beyond which the usual cell is no measure any more."""

MOST_SKEW_S: Final = 1e-3
MOST_MOVING: Final = 0.4
"""If transfers take more of the step than this, only other jobs can show whether all of them are slow."""

MOST_UNEXPLAINED: Final = 0.3
LEAST_WASTE: Final = 0.05
LEAST_CLAIM: Final = 0.01
"""A saving below says nothing that could be mistaken."""

FEW_MICROBATCHES: Final = 4

WORKER_STAGE: Final = (cause.SLOW_WORKER, cause.STAGE_IMBALANCE)
WORKER_DATA: Final = (cause.SLOW_WORKER, cause.DATA_IMBALANCE)


class Trust(NamedTuple):
    """What decides about flags.

    slow_cells  : share of the workers that are slower than usual.
    ambiguous   : whether a stage may be heavy or its one host slow, without evidence for either.
    skew_s      : how far clocks may be apart that were not corrected; infinite if unknown. [s]
    moving      : share of T_actual that transfers take, if all of them are as they should be.
    gap         : by how much the replay misses T_actual, as a share.
    unexplained : share of the waste that no fix returns.
    """

    layout: Layout
    steps: int
    microbatches: int
    slow_cells: float
    ambiguous: bool
    skew_s: float
    moving: float
    gap: float
    unexplained: float

    @classmethod
    def of(cls, found: Found, savings: Savings, rest: float, moving: float) -> "Trust":
        """From what was found and what the fixes save.

        rest, moving : what no fix returns, and what transfers take; shares of T_actual.
        """
        slow_cells, microbatches, ambiguous = 0.0, 0, False
        if found.factors is not None:
            workers = found.factors.workers
            slow_cells = float((workers.log_factor().max(axis=4).max(axis=(1, 2, 3)) > 0.0).mean())
            microbatches = found.factors.noise.shape[3]
            ambiguous = bool(workers.ambiguous.any())
        waste = savings.together + rest
        return cls(
            layout=found.layout,
            steps=sum(block.number_of_steps for block in found.blocks),
            microbatches=microbatches,
            slow_cells=slow_cells,
            ambiguous=ambiguous,
            skew_s=found.skew_s,
            moving=moving - savings.alone[cause.COMMUNICATION],
            gap=abs(1.0 - savings.replayed),
            unexplained=rest / waste if waste > LEAST_WASTE else 0.0,
        )


def flag_of(each: int, trust: Trust, alone: dict[int, float]) -> int:
    """The first reason that applies; NO_FLAG.

    alone : share of T_actual that each fix alone saves.
    """
    reasons = {
        cause.FEW_STEPS: trust.steps < ENOUGH_STEPS,
        cause.HIGH_DISCREPANCY: trust.gap > LARGEST_GAP,
        cause.CLOCK_SKEW: each in (cause.COMMUNICATION, cause.LAUNCH_DELAY) and trust.skew_s > MOST_SKEW_S,
        cause.NO_USUAL_TRANSFER: each == cause.COMMUNICATION and trust.moving > MOST_MOVING,
        cause.FEW_PEERS: each in WORKER_STAGE and trust.layout.dp_size == trust.layout.pp_size == 1,
        cause.WORKER_OR_STAGE: each in WORKER_STAGE and _is_worker_or_stage(trust, alone),
        cause.WORKER_OR_DATA: each in WORKER_DATA and _is_worker_or_data(trust, alone),
        cause.MANY_SLOW_CELLS: each == cause.SLOW_WORKER and trust.slow_cells > MANY_CELLS,
        cause.MOSTLY_UNEXPLAINED: each == cause.UNEXPLAINED and trust.unexplained > MOST_UNEXPLAINED,
    }
    return next((flag for flag, holds in reasons.items() if holds), cause.NO_FLAG)


def is_skew(each: int, trust: Trust, saved: float, actual_s: float) -> bool:
    """Whether clocks that are apart explain what a fix seems to save: ops that look late."""
    waits = {cause.LAUNCH_DELAY: 4, cause.COMMUNICATION: 2 * trust.microbatches}
    return trust.skew_s > MOST_SKEW_S and saved * actual_s < waits.get(each, 0) * trust.skew_s


def _claims(alone: dict[int, float], causes: tuple[int, ...]) -> bool:
    return max(alone[each] for each in causes) > LEAST_CLAIM


def _is_worker_or_stage(trust: Trust, alone: dict[int, float]) -> bool:
    """A stage of one worker, or all on one host, that is heavy or slow, if only in some steps."""
    if trust.layout.dp_size == 1:
        return trust.layout.pp_size > 1 and _claims(alone, (*WORKER_STAGE, cause.PAUSE))
    return trust.ambiguous and _claims(alone, WORKER_STAGE)


def _is_worker_or_data(trust: Trust, alone: dict[int, float]) -> bool:
    """With one stage, a rank that always gets more data is like a slow one."""
    is_short = trust.layout.pp_size == 1 and trust.microbatches < FEW_MICROBATCHES
    return is_short and _claims(alone, WORKER_DATA)
