"""stage_slowdown: how slow a unit is by one stage alone."""

import pyarrow as pa

from schemas.fields import PP_RANK, SLOWDOWN, UNIT, described
from schemas.table import Column, Table
from schemas.vocabulary import STAGE_SLOWDOWN, UNIT_KEY

TABLE = Table(
    name=STAGE_SLOWDOWN,
    meaning="One row per stage of a replayed unit, also where there is only one.",
    grain=(*UNIT_KEY, "pp_rank"),
    columns=(
        *UNIT,
        PP_RANK,
        described(SLOWDOWN, "step time with this stage as recorded and all else ideal, over T_ideal (S_pp)"),
        Column(
            "usual_compute_s",
            pa.float64(),
            "time that the computes of one of its workers take in a step: median over steps, then the lower "
            "median over dp ranks. What other runs of the same model are held against",
            unit="s",
            nullable=True,
            minimum=0,
        ),
        Column(
            "hosts",
            pa.list_(pa.string()),
            "hosts of its replayed ranks, each once; null where the log does not say",
            nullable=True,
        ),
    ),
)
