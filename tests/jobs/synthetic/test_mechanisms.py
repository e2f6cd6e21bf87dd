"""Each mechanism changes what it is about, within its window, and nothing else."""

from collections.abc import Sequence

import numpy as np
import pytest

from jobs.synthetic.identity import JobIdentity
from jobs.synthetic.mechanisms.data import LEAST_WORK, PackedSequences
from jobs.synthetic.mechanisms.loading import SlowStorage
from jobs.synthetic.mechanisms.mechanism import Mechanism, Windowed
from jobs.synthetic.mechanisms.network import CongestedNetwork, FlappingLink
from jobs.synthetic.mechanisms.nuisances import (
    ClockSkew,
    ExpertImbalance,
    HeavyTailedNoise,
    PlannedGc,
    UnlikeGpus,
)
from jobs.synthetic.mechanisms.pauses import AllocatorStalls, UnsynchronisedGc
from jobs.synthetic.mechanisms.stages import LossLayer, UnevenLayers
from jobs.synthetic.mechanisms.workers import SickHost, ThermalThrottling, WeakGpu
from jobs.synthetic.shape import JobShape
from jobs.synthetic.simulation import JobPlan, Simulation
from jobs.synthetic.window import Window

SHAPE = JobShape(dp_size=4, pp_size=2, microbatches=4, steps=12, tp_size=4, vpp_size=2, noop_transfers="all")
INSIDE = Window(3, 9)
COMPUTES = ("forward-compute", "backward-compute")
TRANSFERS = ("forward-send", "forward-recv", "backward-send", "backward-recv")

TOUCHED: dict[str, tuple[Mechanism, Sequence[str], set[tuple[int, int]] | None]] = {
    "weak GPU": (WeakGpu(1, 0, 1.5, window=INSIDE), COMPUTES, {(1, 0)}),
    "throttling": (ThermalThrottling(2, 1, 0.5, 3.0, window=INSIDE), COMPUTES, {(2, 1)}),
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
    "planned gc": (PlannedGc(0.1, 2, window=INSIDE), ["gc"], None),
    "experts": (ExpertImbalance(0.1, window=INSIDE), COMPUTES, None),
    "unlike GPUs": (UnlikeGpus(0.02), COMPUTES, None),
    "clocks": (ClockSkew(0.01), [], None),
}  # fmt: skip
"""By mechanism: the op types that take longer or shorter, and the workers (None: any)."""


def simulated(*mechanisms: Mechanism, shape: JobShape = SHAPE) -> Simulation:
    return Simulation(JobPlan(shape, mechanisms, 5, JobIdentity(hosts=("a", "b", "c", "d"))))


@pytest.mark.parametrize("name", TOUCHED)
def test_changes_only_what_it_should(name: str) -> None:
    mechanism, op_types, workers = TOUCHED[name]
    simulation = simulated(mechanism)
    usual, usual_delay = simulated().times_us()
    busy, delay = simulation.times_us()
    rows, steps, dp_ranks = (axis.tolist() for axis in np.nonzero(~np.isclose(busy, usual, rtol=1e-12)))
    ops = simulation.place.ops
    outside = set(range(SHAPE.steps)) - set(range(3, 9))
    if name == "sequences":  # outside of the window its work is balanced, not as if it were not there
        for step in outside:
            balanced = busy[simulation.place.forwards(0), step] / usual[simulation.place.forwards(0), step]
            assert np.ptp(balanced) < 1e-12
    elif isinstance(mechanism, Windowed):
        assert not set(steps) & outside
    assert {ops[row].op_type for row in rows} == set(op_types)
    if workers is not None:
        assert {(dp, ops[row].pp_rank) for row, dp in zip(rows, dp_ranks, strict=True)} == workers
    assert np.array_equal(delay, usual_delay) == (name != "storage")


def test_late_data_delay_the_first_forward_of_the_first_stage() -> None:
    late = simulated(SlowStorage(0.1, dp_rank=2, window=INSIDE))
    (_, delay), (_, usual) = late.times_us(), simulated().times_us()
    rows, steps, dp_ranks = (axis.tolist() for axis in np.nonzero(delay != usual))
    assert set(rows) == {late.place.first_forwards[0]}
    assert (set(steps), set(dp_ranks)) == (set(range(3, 9)), {2})


def test_clocks_of_a_host_agree() -> None:
    ahead_s = simulated(ClockSkew(0.01)).conditions().clock_s
    assert ahead_s.shape == (2, 4)
    assert np.array_equal(ahead_s[:, ::2], ahead_s[:, 1::2])
    assert len(np.unique(ahead_s)) == 4


def test_unlike_gpus_keep_their_speed() -> None:
    simulation = simulated(UnlikeGpus(0.02))
    (busy, _), (usual, _) = simulation.times_us(), simulated().times_us()
    for pp_rank in range(SHAPE.pp_size):
        rows = np.concatenate([simulation.place.forwards(pp_rank), simulation.place.backwards(pp_rank)])
        factor = busy[rows] / usual[rows]
        assert np.ptp(factor, axis=(0, 1)).max() < 1e-12
        assert len(np.unique(factor[0, 0].round(6))) == SHAPE.dp_size
        assert 0.9 < factor.min() < factor.max() < 1.1


def test_heavy_tails_are_rare_and_long() -> None:
    (busy, _), (usual, _) = simulated(HeavyTailedNoise(0.01, 1.0)).times_us(), simulated().times_us()
    longer = busy[busy != usual] / usual[busy != usual]
    assert 0.005 < longer.size / busy.size < 0.015
    assert (longer > 1).all()
    assert longer.max() > 1.5


def test_throttling_drifts() -> None:
    simulation = simulated(ThermalThrottling(0, 0, 0.5, 4.0, window=Window(2)))
    (busy, _), (usual, _) = simulation.times_us(), simulated().times_us()
    row = simulation.place.forwards(0)[0]
    factor = busy[row, :, 0] / usual[row, :, 0]
    assert factor[:2] == pytest.approx([1.0, 1.0])
    assert factor[2] < factor[-1]
    assert 1.3 < factor[-1] < 1.7


def test_both_ends_of_a_transfer_wait_equally_long() -> None:
    simulation = simulated(FlappingLink(0, 0.01, 0.5, 0.5, dp_rank=1))
    (busy, _), (usual, _) = simulation.times_us(), simulated().times_us()
    extra = busy - usual
    hits, transfers = 0, simulation.place.transfers_from(0)
    for send, recv in transfers:
        assert extra[send] == pytest.approx(extra[recv], abs=1e-6)
        assert not extra[send][:, [0, 2, 3]].any()
        hits += int(np.count_nonzero(extra[send]))
    assert 0 < hits < SHAPE.steps * len(transfers) / 2


def test_planned_collections_meet_and_unplanned_ones_do_not() -> None:
    (planned, _), (single, _), (usual, _) = (
        simulated(*some).times_us() for some in ([PlannedGc(0.2, 4)], [UnsynchronisedGc(0.2, 4.0)], [])
    )
    hit = (planned != usual).any(axis=0)
    assert np.flatnonzero(hit.all(axis=1)).tolist() == np.flatnonzero(hit.any(axis=1)).tolist() == [3, 7, 11]
    hit = (single != usual).any(axis=0)
    assert 0 < hit.all(axis=1).sum() < hit.any(axis=1).sum()


def test_a_weak_gpu_by_direction_and_by_share_of_steps() -> None:
    simulation = simulated(WeakGpu(0, 0, 1.5, 0.5, backward_factor=1.2))
    (busy, _), (usual, _) = simulation.times_us(), simulated().times_us()
    forward, backward = (
        busy[rows, :, 0] / usual[rows, :, 0]
        for rows in (simulation.place.forwards(0), simulation.place.backwards(0))
    )
    hit = forward[0] > 1.1
    assert 0 < hit.sum() < SHAPE.steps
    assert forward == pytest.approx(np.broadcast_to(np.where(hit, 1.5, 1.0), forward.shape))
    assert backward == pytest.approx(np.broadcast_to(np.where(hit, 1.2, 1.0), backward.shape))


def test_draws_do_not_depend_on_other_mechanisms() -> None:
    """What one adds is the same among others, and two of one kind draw differently."""
    gc, stalls, link = UnsynchronisedGc(0.2, 3.0), AllocatorStalls(0.1, 0.1), FlappingLink(0, 0.01, 0.3)
    usual = simulated().times_us()[0]
    extra = {mechanism: simulated(mechanism).times_us()[0] - usual for mechanism in (gc, stalls, link)}
    together = simulated(stalls, link, gc).times_us()[0] - usual
    assert together == pytest.approx(sum(extra.values()), abs=1e-6)
    twice = simulated(gc, gc).times_us()[0] - usual
    assert not np.allclose(twice, 2 * extra[gc])


def test_undone_mechanisms_leave_the_job_as_if_they_had_never_been() -> None:
    faults = [
        WeakGpu(1, 1, 1.4, 0.5),
        UnsynchronisedGc(0.2, 3.0),
        FlappingLink(0, 0.01, 0.3),
        SlowStorage(0.1),
    ]
    for wanted, found in zip(simulated().times_us(), simulated(*faults).times_us(range(4)), strict=True):
        assert np.array_equal(wanted, found)


def test_packing_keeps_to_the_token_limit_and_has_long_tails() -> None:
    conditions = simulated(PackedSequences(8192, 700, 1.2, 2048)).conditions()
    attention = 8192 / (6 * 2048)
    assert 0.3 < conditions.linear.mean() < 1.0
    assert conditions.linear.max() <= 1.0
    assert (conditions.quadratic <= conditions.linear**2 * attention * (1 + 1e-12)).all()
    relative = conditions.quadratic / conditions.quadratic.mean()
    assert relative.max() > 2
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
    place = uneven.place
    quiet = np.ones_like(uneven._noise)
    before, after = uneven.conditions().busy_us(quiet), uneven.conditions([0]).busy_us(quiet)
    for microbatch in range(SHAPE.microbatches):
        for backward in (False, True):
            rows = place.computes[(place.microbatch == microbatch) & (place.is_backward == backward)]
            assert after[rows].sum(axis=0) == pytest.approx(before[rows].sum(axis=0), rel=1e-12)
            assert np.ptp(after[rows], axis=0).max() < 1e-6
            assert np.ptp(before[rows], axis=0).min() > 1


def test_layers_must_fit_the_chunks() -> None:
    with pytest.raises(ValueError, match="layers of 3 chunks, but 4"):
        simulated(UnevenLayers((1, 1, 2))).conditions()


def test_backward_relates_to_forward_in_its_own_way() -> None:
    """Twice the linear work and two and a half times the quadratic."""
    simulation = simulated(PackedSequences(32768, 2000, 1.3, 2048))
    busy = simulation.conditions().busy_us(np.ones_like(simulation._noise))
    ratio = busy[simulation.place.backwards(0)[0]] / busy[simulation.place.forwards(0)[0]]
    assert 2.0 < ratio.min() < ratio.max() < 2.5


def test_culprits() -> None:
    place = simulated().place
    assert WeakGpu(1, 0, 1.5).culprits(place) == {"workers": [[1, 0]]}
    assert SickHost("b", 1.3).culprits(place) == {"hosts": ["b"], "workers": [[2, 0], [3, 0]]}
    assert LossLayer(0.01, 0.02).culprits(place) == {"stages": [1], "chunks": [3]}
    assert UnevenLayers((8, 8, 9, 8)).culprits(place) == {"stages": [0], "chunks": [2]}
    assert UnevenLayers((8, 9, 9, 8)).culprits(place) == {"stages": [], "chunks": [1, 2]}
    assert FlappingLink(1, 0.1, dp_rank=3).culprits(place) == {"stages": [1], "workers": [[3, 1]]}
    assert CongestedNetwork("replicas", 0.5).culprits(place) == {
        "op_types": ["grads-reduce-scatter", "params-all-gather"]
    }
