"""Slow loads: what their fix returns, and what of late starts is none of theirs."""

from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from jobs.synthetic.mechanisms.transfers import SlowReads, SlowStorage
from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.shape import USUAL_S, JobShape
from tests.support.random_jobs import LAYOUTS, generate_job
from tests.udfs.kernel.diagnosis.generated import OVERLAPPED, USUAL, VIRTUAL, WORKLOAD, diagnosed
from tests.udfs.kernel.diagnosis.kernel_jobs import found_in, job_of, mean_step_s
from udfs.kernel import cause
from udfs.kernel import op_type as ot

NEAR: Final = 0.005
"""Share of T_actual by which a saving may miss the truth."""

LOADING: Final = replace(USUAL, loads_data=True)
SHAPES: Final = {
    "usual": LOADING,
    "virtual": replace(VIRTUAL, loads_data=True),
    "overlapped": replace(OVERLAPPED, loads_data=True),
}
RARE: Final = {"on all workers": SlowReads(1.0, 0.01), "on one replica": SlowReads(0.8, 0.1, 2)}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("mechanism", RARE.values(), ids=RARE.keys())
def test_the_fix_of_rare_slow_loads_returns_what_they_cost(shape: JobShape, mechanism: SlowReads) -> None:
    found = diagnosed(shape, mechanism)
    assert found.labels == ["data_loading"]
    saved = {name: row["time_saved_fraction"] for name, row in found.rows.items() if name != "unexplained"}
    assert saved.pop("data_loading") == pytest.approx(found.true["data_loading"], abs=NEAR)
    assert saved == pytest.approx(dict.fromkeys(saved, 0.0), abs=NEAR)
    assert set() < found.workers("data_loading") <= found.struck


def test_where_many_loads_are_slow_their_mean_is_too_and_the_fix_returns_less() -> None:
    found = diagnosed(LOADING, SlowReads(0.1))
    saved = found.rows["data_loading"]["time_saved_fraction"]
    assert 0.025 < saved < found.true["data_loading"] - 0.02


def test_loads_that_all_take_long_are_as_usual() -> None:
    slow = replace(WORKLOAD, usual_s={**USUAL_S, "data-load": 0.2})
    assert diagnosed(LOADING, workload=slow).labels == []


def test_slow_loads_and_other_late_starts_are_kept_apart() -> None:
    found = diagnosed(LOADING, SlowReads(1.5, 0.02), SlowStorage(0.3), WeakGpu(2, 1, 1.5))
    assert found.labels == ["slow_worker", "launch_delay", "data_loading"]
    for name in found.labels:
        saved = found.rows[name]["time_saved_fraction"]
        assert saved == pytest.approx(found.true[name], abs=NEAR), name


def test_loads_that_are_not_recorded_are_late_starts() -> None:
    found = diagnosed(replace(LOADING, absent=frozenset({"data-load"})), SlowReads(1.0, 0.1, 2))
    assert "data_loading" not in found.rows
    assert "launch_delay" in found.labels


@pytest.mark.parametrize("name", ["data_loads", "data_loads_of_a_virtual_pipeline"])
def test_the_fix_leaves_no_load_longer_than_its_ideal(name: str) -> None:
    job = job_of(generate_job(LAYOUTS[name], [SlowReads(0.1)], seed=7))
    blocks, ideal_s = job.blocks(), 0.001
    capped = []
    for block in blocks:
        is_load = (np.array(block.graph.op_types) == ot.DATA_LOAD)[:, None, None]
        shorter_s = np.where(is_load, block.duration_s.clip(max=ideal_s), block.duration_s)
        capped.append(block._replace(duration_s=shorter_s))
    fixed_s = mean_step_s(found_in(blocks, job.layout, ideal_load_s=ideal_s), frozenset({cause.DATA_LOADING}))
    assert fixed_s == mean_step_s(found_in(capped, job.layout), frozenset())
    assert fixed_s < mean_step_s(found_in(blocks, job.layout), frozenset())
