"""The table job_slowdown: the status of every unit, its step times, and its slowdown."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from schemas import columns as col
from schemas.table import Column, Expectation, Table, sql_strings
from schemas.vocabulary import REPLAYED_STATUSES, TIMED_STATUSES, UNIT_KEY, Status

_WHEN_REPLAYED: Final = col.declared("""
    slowdown (ratio): simulated_total_s / ideal_total_s: a ratio of means over steps, never a mean of ratios
        (S, Eq. 1)
    waste_fraction
    actual_step_s (seconds): recorded step time, mean over the replayed steps (T_actual)
    simulated_step_s (seconds): step time replayed with recorded durations, mean over steps (T)
    ideal_step_s (seconds): step time replayed with every duration ideal, mean over steps (T_ideal)
    actual_total_s (seconds): recorded step times, summed over the replayed steps
    simulated_total_s (seconds): replayed step times (T), summed over steps
    ideal_total_s (seconds): ideal step times (T_ideal), summed over steps
    discrepancy (fraction >= 0): |T_actual - T| / T_actual
    launch_slowdown (ratio): T_actual / T: slowness that replayed ops do not explain
    ideal (text): how the ideal durations were chosen; slowdown depends strongly on this choice
    steps (count): steps replayed
    steps_dropped (count): steps left out because a worker is missing in them
    workers (count): workers (dp_rank, pp_rank) replayed
    ops (count): ops replayed
    graphs (count): number of different dependency graphs (orders of ops) among steps and replicas
    clamped_transfers (count): transfers whose recorded duration is -10 ms or less, by clocks that differ; the
        replay takes 0
    buffered_sends (count): sends that ended 10 ms or more before their recv began on the same host; the
        replay keeps their times
    clamped_launch_delays (count): launch delays of -10 ms or less; the replay takes 0
    clocks (count): number of clocks of the recorded times: hosts, or ranks without a logged host
    clock_offset_s (seconds): largest mean offset of a clock (host_clock)
    clock_drift_ppm (real [ppm] >= 0): largest drift of a clock (host_clock)
    clock_residual_s (seconds >= 0): median difference between recorded ends of the same transfer or
        collective, after correcting the clocks
    is_clock_corrected (flag): whether the times were corrected by the clocks found
    odd_rank_steps (count): steps of single ranks that contradict their peers; included in steps_dropped
    """)

SLOW_COMPUTES: Final = pa.list_(
    col.struct(
        "op_type text, pp_rank number32, model_chunk number32, dp_rank number32, duration_s real, "
        "usual_s real"
    )
)

STAGE_GAPS: Final = pa.list_(
    col.struct("direction text, pp_rank number32, next_pp_rank number32, gap_s real, usual_s real")
)

_WHEN_TIMED: Final = col.declared("""
    recorded_step_s (seconds? >= 0): recorded step time, median over the steps of a unit that was not
        replayed: with status step_times_only as the log prints it, with some_ranks from the first start to
        the last end on the recorded ranks; null for all others
    recorded_steps (count?): number of steps, or of means over several steps, that recorded_step_s is the
        median of; null for all others
    """)
_OF_SOME_RANKS: Final = col.declared("""
    recorded_ranks (count?): with status some_ranks: number of ranks with ops, out of world_size; null for all
        other units
    recorded_exposed_s (seconds? >= 0): with status some_ranks: time in communication, including waits for
        other ranks, while the rank computes nothing, mean over recorded ranks and steps; without collectives
        that jobs.left_out counts; null for all others
    """)

_COLUMNS: Final = (
    *col.declared("""
        log_date, job_id, run_id
        status (text of STATUSES): how far the analysis of the unit went: the first status that applies
        status_detail (text?): facts behind the status, in a line; if steps take 2 % or more longer than their
            replay, also the times in a step in which no op runs, if these explain it; null: no facts needed
        failure_traceback (text?): traceback of this software's error for a failed unit; null for all others
        """),
    *(replace(column, nullable=True) for column in _WHEN_REPLAYED),
    *col.declared(
        """
        slow_worker_share (fraction?): part of T - T_ideal that goes if the slowest 3 % of workers are ideal
            (M_W, Eq. 5); null if T - T_ideal < 1e-9 T
        last_stage_share (fraction?): part of T - T_ideal that goes if the last stage is ideal (M_S); 0
            without a pipeline; null as slow_worker_share
        forward_backward_correlation (ratio?): Pearson correlation of forward and backward times of the same
            microbatch within each worker, median over workers; null if no worker has two different forward
            times and two different backward times
        discrepancy_nonblocking (fraction? >= 0): median over compared steps of |T_actual - T| / T_actual if
            no transfer blocks its worker; null without a pipeline
        discrepancy_blocking (fraction? >= 0): the same if transfers block their workers; null if such a
            replay was not tried
        world_size (size?): ranks of the run, from the manifest
        gpu_hours
        wasted_gpu_hours (gpu_hours): gpu_hours x waste_fraction; null if either is null
        odd_ranks (count?): ranks whose times have another unit than microseconds, or whose numbers were
            exchanged; null without recorded ops
        other_day_lines (count?): lines with times of another day, which are left out unless all lines have
            such times; null without recorded ops
        unshown_sizes (text?): sizes above 1 in the manifest that no recorded rank confirms, such as vpp_size
            2 if no op has chunk 1; null: none
        slowdown_low (ratio?): of a partial trace: lower bound of the slowdown, from replays in which
            transfers take no time or the least gaps between computes, blocking or not, less 0.5 %; null for
            all others
        slowdown_high (ratio?): of a partial trace: upper bound of the slowdown, with transfers that take the
            recorded gaps, and no time in the ideal, plus 0.5 %; null for all others
        slow_computes (slow_computes?): of a partial trace: computes at least 1.1 times as long as usual,
            worst first. dp_rank: null if all dp ranks of the stage are slow; duration_s: median; usual_s:
            lower median of all stages and chunks, or of the stage's other dp ranks
        stage_gaps (stage_gaps?): of a partial trace: time from the end of a compute to the start of the next
            stage's compute on its output, the least in a step, mean over steps and dp ranks, by boundary and
            direction, largest first; usual_s: lower median of all gaps. A gap is an upper bound for the time
            of a transfer. Null for all other units, and in rows of an earlier version
        blocking (text[]?): op types of the transfers that a worker waits for before its next op; empty:
            transfers run beside other ops; null unless replayed, and in rows of an earlier version
        """,
        own={"slow_computes": SLOW_COMPUTES, "stage_gaps": STAGE_GAPS},
    ),
    *_WHEN_TIMED,
    *_OF_SOME_RANKS,
    *col.declared("""
        nobody_late_steps (count?): replayed steps in which the reduce-scatters of all workers of a stage take
            far longer than usual, though no worker enters them late; a worker that is slow within its
            reduce-scatter, or a slow network, can be the reason; null unless replayed, and in rows of an
            earlier version
        slower_than_usual (ratio?): actual_step_s over the lower median of actual_step_s on earlier days, of
            units with the same model, layout and ops per step, or else of the same run; also of units that
            are not analysed. Null without earlier days, and until causes are revised
        simulator_version (text): version of the simulator that wrote the row
        simulation_settings (text): settings that the row was computed with, as JSON, without settings that
            change results only by rounding
        """),
)


def _there_with(
    statuses: Sequence[str], of: str, meaning: str, columns: Sequence[Column]
) -> Iterator[Expectation]:
    for each in columns:
        condition = f"(status IN ({sql_strings(statuses)})) = ({each.name} IS NOT NULL)"
        yield Expectation(f"{each.name}_with_{of}", condition, f"{each.name} exists exactly if {meaning}")


_APART: Final = "abs(actual_step_s - simulated_step_s)"
_IDENTITIES: Final = (
    col.WASTE_OF_SLOWDOWN,
    *col.rules(f"""
        -- slowdown = simulated_total_s / ideal_total_s
        slowdown_is_ratio_of_sums:
            {col.agree("slowdown * ideal_total_s", "simulated_total_s", col.SAME_SUM)}
        -- actual_step_s = actual_total_s / steps
        actual_step_s_is_mean: {col.agree("actual_step_s * steps", "actual_total_s", col.SAME_SUM)}
        -- simulated_step_s = simulated_total_s / steps
        simulated_step_s_is_mean: {col.agree("simulated_step_s * steps", "simulated_total_s", col.SAME_SUM)}
        -- ideal_step_s = ideal_total_s / steps
        ideal_step_s_is_mean: {col.agree("ideal_step_s * steps", "ideal_total_s", col.SAME_SUM)}
        -- discrepancy = |actual_step_s - simulated_step_s| / actual_step_s
        discrepancy_of_step_times:
            {col.agree("discrepancy * actual_step_s", _APART, col.SAME_FORMULA)}
        -- launch_slowdown = actual_step_s / simulated_step_s
        launch_slowdown_of_step_times:
            {col.agree("launch_slowdown * simulated_step_s", "actual_step_s", col.SAME_FORMULA)}
        """),
)
"""Rules that replayed units must meet."""

JOB_SLOWDOWN: Final = Table(
    "job_slowdown",
    "One row per unit, analysed or not. Columns of results are null unless the unit was replayed, which "
    f"means one of the statuses {', '.join(REPLAYED_STATUSES)}; figures of the fleet count only analysed "
    "units. slow_worker_share and last_stage_share are not clipped: real jobs have values such as 1.22 and "
    "-0.01.",
    grain=UNIT_KEY,
    columns=_COLUMNS,
    expectations=(
        *_there_with(REPLAYED_STATUSES, "replay", "the unit was replayed", _WHEN_REPLAYED),
        *_there_with(TIMED_STATUSES, "status", f"the status is {' or '.join(TIMED_STATUSES)}", _WHEN_TIMED),
        *_there_with([Status.SOME_RANKS], "status", f"the status is {Status.SOME_RANKS}", _OF_SOME_RANKS),
        *(replace(each, condition=f"slowdown IS NULL OR ({each.condition})") for each in _IDENTITIES),
        *col.rules(f"""
            -- wasted_gpu_hours = gpu_hours x waste_fraction
            wasted_gpu_hours_of_waste: CASE WHEN gpu_hours IS NULL OR waste_fraction IS NULL THEN
                wasted_gpu_hours IS NULL ELSE abs(wasted_gpu_hours - gpu_hours * waste_fraction) <=
                {col.SAME_FORMULA!r} * greatest(1, abs(gpu_hours)) END
            -- bounds of the slowdown exist exactly if the status is partial_trace
            partial_trace_has_bounds: (status = '{Status.PARTIAL_TRACE}') = (slowdown_low IS NOT NULL AND
                slow_computes IS NOT NULL) AND (slowdown_low IS NULL) = (slowdown_high IS NULL) AND
                (slowdown_low IS NULL OR slowdown_low <= slowdown_high)
            -- a replayed unit has at least one step
            replayed_has_steps: slowdown IS NULL OR steps >= 1
            -- a failed unit has its error in status_detail and failure_traceback; no figure uses them
            failed_says_why (warns): (status = '{Status.FAILED}') = (failure_traceback IS NOT NULL) AND
                (failure_traceback IS NULL OR status_detail IS NOT NULL)
            """),
    ),
)
