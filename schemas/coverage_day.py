"""coverage_day: how much of the fleet the figures of one log date cover."""

import pyarrow as pa

from schemas.fields import GPU_HOURS, LOG_DATE, count, described
from schemas.table import Column, Expectation, Table
from schemas.vocabulary import COVERAGE_DAY, STATUSES

TABLE = Table(
    name=COVERAGE_DAY,
    meaning="One row per log date and status that occurs on that day.",
    grain=("log_date", "status"),
    columns=(
        LOG_DATE,
        Column("status", pa.string(), "status of the units, see job_slowdown", allowed=STATUSES),
        count("jobs", "units with this status"),
        described(GPU_HOURS, "their GPU-hours, over units that state them; null if none does"),
    ),
    expectations=(Expectation("has_jobs", "jobs >= 1", "a status without units has no row"),),
)
