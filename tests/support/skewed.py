"""Jobs recorded with wrong clocks, and the results of the simulator for them."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from jobs.synthetic.job import GeneratedJob
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.shape import JobIdentity, JobShape, Workload
from tests.support.random_jobs import generate_job
from udfs.what_if import SimulationSettings, simulate_job

Course = Callable[[int], float]
"""Function from Unix time [us] to how far a clock is ahead of it. [us]"""

MS: Final = 1_000.0
HOUR: Final = 3_600_000_000.0

FROM_ONE_CLOCK: Final = SimulationSettings(
    clock_floor_s=float("inf"), clock_floor_fraction=float("inf"), diagnosed=False
)
"""Settings under which the simulator corrects no clock."""


def job_on_hosts(shape: JobShape, *mechanisms: Mechanism, seed: int = 5, noise: float = 0.01) -> GeneratedJob:
    """Generate a job with eight ranks on each host."""
    return generate_job(shape, mechanisms, seed, JobIdentity(), Workload(noise=noise))


def hosts_of(rank_steps: pa.Table) -> list[str]:
    """Return the sorted names of the hosts."""
    return sorted(set(rank_steps["host"].to_pylist()))


def began_us(rank_steps: pa.Table) -> list[int]:
    """Return the start of each step in ascending order. [us]"""
    t0_us, step = rank_steps["t0_us"].to_numpy(), rank_steps["step"].to_numpy()
    return sorted(int(t0_us[step == number].min()) for number in np.unique(step))


def skewed(rank_steps: pa.Table, courses: Mapping[str, Course]) -> pa.Table:
    """Return the rows as hosts with the given clocks would have logged them."""
    rows = zip(rank_steps["host"].to_pylist(), rank_steps["t0_us"].to_pylist(), strict=True)
    t0_us = [t0 + round(courses[host](t0)) if host in courses else t0 for host, t0 in rows]
    place = rank_steps.schema.get_field_index("t0_us")
    return rank_steps.set_column(place, "t0_us", pa.array(t0_us, pa.int64()))


def without_hosts(rank_steps: pa.Table) -> pa.Table:
    """Return the rows without host names."""
    place = rank_steps.schema.get_field_index("host")
    return rank_steps.set_column(place, "host", pa.nulls(rank_steps.num_rows, pa.string()))


def simulated(
    rank_steps: pa.Table, manifest: Mapping[str, Any], settings: SimulationSettings | None = None
) -> dict[str, Any]:
    """Simulate the job and return its row of job_slowdown."""
    chosen = settings or SimulationSettings(diagnosed=False)
    (row,) = simulate_job(rank_steps, manifest, chosen)["job_slowdown"].to_pylist()
    return dict(row)


def skews(rank_steps: pa.Table, seed: int) -> dict[str, dict[str, Course]]:
    """Return wrong clocks of hosts, by kind of clock error; a seed always chooses the same hosts."""
    rng = np.random.default_rng(seed)
    hosts, steps = hosts_of(rank_steps), began_us(rank_steps)
    bad = str(rng.choice(hosts))
    small, large = (rng.uniform(-size, size, len(hosts)) for size in (5 * MS, 50 * MS))
    drift = rng.uniform(-200e-6, 200e-6, len(hosts))
    middle = steps[len(steps) // 2]
    return {
        "all within 5 ms": {host: _offset(by) for host, by in zip(hosts, small, strict=True)},
        "one 50 ms ahead": {bad: _offset(50 * MS)},
        "all within 50 ms": {host: _offset(by) for host, by in zip(hosts, large, strict=True)},
        "drift to 200 ppm": {host: _drift(by, steps[0]) for host, by in zip(hosts, drift, strict=True)},
        "set back in mid-job": {bad: lambda t_us: -50 * MS if t_us >= middle else 0.0},
        "an hour ahead": {bad: _offset(HOUR)},
    }


def _offset(by_us: float) -> Course:
    return lambda _t_us: by_us


def _drift(rate: float, since_us: int) -> Course:
    return lambda t_us: rate * (t_us - since_us)
