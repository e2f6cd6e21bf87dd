"""Exposed communication is right for hand-made timelines, and equals the reference's for random layouts."""

from dataclasses import astuple
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jobs.synthetic.shape import JobShape
from schemas.op_types import DECLARED
from schemas.vocabulary import EXPOSED_COMMUNICATION, OP_TYPES, TRANSFER_OPS
from tests.oracle.exposed import exposed_communication
from tests.oracle.readers import read_layout, read_rank_steps
from tests.oracle.records import Layout
from tests.support.random_jobs import LAYOUTS, named_job
from tests.udfs.lines import Ops, line, manifest, rank_steps
from tests.udfs.reference import SAME, STREAMS, shapes, slow_job
from tests.udfs.test_blocking import SHOWN, drawn, reference_layout
from udfs.kernel.replay.exposed import COMMUNICATION
from udfs.what_if import SimulationSettings, simulate_job

JOB = ("all", -1)
NAMES = ("exposed_s", "busy_s", "hidden_s", "overlap_saved_s")


def figures(rows: pa.Table, facts: dict[str, Any]) -> dict[tuple[str, int], tuple[float, ...]]:
    """Return exposed, busy, hidden and overlap-saved time, by op type and stage. [s]"""
    found = simulate_job(rows, facts)[EXPOSED_COMMUNICATION]
    return {(row["op_type"], row["pp_rank"]): tuple(row[name] for name in NAMES) for row in found.to_pylist()}


def two_stages(compute_s: float, transfer_s: float) -> pa.Table:
    """Return two microbatches through two stages; each forward of the second stage takes 1 s."""
    first_s = compute_s + transfer_s
    second_s = max(2 * compute_s, first_s + 1) + transfer_s
    first: Ops = [("forward-compute", k * compute_s, compute_s, k) for k in range(2)]
    last: Ops = [("forward-compute", arrived_s, 1, k) for k, arrived_s in enumerate((first_s, second_s))]
    for arrived_s in (first_s, second_s):
        first.append(("forward-send", arrived_s - transfer_s, transfer_s))
        last.append(("forward-recv", arrived_s - transfer_s, transfer_s))
    return rank_steps(line(0, 0, 0, first), line(0, 0, 1, last))


def close(*values: float) -> object:
    return pytest.approx(values, abs=1e-12)


def test_what_runs_beside_a_compute_is_hidden() -> None:
    """Transfers are hidden while a compute runs: here for 0.5 s of 1 s."""
    found = figures(two_stages(2, 0.5), manifest(pp_size=2))
    assert found[JOB] == found["forward-pp-comm", -1] == close(0.5, 1.0, 0.5, 0.5)
    # A transfer counts for the receiving stage; the time of its sender delays only the sender's next
    # transfer.
    assert found["all", 1] == close(0.5, 1.0, 0.5, 0.5)
    assert found["all", 0] == close(0.0, 1.0, 1.0, 0.0)


def test_overlap_cannot_make_a_step_shorter_than_its_transfers_in_turn() -> None:
    """Even with perfect overlap, a step takes at least as long as its transfers, run one after the other."""
    found = figures(two_stages(0.1, 3), manifest(pp_size=2))
    assert found[JOB] == close(6.0, 6.0, 0.0, 2.1)


def test_nothing_is_hidden_of_what_several_workers_spend_in_turn() -> None:
    """Transfers that several workers run in turn, 3 s together, are fully exposed."""
    lines = []
    for stage in range(4):
        ops: Ops = [("forward-compute", 2 * stage, 1)]
        ops += [("forward-recv", 2 * stage - 1, 1)] if stage else []
        ops += [("forward-send", 2 * stage + 1, 1)] if stage < 3 else []
        lines.append(line(0, 0, stage, ops))
    assert figures(rank_steps(*lines), manifest(pp_size=4))[JOB] == close(3.0, 3.0, 0.0, 3.0)


def test_gathers_and_scatters_of_a_worker_are_one_stream() -> None:
    ops: Ops = [("params-all-gather", 0, 2), ("forward-compute", 2, 1), ("grads-reduce-scatter", 3, 4)]
    found = figures(rank_steps(line(0, 0, 0, ops), line(0, 1, 0, ops)), manifest(dp_size=2))
    assert found[JOB] == found["all", 0] == close(6.0, 6.0, 0.0, 1.0)
    assert found["grads-reduce-scatter", -1] == close(4.0, 4.0, 0.0, 3.0)


def test_what_takes_less_than_no_time_stays() -> None:
    """Exposed time is never negative, even if one rank's clip ends before another rank's clip begins."""
    first: Ops = [
        ("forward-compute", 0, 0.998), ("layernorm-grads-all-reduce", 0.998, 0.002),
        ("optimizer-clip-main-grad", 1, 0.001), ("optimizer", 1.001, 5),
    ]  # fmt: skip
    other: Ops = [
        ("forward-compute", 0, 1.002), ("layernorm-grads-all-reduce", 1.002, 0),
        ("optimizer-clip-main-grad", 1.002, 0.0005), ("optimizer", 1.0025, 1),
    ]  # fmt: skip
    rows = rank_steps(line(0, 0, 0, first), line(0, 1, 0, other))
    found = figures(rows, manifest(dp_size=2))
    assert found[JOB] == close(0.0, 0.002, 0.002, 0.0)
    assert found["optimizer-clip-main-grad", -1] == close(0.0, 0.0005, 0.0005, 0.0)
    assert_as_the_reference(rows, manifest(dp_size=2))


def test_a_unit_without_communication_has_no_rows() -> None:
    ops: Ops = [("forward-compute", 0, 1), ("backward-compute", 1, 1), ("optimizer", 2, 1)]
    assert figures(rank_steps(line(0, 0, 0, ops)), manifest()) == {}


def test_figures_of_an_op_type_are_means_over_all_steps() -> None:
    """The figures of an op type are means over all steps, even if only some steps have that type."""
    ops: Ops = [("forward-compute", 0, 1), ("optimizer-clip-main-grad", 1, 1)]
    rows = rank_steps(*(line(step, 0, 0, ops[: 2 - step]) for step in range(2)))
    assert figures(rows, manifest())["optimizer-clip-main-grad", -1] == close(0.5, 0.5, 0.0, 0.5)


def test_without_a_diagnosis_there_are_no_rows() -> None:
    found = simulate_job(two_stages(1, 1), manifest(pp_size=2), SimulationSettings(diagnosed=False))
    assert found[EXPOSED_COMMUNICATION].num_rows == 0


def test_communication_is_what_the_model_calls_so() -> None:
    computes = {each.name for each in DECLARED if each.is_averaged}
    assert {OP_TYPES[code] for code in COMMUNICATION} == set(OP_TYPES) - computes


def assert_as_the_reference(rows: pa.Table, facts: dict[str, Any], layout: Layout | None = None) -> None:
    """Compare figures with the reference's; `layout` has the blocking op types, None means no type blocks."""
    found = figures(rows, facts | STREAMS if layout is None else facts)
    wanted = exposed_communication(read_rank_steps(rows), layout or read_layout(facts))
    assert found.keys() == wanted.keys()
    for key, seconds in wanted.items():
        assert found[key] == pytest.approx(astuple(seconds), rel=SAME, abs=SAME), key


@pytest.mark.parametrize("name", [*LAYOUTS, "disagreeing"])
def test_layouts_are_as_the_twin_has_them(name: str) -> None:
    job = named_job(name)
    assert_as_the_reference(job.rank_steps, job.manifest)


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(shape=shapes(), seed=st.integers(0, 2**20))
def test_random_jobs_are_as_the_twin_has_them(shape: JobShape, seed: int) -> None:
    job = slow_job(shape, seed)
    assert_as_the_reference(job.rank_steps, job.manifest)


def test_workers_that_wait_for_their_transfers_hide_nothing() -> None:
    """If workers block in their transfers, no communication is hidden, because no compute runs meanwhile."""
    first: Ops = [
        ("forward-compute", 0, 1, 0), ("forward-send", 1, 0.5),
        ("forward-compute", 1.5, 1, 1), ("forward-send", 2.5, 0.5),
    ]  # fmt: skip
    second: Ops = [
        ("forward-recv", 0, 1.5), ("forward-compute", 1.5, 1, 0),
        ("forward-recv", 2.5, 0.5), ("forward-compute", 3, 1, 1),
    ]  # fmt: skip
    rows = rank_steps(line(0, 0, 0, first), line(0, 0, 1, second))
    found = figures(rows, manifest(pp_size=2) | {"blocking_transfers": ["forward-send", "forward-recv"]})
    assert found[JOB] == close(1.0, 1.0, 0.0, 1.0)
    # On its own stream, the first transfer would overlap the first stage's second compute.
    first[2], first[3] = ("forward-compute", 1, 1, 1), ("forward-send", 2.0, 0.5)


TWO_THAT_START_TOGETHER = JobShape(
    dp_size=2, pp_size=3, microbatches=6, steps=1, vpp_size=3, overlapped=True, buckets=2,
    noop_transfers="first_missing",
)  # fmt: skip
"""Two transfers start together by chance and end apart, so they are not one call."""

SENDS_BESIDE_RECEIVES = JobShape(
    dp_size=3, pp_size=4, microbatches=3, steps=3, batched=True, overlapped=True, buckets=2
)
"""Sends and receives of one call; if only forward transfers block, backward ones of the same call do too."""


@pytest.mark.parametrize("kind", SHOWN)
def test_jobs_whose_transfers_block_are_as_the_twin_has_them(kind: str) -> None:
    job = drawn(kind)
    assert_as_the_reference(job.rank_steps, job.manifest, reference_layout(job.rank_steps, job.manifest))


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    shape=shapes(), seed=st.integers(0, 2**20), blocking=st.sets(st.sampled_from(TRANSFER_OPS), min_size=1)
)
@example(TWO_THAT_START_TOGETHER, 2119, set(TRANSFER_OPS))
@example(SENDS_BESIDE_RECEIVES, 255887, {"forward-send", "forward-recv"})
def test_random_jobs_that_are_said_to_block_are_as_the_twin_has_them(
    shape: JobShape, seed: int, blocking: set[str]
) -> None:
    job = slow_job(shape, seed)
    facts = job.manifest | {"blocking_transfers": sorted(blocking)}
    assert_as_the_reference(job.rank_steps, facts, reference_layout(job.rank_steps, facts))
