"""Make the rows of a job's page by the simulator, without Spark."""

from datetime import date
from typing import Any

import pyarrow as pa

from jobs.report.rows import UnitTables
from jobs.synthetic.job import GeneratedJob
from jobs.synthetic.mechanisms.workers import SickHost
from jobs.synthetic.shape import JobIdentity, JobShape
from schemas.vocabulary import FURTHER_TABLES
from tests.support.random_jobs import generate_job
from udfs.what_if import simulate_job

DAY = date(2026, 1, 5)
ABOUT = ("team", "cluster", "model", "framework", "gpu_type")
HOST_RECORD = {"host": "sick", "jobs": 3, "jobs_slow": 2, "pattern": "chronic", "is_beyond_chance": True} | {
    "jobs_measured": 2, "verdict": "measured_and_recurs",
    "p_value": 1e-4, "hosts_asked_about": 40, "expected_jobs_slow": 0.2,
    "days_slow": 2, "first_slow": DAY, "last_slow": DAY,
}  # fmt: skip


def unit_tables(rank_steps: pa.Table, manifest: dict[str, Any], job_id: str = "job") -> UnitTables:
    """Return all rows of one unit that a job's page needs, simulated from recorded ops."""
    found = {
        name: table.to_pylist(maps_as_pydicts="strict")
        for name, table in simulate_job(rank_steps, manifest).items()
    }
    (job,) = found["job_slowdown"]
    about = {name: manifest.get(name) for name in ABOUT}
    lost = {name: _sum(found["job_causes"], name) for name in ("lost_fraction", "lost_gpu_hours")}
    return UnitTables(
        job={"log_date": DAY, "job_id": job_id, "run_id": "r1", **about, **job, **lost},
        workers=found["worker_slowdown"],
        steps=found["step_slowdown"],
        op_types=found["op_type_slowdown"],
        causes=found["job_causes"],
        further={name: found[name] for name in FURTHER_TABLES},
        hosts={row["host"]: HOST_RECORD for row in found["worker_slowdown"] if row["host"] == "sick"},
    )


def _sum(rows: list[dict[str, Any]], name: str) -> float | None:
    values = [row[name] for row in rows]
    return None if None in values else sum(values)


def sick_job(job_id: str = "job", host: str = "sick", *, steps: int = 12) -> UnitTables:
    """Return the rows of a job of four replicas and two stages, one of whose hosts is slow."""
    job = recorded_job(job_id, host, steps=steps)
    return unit_tables(job.rank_steps, job.manifest, job_id)


def recorded_job(job_id: str = "job", host: str = "sick", *, steps: int = 12) -> GeneratedJob:
    """Return the recorded ops and the manifest of the job with one slow host, named `host`."""
    hosts = (host, *(f"well-{number}" for number in range(7)))
    identity = JobIdentity(job_id, hosts=hosts, fields={"gpu_hours": 192.0, "team": "speech"})
    shape = JobShape(dp_size=4, pp_size=2, tp_size=8, steps=steps)
    return generate_job(shape, [SickHost(host, 1.5)], seed=3, identity=identity)
