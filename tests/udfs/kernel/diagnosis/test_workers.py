"""Slow workers, replicas and stages are distinguished from uneven data, in compute times made by hand."""

import warnings
from typing import Final

import numpy as np
import pytest

from udfs.kernel.arrays import Floats
from udfs.kernel.diagnosis.block_times import Tensor
from udfs.kernel.diagnosis.lasting import lasting_levels
from udfs.kernel.diagnosis.workers import slow_workers

SHAPE: Final = (4, 2, 1, 8, 12, 4)
"""Axes are (stage, direction, chunk, microbatch, step, dp_rank)."""
UNKNOWN: Final = np.full((4, 4), -1)
IN_TIME: Final = np.arange(12)
NOISE: Final = 0.003
NEAR: Final = 0.004
FORWARD, BACKWARD = 0, 1
PEER: Final = np.array([0])


@pytest.fixture
def logs() -> Tensor:
    """Draw logarithms of forwards of 1 s and backwards of 2 s with noise of 0.3 %."""
    base = np.log(np.array([1.0, 2.0]))[:, None, None, None, None]
    healthy: Tensor = base + NOISE * np.random.default_rng(4).standard_normal(SHAPE)
    return healthy


def weights(seed: int = 6) -> Floats:
    """Draw log weights of microbatches, shape (microbatch, step, dp_rank)."""
    found: Floats = 0.2 * np.random.default_rng(seed).standard_normal(SHAPE[3:])
    return found


def cells(logs: Tensor) -> Floats:
    return slow_workers(logs, UNKNOWN)[0].cells()


def test_healthy_workers_are_not_slow(logs: Tensor) -> None:
    assert not cells(logs).any()
    assert not cells(logs + weights()).any(), "uneven data make no worker slow"


@pytest.mark.parametrize("direction", [FORWARD, BACKWARD])
@pytest.mark.parametrize("first", [0, 5])
@pytest.mark.parametrize("is_uneven", [False, True])
def test_one_direction_of_one_worker_from_a_step_on(
    logs: Tensor, direction: int, first: int, is_uneven: bool
) -> None:
    logs[1, direction, :, :, first:, 2] += np.log(1.3)
    if is_uneven:
        logs += weights()
    wanted = np.zeros((4, 2, 12, 4))
    wanted[1, direction, first:, 2] = np.log(1.3)
    np.testing.assert_allclose(cells(logs), wanted, atol=3 * NEAR if is_uneven else NEAR)


def test_data_that_are_longer_in_a_replica_in_a_step_are_no_slow_replica(logs: Tensor) -> None:
    """A replica with heavy data in one step does not count as slow, though all its stages take longer."""
    weight = weights()
    weight[:, 7, 1] += 0.1
    workers, usual, found = slow_workers(logs + weight, UNKNOWN)
    assert not workers.cells().any()
    assert workers.is_uneven.all()
    assert (logs + weight - usual - found).std() < 2 * NOISE, "the weights explain the rest"


@pytest.mark.parametrize("microbatches", [4, 8])
def test_in_steps_in_which_every_second_op_is_long_a_worker_is_slow_if_its_light_ops_are(
    logs: Tensor, microbatches: int
) -> None:
    """If half of the ops of some steps are long, a worker is slow only if its other ops are slow too."""
    bursts = logs[:, :, :, :microbatches].copy()
    rng = np.random.default_rng(8)
    bursts[..., 7:, :] += 0.5 * (rng.random(bursts[..., 7:, :].shape) < 0.5)
    assert np.exp(cells(bursts)).max() < 1.05
    bursts[1, BACKWARD, :, :, 7:, 2] += 0.6
    found = cells(bursts)
    np.testing.assert_allclose(found[1, BACKWARD, 7:, 2], 0.6, atol=0.15)
    found[1, BACKWARD, 7:, 2] = 0.0
    assert np.exp(found).max() < 1.05


def test_a_replica_that_is_always_slow_is_slow_beside_uneven_data(logs: Tensor) -> None:
    logs = logs + weights() / 4
    logs[..., 3] += np.log(1.5)
    found = cells(logs).mean(axis=2)
    np.testing.assert_allclose(found[..., 3], np.log(1.5), atol=0.03)
    assert not found[..., :3].any()


def test_a_replica_slow_in_steps_whose_data_are_even_is_slow(logs: Tensor) -> None:
    logs[..., 6:, 3] += 0.1
    wanted = np.zeros((4, 2, 12, 4))
    wanted[..., 6:, 3] = 0.1
    np.testing.assert_allclose(cells(logs), wanted, atol=NEAR)


def test_all_workers_of_a_stage_from_a_step_on_are_slow_and_always_are_heavy(logs: Tensor) -> None:
    logs[2, :, :, :, 8:] += 0.3
    workers, usual, _ = slow_workers(logs, UNKNOWN)
    wanted = np.zeros((4, 2, 12))
    wanted[2, :, 8:] = 0.3
    np.testing.assert_allclose(workers.stage, wanted, atol=NEAR)
    np.testing.assert_allclose(usual[:, 0, 0, 0, 0, 0], 0.0, atol=NEAR)
    logs[2, :, :, :, :8] += 0.3
    workers, usual, _ = slow_workers(logs, UNKNOWN)
    assert not workers.cells().any()
    np.testing.assert_allclose(usual[:, 0, 0, 0, 0, 0], [0.0, 0.0, 0.3, 0.0], atol=NEAR)


def test_with_one_stage_what_lengthens_backwards_alone_is_no_data(logs: Tensor) -> None:
    alone = logs[:1] + weights()
    alone[0, BACKWARD, :, :, :, 1] += np.log(2.0)
    workers = slow_workers(alone, UNKNOWN[:1])[0]
    np.testing.assert_allclose(workers.own[0, BACKWARD, :, 1], np.log(2.0), atol=0.02)
    assert not workers.own[0, FORWARD].any()


@pytest.mark.parametrize("slow", [0, 2])
def test_single_microbatches_show_slow_workers_too(logs: Tensor, slow: int) -> None:
    single = logs[:, :, :, :1].copy()
    wanted = np.zeros((4, 2, 12, 4))
    wanted[0, :, 4:, :1] = 0.2 * (slow > 0)
    single += wanted[:, :, None, None]
    np.testing.assert_allclose(cells(single), wanted, atol=2 * NEAR)


def test_a_replica_slow_from_a_step_on_is_slow_since_then_beside_uneven_data(logs: Tensor) -> None:
    """A replica that is slow from step 4 on is found, though uneven data may explain any single step."""
    logs = logs + weights() / 2
    logs[..., 4:, 3] += 0.25
    found = cells(logs).mean(axis=(0, 1))
    assert not found[:4].any()
    assert (found[5:, 3] > 0.1).all()


def test_what_is_too_little_to_be_seen_in_a_step_is_seen_in_all_and_is_data(logs: Tensor) -> None:
    little = logs + weights() / 18
    assert slow_workers(little, UNKNOWN)[0].is_uneven.all()
    assert not slow_workers(logs, UNKNOWN)[0].is_uneven.any()


def test_what_is_uneven_in_one_direction_alone_is_no_data(logs: Tensor) -> None:
    logs[:, 0] += weights()[None, None] / 7
    assert not slow_workers(logs, UNKNOWN)[0].is_uneven.any()


@pytest.mark.parametrize("slow", [range(6, 20), range(14), range(20)])
def test_what_lasts_is_known_since_when_though_each_step_may_be_luck(slow: range) -> None:
    shared, wanted = np.zeros((20, 3)), np.zeros((20, 3))
    shared[slow, 1] = wanted[slow, 1] = 0.25
    shared[10, 2] = 0.3
    may_be_luck, luck = np.ones((20, 3), dtype=bool), np.full((20, 3), 0.07)
    found = lasting_levels(shared, may_be_luck, luck, np.array([0, 2]), is_one_stage=False)
    np.testing.assert_allclose(found, wanted)


def test_data_of_few_heavy_microbatches_hide_no_dp_rank_that_is_slow_in_every_step() -> None:
    """Beside few heavy microbatches, a dp rank is found that is slow by the same amount in every step."""
    noise = np.random.default_rng(3).normal(0.0, 1.0, (25, 4))
    luck, may_be_luck = np.full((25, 4), 0.26), np.ones((25, 4), dtype=bool)
    for scatter, is_slow in ((0.05, True), (0.26, False)):
        shared = scatter * noise
        shared[:, 1] += 0.2
        found = lasting_levels(shared, may_be_luck, luck, np.array([0, 3]), is_one_stage=True)
        assert (found > 0.15).any(axis=0).tolist() == [False, is_slow, False, False]
        assert not found[:, [0, 2, 3]].any()


@pytest.mark.parametrize(("level", "is_slow"), [(0.2, False), (0.5, True)])
def test_data_that_are_uneven_from_a_step_on_give_luck_from_there(level: float, is_slow: bool) -> None:
    """If data are uneven only from some step on, chance explains slowness only from that step on."""
    shared, luck, may_be_luck = np.zeros((50, 4)), np.zeros((50, 4)), np.ones((50, 4), dtype=bool)
    shared[36:, 1], luck[36:] = level, 0.26
    found = lasting_levels(shared, may_be_luck, luck, np.array([0, 3]), is_one_stage=True)
    np.testing.assert_array_equal(found.any(axis=0), [False, is_slow, False, False])


def test_of_two_dp_ranks_the_luck_of_either_counts() -> None:
    """One of two dp ranks is named only if uneven data of both together do not explain its slowness."""
    luck, may_be_luck = np.full((10, 2), 0.3), np.ones((10, 2), dtype=bool)
    for level, is_slow in ((0.55, False), (0.65, True)):
        found = lasting_levels(np.tile([0.0, level], (10, 1)), may_be_luck, luck, PEER, is_one_stage=True)
        assert found.any() == is_slow


def test_a_replica_slow_in_steps_of_even_data_is_slow_in_the_others_too(logs: Tensor) -> None:
    weight = weights()
    weight[:, :9] = 0.0
    logs = logs + weight
    logs[..., 3] += 0.3
    workers = slow_workers(logs, UNKNOWN)[0]
    assert workers.is_uneven.tolist() == [False] * 9 + [True] * 3
    found = workers.cells()
    np.testing.assert_allclose(found[..., 3], 0.3, atol=0.01)
    assert not found[..., :3].any()


def test_pauses_in_most_steps_of_single_microbatches_are_no_noise(logs: Tensor) -> None:
    """If most steps of single microbatches have a pause, the pauses do not count as noise."""
    single = logs[:1, :, :, :1].copy()
    rng = np.random.default_rng(2)
    is_long = rng.random((12, 4)) < 0.4
    single[0, FORWARD, 0, 0] += np.where(is_long, rng.uniform(1.0, 2.0, (12, 4)), 0.0)
    assert is_long.sum(axis=1).max() == 3, "in some steps most workers pause"
    workers = slow_workers(single, UNKNOWN[:1])[0]
    assert workers.error.max() < 4 * NOISE
    assert workers.common.max() < NEAR, "a step is not slow if one of its workers is not"


@pytest.mark.parametrize("direction", [FORWARD, BACKWARD])
def test_of_one_worker_what_comes_and_goes_in_one_direction_is_no_slow_step(
    logs: Tensor, direction: int
) -> None:
    """If a job has one worker with two ops per step, a step is slow only if both ops are long."""
    alone, is_long = logs[:1, :, :, :1, :, :1].copy(), np.isin(IN_TIME, [1, 2, 5, 7, 10])
    alone[0, direction, 0, 0, is_long] += 0.6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        slow_workers(logs[:1, :, :, :1, :, :1], np.array([[-1]]))
        workers = slow_workers(alone, np.array([[-1]]))[0]
    assert workers.common.max() < 4 * NOISE
    alone[0, 1 - direction, 0, 0, is_long] += 0.5
    workers = slow_workers(alone, np.array([[-1]]))[0]
    np.testing.assert_allclose(workers.common[direction, is_long], 0.6, atol=4 * NOISE)


def test_a_worker_slow_in_one_step_of_few_is_slow_beside_uneven_data(logs: Tensor) -> None:
    few = logs[:1, ..., :4, :] + weights()[:, :4]
    few[..., 3, 2] += 0.7
    found = slow_workers(few, UNKNOWN[:1])[0].cells()
    np.testing.assert_allclose(found[0, :, 3, 2], 0.7, atol=0.2)
    assert np.count_nonzero(found) == 2, "both directions of one worker in one step"


@pytest.mark.parametrize("slow", [0, 1, 2])
def test_of_three_replicas_the_one_that_is_always_slow_is_slow_beside_data_of_long_tail(slow: int) -> None:
    """One of three replicas that is always slow is found although a few microbatches are very light."""
    rng = np.random.default_rng(8)
    weight = 0.2 * rng.standard_normal((12, 36, 3)) - np.where(rng.random((12, 36, 3)) < 0.1, 2.0, 0.0)
    three = NOISE * rng.standard_normal((1, 2, 1, 12, 36, 3)) + weight
    unknown = np.full((1, 3), -1)
    assert not slow_workers(three, unknown)[0].cells().any()
    three[..., slow] += 0.15
    found = slow_workers(three, unknown)[0].cells()[0]
    np.testing.assert_allclose(found[..., slow], 0.15, atol=0.06)
    assert not np.delete(found, slow, axis=2).any()


def test_most_heavy_microbatches_of_a_step_in_one_replica_are_data(logs: Tensor) -> None:
    """If 6 of 8 microbatches are long in a step of a replica, its data are heavy; if all 8, it is slow."""
    logs = logs + weights() / 10
    logs[:, :, :, :6, 7, 2] += 1.0
    assert not cells(logs).any()
    logs[:, :, :, 6:, 7, 2] += 1.0
    assert np.argwhere(cells(logs)[0, 0]).tolist() == [[7, 2]], (
        "the worker is slow if all its microbatches are long"
    )


def test_half_of_the_replicas_that_are_always_slow_are_slow_beside_data_of_few_microbatches() -> None:
    """Four of eight replicas that are always slow are found although the few microbatches are uneven."""
    rng = np.random.default_rng(2)
    few = 0.4 * rng.standard_normal((4, 30, 8)) + NOISE * rng.standard_normal((1, 2, 1, 4, 30, 8))
    unknown = np.full((1, 8), -1)
    assert not slow_workers(few, unknown)[0].cells().any()
    few[..., 2:6] += 0.43
    found = slow_workers(few, unknown)[0].cells()[0]
    np.testing.assert_allclose(found[..., 2:6], 0.43, atol=0.15)
    assert not np.delete(found, range(2, 6), axis=2).any()
