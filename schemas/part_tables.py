"""Slowdown caused by each op type, stage, dp rank and worker alone; also step times and host clocks."""

from typing import Final

import pyarrow as pa

from schemas import columns as col
from schemas.table import Column, Expectation, Table
from schemas.vocabulary import OP_TYPE_GROUPS, OP_TYPES, UNIT_KEY

STEP_SLOWDOWN: Final = Table(
    "step_slowdown",
    "One row per replayed step of a replayed unit.",
    grain=(*UNIT_KEY, "step"),
    columns=(
        *col.UNIT,
        col.STEP,
        col.seconds(
            "actual_step_s",
            "recorded step time: latest end minus earliest start of the replayed ranks' ops (T_actual)",
        ),
        col.seconds("simulated_step_s", "step time replayed with recorded durations (T)"),
        col.IDEAL_STEP,
        col.ratio("slowdown", "simulated_step_s / ideal_step_s of this step"),
    ),
    expectations=(
        col.same(
            "slowdown_of_step_times",
            "slowdown * ideal_step_s",
            "simulated_step_s",
            col.SAME_FORMULA,
            "slowdown = simulated_step_s / ideal_step_s",
        ),
    ),
)

COUNTED_OP_TYPES: Final = tuple(dict.fromkeys(OP_TYPE_GROUPS.get(name, name) for name in OP_TYPES))
"""Op types of op_type_slowdown: send and recv of one direction count as one."""

OP_TYPE_SLOWDOWN: Final = Table(
    "op_type_slowdown",
    "One row per op type of a replayed unit.",
    grain=(*UNIT_KEY, "op_type"),
    columns=(
        *col.UNIT,
        col.text("op_type", "op type; send and recv of one direction as one", allowed=COUNTED_OP_TYPES),
        col.ratio(
            "slowdown",
            "step time with this op type as recorded and all else ideal, over T_ideal (S_t, Eq. 2)",
        ),
        col.WASTE_FRACTION,
    ),
    expectations=(col.WASTE_OF_SLOWDOWN,),
)

STAGE_SLOWDOWN: Final = Table(
    "stage_slowdown",
    "One row per stage of a replayed unit, even if it has only one.",
    grain=(*UNIT_KEY, "pp_rank"),
    columns=(
        *col.UNIT,
        col.PP_RANK,
        col.ratio(
            "slowdown", "step time with this stage as recorded and all else ideal, over T_ideal (S_pp)"
        ),
    ),
)

DP_RANK_SLOWDOWN: Final = Table(
    "dp_rank_slowdown",
    "One row per dp rank of a replayed unit, even if it has only one.",
    grain=(*UNIT_KEY, "dp_rank"),
    columns=(
        *col.UNIT,
        col.DP_RANK,
        col.ratio(
            "slowdown", "step time with this dp rank as recorded and all else ideal, over T_ideal (S_dp)"
        ),
    ),
)

WORKER_SLOWDOWN: Final = Table(
    "worker_slowdown",
    "One row per worker (dp_rank, pp_rank) of a replayed unit, even if it has only one. A worker is "
    "judged by one of its ranks, the lowest (cp_rank, tp_rank) recorded: its other hosts are not seen.",
    grain=(*UNIT_KEY, "dp_rank", "pp_rank"),
    columns=(
        *col.UNIT,
        col.DP_RANK,
        col.PP_RANK,
        col.number32("rank", "global rank of the rank that was replayed for the worker", minimum=0),
        col.text("host", "host of the rank that was replayed; null if not logged", nullable=True),
        col.ratio(
            "slowdown", "step time with this worker alone as recorded, over T_ideal (exact S_w, Eq. 4)"
        ),
        col.ratio(
            "slowdown_approx",
            "the paper's shortcut: the lower one of the slowdowns of the worker's stage and dp rank",
        ),
        col.flag("is_slowest", "one of the 3 % of workers that slow_worker_share uses, by slowdown_approx"),
        Column(
            "step_slowdowns",
            "slowdown of each replayed step, in the order of step_slowdown.step: the step with this "
            "worker alone as recorded, over the step's T_ideal; null in rows of an earlier version",
            pa.list_(pa.float32()),
            unit="ratio",
            nullable=True,
            minimum=0,
        ),
    ),
)

HOST_CLOCK: Final = Table(
    "host_clock",
    "One row per clock of a replayed unit: a host, or a rank without a logged host. Estimated from the "
    "ends of transfers and collectives, which are the same instant on all hosts involved. Offsets are "
    "against the median clock of the hosts so joined: each of two hosts shows half their difference.",
    grain=(*UNIT_KEY, "clock"),
    columns=(
        *col.UNIT,
        col.text("clock", "the host; without a logged host, its rank"),
        col.text("host", "machine of the clock; null if not logged", nullable=True),
        col.number32("rank", "lowest replayed rank whose times are from this clock", minimum=0),
        col.count("part", "clocks with equal numbers are joined by transfers or collectives"),
        col.seconds("offset_s", "how far the clock is ahead, mean over steps"),
        col.seconds("largest_offset_s", "offset at the greatest distance from the median clock, signed"),
        col.real("drift_ppm", "how much faster the clock runs than the median clock", unit="ppm"),
        col.count("jumps", "how often the clock was set within the recorded steps"),
        col.seconds("largest_jump_s", "largest jump of the clock, signed; 0 without one"),
        col.seconds(
            "error_s", "standard error of offset_s; null for a clock with nothing to compare", nullable=True
        ),
        col.flag("is_corrected", "whether the replay used times corrected by these offsets"),
    ),
    expectations=(
        Expectation(
            "a_single_clock_is_not_off",
            "error_s IS NOT NULL OR (offset_s = 0 AND jumps = 0 AND NOT is_corrected)",
            "a clock with nothing to compare has no offset",
        ),
    ),
)
