"""Test simulated faults: which op types, workers and steps each changes, and by how much."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from jobs.synthetic.mechanisms.mechanism import Mechanism, Window, Windowed
from jobs.synthetic.mechanisms.nuisances import (
    ClockSkew,
    ExpertImbalance,
    HeavyTailedNoise,
    PlannedGc,
    UnlikeGpus,
)
from jobs.synthetic.mechanisms.transfers import CongestedNetwork, FlappingLink, SlowReads, SlowStorage
from jobs.synthetic.mechanisms.work import LEAST_WORK, LossLayer, PackedSequences, UnevenLayers
from jobs.synthetic.mechanisms.workers import (
    AllocatorStalls,
    SickHost,
    ThermalThrottling,
    UnsynchronisedGc,
    WeakGpu,
)
from jobs.synthetic.shape import JobIdentity, JobShape
from jobs.synthetic.simulation import JobPlan, Simulation
from tests.support.sampled import UnevenLoads

SHAPE = JobShape(
    dp_size=4,
    pp_size=2,
    microbatches=4,
    steps=12,
    tp_size=4,
    vpp_size=2,
    noop_transfers="all",
    loads_data=True,
)
INSIDE = Window(3, 9)
COMPUTES = ("forward-compute", "backward-compute")
TRANSFERS = ("forward-send", "forward-recv", "backward-send", "backward-recv")

TOUCHED: dict[str, tuple[Mechanism, Sequence[str], set[tuple[int, int]] | None]] = {
    "weak GPU": (WeakGpu(1, 0, 1.5, window=INSIDE), COMPUTES, {(1, 0)}),
    "throttling": (ThermalThrottling(2, 1, 0.5, 3.0, window=INSIDE), COMPUTES, {(2, 1)}),
    "weak in forwards": (WeakGpu(1, 0, 1.5, direction="forward", window=INSIDE), COMPUTES[:1], {(1, 0)}),
    "weak in backwards": (WeakGpu(1, 0, 1.5, direction="backward", window=INSIDE), COMPUTES[1:], {(1, 0)}),
    "weak optimizer": (WeakGpu(1, 0, 1.5, direction="optimizer", window=INSIDE), ["optimizer"], {(1, 0)}),
    "host in backwards": (
        SickHost("b", 1.3, direction="backward", window=INSIDE), COMPUTES[1:], {(2, 0), (3, 0)},
    ),
    "link of backwards": (FlappingLink(1, 0.01, direction="backward", window=INSIDE), TRANSFERS[2:], None),
    "link of forwards": (FlappingLink(0, 0.01, direction="forward", window=INSIDE), TRANSFERS[:2], None),
    "sick host": (SickHost("b", 1.3, window=INSIDE), COMPUTES, {(2, 0), (3, 0)}),
    "loss layer": (LossLayer(0.01, 0.02), COMPUTES, {(dp_rank, 1) for dp_rank in range(4)}),
    "layers": (UnevenLayers((8, 8, 9, 8)), COMPUTES, None),
    "sequences": (PackedSequences(8192, 1000, 1.0, window=INSIDE), COMPUTES, None),
    "gc": (UnsynchronisedGc(0.2, 2.0, window=INSIDE), ["forward-compute"], None),
    "stalls": (AllocatorStalls(0.1, 0.3, window=INSIDE), ["forward-compute"], None),
    "link": (FlappingLink(0, 0.01, window=INSIDE), TRANSFERS, None),
    "congested replicas": (
        CongestedNetwork("replicas", 0.3, window=INSIDE), ["params-all-gather", "grads-reduce-scatter"], None,
    ),
    "congested pipeline": (CongestedNetwork("pipeline", 0.3, window=INSIDE), TRANSFERS, None),
    "storage": (SlowStorage(0.1, window=INSIDE), [], None),
    "reads": (SlowReads(0.1, dp_rank=2, window=INSIDE), ["data-load"], {(2, 0), (2, 1)}),
    "uneven loads": (UnevenLoads(0.5), ["data-load"], None),
    "planned gc": (PlannedGc(0.1, 2, window=INSIDE), ["gc"], None),
    "experts": (ExpertImbalance(0.1, window=INSIDE), COMPUTES, None),
    "unlike GPUs": (UnlikeGpus(0.02), COMPUTES, None),
    "clocks": (ClockSkew(0.01), [], None),
}  # fmt: skip
"""By name: a mechanism, the op types whose durations it changes, and the workers; None: all workers."""


def simulated(*mechanisms: Mechanism, shape: JobShape = SHAPE) -> Simulation:
    return Simulation(JobPlan(shape, mechanisms, 5, JobIdentity(hosts=("a", "b", "c", "d"))))


PLACE: Final = simulated().place
USUAL, USUAL_DELAY = simulated().times_us()


def busy(*mechanisms: Mechanism) -> np.ndarray:
    return simulated(*mechanisms).times_us()[0]


def ratio(mechanism: Mechanism) -> np.ndarray:
    """Return each op's duration with the fault, divided by that without it; 1 for ops of zero duration."""
    found: np.ndarray = np.divide(busy(mechanism), USUAL, out=np.ones_like(USUAL), where=USUAL > 0)
    return found


def quiet(simulation: Simulation, *without: int) -> np.ndarray:
    """Return the durations of ops without noise, and without the faults with these numbers. [us]"""
    return simulation.conditions(without).busy_us(np.ones_like(simulation._noise))


@pytest.mark.parametrize("name", TOUCHED)
def test_changes_only_what_it_should(name: str) -> None:
    mechanism, op_types, workers = TOUCHED[name]
    found, delay = simulated(mechanism).times_us()
    rows, steps, dp_ranks = (axis.tolist() for axis in np.nonzero(~np.isclose(found, USUAL, rtol=1e-12)))
    ops = PLACE.ops
    outside = set(range(SHAPE.steps)) - set(range(3, 9))
    if name == "sequences":  # this mechanism also balances the steps outside of its window
        for step in outside:
            balanced = found[PLACE.forwards(0), step] / USUAL[PLACE.forwards(0), step]
            assert np.ptp(balanced) < 1e-12
    elif isinstance(mechanism, Windowed):
        assert not set(steps) & outside
    assert {ops[row].op_type for row in rows} == set(op_types)
    if workers is not None:
        assert {(dp, ops[row].pp_rank) for row, dp in zip(rows, dp_ranks, strict=True)} == workers
    assert np.array_equal(delay, USUAL_DELAY) == (name != "storage")


def test_windows_count_recorded_steps() -> None:
    assert Window(2, 4).mask(6).tolist() == [False, False, True, True, False, False]
    assert Window(4).mask(6).tolist() == [False] * 4 + [True] * 2
    assert WeakGpu(0, 0, 2.0, window=Window(2, 14)).part(10, 20) == WeakGpu(0, 0, 2.0, window=Window(-8, 4))
    assert WeakGpu(0, 0, 2.0, window=Window(2, 10)).part(10, 20) is None
    assert LossLayer(0.1, 0.1).part(10, 20) == LossLayer(0.1, 0.1)
    with pytest.raises(ValueError, match="starts at step 5 cannot end at 4"):
        Window(5, 4)


def test_late_data_delay_the_first_forward_of_the_first_stage() -> None:
    delay = simulated(SlowStorage(0.1, dp_rank=2, window=INSIDE)).times_us()[1]
    rows, steps, dp_ranks = (set(axis.tolist()) for axis in np.nonzero(delay != USUAL_DELAY))
    assert (rows, steps, dp_ranks) == ({PLACE.first_forwards[0]}, set(range(3, 9)), {2})


def test_clocks_of_a_host_agree() -> None:
    ahead_s = simulated(ClockSkew(0.01)).conditions().clock_s
    assert ahead_s.shape == (2, 4)
    assert np.array_equal(ahead_s[:, ::2], ahead_s[:, 1::2])
    assert len(np.unique(ahead_s)) == 4


def test_unlike_gpus_keep_their_speed() -> None:
    found = ratio(UnlikeGpus(0.02))
    for pp_rank in range(SHAPE.pp_size):
        factor = found[PLACE.rows(*COMPUTES, pp_rank=pp_rank)]
        assert np.ptp(factor, axis=(0, 1)).max() < 1e-12
        assert len(np.unique(factor[0, 0].round(6))) == SHAPE.dp_size
        assert 0.9 < factor.min() < factor.max() < 1.1


def test_heavy_tails_are_rare_and_long() -> None:
    found = ratio(HeavyTailedNoise(0.01, 1.0))
    longer = found[found != 1]
    assert 0.005 < longer.size / found.size < 0.015
    assert longer.min() > 1
    assert longer.max() > 1.5


def test_throttling_drifts() -> None:
    factor = ratio(ThermalThrottling(0, 0, 0.5, 4.0, window=Window(2)))[PLACE.forwards(0)[0], :, 0]
    assert factor[:2] == pytest.approx([1.0, 1.0])
    assert factor[2] < factor[-1]
    assert 1.3 < factor[-1] < 1.7


def test_both_ends_of_a_transfer_wait_equally_long() -> None:
    extra = busy(FlappingLink(0, 0.01, 0.5, 0.5, dp_rank=1)) - USUAL
    hits, transfers = 0, PLACE.transfers_from(0)
    for send, recv in transfers:
        assert extra[send] == pytest.approx(extra[recv], abs=1e-6)
        assert not extra[send][:, [0, 2, 3]].any()
        hits += int(np.count_nonzero(extra[send]))
    assert 0 < hits < SHAPE.steps * len(transfers) / 2


def test_planned_collections_meet_and_unplanned_ones_do_not() -> None:
    planned, single = (
        (busy(each) != USUAL).any(axis=0) for each in (PlannedGc(0.2, 4), UnsynchronisedGc(0.2, 4.0))
    )
    assert (
        np.flatnonzero(planned.all(axis=1)).tolist()
        == np.flatnonzero(planned.any(axis=1)).tolist()
        == [3, 7, 11]
    )
    assert 0 < single.all(axis=1).sum() < single.any(axis=1).sum()


def test_a_weak_gpu_by_direction_and_by_share_of_steps() -> None:
    found = ratio(WeakGpu(0, 0, 1.5, 0.5, backward_factor=1.2))[:, :, 0]
    forward, backward = found[PLACE.forwards(0)], found[PLACE.backwards(0)]
    hit = forward[0] > 1.1
    assert 0 < hit.sum() < SHAPE.steps
    assert forward == pytest.approx(np.broadcast_to(np.where(hit, 1.5, 1.0), forward.shape))
    assert backward == pytest.approx(np.broadcast_to(np.where(hit, 1.2, 1.0), backward.shape))


def test_draws_do_not_depend_on_other_mechanisms() -> None:
    """A fault draws the same random numbers whatever other faults the job has."""
    some = UnsynchronisedGc(0.2, 3.0), AllocatorStalls(0.1, 0.1), FlappingLink(0, 0.01, 0.3)
    extra = [busy(mechanism) - USUAL for mechanism in some]
    assert busy(*reversed(some)) - USUAL == pytest.approx(sum(extra), abs=1e-6)
    assert not np.allclose(busy(some[0], some[0]) - USUAL, 2 * extra[0])


def test_undone_mechanisms_leave_the_job_as_if_they_had_never_been() -> None:
    faults = WeakGpu(1, 1, 1.4, 0.5), UnsynchronisedGc(0.2, 3.0), FlappingLink(0, 0.01, 0.3), SlowStorage(0.1)
    found, delay = simulated(*faults).times_us(range(4))
    assert np.array_equal(found, USUAL)
    assert np.array_equal(delay, USUAL_DELAY)


def test_packing_keeps_to_the_token_limit_and_has_long_tails() -> None:
    conditions = simulated(PackedSequences(8192, 700, 1.2, 2048)).conditions()
    attention = 8192 / (6 * 2048)
    assert 0.3 < conditions.linear.mean() < 1.0
    assert conditions.linear.max() <= 1.0
    assert (conditions.quadratic <= conditions.linear**2 * attention * (1 + 1e-12)).all()
    assert (conditions.quadratic / conditions.quadratic.mean()).max() > 2
    assert np.corrcoef(conditions.linear.ravel(), conditions.quadratic.ravel())[0, 1] < 0.9


def test_a_microbatch_of_few_tokens_still_launches_every_kernel() -> None:
    work = simulated(PackedSequences(8192, 40, 2.5)).conditions().linear
    assert work.min() == LEAST_WORK
    assert work.max() > 20 * LEAST_WORK


@pytest.mark.parametrize("window", [Window(), INSIDE])
def test_balanced_data_are_the_same_work_in_each_step(window: Window) -> None:
    uneven = simulated(PackedSequences(8192, 700, 1.2, window=window))
    before, after = uneven.conditions(), uneven.conditions([0])
    for name in ("linear", "quadratic"):
        was, now = getattr(before, name), getattr(after, name)
        assert now.sum(axis=(0, 2)) == pytest.approx(was.sum(axis=(0, 2)), rel=1e-12)
        assert not np.allclose(was[:, 3:9], now[:, 3:9])
        assert np.ptp(now, axis=(0, 2)).max() == 0.0
    assert np.array_equal(before.linear[:, 9:], after.linear[:, 9:]) == (window == INSIDE)


@pytest.mark.parametrize("mechanism", [LossLayer(0.01, 0.03), UnevenLayers((8, 8, 9, 5))])
def test_spread_stages_are_the_same_work_for_each_microbatch(mechanism: Mechanism) -> None:
    uneven = simulated(mechanism, PackedSequences(8192, 700, 1.2))
    before, after = quiet(uneven), quiet(uneven, 0)
    for microbatch in range(SHAPE.microbatches):
        for op_type in COMPUTES:
            rows = [row for row in PLACE.rows(op_type) if PLACE.microbatch[row] == microbatch]
            assert after[rows].sum(axis=0) == pytest.approx(before[rows].sum(axis=0), rel=1e-12)
            assert np.ptp(after[rows], axis=0).max() < 1e-6
            assert np.ptp(before[rows], axis=0).min() > 1


def test_layers_must_fit_the_chunks() -> None:
    with pytest.raises(ValueError, match="layers of 3 chunks, but 4"):
        simulated(UnevenLayers((1, 1, 2))).conditions()


def test_backward_relates_to_forward_in_its_own_way() -> None:
    """Backward takes 2 times as long as forward in linear layers, and 2.5 times as long in attention."""
    times = quiet(simulated(PackedSequences(32768, 2000, 1.3, 2048)))
    both_ways = times[PLACE.backwards(0)[0]] / times[PLACE.forwards(0)[0]]
    assert 2.0 < both_ways.min() < both_ways.max() < 2.5


@pytest.mark.parametrize(
    ("mechanism", "culprits"),
    [
        (WeakGpu(1, 0, 1.5), {"workers": [[1, 0]]}),
        (SickHost("b", 1.3), {"hosts": ["b"], "workers": [[2, 0], [3, 0]]}),
        (LossLayer(0.01, 0.02), {"stages": [1], "chunks": [3]}),
        (UnevenLayers((8, 8, 9, 8)), {"stages": [0], "chunks": [2]}),
        (UnevenLayers((8, 9, 9, 8)), {"stages": [], "chunks": [1, 2]}),
        (FlappingLink(1, 0.1, dp_rank=3), {"stages": [1], "workers": [[3, 1]]}),
        (CongestedNetwork("replicas", 0.5), {"op_types": ["grads-reduce-scatter", "params-all-gather"]}),
    ],
)
def test_culprits(mechanism: Mechanism, culprits: dict[str, object]) -> None:
    assert mechanism.culprits(PLACE) == culprits


@pytest.mark.parametrize("whole", [WeakGpu(1, 0, 1.5), SickHost("b", 1.5), FlappingLink(0, 0.01)])
def test_what_grows_is_whole_in_the_last_step_of_its_window(whole: Windowed) -> None:
    usual = quiet(simulated())
    grown, own = (
        (quiet(simulated(replace(whole, window=Window(2, 10, grows=grows)))) - usual).sum(axis=(0, 2))
        for grows in (True, False)
    )
    share = grown[2:10] / own[2:10]
    np.testing.assert_allclose(share, np.arange(1, 9) / 8)
    assert not grown[[0, 1, 10, 11]].any()


def test_a_window_that_grows_needs_an_end() -> None:
    with pytest.raises(ValueError, match="needs an end"):
        Window(3, grows=True)


def test_what_is_slow_in_both_directions_says_nothing_of_them() -> None:
    assert "direction" not in WeakGpu(1, 0, 1.5).parameters()
    assert WeakGpu(1, 0, 1.5, direction="forward").parameters()["direction"] == "forward"
