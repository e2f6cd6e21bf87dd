"""step_slowdown: step times and slowdown of every replayed step."""

from schemas.fields import (
    ACTUAL_STEP,
    IDEAL_STEP,
    SAME_FORMULA,
    SIMULATED_STEP,
    SLOWDOWN,
    STEP,
    UNIT,
    described,
    same,
)
from schemas.table import Table
from schemas.vocabulary import STEP_SLOWDOWN, UNIT_KEY

TABLE = Table(
    name=STEP_SLOWDOWN,
    meaning="One row per replayed step of a replayed unit.",
    grain=(*UNIT_KEY, "step"),
    columns=(
        *UNIT,
        STEP,
        ACTUAL_STEP,
        SIMULATED_STEP,
        IDEAL_STEP,
        described(SLOWDOWN, "simulated_step_s / ideal_step_s of this step"),
    ),
    expectations=(
        same(
            "slowdown_of_step_times",
            "slowdown * ideal_step_s",
            "simulated_step_s",
            SAME_FORMULA,
            "slowdown = simulated_step_s / ideal_step_s",
        ),
    ),
)
