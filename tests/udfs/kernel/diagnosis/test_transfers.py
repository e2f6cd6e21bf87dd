"""Slow transfers and congested steps are found in transfer times made by hand."""

from typing import Final

import numpy as np
import pytest

from jobs.synthetic.shape import JobShape
from tests.support.random_jobs import generate_job
from tests.udfs.kernel.diagnosis.kernel_jobs import job_of
from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats
from udfs.kernel.diagnosis import usual_transfers
from udfs.kernel.diagnosis.block_times import BlockTimes
from udfs.kernel.diagnosis.transfers import slow_transfers
from udfs.kernel.diagnosis.usual_transfers import limits_of, step_factors
from udfs.kernel.graph.graph import OpGraph

USUAL_S: Final = 0.002
LONG_S: Final = 0.04
"""USUAL_S and LONG_S: usual times of pipeline transfers, and of gathers and scatters. [s]"""
SHAPE: Final = JobShape(dp_size=3, pp_size=2, microbatches=4, steps=6, noop_transfers="all")
COLLECTIVES: Final = (ot.PARAMS_ALL_GATHER, ot.GRADS_REDUCE_SCATTER)


@pytest.fixture
def block() -> BlockTimes:
    """A block with usual times: USUAL_S for transfers, LONG_S for gathers and scatters, 1 s for other ops."""
    (found,) = job_of(generate_job(SHAPE, [], seed=1)).blocks()
    duration_s = np.full(found.duration_s.shape, 1.0)
    for op in meeting(found.graph):
        duration_s[op] = LONG_S if found.graph.op_types[op] in COLLECTIVES else USUAL_S
    return found._replace(duration_s=duration_s)


def meeting(graph: OpGraph) -> list[int]:
    return sorted(op for members, _ in graph.meetings for ops in members for op in ops)


def ops_of(graph: OpGraph, op_type: int, stage: int) -> list[int]:
    return [op for op in meeting(graph) if (graph.op_types[op], graph.stages[op]) == (op_type, stage)]


def fixed(blocks: list[BlockTimes]) -> list[Floats]:
    """Return the durations of each block after its slow transfers are set to their usual times. [s]"""
    found = []
    for block, slow in zip(blocks, slow_transfers(blocks), strict=True):
        assert np.array_equal(slow.as_is_s, block.duration_s[slow.ops])
        duration_s = block.duration_s.copy()
        duration_s[slow.ops] = slow.usual_s
        found.append(duration_s)
    return found


def some_steps(block: BlockTimes, steps: slice) -> BlockTimes:
    return block._replace(
        duration_s=block.duration_s[:, steps].copy(),
        steps=block.steps[steps],
        is_cut={op: mask[steps] for op, mask in block.is_cut.items()},
    )


def test_where_all_transfers_are_alike_none_is_slow(block: BlockTimes) -> None:
    (slow,) = slow_transfers([block])
    assert (slow.ops.size, slow.as_is_s.shape, slow.usual_s.shape) == (0, (0, 6, 3), (0, 6, 3))


@pytest.mark.parametrize(("factor", "is_slow"), [(1.7, False), (1.9, True), (50.0, True)])
def test_a_transfer_far_above_the_usual_is_set_to_it(block: BlockTimes, factor: float, is_slow: bool) -> None:
    (op, *_) = ops_of(block.graph, ot.FORWARD_RECV, 1)
    wanted = block.duration_s.copy()
    block.duration_s[op, 2, 1] *= factor
    if not is_slow:
        wanted = block.duration_s.copy()
    assert np.array_equal(fixed([block])[0], wanted)


def test_what_is_usual_is_measured_over_all_blocks(block: BlockTimes) -> None:
    """The usual time of a transfer is measured over all blocks, so that a slow block stands out."""
    first, rest = some_steps(block, slice(1)), some_steps(block, slice(1, None))
    wanted = first.duration_s.copy()
    first.duration_s[ops_of(block.graph, ot.FORWARD_RECV, 1)[1:]] *= 9.0
    found = fixed([first, rest])
    assert np.array_equal(found[0], wanted)
    assert np.array_equal(found[1], rest.duration_s)


@pytest.mark.parametrize(("factor", "of_stage_1"), [(2.5, 2.5), (4.0, 1.0)])
def test_a_stage_has_a_usual_collective_up_to_three_times_its_types(
    block: BlockTimes, factor: float, of_stage_1: float
) -> None:
    gathers = ops_of(block.graph, ot.PARAMS_ALL_GATHER, 1)
    wanted = block.duration_s.copy()
    wanted[gathers] *= of_stage_1
    block.duration_s[gathers] *= factor
    np.testing.assert_allclose(fixed([block])[0], wanted, rtol=1e-12)


@pytest.mark.parametrize("congested", [[3], [1, 2, 3, 4, 5], [0, 1, 3, 5]])
def test_congestion_is_taken_off_all_transfers_of_its_steps(block: BlockTimes, congested: list[int]) -> None:
    """Congested pipeline transfers get their usual times back, and collectives keep their times."""
    wanted = block.duration_s.copy()
    for op in meeting(block.graph):
        if block.graph.op_types[op] in ot.TRANSFERS:
            block.duration_s[op, congested] *= 6.0
    np.testing.assert_allclose(fixed([block])[0], wanted, rtol=1e-12)


KINDS: Final = np.array([[1.0], [2.0], [5.0]])


@pytest.mark.parametrize(
    ("factors", "found"),
    [
        ([1, 1, 1, 1], None),
        ([1, 1, 4, 1], None),
        ([4, 1, 4, 4, 4, 1, 4, 4, 4, 4], None),
        ([1.5, 1, 1.5, 1.5, 1.5, 1, 1.5, 1.5, 1.5, 1.5], None),
        ([1.2, 1, 1, 1], [1, 1, 1, 1]),
        ([1, 9, 9, 9], None),
        ([1, 1.5, 1.5, 1.5], [1, 1, 1, 1]),
        ([1, 1, 1.5, 1.5], None),
    ],
    ids=[
        "calm",
        "one step",
        "most steps",
        "most steps, not far",
        "too little",
        "all but one",
        "one alone, not far",
        "some steps",
    ],
)
def test_steps_in_which_all_kinds_are_slower(factors: list[float], found: list[float] | None) -> None:
    """Slow steps are found by comparison with faster ones; a single faster step must be far faster."""
    wanted = factors if found is None else found
    assert step_factors(KINDS * factors).tolist() == pytest.approx(wanted, rel=1e-12)


def test_few_kinds_must_be_slower_than_many() -> None:
    factors = np.array([1.0, 1.0, 1.5, 1.0])
    assert step_factors(KINDS[:2] * factors).tolist() == [1.0] * 4
    assert step_factors(KINDS[:2] * factors**2).tolist() == pytest.approx(factors**2)


def test_a_kind_that_a_step_lacks_is_ignored() -> None:
    """Kinds of transfers without data in a step have no vote on whether that step is congested."""
    calm = [np.nan, 1.0, 1.0, 1.0]
    assert step_factors(np.array([[1.0, 1.0, 4.0, 1.0], calm, calm])).tolist() == pytest.approx([1, 1, 4, 1])


def test_a_kind_that_is_slow_alone_is_no_congestion() -> None:
    median_s = np.ones((3, 4))
    median_s[0, 2] = 9.0
    assert step_factors(median_s).tolist() == [1.0] * 4


@pytest.mark.parametrize("shape", [(3, 1), (0, 5)])
def test_one_step_or_no_kind_is_no_congestion(shape: tuple[int, int]) -> None:
    assert step_factors(np.ones(shape)).tolist() == [1.0] * shape[1]


def test_quiet_steps_are_looked_for_only_where_they_may_tell_more(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, kind = np.random.default_rng(3), (ot.FORWARD_SEND, usual_transfers.ALL, usual_transfers.ALL)
    cases = []
    for slow_steps in (0, 5, 16, 19, 20):
        for factor in (1.5, 1.79, 1.81, 4.0):
            median_s = USUAL_S * rng.uniform(0.99, 1.01, 20)
            median_s[:slow_steps] *= factor
            times_s = median_s[:, None] * rng.uniform(0.98, 1.02, (20, 8))
            median_s[-1] = np.nan if factor > 2.0 else median_s[-1]
            cases.append(({kind: times_s.reshape(-1)}, {kind: median_s}))
    with_bound = [limits_of(known, medians_s=medians_s) for known, medians_s in cases]
    monkeypatch.setattr(usual_transfers, "CLEARLY", 0.0)
    assert [limits_of(known, medians_s=medians_s) for known, medians_s in cases] == with_bound
    monkeypatch.setattr(usual_transfers, "CLEARLY", np.inf)
    assert [limits_of(known, medians_s=medians_s) for known, medians_s in cases] != with_bound
