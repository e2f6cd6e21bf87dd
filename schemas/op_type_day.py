"""op_type_day: what each op type alone costs the fleet on one log date."""

import pyarrow as pa

from schemas.fields import GPU_HOURS, LOG_DATE, count, described
from schemas.op_type_slowdown import COUNTED_OP_TYPES
from schemas.table import Column, Expectation, Table
from schemas.vocabulary import OP_TYPE_DAY, STRAGGLING_SLOWDOWN

TABLE = Table(
    name=OP_TYPE_DAY,
    meaning=(
        "One row per log date and op type of the day's analysed units. wasted_gpu_hours is what the op type "
        "wastes with all others ideal: days add up, op types do not, because one can hide behind another."
    ),
    grain=("log_date", "op_type"),
    columns=(
        LOG_DATE,
        Column("op_type", pa.string(), "see op_type_slowdown", allowed=COUNTED_OP_TYPES),
        count("jobs", "analysed units that have it"),
        count("slowed", f"of these, units that it alone slows to at least {STRAGGLING_SLOWDOWN}"),
        described(GPU_HOURS, "GPU-hours of these units; null if none states them"),
        described(
            GPU_HOURS,
            "gpu_hours x waste_fraction of the op type alone, summed; null if no unit states GPU-hours",
            name="wasted_gpu_hours",
        ),
    ),
    expectations=(
        Expectation("counts_are_nested", "jobs >= 1 AND slowed <= jobs", "slowed <= jobs, and jobs >= 1"),
    ),
)
