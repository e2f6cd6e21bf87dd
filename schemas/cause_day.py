"""cause_day: what each cause costs the fleet on one log date."""

import pyarrow as pa

from schemas.fields import GPU_HOURS, LOG_DATE, LOST_GPU_HOURS, LOST_S, count, described
from schemas.table import Column, Expectation, Table
from schemas.vocabulary import CAUSE_DAY, CAUSE_UNEXPLAINED, CAUSES, REPLAYED_STATUSES

TABLE = Table(
    name=CAUSE_DAY,
    meaning=(
        "One row per cause and log date with a replayed unit. Counts every replayed unit (status "
        f"{', '.join(REPLAYED_STATUSES)}): a high discrepancy is often just data loading, whose cause is "
        "launch_delay. GPU-hours are summed over all replayed units, also those where is_cause is not "
        "set, but not over units that state none: attributed_gpu_hours adds up over causes to "
        "what all fixes together return, recoverable_gpu_hours does not add up over causes. Of "
        f"{CAUSE_UNEXPLAINED}, recoverable_gpu_hours is what no fix returns. lost_gpu_hours and lost_s "
        "count only analysed units; over all causes, unexplained included, they add up to those of "
        "fleet_day."
    ),
    grain=("log_date", "cause"),
    columns=(
        LOG_DATE,
        Column("cause", pa.string(), "see job_causes", allowed=CAUSES),
        count("replayed", "units of the day that were replayed, the same for all causes"),
        count("jobs", "of these, units with the cause (is_cause), flagged or not"),
        count("flagged_jobs", "of these, units in which the cause is flagged"),
        described(
            GPU_HOURS,
            "its share of what all fixes together return; null if no unit states GPU-hours",
            name="attributed_gpu_hours",
        ),
        described(
            GPU_HOURS,
            "what fixing this cause alone returns; null if no unit states GPU-hours",
            name="recoverable_gpu_hours",
        ),
        count("analysed_jobs", "analysed units with the cause", nullable=True),
        LOST_GPU_HOURS,
        LOST_S,
    ),
    expectations=(
        Expectation(
            "counts_are_nested",
            "replayed >= 1 AND jobs <= replayed AND flagged_jobs <= jobs",
            "flagged_jobs <= jobs <= replayed, and a day without replayed units has no rows",
        ),
    ),
)
