"""Tables of slowdowns of single steps, op types, stages, dp ranks and workers, and of clocks of hosts."""

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
    "One row per stage of a replayed unit, even if the unit has only one stage.",
    grain=(*UNIT_KEY, "pp_rank"),
    columns=col.declared("""
        log_date, job_id, run_id, pp_rank
        slowdown (ratio): step time with this stage as recorded and all else ideal, over T_ideal (S_pp)
        """),
)

DP_RANK_SLOWDOWN: Final = Table(
    "dp_rank_slowdown",
    "One row per dp rank of a replayed unit, even if the unit has only one dp rank.",
    grain=(*UNIT_KEY, "dp_rank"),
    columns=col.declared("""
        log_date, job_id, run_id, dp_rank
        slowdown (ratio): step time with this dp rank as recorded and all else ideal, over T_ideal (S_dp)
        """),
)

WORKER_SLOWDOWN: Final = Table(
    "worker_slowdown",
    "One row per worker (dp_rank, pp_rank) of a replayed unit, even if the unit has only one worker. A "
    "worker is judged by one of its ranks, the lowest recorded (cp_rank, tp_rank), so that hosts of other "
    "ranks of the worker have no rows.",
    grain=(*UNIT_KEY, "dp_rank", "pp_rank"),
    columns=col.declared("""
        log_date, job_id, run_id, dp_rank, pp_rank
        rank (number32 >= 0): global rank of the rank that was replayed for the worker
        host (text?): host of the rank that was replayed; null if not logged
        slowdown (ratio): step time with this worker alone as recorded, over T_ideal (exact S_w, Eq. 4)
        slowdown_approx (ratio): the paper's shortcut: the lower of the slowdowns of the worker's stage and of
            its dp rank
        is_slowest (flag): whether the worker is among the 3 % with the highest slowdown_approx, which
            slow_worker_share of job_slowdown is about
        step_slowdowns (real32[]? [ratio] >= 0): slowdown of each replayed step, in the order of
            step_slowdown.step: the step with this worker alone as recorded, over the step's T_ideal; null in
            rows of an earlier version
        """),
)

HOST_CLOCK: Final = Table(
    "host_clock",
    "One row per clock of a replayed unit: of a host, or of a rank without a logged host. Offsets are "
    "estimated from the ends of transfers and collectives, which are the same instant on all hosts that "
    "take part. They are relative to the median clock of all hosts that are joined by transfers or "
    "collectives: of two hosts, each has half of the difference.",
    grain=(*UNIT_KEY, "clock"),
    columns=col.declared("""
        log_date, job_id, run_id
        clock (text): name of the host, or the rank if no host is logged
        host (text?): machine of the clock; null if not logged
        rank (number32 >= 0): lowest replayed rank whose times are from this clock
        part (count): number of the group of clocks that transfers or collectives join
        offset_s (seconds): time of the clock less that of the median clock, mean over steps
        largest_offset_s (seconds): offset of the step in which it is furthest from 0, signed
        drift_ppm (real [ppm]): microseconds that the clock gains on the median clock per second
        jumps (count): number of times that the clock was set within the recorded steps
        largest_jump_s (seconds): largest jump of the clock, signed; 0 without one
        error_s (seconds?): standard error of offset_s; null for a clock that no other is joined with
        is_corrected (flag): whether the replay used times corrected by the offsets of this clock
        """),
    expectations=col.rules("""
        -- a clock that no other is joined with has offset 0
        a_single_clock_is_not_off: error_s IS NOT NULL OR (offset_s = 0 AND jumps = 0 AND NOT is_corrected)
        """),
)
