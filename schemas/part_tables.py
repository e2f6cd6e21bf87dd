"""Tables of slowdowns by op type, stage, dp rank or worker alone, of steps, and of the clocks of hosts."""

from typing import Final

from schemas import columns as col
from schemas.table import Table
from schemas.vocabulary import UNIT_KEY

STEP_SLOWDOWN: Final = Table(
    "step_slowdown",
    "One row per replayed step of a replayed unit.",
    grain=(*UNIT_KEY, "step"),
    columns=col.declared("""
        log_date, job_id, run_id, step
        actual_step_s (seconds): recorded step time: latest end minus earliest start of the replayed ranks'
            ops (T_actual)
        simulated_step_s (seconds): step time replayed with recorded durations (T)
        ideal_step_s
        slowdown (ratio): simulated_step_s / ideal_step_s of this step
        """),
    expectations=col.rules(f"""
        -- slowdown = simulated_step_s / ideal_step_s
        slowdown_of_step_times: {col.agree("slowdown * ideal_step_s", "simulated_step_s", col.SAME_FORMULA)}
        """),
)

OP_TYPE_SLOWDOWN: Final = Table(
    "op_type_slowdown",
    "One row per op type of a replayed unit.",
    grain=(*UNIT_KEY, "op_type"),
    columns=col.declared("""
        log_date, job_id, run_id
        op_type (text of COUNTED_OP_TYPES): op type; send and recv of one direction count as one
        slowdown (ratio): step time with this op type as recorded and all else ideal, over T_ideal (S_t, Eq.
            2)
        waste_fraction
        """),
    expectations=(col.WASTE_OF_SLOWDOWN,),
)

STAGE_SLOWDOWN: Final = Table(
    "stage_slowdown",
    "One row per stage of a replayed unit, even if it has only one.",
    grain=(*UNIT_KEY, "pp_rank"),
    columns=col.declared("""
        log_date, job_id, run_id, pp_rank
        slowdown (ratio): step time with this stage as recorded and all else ideal, over T_ideal (S_pp)
        """),
)

DP_RANK_SLOWDOWN: Final = Table(
    "dp_rank_slowdown",
    "One row per dp rank of a replayed unit, even if it has only one.",
    grain=(*UNIT_KEY, "dp_rank"),
    columns=col.declared("""
        log_date, job_id, run_id, dp_rank
        slowdown (ratio): step time with this dp rank as recorded and all else ideal, over T_ideal (S_dp)
        """),
)

WORKER_SLOWDOWN: Final = Table(
    "worker_slowdown",
    "One row per worker (dp_rank, pp_rank) of a replayed unit, even if it has only one. A worker is "
    "judged by one of its ranks, the lowest (cp_rank, tp_rank) recorded: its other hosts are not seen.",
    grain=(*UNIT_KEY, "dp_rank", "pp_rank"),
    columns=col.declared("""
        log_date, job_id, run_id, dp_rank, pp_rank
        rank (number32 >= 0): global rank of the rank that was replayed for the worker
        host (text?): host of the rank that was replayed; null if not logged
        slowdown (ratio): step time with this worker alone as recorded, over T_ideal (exact S_w, Eq. 4)
        slowdown_approx (ratio): the paper's shortcut: the lower one of the slowdowns of the worker's stage
            and dp rank
        is_slowest (flag): whether the worker is one of the 3 % of workers that slow_worker_share uses, by
            slowdown_approx
        step_slowdowns (real32[]? [ratio] >= 0): slowdown of each replayed step, in the order of
            step_slowdown.step: the step with this worker alone as recorded, over the step's T_ideal; null in
            rows of an earlier version
        """),
)

HOST_CLOCK: Final = Table(
    "host_clock",
    "One row per clock of a replayed unit: a host, or a rank without a logged host. Estimated from the "
    "ends of transfers and collectives, which are the same instant on all hosts involved. Offsets are "
    "against the median clock of the hosts joined in this way: each of two hosts shows half their "
    "difference.",
    grain=(*UNIT_KEY, "clock"),
    columns=col.declared("""
        log_date, job_id, run_id
        clock (text): name of the host; the rank, where no host is logged
        host (text?): machine of the clock; null if not logged
        rank (number32 >= 0): lowest replayed rank whose times are from this clock
        part (count): clocks with equal numbers are joined by transfers or collectives
        offset_s (seconds): how far the clock is ahead, mean over steps
        largest_offset_s (seconds): offset at the greatest distance from the median clock, signed
        drift_ppm (real [ppm]): how much faster the clock runs than the median clock
        jumps (count): how often the clock was set within the recorded steps
        largest_jump_s (seconds): largest jump of the clock, signed; 0 without one
        error_s (seconds?): standard error of offset_s; null for a clock with nothing to compare
        is_corrected (flag): whether the replay used times corrected by these offsets
        """),
    expectations=col.rules("""
        -- a clock with nothing to compare has no offset
        a_single_clock_is_not_off: error_s IS NOT NULL OR (offset_s = 0 AND jumps = 0 AND NOT is_corrected)
        """),
)
