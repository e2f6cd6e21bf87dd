"""With one microbatch per step, slow replicas are distinguished from heavy microbatches."""

from typing import Final

import numpy as np
import pytest

from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.diagnosis.block_times import Tensor
from udfs.kernel.diagnosis.workers import Workers, slow_workers

STEPS: Final = 16
NOISE: Final = 0.005
HEAVY: Final = 0.5
NOW_AND_THEN: Final = np.array([2, 5, 6, 9, 13])
FORWARD, BACKWARD = 0, 1


def logs(weight: Floats, stages: int = 2, seed: int = 1) -> Tensor:
    """Draw logarithms of healthy compute times; `weight` has log weights of data, shape (step, dp_rank)."""
    noise = NOISE * np.random.default_rng(seed).standard_normal((stages, 2, 1, 1, *weight.shape))
    return np.asarray(noise + weight)


def workers_of(of: Tensor) -> Workers:
    return slow_workers(of, np.full((of.shape[0], of.shape[5]), -1))[0]


def heavy(at: dict[int, Ints], dp_ranks: int) -> Floats:
    """Return log weights of microbatches that are heavy in the given steps, shape (step, dp_rank)."""
    weight = np.zeros((STEPS, dp_ranks))
    for dp_rank, steps in at.items():
        weight[steps, dp_rank] = HEAVY
    return weight


@pytest.mark.parametrize("spread", [0.1, 0.4])
@pytest.mark.parametrize("stages", [1, 4])
def test_of_two_replicas_that_are_slower_in_turn_data_differ(stages: int, spread: float) -> None:
    """If two replicas are the slower one in turn, step by step, their data are uneven and neither is slow."""
    for seed in range(6):
        weight = spread * np.random.default_rng(seed).standard_normal((STEPS, 2))
        workers = workers_of(logs(weight, stages, seed))
        assert workers.is_uneven.all()
        assert not workers.cells().any()


@pytest.mark.parametrize("dp_ranks", [2, 3, 8])
def test_microbatches_heavy_now_in_one_replica_now_in_another_are_data(dp_ranks: int) -> None:
    workers = workers_of(logs(heavy({0: NOW_AND_THEN[:3], 1: NOW_AND_THEN[3:]}, dp_ranks)))
    assert workers.is_uneven.all()
    assert not workers.cells().any()


@pytest.mark.parametrize("dp_ranks", [2, 8])
@pytest.mark.parametrize("slow", [NOW_AND_THEN, np.arange(7, STEPS)])
def test_a_replica_that_is_slow_alone_is_slow_whenever_it_is(dp_ranks: int, slow: Ints) -> None:
    workers = workers_of(logs(heavy({1: slow}, dp_ranks)))
    wanted = np.zeros((2, 2, STEPS, dp_ranks))
    wanted[:, :, slow, 1] = HEAVY
    np.testing.assert_allclose(workers.cells(), wanted, atol=4 * NOISE)


def test_replicas_slow_in_the_same_steps_are_slow_as_a_host_of_both_makes_them() -> None:
    workers = workers_of(logs(heavy({1: NOW_AND_THEN, 2: NOW_AND_THEN}, 8)))
    assert np.argwhere(workers.cells()[0, 0]).tolist() == [[at, d] for at in NOW_AND_THEN for d in (1, 2)]


@pytest.mark.parametrize("directions", [[FORWARD], [FORWARD, BACKWARD]])
def test_a_stage_whose_workers_pause_at_once_in_one_direction_is_not_slow(directions: list[int]) -> None:
    of = logs(np.zeros((STEPS, 2)), stages=4)
    for direction in directions:
        of[1, direction, 0, 0, NOW_AND_THEN[:2]] += HEAVY
    assert workers_of(of).stage.any() == (len(directions) > 1)
