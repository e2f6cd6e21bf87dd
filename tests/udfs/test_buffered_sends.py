"""Sends that end before their recv begins are buffered, unless the clocks of two hosts may be wrong."""

from typing import Any

import pyarrow as pa
import pytest

from tests.evaluation.blocking.draw import draw
from tests.oracle.readers import read_layout, read_rank_steps
from tests.oracle.results import what_if
from tests.support.random_jobs import named_job
from tests.udfs.lines import Ops, line, manifest, rank_steps
from tests.udfs.reference import assert_equal_results
from udfs.kernel.recorded.durations import SENDS
from udfs.timeline.timelines import step_timelines
from udfs.what_if import simulate_job

LATE: Ops = [("forward-recv", 0.5, 0.5), ("forward-compute", 1, 1)]
"""Ops of the second stage: the recv begins 0.4 s after its buffered send has ended."""
EARLY: Ops = [("forward-compute", 0, 0.05), ("forward-send", 0.05, 0.05)]


def figures(rows: pa.Table, sizes: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = simulate_job(rows, sizes)["job_slowdown"].to_pylist()[0]
    return found


def pair(*hosts: str | None) -> pa.Table:
    return rank_steps(line(0, 0, 0, EARLY, host=hosts[0]), line(0, 0, 1, LATE, host=hosts[1]))


@pytest.mark.parametrize(
    ("hosts", "clamped", "buffered"),
    [(("a", "a"), 0, 1), (("a", "b"), 1, 0), ((None, None), 1, 0), (("a", None), 1, 0)],
    ids=["one host", "two hosts", "no hosts", "one named"],
)
def test_one_host_separates_a_buffered_send_from_clocks(
    hosts: tuple[str | None, str | None], clamped: int, buffered: int
) -> None:
    found = figures(pair(*hosts), manifest(pp_size=2))
    assert (found["clamped_transfers"], found["buffered_sends"]) == (clamped, buffered)


def test_a_recv_that_ends_before_its_send_begins_is_no_buffered_send() -> None:
    late: Ops = [("forward-compute", 0, 1), ("forward-send", 1, 1)]
    early: Ops = [("forward-recv", 0, 0.5), ("forward-compute", 0.5, 1)]
    rows = rank_steps(line(0, 0, 0, late, host="a"), line(0, 0, 1, early, host="a"))
    found = figures(rows, manifest(pp_size=2))
    assert (found["clamped_transfers"], found["buffered_sends"]) == (1, 0)


def test_the_send_of_a_timeline_ends_as_it_did() -> None:
    step = step_timelines(pair("a", "a"), manifest(pp_size=2))
    (send,) = [op for op, code in enumerate(step.op_type) if step.duration_s["replayed"][op, 0] < 0]
    assert step.duration_s["replayed"][send, 0] == pytest.approx(-0.4)
    assert step.duration_s["recorded"][send, 0] == pytest.approx(0.05)


def buffered(rows: pa.Table) -> pa.Table:
    """Return the job on one host, with buffered sends of at most 0.1 ms."""
    lines = rows.to_pylist()
    for each in lines:
        each["host"] = "node-0"
        each["duration_us"] = [
            min(took, 100.0) if op in SENDS else took
            for took, op in zip(each["duration_us"], each["op"], strict=True)
        ]
    return pa.Table.from_pylist(lines, schema=rows.schema)


def test_buffered_sends_delay_nothing() -> None:
    """Buffered sends delay nothing: the replay takes as long as that of the same job without buffering."""
    job = named_job("usual")
    waiting = simulate_job(job.rank_steps, job.manifest)
    rows = buffered(job.rank_steps)
    found = simulate_job(rows, job.manifest)
    (before,), (after,) = (each["job_slowdown"].to_pylist() for each in (waiting, found))
    assert after["buffered_sends"] > 0
    assert after["clamped_transfers"] == 0
    assert after["simulated_step_s"] == pytest.approx(before["simulated_step_s"], rel=1e-3)
    assert after["slowdown"] == pytest.approx(before["slowdown"], rel=0.01)
    causes = [
        {row["cause"] for row in each["job_causes"].to_pylist() if row["is_cause"]}
        for each in (waiting, found)
    ]
    assert causes[0] == causes[1]
    assert_equal_results(found, what_if(read_rank_steps(rows), read_layout(job.manifest)))


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("buffered, fused", 3058),
        ("buffered, fused", 3208),
        ("buffered, fused", 3288),
        ("buffered, fused", 3308),
        ("buffered, fused", 77278),
        ("buffered", 7009),
    ],
)
def test_sends_that_are_done_early_are_no_clocks(kind: str, seed: int) -> None:
    """If each rank has its own host, sends that end early do not change the estimated clocks."""
    job = draw(seed, kind)
    assert len(set(job.rank_steps["host"].to_pylist())) == job.job.pp * job.job.dp
    (found,) = simulate_job(job.rank_steps, job.manifest)["job_slowdown"].to_pylist()
    assert not found["is_clock_corrected"]
    if kind == "buffered, fused":
        assert found["slowdown"] == pytest.approx(job.slowdown, rel=1e-3)
