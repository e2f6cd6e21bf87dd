"""dp_rank_slowdown: how much one dp rank alone slows a unit."""

from schemas.fields import DP_RANK, SLOWDOWN, UNIT, described
from schemas.table import Table
from schemas.vocabulary import DP_RANK_SLOWDOWN, UNIT_KEY

TABLE = Table(
    name=DP_RANK_SLOWDOWN,
    meaning="One row per dp rank of a replayed unit, even if it has only one.",
    grain=(*UNIT_KEY, "dp_rank"),
    columns=(
        *UNIT,
        DP_RANK,
        described(
            SLOWDOWN, "step time with this dp rank as recorded and all else ideal, over T_ideal (S_dp)"
        ),
    ),
)
