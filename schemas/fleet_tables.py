"""Tables with sums over the units of a log date: of the fleet, and by cause, host, status, group, op type."""

from typing import Final

from schemas import columns as col
from schemas import vocabulary as words
from schemas.groups import DIMENSIONS
from schemas.table import Table

_WASTES_AT_MOST: Final = (
    "% of analysed units waste at most this (exact percentile, interpolated); null: no unit is analysed"
)

FLEET_DAY: Final = Table(
    "fleet_day",
    "One row per log date with at least one unit. Figures of slowdown and waste count only analysed units; "
    "the counts by status, and coverage_day, show how much of the fleet these are. Sums of GPU-hours leave "
    "out units that state no GPU-hours, and are null if no unit states GPU-hours.",
    grain=("log_date",),
    columns=(
        *col.declared("""
            log_date
            jobs (count): units of the day
            """),
        *col.declared(
            "\n".join(f"{status} (count): units with status {status}" for status in words.STATUSES)
        ),
        *col.declared(f"""
            replayed (count): units replayed: status {", ".join(words.REPLAYED_STATUSES)}
            straggling (count): analysed units with slowdown >= {words.STRAGGLING_SLOWDOWN}
            gpu_hours (gpu_hours): GPU-hours of all units that state them; null if no unit does
            analysed_gpu_hours (gpu_hours): GPU-hours of analysed units; null if none states them
            wasted_gpu_hours (gpu_hours): gpu_hours x waste_fraction, summed over analysed units; null if none
                states GPU-hours
            lost_gpu_hours, analysed_s, lost_s
            waste_p50 (fraction?): 50 {_WASTES_AT_MOST}
            waste_p90 (fraction?): 90 {_WASTES_AT_MOST}
            waste_p99 (fraction?): 99 {_WASTES_AT_MOST}
            """),
    ),
    expectations=col.rules(f"""
        -- jobs = sum of the counts by status
        every_unit_has_one_status: jobs = {" + ".join(words.STATUSES)}
        -- replayed = sum of its statuses
        replayed_is_sum: replayed = {" + ".join(words.REPLAYED_STATUSES)}
        -- only analysed units count as straggling
        straggling_are_analysed: straggling <= analysed
        -- analysed units lose at most what they took
        lost_is_part_of_analysed: (lost_gpu_hours IS NULL OR lost_gpu_hours <= {1.0 + col.SAME_SUM!r} *
            coalesce(analysed_gpu_hours, 0)) AND (lost_s IS NULL OR lost_s <= {1.0 + col.SAME_SUM!r} *
            coalesce(analysed_s, 0))
        -- percentiles exist exactly if a unit was analysed, and rise
        percentiles_with_analysed: (analysed > 0) = (waste_p50 IS NOT NULL AND waste_p90 IS NOT NULL AND
            waste_p99 IS NOT NULL) AND (waste_p50 IS NULL OR (waste_p50 <= waste_p90 AND waste_p90 <=
            waste_p99))
        """),
)

CAUSE_DAY: Final = Table(
    "cause_day",
    "One row per cause and log date with a replayed unit. Counts include all replayed units (status "
    f"{', '.join(words.REPLAYED_STATUSES)}), because high_discrepancy often means just data loading, whose "
    "cause is launch_delay. GPU-hours are summed over all replayed units that state GPU-hours, even where "
    "is_cause is not set; a sum is null if units have the cause, or lose to it, and none of these states "
    "GPU-hours. attributed_gpu_hours add up over causes to what all fixes together save; "
    f"recoverable_gpu_hours do not add up. For {words.CAUSE_UNEXPLAINED}, recoverable_gpu_hours are what no "
    "fix saves. lost_gpu_hours and lost_s count only analysed units; over all causes, unexplained included, "
    "they add up to those of fleet_day.",
    grain=("log_date", "cause"),
    columns=(
        *col.declared("""
            log_date
            cause (text of CAUSES): see job_causes
            replayed (count): units of the day that were replayed, the same for all causes
            jobs (count): replayed units with the cause (is_cause), flagged or not
            flagged_jobs (count): units with the cause in which it is flagged
            attributed_gpu_hours (gpu_hours): share of the cause in the GPU-hours that all fixes together
                save; null if no unit with the cause states GPU-hours, or, if no unit has the cause, no unit
                of the day does
            recoverable_gpu_hours (gpu_hours): GPU-hours saved by fixing this cause alone; null as for
                attributed_gpu_hours
            analysed_jobs (count?): analysed units with the cause
            lost_gpu_hours (gpu_hours >= 0): GPU-hours that analysed units lose to the cause: see job_causes;
                null if no unit that loses to the cause states GPU-hours, or, if no unit loses to the cause,
                no unit of the day does
            lost_s
            """),
        *col.interval("attributed_gpu_hours", "recoverable_gpu_hours", "lost_gpu_hours", unit="GPU h"),
    ),
    expectations=(
        col.in_order("attributed_gpu_hours", "recoverable_gpu_hours", "lost_gpu_hours"),
        *col.rules("""
            -- flagged_jobs <= jobs <= replayed, and a day without replayed units has no rows
            counts_are_nested: replayed >= 1 AND jobs <= replayed AND flagged_jobs <= jobs
            """),
    ),
)

HOST_DAY: Final = Table(
    "host_day",
    "One row per log date and host in worker_slowdown; workers without a logged host are left out. All "
    "replayed units count.",
    grain=("log_date", "host"),
    columns=col.declared("""
        log_date
        host (text): machine
        workers (count): workers replayed on the host, over all units
        jobs (count): units with a worker on the host
        times_slowest (count): workers on the host that are among the slowest 3 % of their unit
        worker_slowdown_max (ratio): highest slowdown of a unit by one worker of the host alone
        worker_slowdown_median (ratio): median slowdown of units by single workers of the host (exact)
        """),
    expectations=col.rules("""
        -- a host without a worker has no row
        has_workers: workers >= 1 AND jobs >= 1
        -- neither exceeds the number of workers
        counts_are_nested: times_slowest <= workers AND jobs <= workers
        -- the median is at most the max
        median_is_below_max: worker_slowdown_median <= worker_slowdown_max
        """),
)

COVERAGE_DAY: Final = Table(
    "coverage_day",
    "One row per log date and status that occurs on that day.",
    grain=("log_date", "status"),
    columns=col.declared("""
        log_date
        status (text of STATUSES): status of the units, see job_slowdown
        jobs (count): units with this status
        gpu_hours (gpu_hours): GPU-hours of the units with this status that state them; null if none does
        """),
    expectations=col.rules("""
        -- a status without units has no row
        has_jobs: jobs >= 1
        """),
)

_STATED: Final = "null if none states them"

GROUP_DAY: Final = Table(
    "group_day",
    "One row per log date, dimension (such as team) and value of the dimension. All figures are sums: they "
    "add up over days to any period, and over the values of a dimension to the fleet, and shares can be "
    "computed as ratios of two sums. "
    "Units (one run on one day) are counted, not runs. Figures of straggling and waste count only analysed "
    "units: compare analysed with jobs, and analysed_gpu_hours with gpu_hours, to see how much of the group "
    "they cover.",
    grain=("log_date", "dimension", "value"),
    columns=col.declared(
        f"""
        log_date
        dimension (text of DIMENSIONS): what the units are grouped by
        value (text): the group; {words.NOT_STATED} if the manifest does not state it
        jobs (count): units of the group
        replayed (count): units of the group that were replayed
        analysed (count): analysed units of the group
        straggling (count): analysed units with slowdown >= {words.STRAGGLING_SLOWDOWN}
        worker_driven (count): straggling units with slow_worker_share > {words.WHOLE_SHARE}
        stage_driven (count): straggling units with last_stage_share >= {words.WHOLE_SHARE}
        sequence_driven (count): straggling units with forward_backward_correlation >=
            {words.MOST_SIMILAR_CORRELATION}
        gpu_hours (gpu_hours): GPU-hours of all units; {_STATED}
        analysed_gpu_hours (gpu_hours): GPU-hours of analysed units; {_STATED}
        straggling_gpu_hours (gpu_hours): GPU-hours of straggling units; {_STATED}
        wasted_gpu_hours (gpu_hours): gpu_hours x waste_fraction, summed over analysed units; {_STATED}
        lost_gpu_hours, analysed_s, lost_s
        """,
        own={"DIMENSIONS": DIMENSIONS},
    ),
    expectations=col.rules("""
        -- each count is part of the one before, and a group without units has no row
        counts_are_nested: jobs >= 1 AND replayed <= jobs AND analysed <= replayed AND straggling <= analysed
            AND greatest(worker_driven, stage_driven, sequence_driven) <= straggling
        """),
)

OP_TYPE_DAY: Final = Table(
    "op_type_day",
    "One row per log date and op type of the day's analysed units. wasted_gpu_hours is what the op type "
    "wastes if all other types are ideal: it adds up over days, but not over op types, because the slowness "
    "of one type can hide behind that of another.",
    grain=("log_date", "op_type"),
    columns=col.declared(f"""
        log_date
        op_type (text of COUNTED_OP_TYPES): see op_type_slowdown
        jobs (count): analysed units that have the op type
        slowed (count): units whose slowdown by the op type alone is at least {words.STRAGGLING_SLOWDOWN}
        gpu_hours (gpu_hours): GPU-hours of the units that have the op type; null if none states them
        wasted_gpu_hours (gpu_hours): gpu_hours x waste_fraction of the op type alone, summed; null if no unit
            states GPU-hours
        """),
    expectations=col.rules("""
        -- slowed <= jobs, and jobs >= 1
        counts_are_nested: jobs >= 1 AND slowed <= jobs
        """),
)
