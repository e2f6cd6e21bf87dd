"""A hand-made diagnosis with culprits of every kind, and rows of the unit that it diagnoses."""

from math import nan
from typing import Any, Final

from tests.udfs.lines import Ops, line
from udfs.kernel import op_type as ot
from udfs.kernel.cause import (
    ALL,
    ALWAYS,
    BOTH,
    COMES_AND_GOES,
    COUNT,
    DATA_LOADING,
    FEW_PEERS,
    FROM,
    HOST,
    MOSTLY_UNEXPLAINED,
    NO_FLAG,
    NO_USUAL_TRANSFER,
    REPLICA,
    STAGE,
    UNEXPLAINED,
    CauseFound,
    Culprit,
    Diagnosis,
    Evidence,
)

NO_EVIDENCE: Final = Evidence(nan, nan, nan, nan, nan)
SLOW_CELL: Final = Culprit(
    stage=1, dp_rank=0, effect=0.5, share_of_steps=0.25, first_step=3, last_step=6,
    course=COMES_AND_GOES, direction=ot.BACKWARD_COMPUTE, lost_s=0.125,
)  # fmt: skip
SLOW_REPLICA: Final = Culprit(
    stage=ALL, dp_rank=1, effect=0.125, share_of_steps=1.0, first_step=0, last_step=9,
    course=ALWAYS, direction=BOTH, reach=REPLICA, lost_s=0.0625, workers=((0, 1), (1, 1)),
)  # fmt: skip
SLOW_HOST: Final = Culprit(
    stage=ALL, dp_rank=ALL, effect=0.25, share_of_steps=0.5, first_step=5, last_step=9,
    course=FROM, direction=ot.OPTIMIZER, reach=HOST, host=1, workers=((0, 1), (1, 1)),
)  # fmt: skip
HEAVY_STAGE: Final = Culprit(
    stage=1, dp_rank=ALL, effect=0.25, share_of_steps=1.0, first_step=0, last_step=9, reach=STAGE
)
PAUSED: Final = Culprit(
    stage=0, dp_rank=1, effect=1.5, share_of_steps=0.125, first_step=7, last_step=7,
    course=COMES_AND_GOES, direction=ot.FORWARD_COMPUTE,
)  # fmt: skip


def cause(
    saved: float = 0.0,
    attributed: float = 0.0,
    *culprits: Culprit,
    flag: int = NO_FLAG,
    evidence: Evidence = NO_EVIDENCE,
) -> CauseFound:
    """Return one cause; it is named (`is_cause`) if it saves at least 2.5 % of the step time."""
    return CauseFound(saved, attributed, saved >= 0.025, flag, culprits, evidence)


DIAGNOSIS: Final = Diagnosis(
    causes=(
        cause(0.25, 0.1875, SLOW_CELL, SLOW_REPLICA, evidence=Evidence(0.5, 0.01, 1, 64, 1.22)),
        cause(0.125, 0.0625, HEAVY_STAGE, flag=FEW_PEERS, evidence=Evidence(0.25, nan, 1, 64, nan)),
        cause(-0.0625, -0.03125),
        cause(0.03125, 0.03125, PAUSED),
        cause(flag=NO_USUAL_TRANSFER),
        cause(0.015625, 0.015625),
        *[cause()] * (UNEXPLAINED - DATA_LOADING),
        cause(0.0625, 0.0, flag=MOSTLY_UNEXPLAINED),
    ),
    shown=frozenset(range(COUNT)),
    all_fixes_fraction=0.265625,
)
"""Numbers are binary fractions, so that their products and sums are exact."""


def unit_rows() -> list[dict[str, Any]]:
    """Return ten equal steps of two stages and two replicas, with a separate host for each worker."""
    both: list[Ops] = [
        [
            ("forward-compute", 0, 1),
            ("forward-send", 1, 1),
            ("backward-recv", 2, 2),
            ("backward-compute", 4, 1),
        ],
        [
            ("forward-recv", 0, 2),
            ("forward-compute", 2, 0.5),
            ("backward-compute", 2.5, 0.5),
            ("backward-send", 3, 1),
        ],
    ]
    return [
        line(step, dp_rank, stage, both[stage], host=f"node-{dp_rank}{stage}")
        for step in range(10)
        for dp_rank in range(2)
        for stage in range(2)
    ]
