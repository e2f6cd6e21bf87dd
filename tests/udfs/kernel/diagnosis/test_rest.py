"""Slow computes that no cause explains are found, in compute times made by hand."""

from typing import Final

import numpy as np
import pytest

from udfs.kernel.arrays import Floats
from udfs.kernel.diagnosis import rest as rest_module
from udfs.kernel.diagnosis.block_times import Tensor
from udfs.kernel.diagnosis.factors import decompose
from udfs.kernel.diagnosis.levels import MAD_TO_SIGMA
from udfs.kernel.diagnosis.rest import rest_of

SHAPE: Final = (3, 2, 1, 6, 12, 4)
UNKNOWN: Final = np.full((3, 4), -1)
IN_TIME: Final = np.arange(12)


def times(seed: int = 1) -> Tensor:
    """Draw forwards of 1 s and backwards of 2 s with noise of 0.3 %. [s]"""
    base_s = np.array([1.0, 2.0])[:, None, None, None, None]
    healthy_s: Tensor = base_s * np.exp(0.003 * np.random.default_rng(seed).standard_normal(SHAPE))
    return healthy_s


def rest(times_s: Tensor) -> Floats | None:
    found = rest_of(decompose(times_s, UNKNOWN))
    return None if found is None else np.broadcast_to(found, SHAPE)


def test_noise_is_no_loss() -> None:
    assert rest(times()) is None


def test_peers_of_a_faster_worker_lose_nothing() -> None:
    fast_s = times()
    fast_s[0, ..., 1] *= 0.7
    assert rest(fast_s) is None


def test_two_steps_in_which_all_workers_are_slow() -> None:
    """If all workers take 1.4 times as long in two of 12 steps, only these two steps have lost time."""
    slow_s = times()
    slow_s[..., 7:9, :] *= 1.4
    found = rest(slow_s)
    assert found is not None
    wanted = np.where(np.isin(IN_TIME, [7, 8]), np.log(1.4), 0.0)
    np.testing.assert_allclose(found, np.broadcast_to(wanted[:, None], SHAPE), atol=0.004)


def test_what_all_workers_share_by_chance_is_no_loss() -> None:
    """If whole steps vary randomly by 1 %, less than 0.1 % of the time counts as lost on average."""
    rng = np.random.default_rng(2)
    shared_s = [times(seed) * np.exp(0.01 * rng.standard_normal((12, 1))) for seed in range(8)]
    lost = [0.0 if found is None else float(found.mean()) for found in map(rest, shared_s)]
    assert np.mean(lost) < 0.001


def test_of_a_step_in_which_half_of_all_ops_are_long_the_others_are_not() -> None:
    long = np.random.default_rng(3).random(SHAPE) < 0.5
    is_struck = long & np.isin(IN_TIME, [2, 5, 9])[:, None]
    times_s = times() * np.where(is_struck, 1.13, 1.0)
    found = rest(times_s)
    assert found is not None
    assert found[is_struck].mean() > 0.9 * np.log(1.13)
    assert found[~is_struck].mean() < 0.004


def test_a_drift_of_all_workers_is_lost_beyond_the_first_steps() -> None:
    slow_s = times() * np.exp(np.linspace(0.0, 0.3, 12))[:, None]
    found = rest(slow_s)
    assert found is not None
    of_steps = found.mean(axis=(0, 1, 2, 3, 5))
    np.testing.assert_allclose(of_steps[6:], np.linspace(0.0, 0.3, 12)[6:], atol=0.03)
    assert of_steps[0] < 0.01


def test_what_a_known_cause_has_is_not_lost_twice() -> None:
    slow_s = times()
    slow_s[1, :, :, :, 5:, 2] *= 1.5
    found = rest(slow_s)
    assert found is None or found.max() < 0.02


def test_one_microbatch_of_one_stage_that_is_always_long() -> None:
    """A microbatch that is always long on one stage only is unexplained; heavy data would be long on all."""
    slow_s = times()
    slow_s[1, :, 0, 2] *= 1.12
    found = rest(slow_s)
    assert found is not None
    wanted = np.zeros(SHAPE)
    wanted[1, :, 0, 2] = np.log(1.12)
    np.testing.assert_allclose(found - found.min(), wanted, atol=0.03)


@pytest.mark.parametrize("noise", [0.003, 0.03])
def test_long_ops_are_found_with_and_without_the_bound_on_how_many_there_can_be(
    noise: float,
) -> None:
    rng = np.random.default_rng(7)
    some = []
    for long_ones in (0, 2, 3, 4, 8, 30):
        left = noise * rng.standard_normal(SHAPE)
        of_step = left[:, 1, :, :, 5].reshape(-1)
        of_step[:long_ones] += 0.4
        left[:, 1, :, :, 5] = of_step.reshape(left[:, 1, :, :, 5].shape)
        some.append(left)
    found = [rest_module._of_ops(left) for left in some]
    assert [each.any() for each in found] == [False, False, False, True, True, True]
    for left, each in zip(some, found, strict=True):
        assert np.array_equal(_of_ops_plainly(left), each)


def _of_ops_plainly(left: Tensor) -> Tensor:
    found = np.zeros_like(left)
    for kind in range(left.shape[1]):
        own = left[:, kind]
        scatter = MAD_TO_SIGMA * float(np.median(np.abs(own)))
        is_long = own > max(rest_module.LEAST_OP, rest_module.ERRORS_OF_OP * scatter)
        least = max(rest_module.MANY_OPS * own[..., 0, :].size, rest_module.LEAST_MANY)
        many = is_long.sum(axis=(0, 1, 2, 4)) >= least
        found[:, kind] = np.where(is_long & many[:, None], own, 0.0)
    return found
