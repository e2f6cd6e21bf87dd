"""group_day: what straggling costs each group of units on one log date."""

import pyarrow as pa

from schemas.fields import ANALYSED_S, GPU_HOURS, LOG_DATE, LOST_GPU_HOURS, LOST_S, count, described
from schemas.groups import DIMENSIONS
from schemas.table import Column, Expectation, Table
from schemas.vocabulary import (
    GROUP_DAY,
    MOST_SIMILAR_CORRELATION,
    NOT_STATED,
    STRAGGLING_SLOWDOWN,
    WHOLE_SHARE,
)


def _hours(name: str, meaning: str) -> Column:
    return described(GPU_HOURS, f"{meaning}; null if none states them", name=name)


TABLE = Table(
    name=GROUP_DAY,
    meaning=(
        "One row per log date, dimension and group. Only sums, so that days add up to any period, groups of "
        "one dimension to the fleet, and every share is a ratio of two of them. Counts units (one run on one "
        "day); group_month counts runs. Only analysed units straggle or waste: jobs and gpu_hours beside "
        "analysed and analysed_gpu_hours show how much of the group the figures cover."
    ),
    grain=("log_date", "dimension", "value"),
    columns=(
        LOG_DATE,
        Column("dimension", pa.string(), "what the units are grouped by", allowed=DIMENSIONS),
        Column("value", pa.string(), f"the group; {NOT_STATED} if the manifest does not state it"),
        count("jobs", "units of the group"),
        count("replayed", "of these, units that were replayed"),
        count("analysed", "of these, analysed units"),
        count("straggling", f"of these, units with slowdown >= {STRAGGLING_SLOWDOWN}"),
        count("worker_driven", f"of these, units with slow_worker_share > {WHOLE_SHARE}"),
        count("stage_driven", f"straggling units with last_stage_share >= {WHOLE_SHARE}"),
        count(
            "sequence_driven",
            f"straggling units with forward_backward_correlation >= {MOST_SIMILAR_CORRELATION}",
        ),
        _hours("gpu_hours", "GPU-hours of all units"),
        _hours("analysed_gpu_hours", "GPU-hours of analysed units"),
        _hours("straggling_gpu_hours", "GPU-hours of straggling units"),
        _hours("wasted_gpu_hours", "wasted GPU-hours of analysed units, against the paper's ideal"),
        LOST_GPU_HOURS,
        ANALYSED_S,
        LOST_S,
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
