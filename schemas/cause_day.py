"""cause_day: what each cause costs the fleet on one log date."""

import pyarrow as pa

from schemas.fields import GPU_HOURS, LOG_DATE, LOST_GPU_HOURS, LOST_S, count, described
from schemas.table import Column, Expectation, Table
from schemas.vocabulary import CAUSE_DAY, CAUSE_UNEXPLAINED, CAUSES, REPLAYED_STATUSES

TABLE = Table(
    name=CAUSE_DAY,
    meaning=(
        "One row per cause and log date with a replayed unit. Counts every replayed unit (status "
        f"{', '.join(REPLAYED_STATUSES)}): what a high discrepancy says is often just data loading, which is "
        "launch_delay. GPU-hours are summed over all replayed units, also those in which the cause does not "
        "hold, and leave out units that do not state theirs: attributed_gpu_hours adds up over causes to "
        "what all fixes together return, recoverable_gpu_hours does not add up over causes. Of "
        f"{CAUSE_UNEXPLAINED}, recoverable_gpu_hours are what no fix returns. lost_gpu_hours and lost_s "
        "count analysed units alone; over causes, what none explains among them, they add up to those of "
        "fleet_day."
    ),
    grain=("log_date", "cause"),
    columns=(
        LOG_DATE,
        Column("cause", pa.string(), "see job_causes", allowed=CAUSES),
        count("replayed", "units of the day that were replayed, the same for all causes"),
        count("jobs", "of these, units in which the cause holds (is_cause), flagged or not"),
        count("flagged_jobs", "of these, units in which the cause is flagged"),
        described(
            GPU_HOURS,
            "its share of what all fixes together return; null where no unit states GPU-hours",
            name="attributed_gpu_hours",
        ),
        described(
            GPU_HOURS,
            "what fixing this cause alone returns; null where no unit states GPU-hours",
            name="recoverable_gpu_hours",
        ),
        count("analysed_jobs", "analysed units in which the cause holds", nullable=True),
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
