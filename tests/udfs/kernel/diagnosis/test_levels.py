"""Slowness of workers relative to their peers in the same step is exact, for arrays made by hand."""

from typing import Final

import numpy as np
import pytest

from udfs.kernel.arrays import Floats
from udfs.kernel.diagnosis.levels import (
    LEAST_STEP,
    MOST_APART_OF_FEW,
    Doubt,
    apart_when_healthy,
    scatter_over_steps,
    slow_series,
    usual_levels,
)

STAGES, KINDS, STEPS, DP_RANKS = 3, 2, 12, 4
BASE: Final = np.log(np.array([[1.0, 2.0], [1.0, 2.0], [1.5, 2.5]]))
"""Logarithms of compute times by stage and direction; the last stage has more work."""
ERROR: Final = np.full(KINDS, 0.001)
EVEN: Final = np.ones(STEPS, dtype=bool)
ALONE: Final = np.arange(STAGES * DP_RANKS).reshape(STAGES, DP_RANKS)
"""Numbers of hosts, one for each worker."""
IN_TIME: Final = np.arange(STEPS)
NO_SPREAD: Final = np.zeros(KINDS)


@pytest.fixture
def level() -> Floats:
    return np.broadcast_to(BASE[:, :, None, None], (STAGES, KINDS, STEPS, DP_RANKS)).copy()


def found_in(own: Floats) -> Floats:
    return slow_series(own, Doubt(np.full((KINDS, STEPS), 0.001), NO_SPREAD))


def test_half_of_the_dp_ranks_of_a_stage_may_be_slow(level: Floats) -> None:
    level[1, :, :, 2:] += 0.4
    usual = usual_levels(level, ERROR, ALONE, EVEN, EVEN, ERROR)
    np.testing.assert_allclose(usual.base, BASE)
    np.testing.assert_allclose(usual.level, np.broadcast_to(BASE[..., None], usual.level.shape))
    assert not usual.stage.any()
    assert not usual.common.any()


@pytest.mark.parametrize("slow_host", [0, 1])
def test_of_two_hosts_with_half_of_a_stage_each_either_may_be_the_slow_one(slow_host: int) -> None:
    """If each of two hosts has half of a stage, the slow one is found, whichever number it has."""
    hosts = np.repeat([[0, 1]], 4, axis=1)
    level = np.broadcast_to(BASE[:1, :, None, None], (1, KINDS, STEPS, 8)).copy()
    is_slow = hosts[0] == slow_host
    is_slow[np.flatnonzero(~is_slow)[0]] = True
    level[:, :, 6:, is_slow] += 0.3
    usual = usual_levels(level, ERROR, hosts, ~EVEN, ~EVEN, ERROR)
    np.testing.assert_allclose(usual.level, np.broadcast_to(BASE[:1, :, None], usual.level.shape))


def test_what_all_stages_take_longer_in_a_step_is_common_and_no_stages(level: Floats) -> None:
    level[:, :, 4:6] += 0.2
    usual = usual_levels(level, ERROR, ALONE, EVEN, EVEN, ERROR)
    np.testing.assert_allclose(usual.common, np.where(np.isin(IN_TIME, [4, 5]), 0.2, 0.0) * np.ones((2, 1)))
    np.testing.assert_allclose(usual.stage, 0.0, atol=1e-12)
    np.testing.assert_allclose(usual.base, BASE)


@pytest.mark.parametrize("first", [3, 6, 8])
def test_a_stage_slow_in_up_to_most_of_the_steps_is_slow_and_not_heavy(level: Floats, first: int) -> None:
    """A stage that is slow in up to 9 of 12 steps counts as slow, not heavy: 3 steps show its usual times."""
    level[0, :, first:] += 0.3
    usual = usual_levels(level, ERROR, ALONE, EVEN, EVEN, ERROR)
    np.testing.assert_allclose(usual.base, BASE, atol=1e-12)
    wanted = np.zeros((STAGES, KINDS, STEPS))
    wanted[0, :, first:] = 0.3
    np.testing.assert_allclose(usual.stage, wanted, atol=1e-12)


def test_a_stage_slow_in_all_steps_is_heavy(level: Floats) -> None:
    level[0] += 0.3
    usual = usual_levels(level, ERROR, ALONE, EVEN, EVEN, ERROR)
    np.testing.assert_allclose(usual.base[0], BASE[0] + 0.3)
    assert not usual.stage.any()


def test_most_workers_of_a_stage_on_one_slow_host_are_compared_with_the_others(level: Floats) -> None:
    """If a slow host has three of a stage's four workers, the fourth worker shows the stage's usual times."""
    hosts = ALONE.copy()
    hosts[1, :3] = 99
    level[1, :, :, :3] += 0.4
    np.testing.assert_allclose(usual_levels(level, ERROR, hosts, EVEN, EVEN, ERROR).base, BASE, atol=1e-12)


def test_a_slow_series_is_found_in_its_steps_in_its_kind_and_nowhere_else(level: Floats) -> None:
    own = np.zeros_like(level)
    own[2, 1, 5:, 3] = 0.25
    np.testing.assert_allclose(found_in(own), own)


@pytest.mark.parametrize(
    ("steps", "size", "is_slow"),
    [
        (range(12), 0.011, False),
        (range(12), 0.013, True),
        ([4], 0.14, False),
        ([4, 9], 0.029, False),
        ([4, 9], 0.031, True),
    ],
    ids=["always, too little", "always", "one step", "two steps, too little", "two steps"],
)
def test_how_much_is_slow(steps: list[int], size: float, is_slow: bool) -> None:
    """A worker is slow if it takes 1.2 % longer than its peers on average, or 3 % in at least two steps."""
    own = np.zeros((STAGES, KINDS, STEPS, DP_RANKS))
    own[1, 0, list(steps), 2] = size
    assert bool(found_in(own).any()) is is_slow


def test_what_is_within_five_errors_is_not_slow() -> None:
    own = np.zeros((1, 1, STEPS, 2))
    own[0, 0, :, 1] = 0.05
    errors = {0.03: True, 0.04: False}  # error of one step; of the mean of 12 steps: 0.0087, 0.0115
    for error, is_slow in errors.items():
        found = slow_series(own, Doubt(np.full((1, STEPS), error), np.zeros(1)))
        assert bool(found.any()) is is_slow


def test_a_steady_level_leaves_steps_their_noise_and_one_that_changes_is_taken_whole() -> None:
    own = np.zeros((1, 1, STEPS, 2))
    own[0, 0, :, 1] = 0.3 + 0.0005 * np.where(IN_TIME % 2, 1.0, -1.0)
    steady = slow_series(own, Doubt(np.full((1, STEPS), 0.001), np.zeros(1)))[0, 0, :, 1]
    assert len(set(steady.tolist())) == 1
    own[0, 0, :, 1] = np.linspace(0.2, 0.5, STEPS)
    changing = slow_series(own, Doubt(np.full((1, STEPS), 0.001), np.zeros(1)))
    np.testing.assert_allclose(changing, own)


def test_a_level_that_rises_is_taken_as_it_is_though_its_noise_is_not_known_well() -> None:
    """Growing slowness is measured in full, even if a single peer leaves the noise uncertain."""
    own = np.zeros((1, 1, 12, 2))
    own[0, 0, :, 1] = np.linspace(0.3, 0.6, 12) + 0.02 * np.random.default_rng(1).standard_normal(12)
    found = slow_series(own, Doubt(np.full((1, 12), 0.09), np.array([0.03])))
    np.testing.assert_allclose(found, own)


def test_a_change_adds_nothing_to_the_scatter_over_steps() -> None:
    rng = np.random.default_rng(2)
    own = 0.02 * rng.standard_normal((4, 1, 400, 8))
    calm = float(scatter_over_steps(own)[0])
    assert calm == pytest.approx(0.02, rel=0.05)
    own[:, :, 200:] += 1.0
    assert float(scatter_over_steps(own)[0]) == pytest.approx(calm, rel=0.02)


@pytest.mark.parametrize("slow", [0, 4, 12])
def test_healthy_workers_may_differ_by_several_of_their_spreads(slow: int) -> None:
    """The limit for healthy workers is 3 to 12 times their spread, even if 12 of 32 workers are slow."""
    rng = np.random.default_rng(3)
    own = np.repeat(0.005 * rng.standard_normal((4, 1, 1, 8)), STEPS, axis=2)
    own.reshape(4, STEPS, 8)[:, :, : slow // 4] += 0.2
    limit = float(apart_when_healthy(own)[0])
    assert 3 * 0.005 < limit < 12 * 0.005


def test_too_few_workers_do_not_say_what_is_healthy() -> None:
    assert apart_when_healthy(np.zeros((1, KINDS, STEPS, 2))).tolist() == [LEAST_STEP] * KINDS
    assert apart_when_healthy(np.zeros((1, KINDS, STEPS, 1))).tolist() == [0.0] * KINDS


def test_few_healthy_workers_are_never_far_apart() -> None:
    """If workers are few, the limit on differences between healthy ones has an upper bound."""
    own = np.zeros((1, KINDS, STEPS, 4)) + np.array([0.0, 0.0, 0.02, 0.04])
    assert apart_when_healthy(own).tolist() == [MOST_APART_OF_FEW] * KINDS


def test_of_a_slow_worker_the_other_direction_need_not_be_beyond_healthy_ones() -> None:
    own = np.zeros((STAGES, KINDS, STEPS, DP_RANKS))
    own[1, :, :, 2] = np.array([0.2, 0.05])[:, None]
    own[2, 1, :, 0] = 0.05
    found = slow_series(own, Doubt(np.full((KINDS, STEPS), 0.001), np.full(KINDS, 0.06)))
    assert found[1, :, :, 2].all()
    assert not found[2].any()


def test_what_one_stage_does_not_have_is_not_common(level: Floats) -> None:
    """If two of three stages are slow in half of the steps, the third shows that not all workers are slow."""
    level[:2, :, ::2] += 0.4
    usual = usual_levels(level, ERROR, ALONE, EVEN, EVEN, ERROR)
    assert not usual.common.any()
    np.testing.assert_allclose(usual.base, BASE)
    np.testing.assert_allclose(usual.stage[2], 0.0, atol=1e-12)
    np.testing.assert_allclose(usual.stage[:2], (0.4 * (IN_TIME % 2 == 0))[None, None] * np.ones((2, 2, 1)))


@pytest.mark.parametrize("stages", [1, 3])
def test_workers_as_quiet_as_ever_say_what_is_usual_where_most_are_slow(level: Floats, stages: int) -> None:
    level = level[:stages]
    level[0, :, 3:6, :3] += 0.3
    usual = usual_levels(level, ERROR, ALONE[:stages], EVEN, EVEN, ERROR)
    np.testing.assert_allclose(usual.level, np.broadcast_to(BASE[:stages, :, None], usual.level.shape))
    # A worker that is always faster than the others does not show their usual level.
    level = level + np.array([0.0, 0.0, 0.0, -0.5])
    level[0, :, 8:10] += 0.3
    again = usual_levels(level, ERROR, ALONE[:stages], EVEN, EVEN, ERROR)
    np.testing.assert_allclose(again.level[0, :, 8:10] - BASE[0, :, None], 0.3)


@pytest.mark.parametrize("stages", [1, 3])
def test_what_grows_is_measured_from_before_it_grew(level: Floats, stages: int) -> None:
    """Growing slowness is measured against the steps before it began, even if these are few."""
    level = level[:stages]
    grown = 0.08 * np.clip((IN_TIME - 1) / (STEPS - 2), 0.0, 1.0)
    level[0] += grown[:, None]
    usual = usual_levels(level, ERROR, ALONE[:stages], EVEN, EVEN, ERROR)
    np.testing.assert_allclose(usual.base, BASE[:stages], atol=1e-12)
    found = usual.stage[0] if stages > 1 else usual.common
    np.testing.assert_allclose(found, grown * np.ones((2, 1)), atol=1e-12)


def test_steps_of_uneven_data_say_what_is_usual_where_all_others_are_slow(level: Floats) -> None:
    level[0, :, 6:] += 0.5
    usual = usual_levels(level, ERROR, ALONE, IN_TIME >= 6, IN_TIME >= 6, ERROR)
    np.testing.assert_allclose(usual.base, BASE)
    np.testing.assert_allclose(usual.stage[0], np.where(IN_TIME >= 6, 0.5, 0.0) * np.ones((2, 1)))


def test_what_is_known_counts_however_little_the_other_steps_say() -> None:
    own, error = np.zeros((1, KINDS, 4, DP_RANKS)), np.full((KINDS, 4), 0.1)
    own[0, :, 3, 1] = 0.2
    found = slow_series(own, Doubt(error, NO_SPREAD, known=own > 0.0))
    np.testing.assert_allclose(found, own)
    assert not slow_series(own, Doubt(error, NO_SPREAD)).any()
    own[0, :, 3, 1] = 0.04
    assert not slow_series(own, Doubt(error, NO_SPREAD, known=own > 0.0)).any(), "known, but too little"
