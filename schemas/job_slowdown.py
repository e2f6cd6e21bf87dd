"""job_slowdown: the status of every unit, its slowdown and the components of that slowdown."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from schemas import columns as col
from schemas.table import Column, Expectation, Table, sql_strings
from schemas.vocabulary import REPLAYED_STATUSES, STATUSES, TIMED_STATUSES, UNIT_KEY, Status

_WHEN_REPLAYED: Final = (
    col.ratio(
        "slowdown",
        "summed simulated over summed ideal step time: a ratio of means, never a mean of ratios (S, Eq. 1)",
    ),
    col.WASTE_FRACTION,
    col.seconds("actual_step_s", "recorded step time, mean over the replayed steps (T_actual)"),
    col.seconds("simulated_step_s", "step time replayed with recorded durations, mean over steps (T)"),
    col.seconds("ideal_step_s", "step time replayed with every duration ideal, mean over steps (T_ideal)"),
    col.seconds("actual_total_s", "recorded step times, summed over the replayed steps"),
    col.seconds("simulated_total_s", "replayed step times (T), summed over steps"),
    col.seconds("ideal_total_s", "ideal step times (T_ideal), summed over steps"),
    col.fraction("discrepancy", "|T_actual - T| / T_actual", minimum=0),
    col.ratio("launch_slowdown", "T_actual / T: what the graph does not explain"),
    col.text("ideal", "how the ideal durations were chosen; slowdown depends on it strongly"),
    col.count("steps", "steps replayed"),
    col.count("steps_dropped", "steps left out because a worker is missing in them"),
    col.count("workers", "workers (dp_rank, pp_rank) replayed"),
    col.count("ops", "ops replayed"),
    col.count("graphs", "distinct dependency graphs (orders of ops) among steps and replicas"),
    col.count("clamped_transfers", "transfers of -10 ms or less, which clocks may explain; taken as 0"),
    col.count(
        "buffered_sends",
        "sends that ended 10 ms or more before their recv began on the same host; not changed",
    ),
    col.count("clamped_launch_delays", "launch delays of -10 ms or less, taken as 0"),
    col.count("clocks", "clocks of the recorded times: hosts, or ranks without a logged host"),
    col.seconds("clock_offset_s", "largest mean offset found for a clock (host_clock)"),
    col.real("clock_drift_ppm", "largest drift found for a clock", unit="ppm", minimum=0),
    col.seconds(
        "clock_residual_s",
        "median difference of ends that should agree, after correcting the clocks",
        minimum=0,
    ),
    col.flag("is_clock_corrected", "whether the times were corrected by the clocks found"),
    col.count("odd_rank_steps", "rank-steps unlike their peers; their steps are among steps_dropped"),
)

SLOW_COMPUTES: Final = pa.list_(
    pa.struct(
        [
            ("op_type", pa.string()),
            ("pp_rank", pa.int32()),
            ("model_chunk", pa.int32()),
            ("dp_rank", pa.int32()),
            ("duration_s", pa.float64()),
            ("usual_s", pa.float64()),
        ]
    )
)

STAGE_GAPS: Final = pa.list_(
    pa.struct(
        [
            ("direction", pa.string()),
            ("pp_rank", pa.int32()),
            ("next_pp_rank", pa.int32()),
            ("gap_s", pa.float64()),
            ("usual_s", pa.float64()),
        ]
    )
)

_WHEN_TIMED: Final = (
    col.seconds(
        "recorded_step_s",
        "recorded step time, median over the steps of a unit that was not replayed: of step_times_only as "
        "its log prints it, of some_ranks from the first start to the last end on the recorded ranks; null "
        "for all others",
        nullable=True,
        minimum=0,
    ),
    col.count(
        "recorded_steps", "steps, or averages over some steps, that recorded_step_s is of", nullable=True
    ),
)
_OF_SOME_RANKS: Final = (
    col.count(
        "recorded_ranks", "of some_ranks: ranks with ops, of world_size; null for all others", nullable=True
    ),
    col.seconds(
        "recorded_exposed_s",
        "of some_ranks: communication with no compute of the same rank beside it, in a step, mean over "
        "recorded ranks and steps, with what is waited for others in it; without collectives that "
        "jobs.left_out counts; null for all others",
        nullable=True,
        minimum=0,
    ),
)

_COLUMNS: Final = (
    *col.UNIT,
    col.text("status", "how far the analysis of the unit came, the first that applies", allowed=STATUSES),
    col.text("status_detail", "the facts behind the status, in a line; null: none needed", nullable=True),
    col.text("failure_traceback", "of a failed unit: where this software failed", nullable=True),
    *(replace(column, nullable=True) for column in _WHEN_REPLAYED),
    col.fraction(
        "slow_worker_share",
        "part of the loss by the slowest 3 % of workers (M_W, Eq. 5); null where T - T_ideal < 1e-9 T",
        nullable=True,
    ),
    col.fraction(
        "last_stage_share",
        "part of the loss by the last stage (M_S); 0 without a pipeline; null like slow_worker_share",
        nullable=True,
    ),
    col.ratio(
        "forward_backward_correlation",
        "Pearson, of forward and backward times of the same microbatch within each worker, median over "
        "workers; null if no worker has two different values of both",
        nullable=True,
    ),
    col.fraction(
        "discrepancy_nonblocking",
        "median over compared steps of |T_actual - T| / T_actual with no transfer blocking; null without "
        "a pipeline",
        nullable=True,
        minimum=0,
    ),
    col.fraction(
        "discrepancy_blocking",
        "the same with blocking transfers; null where they were not tried",
        nullable=True,
        minimum=0,
    ),
    col.size("world_size", "ranks of the run, from the manifest", nullable=True),
    col.GPU_HOURS,
    col.gpu_hours("wasted_gpu_hours", "gpu_hours x waste_fraction; null if either is"),
    col.count(
        "odd_ranks",
        "ranks with times in another unit, or exchanged; null without recorded ops",
        nullable=True,
    ),
    col.count(
        "other_day_lines",
        "lines with times of another day: left out, unless all are; null without recorded ops",
        nullable=True,
    ),
    col.text(
        "unshown_sizes",
        "sizes above 1 in the manifest that no rank shows, as vpp_size without chunk 1; null: none",
        nullable=True,
    ),
    col.ratio(
        "slowdown_low",
        "of a partial trace: the least slowdown, whether transfers took no time or the least gaps between "
        "computes, with workers that wait for them or not, less 0.5 %; null for all others",
        nullable=True,
    ),
    col.ratio(
        "slowdown_high",
        "of a partial trace: the greatest slowdown, if transfers took all gaps as recorded and no time in "
        "the ideal, and 0.5 % more; null for all others",
        nullable=True,
    ),
    Column(
        "slow_computes",
        "of a partial trace: computes at least 1.1 times as long as usual, worst first. dp_rank: null "
        "if all of the stage are; duration_s: median; usual_s: lower median of all stages and chunks, "
        "or of the stage's other dp ranks",
        SLOW_COMPUTES,
        nullable=True,
    ),
    Column(
        "stage_gaps",
        "of a partial trace: least time in a step from the end of a compute to the start of the one of the "
        "next stage that works on its output, mean over steps and dp ranks, by boundary and direction, "
        "largest first; usual_s: lower median of all. What a transfer takes at most. Null for all others, "
        "and in rows of an earlier version",
        STAGE_GAPS,
        nullable=True,
    ),
    col.texts(
        "blocking",
        "op types of transfers that workers wait for before they go on; empty: each has a stream of its own; "
        "null unless replayed, and in rows of an earlier version",
        nullable=True,
    ),
    *_WHEN_TIMED,
    *_OF_SOME_RANKS,
    col.count(
        "nobody_late_steps",
        "replayed steps in which all workers of a stage scatter gradients for far longer than usual, though "
        "none comes late: time that no worker's own ops explain, such as of one that is slow within its "
        "reduce-scatter; null unless replayed, and in rows of an earlier version",
        nullable=True,
    ),
    col.ratio(
        "slower_than_usual",
        "actual_step_s over that of earlier days: lower median of the same model, layout and ops per step, "
        "else of the same run; whatever the status. Null without a past, and before the phase that revises",
        nullable=True,
    ),
    col.text("simulator_version", "version of the simulator that wrote the row"),
    col.text(
        "simulation_settings",
        "settings that the row was written with, as JSON, without those that change results by no more "
        "than rounding",
    ),
)


def _there_when_replayed(column: Column) -> Expectation:
    return Expectation(
        f"{column.name}_with_replay",
        f"(status IN ({sql_strings(REPLAYED_STATUSES)})) = ({column.name} IS NOT NULL)",
        f"{column.name} exists exactly if the unit was replayed",
    )


def _there_with(statuses: Sequence[str], column: Column) -> Expectation:
    return Expectation(
        f"{column.name}_with_status",
        f"(status IN ({sql_strings(statuses)})) = ({column.name} IS NOT NULL)",
        f"{column.name} exists exactly if the status is {' or '.join(statuses)}",
    )


_IDENTITIES: Final = (
    col.WASTE_OF_SLOWDOWN,
    col.same(
        "slowdown_is_ratio_of_sums",
        "slowdown * ideal_total_s",
        "simulated_total_s",
        col.SAME_SUM,
        "slowdown = simulated_total_s / ideal_total_s",
    ),
    *(
        col.same(
            f"{kind}_step_s_is_mean",
            f"{kind}_step_s * steps",
            f"{kind}_total_s",
            col.SAME_SUM,
            f"{kind}_step_s = {kind}_total_s / steps",
        )
        for kind in ("actual", "simulated", "ideal")
    ),
    col.same(
        "discrepancy_of_step_times",
        "discrepancy * actual_step_s",
        "abs(actual_step_s - simulated_step_s)",
        col.SAME_FORMULA,
        "discrepancy = |actual_step_s - simulated_step_s| / actual_step_s",
    ),
    col.same(
        "launch_slowdown_of_step_times",
        "launch_slowdown * simulated_step_s",
        "actual_step_s",
        col.SAME_FORMULA,
        "launch_slowdown = actual_step_s / simulated_step_s",
    ),
)
"""Of replayed units."""

JOB_SLOWDOWN: Final = Table(
    "job_slowdown",
    "One row per unit, analysed or not. Result columns are null unless the unit was replayed. "
    f"Replayed are the statuses {', '.join(REPLAYED_STATUSES)}; fleet figures count only analysed. "
    "Shares are estimates as computed, never clipped: real jobs have 1.22 and -0.01.",
    grain=UNIT_KEY,
    columns=_COLUMNS,
    expectations=(
        *(_there_when_replayed(column) for column in _WHEN_REPLAYED),
        *(_there_with(TIMED_STATUSES, column) for column in _WHEN_TIMED),
        *(_there_with((Status.SOME_RANKS,), column) for column in _OF_SOME_RANKS),
        *(replace(each, condition=f"slowdown IS NULL OR ({each.condition})") for each in _IDENTITIES),
        Expectation(
            "wasted_gpu_hours_of_waste",
            "CASE WHEN gpu_hours IS NULL OR waste_fraction IS NULL THEN wasted_gpu_hours IS NULL"
            " ELSE abs(wasted_gpu_hours - gpu_hours * waste_fraction)"
            f" <= {col.SAME_FORMULA!r} * greatest(1, abs(gpu_hours)) END",
            "wasted_gpu_hours = gpu_hours x waste_fraction",
        ),
        Expectation(
            "partial_trace_has_bounds",
            f"(status = '{Status.PARTIAL_TRACE}') = (slowdown_low IS NOT NULL AND slow_computes IS NOT NULL)"
            " AND (slowdown_low IS NULL) = (slowdown_high IS NULL)"
            " AND (slowdown_low IS NULL OR slowdown_low <= slowdown_high)",
            "bounds of the slowdown exist exactly if the status is partial_trace",
        ),
        Expectation(
            "replayed_has_steps", "slowdown IS NULL OR steps >= 1", "a replayed unit has at least one step"
        ),
        Expectation(
            "failed_says_why",
            f"(status = '{Status.FAILED}') = (failure_traceback IS NOT NULL)"
            " AND (failure_traceback IS NULL OR status_detail IS NOT NULL)",
            "a failed unit has its error in status_detail and failure_traceback; no figure uses them",
            severity="warns",
        ),
    ),
)
