"""A night of a few million ops: seconds and ops per second of each stage, beside a UDF that does nothing."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs import aggregate_fleet, ingest_rank_logs, publish_night, simulate_what_if
from jobs.session import session
from jobs.settings import Settings, load_settings
from jobs.synthetic.identity import JobIdentity
from jobs.synthetic.job import generate_job
from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.rank_log_files import write_rank_logs
from jobs.synthetic.shape import JobShape
from jobs.transforms.what_if import unit_rows
from jobs.warehouse import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import JOBS, RANK_STEPS
from tests.benchmarks.memory import watched

DAY: Final = date(2026, 1, 5)
JOBS_OF_THE_DAY: Final = 24
SHAPE: Final = JobShape(dp_size=4, pp_size=4, microbatches=32, steps=40)


def main() -> None:
    """Generate a day, run its night twice in one session, and print the second, warm run."""
    root = Path(tempfile.mkdtemp(prefix="night-benchmark-"))
    try:
        ops = _generate(root / "landing")
        settings = load_settings(None, str(root / "landing"), str(root / "warehouse"))
        with watched() as peak, session(settings, "benchmark") as spark:
            for is_warm in (False, True):
                seconds = _night(spark, settings)
                if is_warm:
                    seconds["do-nothing UDF over the same rows"] = _nothing(spark, settings)
                    _print(ops, seconds)
        print(f"peak MiB: JVM {peak.jvm:.0f}, Python workers {peak.workers:.0f}, driver {peak.driver:.0f}")
    finally:
        shutil.rmtree(root)


def _generate(landing: Path) -> int:
    ops = 0
    for number in range(JOBS_OF_THE_DAY):
        slow = WeakGpu(number % SHAPE.dp_size, number % SHAPE.pp_size, 1.3)
        faults = [slow] if number % 2 else []
        job = generate_job(
            SHAPE, faults, number, JobIdentity(f"job-{number:03d}", fields={"gpu_hours": 100.0})
        )
        write_rank_logs(landing, DAY, job)
        ops += job.ops
    return ops


def _night(spark: SparkSession, settings: Settings) -> dict[str, float]:
    """Seconds of each stage."""
    stages = (ingest_rank_logs, simulate_what_if, aggregate_fleet, publish_night)
    return {
        stage.__name__.removeprefix("jobs."): _timed(partial(stage.run, spark, settings, [DAY]))
        for stage in stages
    }


def _nothing(spark: SparkSession, settings: Settings) -> float:
    """The rows that the simulation sees, in its order, through a UDF that only counts them."""
    warehouse = Warehouse(spark, settings.paths.warehouse)
    rank_steps, jobs = (warehouse.read(TABLES[name], [DAY]) for name in (RANK_STEPS, JOBS))
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"rows": pa.array([batch.num_rows], pa.int64())})

    counted = unit_rows(rank_steps, jobs, partitions).mapInArrow(count, "rows long")
    return _timed(lambda: counted.agg(F.sum("rows")).collect())


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _print(ops: int, seconds: dict[str, float]) -> None:
    night = sum(seconds[name] for name in list(seconds)[:4])
    print(f"{ops:,} ops in {JOBS_OF_THE_DAY} jobs, warm session")
    for name, took in {**seconds, "the whole night": night}.items():
        print(f"{name:36s}{took:8.2f} s{ops / took / 1e6:8.2f} million ops/s")


if __name__ == "__main__":
    main()
