"""The truth about a job: exact where it can be computed by hand, and without effect on the job."""

from dataclasses import replace

import numpy as np
import pytest

from jobs.synthetic.job import recorded_job
from jobs.synthetic.mechanisms.loading import SlowStorage
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.mechanisms.network import CongestedNetwork
from jobs.synthetic.mechanisms.nuisances import ClockSkew, PlannedGc
from jobs.synthetic.mechanisms.pauses import UnsynchronisedGc
from jobs.synthetic.mechanisms.stages import LossLayer, UnevenLayers
from jobs.synthetic.mechanisms.workers import ThermalThrottling, WeakGpu
from jobs.synthetic.shape import JobShape
from jobs.synthetic.simulation import LABELS, JobPlan, Simulation
from jobs.synthetic.truth import Truth, true_savings
from jobs.synthetic.window import Window
from jobs.synthetic.workload import Workload
from tests.support.random_jobs import FAULTS, LAYOUTS, NOISY, USUAL
from udfs.what_if import simulate_job

EXACT = Workload(
    forward_s=0.1,
    launch_s=0.0,
    noise=0.0,
    usual_s={"params-all-gather": 0.01, "grads-reduce-scatter": 0.02, "optimizer": 0.005},
)
PAIR = JobShape(dp_size=2, microbatches=1, steps=4)
USUAL_STEP_S = 0.01 + 0.1 + 0.2 + 0.02 + 0.005
"""Gather, forward, backward, scatter, optimizer."""


def exact(shape: JobShape, *mechanisms: Mechanism) -> Truth:
    return true_savings(Simulation(JobPlan(shape, mechanisms, seed=1, workload=EXACT)))


def test_nothing_wrong_costs_nothing() -> None:
    truth = exact(PAIR)
    assert truth.actual_step_s == pytest.approx(USUAL_STEP_S, rel=1e-12)
    assert truth.time_saved_fraction == dict.fromkeys(LABELS, 0.0)
    assert (truth.all_causes_fraction, truth.nuisances_fraction, truth.mechanisms) == (0.0, 0.0, [])


def test_a_slow_worker_by_hand() -> None:
    """One cell takes 1.5 times 0.3 s; the other waits for it in the reduce-scatter."""
    truth = exact(PAIR, WeakGpu(1, 0, 1.5))
    assert truth.actual_step_s == pytest.approx(USUAL_STEP_S + 0.15, rel=1e-12)
    wanted = {**dict.fromkeys(LABELS, 0.0), "slow_worker": 0.15 / (USUAL_STEP_S + 0.15)}
    assert truth.time_saved_fraction == pytest.approx(wanted, abs=1e-12)
    assert truth.all_causes_fraction == truth.time_saved_fraction["slow_worker"]


def test_a_slow_worker_in_half_of_the_steps_by_hand() -> None:
    truth = exact(PAIR, WeakGpu(1, 0, 1.5, window=Window(1, 3)))
    assert truth.time_saved_fraction["slow_worker"] == pytest.approx(
        0.075 / (USUAL_STEP_S + 0.075), rel=1e-12
    )
    assert truth.mechanisms[0]["slowed_steps"] == [1, 2]
    assert truth.mechanisms[0]["slowed_workers"] == [[1, 0]]


def test_two_slow_replicas_hide_each_other() -> None:
    """Either alone saves what it is above the other; both together save all."""
    truth = exact(PAIR, WeakGpu(0, 0, 1.5), WeakGpu(1, 0, 1.2))
    alone = [mechanism["time_saved_fraction"] for mechanism in truth.mechanisms]
    assert alone == pytest.approx([0.09 / (USUAL_STEP_S + 0.15), 0.0], abs=1e-12)
    assert truth.time_saved_fraction["slow_worker"] == pytest.approx(0.15 / (USUAL_STEP_S + 0.15), rel=1e-12)


def test_congested_collectives_by_hand() -> None:
    truth = exact(PAIR, CongestedNetwork("replicas", 0.25))
    assert truth.time_saved_fraction["communication"] == pytest.approx(
        0.09 / (USUAL_STEP_S + 0.09), rel=1e-12
    )


def test_a_loss_layer_by_hand() -> None:
    """Two stages, one microbatch: 0.3 s more or 0.15 s on each is the same chain, so nothing is saved.

    With four microbatches the second stage works all the time: three of the four extras overlap when spread.
    """
    chain = JobShape(pp_size=2, microbatches=1, steps=2)
    assert exact(chain, LossLayer(0.1, 0.2)).time_saved_fraction["stage_imbalance"] == pytest.approx(
        0.0, abs=1e-12
    )
    truth = exact(JobShape(pp_size=2, microbatches=4, steps=2), LossLayer(0.1, 0.2))
    with_s, without_s = 0.1 + 4 * 0.6 + 0.2 + 0.005, 5 * 0.45 + 0.005
    assert truth.actual_step_s == pytest.approx(with_s, rel=1e-6)
    assert truth.time_saved_fraction["stage_imbalance"] == pytest.approx(1 - without_s / with_s, rel=1e-6)


def test_late_data_are_a_delay_and_planned_collections_a_nuisance() -> None:
    shape = JobShape(dp_size=2, pp_size=2, steps=40)
    late = exact(shape, SlowStorage(0.1))
    assert late.time_saved_fraction["launch_delay"] > 0.05
    assert late.all_causes_fraction == pytest.approx(late.time_saved_fraction["launch_delay"], rel=1e-12)
    planned = exact(shape, PlannedGc(0.1, 4), ClockSkew(0.01))
    assert planned.nuisances_fraction > 0.005
    assert set(planned.time_saved_fraction.values()) == {0.0}
    assert planned.mechanisms[1]["time_saved_fraction"] == 0.0


def test_the_usual_delay_of_the_first_computes_counts_as_a_launch_delay() -> None:
    """Other ops keep theirs: the gather and the optimizer before and after are as late as they were."""
    simulation = Simulation(JobPlan(PAIR, (), 1, workload=replace(EXACT, launch_s=0.01)))
    first = simulation.place.first_forwards[0]
    late = simulation._launch_us[first]
    truth = true_savings(simulation)
    saved_s = truth.time_saved_fraction["launch_delay"] * truth.actual_step_s
    assert late.min(axis=1).mean() / 1e6 <= saved_s <= late.max(axis=1).mean() / 1e6
    assert truth.all_causes_fraction == truth.time_saved_fraction["launch_delay"]


def test_where_mechanisms_struck() -> None:
    """The workers that they slow, not those that wait; no step in which chance spared all."""
    shape = JobShape(dp_size=2, pp_size=2, microbatches=4, steps=12)
    faults = (
        LossLayer(0.1, 0.2), UnsynchronisedGc(0.5, 12.0), SlowStorage(0.1, 0.5, 1), ClockSkew(0.01),
        WeakGpu(0, 0, 1.5, 0.4), CongestedNetwork("replicas", 0.5, window=Window(3, 5)),
    )  # fmt: skip
    loss, gc, late, clocks, weak, congested = exact(shape, *faults).mechanisms
    assert (loss["slowed_workers"], loss["slowed_steps"]) == ([[0, 1], [1, 1]], list(range(12)))
    assert 0 < len(gc["slowed_steps"]) < 12
    assert 0 < len(late["slowed_steps"]) < 12
    assert late["slowed_workers"] == [[1, 0]]
    assert clocks["slowed_steps"] == clocks["slowed_workers"] == []
    assert 0 < len(weak["slowed_steps"]) < 12
    assert weak["slowed_workers"] == [[0, 0]]
    assert (len(congested["slowed_workers"]), congested["slowed_steps"]) == (4, [3, 4])


@pytest.mark.parametrize("name", LAYOUTS)
def test_undoing_nothing_changes_no_bit(name: str) -> None:
    simulation = Simulation(JobPlan(LAYOUTS[name], FAULTS, 3, workload=NOISY))
    usual, again = (
        simulation.timeline(),
        simulation.timeline(simulation.places_of({"pause", "communication"})),
    )
    assert np.array_equal(usual.start_us, again.start_us)
    assert np.array_equal(usual.end_us, again.end_us)


def test_asking_for_the_truth_does_not_change_the_job() -> None:
    plan = JobPlan(USUAL, FAULTS, 3, workload=NOISY)
    asked = Simulation(plan)
    true_savings(asked)
    assert recorded_job(asked).rank_steps.equals(recorded_job(Simulation(plan)).rank_steps)


@pytest.mark.parametrize(
    "mechanisms", [(), (ThermalThrottling(1, 2, 0.6, 4.0), UnevenLayers((8, 8, 8, 10)), SlowStorage(0.05))]
)
def test_the_log_has_the_same_step_time(mechanisms: tuple[Mechanism, ...]) -> None:
    simulation = Simulation(JobPlan(USUAL, mechanisms, 3))
    job = recorded_job(simulation)
    (found,) = simulate_job(job.rank_steps, job.manifest)["job_slowdown"].to_pylist()
    assert true_savings(simulation).actual_step_s == pytest.approx(found["actual_step_s"], rel=1e-6)
