"""Fix effect: did it help? Before and after a date, for a job, a host, a team or a setting.

`python -m jobs.fix_effect --date 2026-03-02 --team research --label sequence_balancing=on`: the waste of its
analysed job days, with an interval. Of a host it is the slowdown by its slowest worker alone. Jobs are taken
as independent of each other, each by the mean of its days; of a single job its days are. "All others" stand
beside it: what changed there as well was not the fix. Nothing is written.
"""

import sys
from datetime import timedelta
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.arguments import FORMAT, Arguments, log_date, option, positive
from jobs.before_after import Comparison, comparisons
from jobs.cli import entry_point
from jobs.printing import Result, write
from jobs.progress import working
from jobs.settings import Settings
from jobs.warehouse.tables import Warehouse
from schemas.views import mentioned
from schemas.vocabulary import UNIT_KEY, WORKER_SLOWDOWN

WINDOW_DAYS: Final = 28
CONFIDENCE: Final = 0.95
_TEXTS: Final = {"compared", "trials", "verdict"}


def run(spark: SparkSession, settings: Settings, args: Arguments) -> list[Comparison]:
    """Compare the job days of the window on both sides of the date."""
    first, last = args.date - timedelta(days=args.days), args.date + timedelta(days=args.days - 1)
    log_dates = [first + timedelta(days=day) for day in range((last - first).days + 1)]
    warehouse = Warehouse(spark, settings.paths.warehouse)
    warehouse.register_views(mentioned(f"job_days {WORKER_SLOWDOWN}"), log_dates)
    units = spark.table("job_days").where("is_analysed")
    if args.host is not None:
        units = _of_host(units, spark.table(WORKER_SLOWDOWN), args.host)
    rows = units.select(
        "job_id",
        "log_date",
        F.col("waste_fraction" if args.host is None else "by_slowest").alias("value"),
        "gpu_hours",
        F.coalesce(_is_chosen(args), F.expr("false")).alias("is_chosen"),
        _has_label(args.label).alias("has_label"),
    ).orderBy("job_id", "log_date")
    return comparisons(rows.toArrow().to_pandas(), args.date, args.confidence)


def _of_host(units: DataFrame, worker_slowdown: DataFrame, host: str) -> DataFrame:
    """Units that the host served, twice: its slowdown, and the mean of the other hosts' as host null."""
    is_it = F.col("host") == host
    by_host = worker_slowdown.groupBy(*UNIT_KEY, "host").agg(F.max("slowdown").alias("by_slowest"))
    served = by_host.where(is_it).select(*UNIT_KEY)
    both = (
        by_host.where(F.col("host").isNotNull())
        .join(served, list(UNIT_KEY))
        .groupBy(*UNIT_KEY, F.when(is_it, F.col("host")).alias("host"))
        .agg(F.avg("by_slowest").alias("by_slowest"))
    )
    return units.withColumn("gpu_hours", F.lit(None).cast("double")).join(both, list(UNIT_KEY))


def _is_chosen(args: Arguments) -> Column:
    """Whether a row is one of those that the fix was meant for."""
    wanted = F.expr("true")
    for name, value in (("job_id", args.job_id), ("team", args.team), ("host", args.host)):
        if value is not None:
            wanted = wanted & (F.col(name) == value)
    return wanted


def _has_label(label: tuple[str, str] | None) -> Column:
    if label is None:
        return F.lit(None).cast("boolean")
    key, value = label
    return F.coalesce(F.try_element_at("labels", F.lit(key)) == value, F.expr("false"))


def _row(found: Comparison) -> dict[str, object]:
    """One line of the answer; GPU-hours are those of the days after, times what they waste less."""
    difference, hours = found.difference, found.gpu_hours_after
    is_known = hours is not None and difference.is_clear
    return {
        "compared": found.compared,
        "trials": found.trials,
        "before": difference.count_before,
        "after": difference.count_after,
        "mean_before": difference.before,
        "mean_after": difference.after,
        "effect": difference.effect,
        "low": difference.low,
        "high": difference.high,
        "saved_gpu_hours": -(difference.effect or 0.0) * (hours or 0.0) if is_known else None,
        "verdict": found.verdict,
    }


def _label(text: str) -> tuple[str, str]:
    key, is_there, value = text.partition("=")
    if not (key and is_there):
        raise ValueError(f"{text!r} is not a label such as sequence_balancing=on")
    return key, value


def _confidence(text: str) -> float:
    try:
        probability = float(text)
    except ValueError:
        probability = 0.0
    if not 0 < probability < 1:
        raise ValueError(f"{text!r} is not a probability between 0 and 1, such as 0.95")
    return probability


@entry_point(
    "fix_effect",
    option("--date DATE", "first day with the fix, as 2026-01-05", log_date, required=True),
    option("--job-id JOB", "of this job", group="scope"),
    option("--team TEAM", "of the jobs of this team", group="scope"),
    option("--host HOST", "of this host: slowdown by its slowest worker alone", group="scope"),
    option("--fleet", "of all jobs", group="scope"),
    option("--label KEY=VALUE", "days after with this label against days before without", _label),
    option("--days N", "days on each side", positive, default=WINDOW_DAYS),
    option("--confidence P", "of the interval", _confidence, default=CONFIDENCE),
    FORMAT,
    is_recorded=False,
)
def main(spark: SparkSession, settings: Settings, args: Arguments) -> dict[str, int]:
    """Compare before and after a date: did the fix help?"""
    with working("fix_effect: comparing before and after"):
        rows = [_row(each) for each in run(spark, settings, args)]
    columns = list(rows[0])
    values = [list(row.values()) for row in rows]
    write(Result(columns, [name not in _TEXTS for name in columns], values), args.format, sys.stdout)
    return {}


if __name__ == "__main__":
    sys.exit(main())
