"""Hosts of a rack, which manifest labels name, are one culprit if they are slow together."""

from typing import Final

import pytest

from jobs.synthetic.mechanisms.workers import SickHost
from jobs.synthetic.shape import JobShape
from tests.support.random_jobs import generate_job
from udfs.what_if import simulate_job

SHAPE: Final = JobShape(dp_size=4, pp_size=2, microbatches=4, steps=8, tp_size=8)
"""Each worker has its own host; node-0000 to node-0003 have the first stage."""
SLOW: Final = ("node-0001", "node-0006")


@pytest.mark.parametrize(
    ("labels", "racks"),
    [
        ({f"rack.{host}": "r1" for host in SLOW} | {"rack.node-0000": "r2", "rack.node-0002": "r2"}, {"r1"}),
        ({f"switch.{host}": "s4" for host in SLOW} | {"owner": "rack.node-0001"}, {"s4"}),
        ({"rack.node-0001": "r1", "rack.node-0006": "r2", "rack.node-0003": "r2"}, {None}),
        ({f"rack.node-{number:04}": "r1" for number in range(8)}, {None}),
    ],
    ids=["rack", "switch", "two racks", "all in one"],
)
def test_slow_hosts_of_a_rack_are_one_culprit(labels: dict[str, str], racks: set[str | None]) -> None:
    job = generate_job(SHAPE, [SickHost(host, 1.4) for host in SLOW], seed=3)
    causes = simulate_job(job.rank_steps, {**job.manifest, "labels": labels})["job_causes"].to_pylist()
    (culprits,) = [row["culprits"] for row in causes if row["cause"] == "slow_worker"]
    assert {each["slow_rack"] for each in culprits} == racks
    assert {each["reach"] for each in culprits} == ({"worker"} if racks == {None} else {"rack"})
    workers = [worker for each in culprits for worker in each["workers"] or [each]]
    assert {(each["host"], each["pp_rank"], each["dp_rank"]) for each in workers} == {
        ("node-0001", 0, 1),
        ("node-0006", 1, 2),
    }
