"""fleet_day: the fleet on one log date."""

import pyarrow as pa

from schemas.fields import ANALYSED_S, GPU_HOURS, LOG_DATE, LOST_GPU_HOURS, LOST_S, count, described
from schemas.table import Column, Expectation, Table
from schemas.vocabulary import FLEET_DAY, REPLAYED_STATUSES, STATUSES, STRAGGLING_SLOWDOWN


def _waste_percentile(percent: int) -> Column:
    meaning = f"{percent} % of analysed units waste at most this (exact, interpolated); null: none analysed"
    return Column(f"waste_p{percent}", pa.float64(), meaning, unit="fraction", nullable=True)


TABLE = Table(
    name=FLEET_DAY,
    meaning=(
        "One row per log date with at least one unit. Slowdown and waste count only analysed units; the "
        "counts by status and coverage_day show how much of the fleet that is. Sums of GPU-hours leave out "
        "units that state none, and are null if no unit states any."
    ),
    grain=("log_date",),
    columns=(
        LOG_DATE,
        count("jobs", "units of the day"),
        *(count(status, f"units with status {status}") for status in STATUSES),
        count("replayed", f"units replayed: status {', '.join(REPLAYED_STATUSES)}"),
        count("straggling", f"analysed units with slowdown >= {STRAGGLING_SLOWDOWN}"),
        described(GPU_HOURS, "GPU-hours of all units that state them; null if none does"),
        described(
            GPU_HOURS, "GPU-hours of analysed units; null if none states them", name="analysed_gpu_hours"
        ),
        described(
            GPU_HOURS,
            "wasted GPU-hours of analysed units, against the paper's ideal; null if none states them",
            name="wasted_gpu_hours",
        ),
        LOST_GPU_HOURS,
        ANALYSED_S,
        LOST_S,
        _waste_percentile(50),
        _waste_percentile(90),
        _waste_percentile(99),
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
            "percentiles_with_analysed",
            "(analysed > 0) = (waste_p50 IS NOT NULL AND waste_p90 IS NOT NULL AND waste_p99 IS NOT NULL)"
            " AND (waste_p50 IS NULL OR (waste_p50 <= waste_p90 AND waste_p90 <= waste_p99))",
            "percentiles exist exactly if a unit was analysed, and rise",
        ),
    ),
)
