"""A job's true savings equal values computed by hand, and computing them leaves its logs unchanged."""

from dataclasses import replace

import numpy as np
import pytest

from jobs.synthetic.job import recorded_job
from jobs.synthetic.mechanisms.mechanism import Mechanism, Window
from jobs.synthetic.mechanisms.nuisances import ClockSkew, PlannedGc
from jobs.synthetic.mechanisms.transfers import CongestedNetwork, SlowStorage
from jobs.synthetic.mechanisms.work import LossLayer, UnevenLayers
from jobs.synthetic.mechanisms.workers import ThermalThrottling, UnsynchronisedGc, WeakGpu
from jobs.synthetic.shape import JobShape
from jobs.synthetic.simulation import JobPlan, Simulation, Truth, true_savings
from schemas.vocabulary import FIXABLE_CAUSES
from tests.support.random_jobs import EXACT, FAULTS, LAYOUTS, NOISY, PAIR, PAIR_STEP_S, USUAL
from udfs.what_if import simulate_job

CHAIN = JobShape(pp_size=2, microbatches=1, steps=2)
FULL = replace(CHAIN, microbatches=4)


def exact(shape: JobShape, *mechanisms: Mechanism) -> Truth:
    return true_savings(Simulation(JobPlan(shape, mechanisms, seed=1, workload=EXACT)))


@pytest.mark.parametrize(
    ("mechanisms", "cause", "saved_s"),
    [
        ([], "pause", 0.0),
        # The slow worker computes 0.45 s instead of 0.3 s; its peer waits in the reduce-scatter.
        ([WeakGpu(1, 0, 1.5)], "slow_worker", 0.15),
        ([WeakGpu(1, 0, 1.5, window=Window(1, 3))], "slow_worker", 0.075),
        ([WeakGpu(0, 0, 1.5), WeakGpu(1, 0, 1.2)], "slow_worker", 0.15),
        ([CongestedNetwork("replicas", 0.25)], "communication", 0.09),
        ([PlannedGc(0.1, 9), ClockSkew(0.01)], "pause", 0.0),
    ],
)
def test_savings_by_hand(mechanisms: list[Mechanism], cause: str, saved_s: float) -> None:
    truth = exact(PAIR, *mechanisms)
    assert truth.actual_step_s == pytest.approx(PAIR_STEP_S + saved_s, rel=1e-12)
    wanted = {**dict.fromkeys(FIXABLE_CAUSES, 0.0), cause: saved_s / (PAIR_STEP_S + saved_s)}
    assert truth.time_saved_fraction == pytest.approx(wanted, abs=1e-12)
    assert truth.all_causes_fraction == truth.time_saved_fraction[cause]


def test_two_slow_replicas_hide_each_other() -> None:
    """Of two slow replicas, fixing the slower one saves only its excess over the other.

    Mending the other alone saves nothing.
    """
    found = exact(PAIR, WeakGpu(0, 0, 1.5), WeakGpu(1, 0, 1.2)).mechanisms
    alone = [mechanism["time_saved_fraction"] for mechanism in found]
    assert alone == pytest.approx([0.09 / (PAIR_STEP_S + 0.15), 0.0], abs=1e-12)


@pytest.mark.parametrize(
    ("shape", "with_s", "without_s"), [(CHAIN, 0.905, 0.905), (FULL, 0.1 + 4 * 0.6 + 0.205, 5 * 0.45 + 0.005)]
)
def test_a_loss_layer_by_hand(shape: JobShape, with_s: float, without_s: float) -> None:
    """With one microbatch, distributing a loss layer evenly over two stages saves nothing.

    With four microbatches the last stage is the bottleneck. If the layer is distributed, three of its four
    passes overlap with work of the first stage.
    """
    truth = exact(shape, LossLayer(0.1, 0.2))
    assert truth.actual_step_s == pytest.approx(with_s, rel=1e-4)
    saved = truth.time_saved_fraction["stage_imbalance"]
    assert saved == pytest.approx(1 - without_s / with_s, rel=1e-4, abs=1e-12)


def test_late_data_are_a_delay_and_planned_collections_a_nuisance() -> None:
    shape = JobShape(dp_size=2, pp_size=2, steps=40)
    late = exact(shape, SlowStorage(0.1))
    assert late.time_saved_fraction["launch_delay"] > 0.05
    assert late.all_causes_fraction == pytest.approx(late.time_saved_fraction["launch_delay"], rel=1e-12)
    planned = exact(shape, PlannedGc(0.1, 4), ClockSkew(0.01))
    assert planned.nuisances_fraction > 0.005
    assert set(planned.time_saved_fraction.values()) == {0.0}


def test_the_usual_delay_of_the_first_computes_counts_as_a_launch_delay() -> None:
    """The usual delay of a step's first computes counts as launch delay; that of other ops does not."""
    simulation = Simulation(JobPlan(PAIR, (), 1, workload=replace(EXACT, launch_s=0.01)))
    late = simulation._launch_us[simulation.place.first_forwards[0]]
    truth = true_savings(simulation)
    saved_s = truth.time_saved_fraction["launch_delay"] * truth.actual_step_s
    assert late.min(axis=1).mean() / 1e6 <= saved_s <= late.max(axis=1).mean() / 1e6
    assert truth.all_causes_fraction == truth.time_saved_fraction["launch_delay"]


def test_where_mechanisms_struck() -> None:
    """For each simulated fault, the truth names the slowed steps and workers, but no workers that wait."""
    shape = JobShape(dp_size=2, pp_size=2, microbatches=4, steps=12)
    faults = (
        LossLayer(0.1, 0.2), UnsynchronisedGc(0.5, 12.0), SlowStorage(0.1, 0.5, 1), ClockSkew(0.01),
        WeakGpu(0, 0, 1.5, 0.4), CongestedNetwork("replicas", 0.5, window=Window(3, 5)),
    )  # fmt: skip
    found = exact(shape, *faults).mechanisms
    steps = [each["slowed_steps"] for each in found]
    workers = [each["slowed_workers"] for each in found]
    every = [0, 1, 2, 3, 4, 105, 106, 107, 108, 109, 210, 211]
    assert (steps[0], steps[3], steps[5]) == (every, [], [3, 4])
    assert all(0 < len(steps[each]) < 12 for each in (1, 2, 4))
    assert (workers[0], *workers[2:5]) == ([[0, 1], [1, 1]], [[1, 0]], [], [[0, 0]])
    assert len(workers[5]) == 4


@pytest.mark.parametrize("name", LAYOUTS)
def test_undoing_nothing_changes_no_bit(name: str) -> None:
    simulation = Simulation(JobPlan(LAYOUTS[name], FAULTS, 3, workload=NOISY))
    nothing = simulation.places_of({"pause", "communication"})
    usual, again = simulation.timeline(), simulation.timeline(nothing)
    assert np.array_equal(usual.start_us, again.start_us)
    assert np.array_equal(usual.end_us, again.end_us)


@pytest.mark.parametrize(
    "mechanisms", [(), (ThermalThrottling(1, 2, 0.6, 4.0), UnevenLayers((8, 8, 8, 10)), SlowStorage(0.05))]
)
def test_the_log_has_the_same_step_time(mechanisms: tuple[Mechanism, ...]) -> None:
    """The log has the simulated step time; computing the true savings first does not change the log."""
    simulation, asked = (Simulation(JobPlan(USUAL, mechanisms, 3)) for _ in range(2))
    truth, job = true_savings(asked), recorded_job(simulation)
    assert recorded_job(asked).rank_steps.equals(job.rank_steps)
    (found,) = simulate_job(job.rank_steps, job.manifest)["job_slowdown"].to_pylist()
    assert truth.actual_step_s == pytest.approx(found["actual_step_s"], rel=1e-6)
