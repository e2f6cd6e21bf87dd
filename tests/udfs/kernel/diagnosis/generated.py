"""Generated jobs with their diagnosis and with the truth, for several tests of the diagnosis."""

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from jobs.synthetic.job import recorded_job
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.shape import JobIdentity, JobShape, Workload
from jobs.synthetic.simulation import JobPlan, Simulation, true_savings
from schemas.vocabulary import CAUSES, JOB_CAUSES, LOGGED_CAUSES
from udfs.kernel.what_if import OPS_TOGETHER
from udfs.what_if import SimulationSettings, simulate_job

Rows = dict[str, dict[str, Any]]
"""Rows of job_causes by cause."""

USUAL: Final = JobShape(dp_size=4, pp_size=4, microbatches=8, steps=12)
VIRTUAL: Final = JobShape(dp_size=4, pp_size=2, microbatches=4, steps=12, vpp_size=2, noop_transfers="all")
OVERLAPPED: Final = JobShape(dp_size=5, pp_size=3, microbatches=6, steps=12, overlapped=True, buckets=2)
WORKLOAD: Final = Workload(forward_s=0.05, launch_s=5e-6, noise=0.005)


@dataclass(frozen=True)
class Diagnosed:
    """The diagnosis of a generated job, and the truth.

    rows   : rows of job_causes, by cause.
    true   : true saving by cause, as a share of T_actual.
    struck : workers that were slowed, as (dp_rank, pp_rank).
    """

    rows: Rows
    true: dict[str, float]
    struck: set[tuple[int | None, int | None]]

    @property
    def labels(self) -> list[str]:
        """Return the causes that the diagnosis names (`is_cause`), including "unexplained" if it is named."""
        return [name for name, row in self.rows.items() if row["is_cause"]]

    @property
    def flags(self) -> dict[str, str]:
        """Return the flags of those rows of job_causes that have a flag, by cause."""
        return flags_of(self.rows)

    def workers(self, cause: str) -> set[tuple[int | None, int | None]]:
        """Return the culprits of a cause as (dp_rank, pp_rank); a host's workers are listed one by one."""
        return {
            (each["dp_rank"], each["pp_rank"])
            for culprit in self.rows[cause]["culprits"]
            for each in (culprit["workers"] if culprit["reach"] == "host" else [culprit])
        }


def diagnosed(
    shape: JobShape,
    *mechanisms: Mechanism,
    seed: int = 1,
    workload: Workload = WORKLOAD,
    hosts: tuple[str, ...] = (),
) -> Diagnosed:
    """Generate a job and diagnose its causes."""
    simulation = Simulation(JobPlan(shape, mechanisms, seed, JobIdentity(hosts=hosts), workload))
    job = recorded_job(simulation)
    truth = true_savings(simulation)
    struck = {(dp_rank, stage) for each in truth.mechanisms for dp_rank, stage in each["slowed_workers"]}
    return Diagnosed(causes_of(job.rank_steps, job.manifest), truth.time_saved_fraction, struck)


def causes_of(rank_steps: pa.Table, manifest: dict[str, Any], ops_together: int = OPS_TOGETHER) -> Rows:
    """Return the rows of job_causes by cause; each cause must have one row."""
    table = simulate_job(rank_steps, manifest, SimulationSettings(ops_together=ops_together))[JOB_CAUSES]
    rows = {row["cause"]: row for row in table.to_pylist(maps_as_pydicts="strict")}
    assert tuple(rows) == tuple(each for each in CAUSES if each in rows)
    assert set(CAUSES) - set(LOGGED_CAUSES) <= set(rows)
    return rows


def flags_of(rows: Rows) -> dict[str, str]:
    """Return the flags of those rows of job_causes that have a flag, by cause."""
    return {name: row["flag_reason"] for name, row in rows.items() if row["flag_reason"] is not None}
