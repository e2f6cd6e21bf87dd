"""Make the demo: generate a small fleet, run its nights, and print the results."""

import logging
import shutil
import sys
import time
from datetime import date
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from jobs.entry_points.cli import entry_point
from jobs.entry_points.run_log import added
from jobs.night import whole_night
from jobs.reading.spark_reader import collected
from jobs.report.links import INDEX_NAME
from jobs.runtime.arguments import Arguments, not_negative, option, where
from jobs.runtime.places import is_url
from jobs.runtime.printing import write
from jobs.runtime.progress import working
from jobs.runtime.project import data_root
from jobs.runtime.settings import REPORT, Settings, SettingsError
from jobs.runtime.terminal import log_to_terminal, say
from jobs.synthetic.demo import DAYS, planted, write_demo
from jobs.synthetic.fleet import FIRST_DAY
from jobs.warehouse.tables import Warehouse

MARKER: Final = ".made-by-the-demo"
"""Name of an empty file in each landing that the demo wrote, and may therefore delete."""
TRACES: Final = Path("tests/data/traces")
"""Folder of the published traces, relative to the root of a checkout."""
TRACE_DAY: Final = FIRST_DAY

SUMMARY: Final = (
    (
        "The fleet, day by day",
        """SELECT log_date, jobs, analysed, straggling, gpu_hours,
                  round(lost_gpu_hours) AS lost_gpu_hours,
                  round(lost_gpu_hours / analysed_gpu_hours, 3) AS lost, round(waste_p90, 3) AS waste_p90
           FROM fleet_day ORDER BY log_date""",
    ),
    (
        "Jobs over all their days, worst first, beside the planted fault (published traces have none)",
        """SELECT job_id, planted, analysed_days, round(slowdown, 3) AS slowdown,
                  round(lost_fraction, 3) AS lost, round(lost_gpu_hours) AS lost_gpu_hours,
                  round(launch_slowdown, 3) AS launch_slowdown
           FROM job_history LEFT JOIN planted USING (job_id) ORDER BY slowdown DESC NULLS LAST, job_id""",
    ),
    (
        "What to fix first: GPU-hours lost, which add up, and what each fix alone would save",
        """SELECT cause, host, concat_ws(', ', job_ids) AS job_ids, units, flagged_units,
                  round(lost_gpu_hours) AS lost_gpu_hours,
                  round(recoverable_gpu_hours) AS recoverable_gpu_hours,
                  concat_ws(', ', explained_by) AS explained_by
           FROM fix_first LIMIT 8""",
    ),
    (
        "Why jobs are slow: their causes, and the most that fixing one alone saves of a day's step time",
        """WITH found AS (
               SELECT job_id, cause, count(*) AS days, round(max(time_saved_fraction), 3) AS time_saved,
                      max_by(coalesce(get(culprits, 0).slow_host, get(culprits, 0).host), time_saved_fraction)
                          AS host,
                      max_by(get(culprits, 0).course, time_saved_fraction) AS course,
                      max_by(coalesce(flag_reason, ''), time_saved_fraction) AS flag
               FROM job_causes WHERE is_cause GROUP BY job_id, cause)
           SELECT job_id, planted, cause, days, time_saved, host, course, flag
           FROM (SELECT DISTINCT job_id FROM job_causes) LEFT JOIN found USING (job_id)
                LEFT JOIN planted USING (job_id)
           ORDER BY time_saved DESC NULLS LAST, job_id, cause""",
    ),
    (
        "Where the worst job-days lose it: slowest op type and slowest worker on their own",
        """SELECT log_date, job_id, round(slowdown, 3) AS slowdown, slowest_op_type,
                  round(slow_worker_share, 2) AS slow_worker_share,
                  round(last_stage_share, 2) AS last_stage_share,
                  slowest_worker_host, round(slowest_worker_slowdown, 3) AS worker_slowdown
           FROM straggling_jobs ORDER BY slowdown DESC, log_date, job_id LIMIT 10""",
    ),
    (
        "Hosts that were slow in several jobs or on several days",
        """SELECT host, pattern, jobs_slow, jobs_not_slow, days_slow, round(p_value, 4) AS p_value,
                  round(worker_slowdown_max, 3) AS worker_slowdown_max,
                  first_slow, last_slow
           FROM host_recurrence ORDER BY p_value, jobs_slow DESC, days_slow DESC, host LIMIT 5""",
    ),
    (
        "How much of the fleet this covers",
        """SELECT status, sum(jobs) AS job_days, sum(gpu_hours) AS gpu_hours
           FROM coverage_day GROUP BY status ORDER BY job_days DESC, status""",
    ),
    (
        "What was rejected, and why",
        """SELECT reason, count(*) AS lines, min(job_id) AS such_as, min(detail) AS detail
           FROM rejects GROUP BY reason ORDER BY lines DESC, reason""",
    ),
)
"""Tables that the demo prints: their titles and queries."""

SHORT_LIVED: Final = {
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
}
"""Only fast compilation, because the demo's JVM ends before thorough compilation pays off. In this mode the
default cache of compiled code is smaller, and one night would fill it."""

NEXT: Final = (
    """SELECT cause, host, job_ids, round(lost_gpu_hours) AS lost, flagged_units
       FROM fix_first LIMIT 5""",
    """SELECT job_id, round(slowdown, 2), status FROM job_slowdown
       WHERE log_date = '2026-01-07' ORDER BY 2 DESC""",
    """SELECT dp_rank, pp_rank, host, round(slowdown, 3) AS slowdown FROM worker_slowdown
       WHERE job_id = 'gpt-175b' AND log_date = '2026-01-07' ORDER BY 4 DESC LIMIT 5""",
    """SELECT op_type, count(*) AS ops, round(try_divide(max(duration_us), median(duration_us)), 1) AS spread
       FROM ops WHERE job_id = 'moe-8x22b' GROUP BY op_type ORDER BY spread DESC""",
)
"""Queries that the demo prints as commands to try next."""


def run(spark: SparkSession, settings: Settings, seed: int = 0) -> dict[str, int]:
    """Generate the fleet, run all nights, and print the summary; return the rows written per table."""
    landing = Path(settings.paths.landing)
    _say(f"generating {len(planted())} jobs on {DAYS} days into {landing} ...")
    with working("demo: generating logs"):
        log_dates = make_landing(landing, seed)
    rows: dict[str, int] = {}
    for log_date in log_dates:
        started = time.monotonic()
        night = whole_night.run(spark, settings, [log_date])
        added(rows, night)
        total_s = time.monotonic() - started
        phases_s = {name: night.get(f"{name}.us", 0) / 1e6 for name in whole_night.RUNS}
        phases_s["publication, reports and the rest"] = max(total_s - sum(phases_s.values()), 0.0)
        said = ", ".join(f"{name} {took_s:.0f} s" for name, took_s in phases_s.items())
        _say(f"night of {log_date}: {said}; in all {total_s:.0f} s")
    show(spark, settings)
    return rows


def make_landing(landing: Path, seed: int) -> list[date]:
    """Recreate the landing with the fleet and, in a checkout, the published traces; return the log dates.

    Raises SettingsError as check_own does.
    """
    check_own(landing)
    shutil.rmtree(landing, ignore_errors=True)
    landing.mkdir(parents=True)
    (landing / MARKER).touch()
    for trace in sorted((data_root() / TRACES).glob("*/trace-*.parquet")):
        name = trace.stem.removeprefix("trace-")
        folder = landing / f"log_date={TRACE_DAY}" / f"job_id=published-{name.lower()}" / "run_id=0"
        folder.mkdir(parents=True)
        for file in (trace, trace.with_name(f"meta-{name}.yaml")):
            shutil.copyfile(file, folder / file.name)
    fleet = write_demo(landing, seed)
    return [fleet.log_date(day) for day in range(DAYS)]


def check_own(landing: Path) -> None:
    """Raise SettingsError for a folder that the demo did not make: the demo would delete its files."""
    if landing.exists() and any(landing.iterdir()) and not (landing / MARKER).exists():
        raise SettingsError(f"{landing} is not empty and was not made by the demo; name another --landing")


def check_paths(settings: Settings, _args: Arguments) -> None:
    """Raise SettingsError as check_own does, and for URLs, because the demo writes only to local folders."""
    for name, path in (("landing", settings.paths.landing), ("warehouse", settings.paths.warehouse)):
        if is_url(path):
            raise SettingsError(f"the demo stays on this machine: name a folder as --{name}, not {path}")
    check_own(Path(settings.paths.landing))


def show(spark: SparkSession, settings: Settings) -> None:
    """Print the tables of SUMMARY, the paths of report and warehouse, and queries to try next."""
    Warehouse(spark, settings.paths.warehouse).register_views()
    spark.createDataFrame(planted(), "job_id string, planted string").createOrReplaceTempView("planted")
    for title, sql in SUMMARY:
        say("", title)
        write(collected(spark.sql(sql)), "table", sys.stdout)
    warehouse = Path(settings.paths.warehouse)
    if warehouse.is_relative_to(Path.cwd()):
        warehouse = warehouse.relative_to(Path.cwd())
    say(f"The report: open {warehouse / REPORT / INDEX_NAME} in a browser.", "")
    say(f"The tables are in {warehouse}. Ask more:", "")
    for sql in NEXT:
        question = " ".join(sql.split())
        say(f'straggler query --warehouse {warehouse} "{question}"', "")


def _say(text: str) -> None:
    say(f"demo: {text}")
    sys.stdout.flush()


@entry_point(
    "make_demo",
    option("--seed N", "random seed: another number gives another fleet", not_negative, default=0),
    where=where(*(str(data_root() / "demo" / name) for name in ("landing", "warehouse"))),
    spark_conf=SHORT_LIVED,
    reads=check_paths,
)
def main(spark: SparkSession, settings: Settings, args: Arguments) -> dict[str, int]:
    """Generate a small fleet with known faults, run its nights, and print the results."""
    return run(spark, settings, args.seed)


if __name__ == "__main__":
    log_to_terminal(
        logging.WARNING, "%(levelname)s: %(message)s"
    )  # so that the demo's tables are not mixed with log lines
    sys.exit(main())
