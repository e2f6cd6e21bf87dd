"""What a night costs beside its rows: seconds and Spark jobs of each phase, for nights of two tiny jobs.

`python -m tests.benchmarks.small_nights` runs a few nights in one session: the first pays for what is loaded
and compiled, the later ones are what every night pays.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from operator import sub
from pathlib import Path
from typing import Final, NamedTuple

import psutil
from pyspark.sql import SparkSession

from jobs.history.night import Run
from jobs.publish_night import run as publish_night
from jobs.run_nightly import RUNS
from jobs.runtime.arguments import positive
from jobs.runtime.session import session
from jobs.runtime.settings import Settings, load_settings
from jobs.synthetic.identity import JobIdentity
from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.rank_log_files import write_rank_logs
from jobs.synthetic.shape import JobShape
from tests.support.random_jobs import generate_job

FIRST_DAY: Final = date(2026, 1, 5)
SHAPE: Final = JobShape(dp_size=2, pp_size=2, microbatches=4, steps=12)
JOBS: Final = ("tiny-a", "tiny-b")


class Cost(NamedTuple):
    """Seconds by the clock, seconds of CPU, Spark jobs."""

    took_s: float
    cpu_s: float
    jobs: int

    def __str__(self) -> str:
        """Say all three, shortly."""
        return f"{self.took_s:5.1f} s ({self.cpu_s:5.1f} CPU) {self.jobs:3d} jobs"


def write_landing(landing: Path, days: Sequence[date]) -> None:
    """Two tiny jobs a day, one with a slow worker."""
    for day in days:
        for number, job_id in enumerate(JOBS):
            faults = [WeakGpu(1, 1, 1.5)] if number else []
            fields = {"gpu_hours": 10.0, "model": job_id, "gpu_type": "H100"}
            write_rank_logs(
                landing, day, generate_job(SHAPE, faults, number, JobIdentity(job_id, fields=fields))
            )


def jobs_so_far(spark: SparkSession) -> int:
    """Spark jobs that the session has started."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def cpu_so_far() -> float:
    """CPU time of this process, the JVM and Python workers [s]: steadier than a clock on a shared machine."""
    own = psutil.Process()
    found = 0.0
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            found += times.user + times.system
    return found


def night(spark: SparkSession, settings: Settings, day: date) -> dict[str, Cost]:
    """Run a night; returns what each phase cost."""
    found = {}
    phases: dict[str, Run] = {**RUNS, "publish": publish_night}
    for name, phase in phases.items():
        before = time.perf_counter(), cpu_so_far(), jobs_so_far(spark)
        phase(spark, settings, [day])
        after = time.perf_counter(), cpu_so_far(), jobs_so_far(spark)
        found[name] = Cost(*map(sub, after, before))
    return found


def show(name: str, phases: Mapping[str, Cost]) -> None:
    """Print a line per night."""
    whole = Cost(*map(sum, zip(*phases.values(), strict=True)))
    each = "; ".join(f"{phase} {cost}" for phase, cost in phases.items())
    print(f"{name:16s}{whole}; {each}", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the nights and print what each cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nights", type=positive, default=4, metavar="N", help="nights (%(default)s)")
    parser.add_argument("--settings", metavar="FILE", help="settings on top of conf/")
    args = parser.parse_args(argv)
    days = [FIRST_DAY + timedelta(days=number) for number in range(args.nights)]
    root = Path(tempfile.mkdtemp(prefix="small-nights-"))
    try:
        write_landing(root / "landing", days)
        settings = load_settings(args.settings, str(root / "landing"), str(root / "warehouse"))
        started = time.perf_counter()
        with session(settings, "small nights") as spark:
            print(f"session {time.perf_counter() - started:.1f} s")
            for day in days:
                show(f"night of {day:%d %b}", night(spark, settings, day))
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
