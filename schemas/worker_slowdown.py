"""worker_slowdown: how much one worker alone slows a unit."""

import pyarrow as pa

from schemas.fields import DP_RANK, HOST, PP_RANK, RANK, SLOWDOWN, UNIT, described
from schemas.table import Column, Table
from schemas.vocabulary import UNIT_KEY, WORKER_SLOWDOWN

TABLE = Table(
    name=WORKER_SLOWDOWN,
    meaning=(
        "One row per worker (dp_rank, pp_rank) of a replayed unit, even if it has only one. A worker is "
        "judged by one of its ranks, the lowest (cp_rank, tp_rank) recorded: its other hosts are not seen."
    ),
    grain=(*UNIT_KEY, "dp_rank", "pp_rank"),
    columns=(
        *UNIT,
        DP_RANK,
        PP_RANK,
        described(RANK, "global rank of the rank that was replayed for the worker"),
        described(HOST, "host of the rank that was replayed; null if not logged"),
        described(SLOWDOWN, "step time with this worker alone as recorded, over T_ideal (exact S_w, Eq. 4)"),
        described(
            SLOWDOWN,
            "the paper's shortcut: the lower one of the slowdowns of the worker's stage and dp rank",
            name="slowdown_approx",
        ),
        Column(
            "is_slowest",
            pa.bool_(),
            "one of the 3 % of workers that slow_worker_share uses, by slowdown_approx",
        ),
        Column(
            "step_slowdowns",
            pa.list_(pa.float32()),
            "slowdown of each replayed step, in the order of step_slowdown.step: the step with this "
            "worker alone as recorded, over the step's T_ideal; null in rows of an earlier version",
            unit="ratio",
            nullable=True,
            minimum=0,
        ),
    ),
)
