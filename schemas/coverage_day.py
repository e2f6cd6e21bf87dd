"""coverage_day: how much of the fleet the figures of one log date speak for."""

import pyarrow as pa

from schemas.fields import GPU_HOURS, LOG_DATE, count, described
from schemas.table import Column, Expectation, Table
from schemas.vocabulary import COVERAGE_DAY, STATUSES

TABLE = Table(
    name=COVERAGE_DAY,
    meaning="One row per log date and status that a unit of the day has.",
    grain=("log_date", "status"),
    columns=(
        LOG_DATE,
        Column("status", pa.string(), "status of the units, see job_slowdown", allowed=STATUSES),
        count("jobs", "units with this status"),
        described(GPU_HOURS, "their GPU-hours, of those that state them; null where none does"),
    ),
    expectations=(Expectation("has_jobs", "jobs >= 1", "a status that no unit has has no row"),),
)
