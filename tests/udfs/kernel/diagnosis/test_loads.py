"""Fixing slow data-loads saves the true saving, and does not remove late starts that have other causes."""

from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from jobs.synthetic.mechanisms.transfers import SlowReads, SlowStorage
from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.shape import USUAL_S, JobShape, Workload
from tests.support.random_jobs import LAYOUTS, generate_job
from tests.udfs.kernel.diagnosis.generated import OVERLAPPED, USUAL, VIRTUAL, WORKLOAD, diagnosed
from tests.udfs.kernel.diagnosis.kernel_jobs import found_in, job_of, mean_step_s
from udfs.kernel import cause
from udfs.kernel import op_type as ot
from udfs.kernel.diagnosis.transfers import slow_loads

NEAR: Final = 0.005
"""Largest error of a saving, as a share of T_actual."""

LOADING: Final = replace(USUAL, loads_data=True)
SHAPES: Final = {
    "usual": LOADING,
    "virtual": replace(VIRTUAL, loads_data=True),
    "overlapped": replace(OVERLAPPED, loads_data=True),
    "in turn": replace(LOADING, loads_in_turn=True),
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


def test_where_nearly_all_loads_are_slow_the_usual_one_is_too_and_the_fix_returns_less() -> None:
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
def test_the_fix_leaves_slow_loads_their_usual_time_and_others_as_they_are(name: str) -> None:
    steady = Workload(noise=0.0)
    job = job_of(generate_job(LAYOUTS[name], [SlowReads(1.0, 0.3)], seed=7, workload=steady))
    blocks, usual_s = job.blocks(), USUAL_S["data-load"]
    fixed = []
    for block in blocks:
        is_load = (np.array(block.graph.op_types) == ot.DATA_LOAD)[:, None, None]
        is_slow = is_load & (block.duration_s > 1.8 * usual_s)
        fixed.append(block._replace(duration_s=np.where(is_slow, usual_s, block.duration_s)))
    found = found_in(blocks, job.layout)
    without_s = mean_step_s(found_in(fixed, job.layout), frozenset())
    assert mean_step_s(found, frozenset({cause.DATA_LOADING})) == pytest.approx(without_s, rel=1e-9)
    assert without_s < mean_step_s(found, frozenset())


def test_stages_are_measured_by_their_own_usual_load() -> None:
    """Loads of a stage are compared with the usual load of the same stage, even if it is 50 times as long."""
    job = job_of(generate_job(LOADING, [], seed=3))
    heavy = []
    for block in job.blocks():
        is_heavy = (np.array(block.graph.op_types) == ot.DATA_LOAD) & (np.array(block.graph.stages) == 0)
        heavy.append(
            block._replace(duration_s=block.duration_s * np.where(is_heavy, 50.0, 1.0)[:, None, None])
        )
    assert not any(slow.ops.size for slow in slow_loads(heavy))


@pytest.mark.parametrize(("slow", "is_found"), [(16, True), (19, False)])
def test_a_few_quiet_steps_show_the_usual_load_but_a_single_one_does_not(slow: int, is_found: bool) -> None:
    """Four fast steps of 20 show the usual time of loads, but a single fast step does not."""
    job = job_of(generate_job(replace(LOADING, steps=20), [], seed=3, workload=Workload(noise=0.0)))
    first, slowed = 0, []
    for block in job.blocks():
        steps = first + np.arange(block.number_of_steps)
        is_load = (np.array(block.graph.op_types) == ot.DATA_LOAD)[:, None, None]
        factor = np.where(is_load & (steps < slow)[:, None], 20.0, 1.0)
        slowed.append(block._replace(duration_s=block.duration_s * factor))
        first += block.number_of_steps
    changed = [each for each in slow_loads(slowed) if each.ops.size]
    assert bool(changed) == is_found
    for each in changed:
        np.testing.assert_allclose(each.usual_s, USUAL_S["data-load"])
