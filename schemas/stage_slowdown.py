"""stage_slowdown: how much one stage alone slows a unit."""

from schemas.fields import PP_RANK, SLOWDOWN, UNIT, described
from schemas.table import Table
from schemas.vocabulary import STAGE_SLOWDOWN, UNIT_KEY

TABLE = Table(
    name=STAGE_SLOWDOWN,
    meaning="One row per stage of a replayed unit, even if it has only one.",
    grain=(*UNIT_KEY, "pp_rank"),
    columns=(
        *UNIT,
        PP_RANK,
        described(SLOWDOWN, "step time with this stage as recorded and all else ideal, over T_ideal (S_pp)"),
    ),
)
