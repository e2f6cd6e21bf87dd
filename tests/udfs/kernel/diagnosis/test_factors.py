"""Factors fitted to compute durations reproduce the durations, and equal the factors that generated them."""

from typing import Final

import numpy as np
import pytest

from tests.support.random_jobs import LAYOUTS, named_job
from tests.udfs.kernel.diagnosis.kernel_jobs import job_of
from udfs.kernel.arrays import Floats
from udfs.kernel.diagnosis.block_times import Tensor
from udfs.kernel.diagnosis.computes import compute_times
from udfs.kernel.diagnosis.factors import Data, Factors, decompose
from udfs.kernel.diagnosis.totals import totals
from udfs.kernel.diagnosis.workers import Workers
from udfs.kernel.diagnosis.works import works

SHAPE: Final = (3, 2, 1, 6, 10, 4)
"""Axes are (stage, direction, chunk, microbatch, step, dp_rank)."""
UNKNOWN_HOSTS: Final = np.full((3, 4), -1)
EXACT: Final = 1e-12


def drawn(seed: int = 3) -> tuple[Tensor, Floats]:
    """Return durations with stage factors 1, 1 and 1.2 and random microbatch weights, and these weights."""
    weight = np.exp(0.3 * np.random.default_rng(seed).standard_normal(SHAPE[3:]))
    base_s = np.array([1.0, 1.0, 1.2])[:, None] * np.array([1.0, 2.0])
    return base_s[:, :, None, None, None, None] * weight, weight


def assert_gives_times_back(times_s: Tensor, factors: Factors) -> None:
    again_s = factors.work_s * factors.worker * factors.noise
    if factors.pause_s is not None:
        again_s = again_s + factors.pause_s
    np.testing.assert_allclose(again_s, times_s, rtol=EXACT, atol=0.0)


@pytest.mark.parametrize("name", [*LAYOUTS, *range(12)])
def test_factors_multiplied_give_the_times_back(name: str | int) -> None:
    job = job_of(named_job(name))
    computes = compute_times(job.blocks(), job.layout)
    assert computes is not None
    before = computes.times_s.copy()
    factors = decompose(computes.times_s, job.rows.worker_host)
    assert_gives_times_back(computes.times_s, factors)
    assert np.array_equal(computes.times_s, before), "inputs are left as they were"


@pytest.mark.parametrize("direction", [0, 1])
def test_one_long_compute_is_a_pause_in_either_direction(direction: int) -> None:
    """A single long compute, forward or backward, is a pause of exactly its excess over the usual time."""
    times_s, _ = drawn()
    wanted_s = np.zeros(SHAPE)
    wanted_s[2, direction, 0, 3, 5, 1] = 4.0
    pause_s = decompose(times_s + wanted_s, UNKNOWN_HOSTS).pause_s
    assert pause_s is not None
    np.testing.assert_allclose(pause_s, wanted_s, rtol=1e-9)


def test_what_all_stages_and_directions_have_of_single_microbatches_of_one_step_is_no_pause() -> None:
    """A microbatch that is long on all stages in one step counts as heavy data, not as pauses."""
    times_s = np.exp(0.02 * np.random.default_rng(3).standard_normal((3, 2, 1, 1, 10, 4)))
    times_s[..., 5, :] *= [1.0, 3.0, 1.1, 1.5]
    assert decompose(times_s, UNKNOWN_HOSTS).pause_s is None
    times_s[2, 1, 0, 0, 7, 1] += 4.0
    pause_s = decompose(times_s, UNKNOWN_HOSTS).pause_s
    assert pause_s is not None
    assert np.argwhere(pause_s).tolist() == [[2, 1, 0, 0, 7, 1]]


def test_what_all_take_longer_in_even_steps_beside_uneven_ones_is_no_pause() -> None:
    times_s, weight = drawn()
    weight[:, :7] = 1.0
    weight[:, [2, 5]] = 1.5
    times_s = (
        (times_s / drawn()[1]) * weight * np.exp(0.005 * np.random.default_rng(5).standard_normal(SHAPE))
    )
    factors = decompose(times_s, UNKNOWN_HOSTS)
    assert factors.data.is_real
    assert factors.workers.is_uneven.tolist() == [False] * 7 + [True] * 3
    assert factors.pause_s is None


def test_without_long_computes_there_is_no_array_of_pauses() -> None:
    assert decompose(drawn()[0], UNKNOWN_HOSTS).pause_s is None


def uneven(*, is_real: bool, noise: float = 0.05) -> Factors:
    """Return fitted factors of computes with uneven stages, uneven data and noise."""
    rng = np.random.default_rng(5)
    work_s, weight = drawn()
    workers = Workers(
        own=np.zeros((3, 2, 10, 4)),
        stage=np.zeros((3, 2, 10)),
        always=np.zeros(3),
        ambiguous=np.zeros(3, dtype=bool),
        error=np.zeros(2),
        common=np.zeros((2, 10)),
        is_uneven=np.full(10, is_real),
    )
    data = Data(np.broadcast_to(weight, (2, *weight.shape)), 0.3, is_real=is_real)
    scatter = np.exp(noise * rng.standard_normal(SHAPE))
    worker = np.ones((3, 2, 1, 1, 10, 4))
    return Factors(work_s, worker, scatter, np.log(scatter), None, workers, data, noise, noise)


@pytest.mark.parametrize("is_real", [True, False])
def test_fixes_keep_the_sum_of_the_work(is_real: bool) -> None:
    """A fix that evens out data, or stages, keeps the total work."""
    factors = uneven(is_real=is_real)
    before = factors.work_s.copy(), factors.noise.copy()
    as_is_s, data_s, stage_s, both_s = works(factors)
    assert np.array_equal(as_is_s, before[0] * before[1])
    lanes = (3, 4, 5)
    np.testing.assert_allclose(data_s.mean(axis=lanes), as_is_s.mean(axis=lanes), rtol=EXACT)
    wanted_s = as_is_s.mean(axis=(0, 2, *lanes))
    for spread_s in (stage_s, both_s):
        np.testing.assert_allclose(spread_s.mean(axis=(0, 2, *lanes)), wanted_s, rtol=EXACT)
    assert np.array_equal(factors.work_s, before[0])
    assert np.array_equal(factors.noise, before[1])


def test_balanced_work_is_alike_within_a_step_and_spread_work_on_all_stages() -> None:
    _, data_s, stage_s, both_s = works(uneven(is_real=True, noise=0.0))
    within = data_s.max(axis=(3, 5)) / data_s.min(axis=(3, 5))
    assert within.max() == pytest.approx(1.0, rel=EXACT)
    over_stages = stage_s.max(axis=(0, 2)) / stage_s.min(axis=(0, 2))
    assert over_stages.max() == pytest.approx(1.0, rel=EXACT)
    everywhere = both_s.max(axis=(0, 2, 3, 5)) / both_s.min(axis=(0, 2, 3, 5))
    assert everywhere.max() == pytest.approx(1.0, rel=EXACT)
    assert data_s.std() > 0.1, "stages still differ"
    assert stage_s.std() > 0.1, "microbatches still differ"


def test_a_doubtful_time_is_what_the_others_say_beside_the_constant_of_its_stage() -> None:
    """The total of a microbatch with doubtful computes comes from other stages and the stage's constant."""
    times_s, _ = drawn()
    times_s[2] += 1.0
    long_s, doubtful = times_s.copy(), np.zeros(times_s.shape, dtype=bool)
    doubtful[2, 0, 0, :3, 4, 1] = True
    long_s[doubtful] += 5.0
    np.testing.assert_allclose(totals(long_s, doubtful), times_s.sum(axis=(0, 2)), rtol=1e-9)


def test_a_place_that_nobody_doubts_may_be_long_as_well() -> None:
    times_s, _ = drawn()
    long_s, doubtful = times_s.copy(), np.zeros(times_s.shape, dtype=bool)
    doubtful[1, 0, 0, 2, 3, 0] = True
    long_s[1:, 0, 0, 2, 3, 0] += 5.0
    np.testing.assert_allclose(totals(long_s, doubtful), times_s.sum(axis=(0, 2)), rtol=1e-9)
