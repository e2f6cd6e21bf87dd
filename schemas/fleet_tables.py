"""The fleet on one log date: as a whole, and by cause, host, status, group and op type."""

from typing import Final

from schemas import columns as col
from schemas.groups import DIMENSIONS
from schemas.part_tables import COUNTED_OP_TYPES
from schemas.table import Expectation, Table
from schemas.vocabulary import (
    CAUSE_UNEXPLAINED,
    CAUSES,
    MOST_SIMILAR_CORRELATION,
    NOT_STATED,
    REPLAYED_STATUSES,
    STATUSES,
    STRAGGLING_SLOWDOWN,
    WHOLE_SHARE,
)

_WASTES_AT_MOST: Final = "% of analysed units waste at most this (exact, interpolated); null: none analysed"

FLEET_DAY: Final = Table(
    "fleet_day",
    "One row per log date with at least one unit. Slowdown and waste count only analysed units; the "
    "counts by status and coverage_day show how much of the fleet that is. Sums of GPU-hours leave out "
    "units that state none, and are null if no unit states any.",
    grain=("log_date",),
    columns=(
        col.LOG_DATE,
        col.count("jobs", "units of the day"),
        *(col.count(status, f"units with status {status}") for status in STATUSES),
        col.count("replayed", f"units replayed: status {', '.join(REPLAYED_STATUSES)}"),
        col.count("straggling", f"analysed units with slowdown >= {STRAGGLING_SLOWDOWN}"),
        col.gpu_hours("gpu_hours", "GPU-hours of all units that state them; null if none does"),
        col.gpu_hours("analysed_gpu_hours", "GPU-hours of analysed units; null if none states them"),
        col.gpu_hours(
            "wasted_gpu_hours",
            "wasted GPU-hours of analysed units, against the paper's ideal; null if none states them",
        ),
        col.LOST_GPU_HOURS,
        col.ANALYSED_S,
        col.LOST_S,
        *(
            col.fraction(f"waste_p{part}", f"{part} {_WASTES_AT_MOST}", nullable=True)
            for part in (50, 90, 99)
        ),
    ),
    expectations=(
        Expectation(
            "every_unit_has_one_status",
            f"jobs = {' + '.join(STATUSES)}",
            "jobs = sum of the counts by status",
        ),
        Expectation(
            "replayed_is_sum", f"replayed = {' + '.join(REPLAYED_STATUSES)}", "replayed = sum of its statuses"
        ),
        Expectation(
            "straggling_are_analysed", "straggling <= analysed", "only analysed units count as straggling"
        ),
        Expectation(
            "lost_is_part_of_analysed",
            "(lost_gpu_hours IS NULL OR"
            f" lost_gpu_hours <= {1.0 + col.SAME_SUM!r} * coalesce(analysed_gpu_hours, 0))"
            f" AND (lost_s IS NULL OR lost_s <= {1.0 + col.SAME_SUM!r} * coalesce(analysed_s, 0))",
            "analysed units lose at most what they took",
        ),
        Expectation(
            "percentiles_with_analysed",
            "(analysed > 0) = (waste_p50 IS NOT NULL AND waste_p90 IS NOT NULL AND waste_p99 IS NOT NULL)"
            " AND (waste_p50 IS NULL OR (waste_p50 <= waste_p90 AND waste_p90 <= waste_p99))",
            "percentiles exist exactly if a unit was analysed, and rise",
        ),
    ),
)

CAUSE_DAY: Final = Table(
    "cause_day",
    "One row per cause and log date with a replayed unit. Counts every replayed unit (status "
    f"{', '.join(REPLAYED_STATUSES)}): a high discrepancy is often just data loading, whose cause is "
    "launch_delay. GPU-hours are summed over all replayed units, also those where is_cause is not "
    "set, but not over units that state none: attributed_gpu_hours adds up over causes to "
    "what all fixes together return, recoverable_gpu_hours does not add up over causes. Of "
    f"{CAUSE_UNEXPLAINED}, recoverable_gpu_hours is what no fix saves. lost_gpu_hours and lost_s "
    "count only analysed units; over all causes, unexplained included, they add up to those of "
    "fleet_day.",
    grain=("log_date", "cause"),
    columns=(
        col.LOG_DATE,
        col.text("cause", "see job_causes", allowed=CAUSES),
        col.count("replayed", "units of the day that were replayed, the same for all causes"),
        col.count("jobs", "of these, units with the cause (is_cause), flagged or not"),
        col.count("flagged_jobs", "of these, units in which the cause is flagged"),
        col.gpu_hours(
            "attributed_gpu_hours",
            "its share of what all fixes together return; null if no unit states GPU-hours",
        ),
        col.gpu_hours(
            "recoverable_gpu_hours",
            "GPU-hours saved by fixing this cause alone; null if no unit states GPU-hours",
        ),
        col.count("analysed_jobs", "analysed units with the cause", nullable=True),
        col.LOST_GPU_HOURS,
        col.LOST_S,
        *col.interval("attributed_gpu_hours", "recoverable_gpu_hours", "lost_gpu_hours", unit="GPU h"),
    ),
    expectations=(
        col.in_order("attributed_gpu_hours", "recoverable_gpu_hours", "lost_gpu_hours"),
        Expectation(
            "counts_are_nested",
            "replayed >= 1 AND jobs <= replayed AND flagged_jobs <= jobs",
            "flagged_jobs <= jobs <= replayed, and a day without replayed units has no rows",
        ),
    ),
)

HOST_DAY: Final = Table(
    "host_day",
    "One row per log date and host in worker_slowdown: workers without a logged host "
    "are left out. Counts all replayed units.",
    grain=("log_date", "host"),
    columns=(
        col.LOG_DATE,
        col.text("host", "machine"),
        col.count("workers", "workers replayed on it, over all units"),
        col.count("jobs", "units with a worker on it"),
        col.count("times_slowest", "how often one of its workers was among the slowest 3 % of its unit"),
        col.ratio("worker_slowdown_max", "highest slowdown of its workers, each alone"),
        col.ratio("worker_slowdown_median", "median slowdown of its workers, each alone (exact)"),
    ),
    expectations=(
        Expectation("has_workers", "workers >= 1 AND jobs >= 1", "a host without a worker has no row"),
        Expectation(
            "counts_are_nested",
            "times_slowest <= workers AND jobs <= workers",
            "neither exceeds the number of workers",
        ),
        Expectation(
            "median_is_below_max",
            "worker_slowdown_median <= worker_slowdown_max",
            "the median is at most the max",
        ),
    ),
)

COVERAGE_DAY: Final = Table(
    "coverage_day",
    "One row per log date and status that occurs on that day.",
    grain=("log_date", "status"),
    columns=(
        col.LOG_DATE,
        col.text("status", "status of the units, see job_slowdown", allowed=STATUSES),
        col.count("jobs", "units with this status"),
        col.gpu_hours("gpu_hours", "their GPU-hours, over units that state them; null if none does"),
    ),
    expectations=(Expectation("has_jobs", "jobs >= 1", "a status without units has no row"),),
)

_STATED: Final = "null if none states them"

GROUP_DAY: Final = Table(
    "group_day",
    "One row per log date, dimension and group. Only sums, so that days add up to any period, groups of "
    "one dimension to the fleet, and every share is a ratio of two of them. Counts units (one run on one "
    "day); group_month counts runs. Only analysed units straggle or waste: jobs and gpu_hours beside "
    "analysed and analysed_gpu_hours show how much of the group the figures cover.",
    grain=("log_date", "dimension", "value"),
    columns=(
        col.LOG_DATE,
        col.text("dimension", "what the units are grouped by", allowed=DIMENSIONS),
        col.text("value", f"the group; {NOT_STATED} if the manifest does not state it"),
        col.count("jobs", "units of the group"),
        col.count("replayed", "of these, units that were replayed"),
        col.count("analysed", "of these, analysed units"),
        col.count("straggling", f"of these, units with slowdown >= {STRAGGLING_SLOWDOWN}"),
        col.count("worker_driven", f"of these, units with slow_worker_share > {WHOLE_SHARE}"),
        col.count("stage_driven", f"straggling units with last_stage_share >= {WHOLE_SHARE}"),
        col.count(
            "sequence_driven",
            f"straggling units with forward_backward_correlation >= {MOST_SIMILAR_CORRELATION}",
        ),
        col.gpu_hours("gpu_hours", f"GPU-hours of all units; {_STATED}"),
        col.gpu_hours("analysed_gpu_hours", f"GPU-hours of analysed units; {_STATED}"),
        col.gpu_hours("straggling_gpu_hours", f"GPU-hours of straggling units; {_STATED}"),
        col.gpu_hours(
            "wasted_gpu_hours", f"wasted GPU-hours of analysed units, against the paper's ideal; {_STATED}"
        ),
        col.LOST_GPU_HOURS,
        col.ANALYSED_S,
        col.LOST_S,
    ),
    expectations=(
        Expectation(
            "counts_are_nested",
            "jobs >= 1 AND replayed <= jobs AND analysed <= replayed AND straggling <= analysed"
            " AND greatest(worker_driven, stage_driven, sequence_driven) <= straggling",
            "each count is part of the one before, and a group without units has no row",
        ),
    ),
)

OP_TYPE_DAY: Final = Table(
    "op_type_day",
    "One row per log date and op type of the day's analysed units. wasted_gpu_hours is what the op type "
    "wastes with all others ideal: days add up, op types do not, because one can hide behind another.",
    grain=("log_date", "op_type"),
    columns=(
        col.LOG_DATE,
        col.text("op_type", "see op_type_slowdown", allowed=COUNTED_OP_TYPES),
        col.count("jobs", "analysed units that have it"),
        col.count("slowed", f"of these, units that it alone slows to at least {STRAGGLING_SLOWDOWN}"),
        col.gpu_hours("gpu_hours", "GPU-hours of these units; null if none states them"),
        col.gpu_hours(
            "wasted_gpu_hours",
            "gpu_hours x waste_fraction of the op type alone, summed; null if no unit states GPU-hours",
        ),
    ),
    expectations=(
        Expectation("counts_are_nested", "jobs >= 1 AND slowed <= jobs", "slowed <= jobs, and jobs >= 1"),
    ),
)
