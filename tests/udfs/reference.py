"""Random layouts, and the comparison of results with those of the reference implementation."""

from dataclasses import fields
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from jobs.synthetic.job import GeneratedJob
from jobs.synthetic.mechanisms.transfers import SlowStorage
from jobs.synthetic.mechanisms.work import LossLayer
from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.shape import JobShape, Workload
from tests.oracle import WhatIf, what_if
from tests.oracle.readers import read_layout, read_rank_steps
from tests.support.random_jobs import UNEVEN_DATA, generate_job
from udfs.kernel.replay.ideal import PAPER_IDEAL

SAME = 1e-11
"""Largest relative difference: the simulator and the reference add the same numbers in different orders."""

ABSENT = [
    frozenset[str](),
    frozenset({"gc"}),
    frozenset({"gc", "layernorm-grads-all-reduce", "embedding-grads-all-reduce"}),
    frozenset({"params-all-gather", "optimizer-clip-main-grad"}),
]
HABITS: Final = [each.name for each in fields(JobShape) if each.type in (bool, "bool")]
"""Boolean fields of a layout; layouts with every combination of them are drawn."""


@st.composite
def shapes(draw: st.DrawFn) -> JobShape:
    """Draw any layout that the model supports."""
    pp_size = draw(st.integers(1, 4))
    vpp_size = draw(st.integers(1, 3)) if pp_size > 1 else 1
    habits: dict[str, Any] = {name: draw(st.booleans()) for name in HABITS}
    cp_size, tp_size = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    return JobShape(
        dp_size=draw(st.integers(1, 4)),
        pp_size=pp_size,
        vpp_size=vpp_size,
        cp_size=cp_size,
        tp_size=tp_size,
        microbatches=draw(st.integers(1, 3)) * (pp_size if vpp_size > 1 else 1),
        steps=draw(st.integers(1, 4)),
        **habits,
        noop_transfers=draw(st.sampled_from(["all", "first_missing", "none"])) if vpp_size > 1 else "none",
        absent=draw(st.sampled_from(ABSENT)),
        buckets=draw(st.integers(1, 2)),
        recorded_tp_ranks=draw(st.integers(1, tp_size)),
        recorded_cp_ranks=draw(st.integers(1, cp_size)),
        line_order=draw(st.sampled_from(["schedule", "start", "op_type", "shuffled"])),
    )


def slow_job(shape: JobShape, seed: int) -> GeneratedJob:
    worker = WeakGpu(dp_rank=seed % shape.dp_size, pp_rank=seed % shape.pp_size, factor=1.4)
    faults = [worker, UNEVEN_DATA, LossLayer(0.02, 0.04), SlowStorage(0.01)]
    return generate_job(shape, faults, seed, workload=Workload(noise=0.03))


def assert_equal_results(found: dict[str, pa.Table], wanted: WhatIf) -> None:
    """Assert that all figures and rows of the results equal those of the reference."""
    (job,) = found["job_slowdown"].to_pylist()
    for name in (
        "slowdown",
        "waste_fraction",
        "launch_slowdown",
        "discrepancy",
        "slow_worker_share",
        "last_stage_share",
        "forward_backward_correlation",
    ):
        value = getattr(wanted, name)
        assert job[name] == (None if value is None else pytest.approx(value, rel=SAME, abs=1e-9)), name
    for name in ("steps_dropped", "clamped_transfers", "buffered_sends", "clamped_launch_delays"):
        assert job[name] == getattr(wanted, name), name
    assert rows(found, "step_slowdown", "step", "actual_step_s") == close(wanted.actual_step_s)
    assert rows(found, "step_slowdown", "step", "simulated_step_s") == close(wanted.simulated_step_s)
    assert rows(found, "step_slowdown", "step", "ideal_step_s") == close(wanted.ideal_step_s)
    assert rows(found, "step_slowdown", "step") == close(wanted.step_slowdown)
    assert rows(found, "stage_slowdown", "pp_rank") == close(wanted.stage_slowdown)
    assert rows(found, "dp_rank_slowdown", "dp_rank") == close(wanted.dp_rank_slowdown)
    by_type = rows(found, "op_type_slowdown", "op_type")
    assert {name: by_type[name] for name in wanted.op_type_slowdown} == close(wanted.op_type_slowdown)
    assert all(by_type[name] == 1.0 for name in by_type.keys() - wanted.op_type_slowdown.keys())
    workers = {(row["dp_rank"], row["pp_rank"]): row for row in found["worker_slowdown"].to_pylist()}
    assert {cell: row["slowdown"] for cell, row in workers.items()} == close(wanted.worker_slowdown)
    assert {cell: row["slowdown_approx"] for cell, row in workers.items()} == close(
        wanted.worker_slowdown_approx
    )


def rows(found: dict[str, pa.Table], table: str, key: str, value: str = "slowdown") -> dict[Any, float]:
    return {row[key]: row[value] for row in found[table].to_pylist()}


def close(values: dict[Any, float]) -> object:
    return pytest.approx(values, rel=SAME)


STREAMS: Final[dict[str, object]] = {"blocking_transfers": []}
"""Manifest field that lets all transfers run on separate streams, as in the graph of the paper."""


def oracle_of(rank_steps: pa.Table, facts: dict[str, Any], ideal: str = PAPER_IDEAL) -> WhatIf:
    return what_if(read_rank_steps(rank_steps), read_layout(facts), ideal=ideal)
