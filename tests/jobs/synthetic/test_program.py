"""Schedules of computes, and times of simulated ops, equal values that were computed by hand."""

import numpy as np
import pytest

from jobs.synthetic.program import ProgramOp, compute_order
from jobs.synthetic.shape import JobShape
from jobs.synthetic.timeline import EventSimulation, Timeline

INTERLEAVED = JobShape(pp_size=2, microbatches=4, vpp_size=2, noop_transfers="all")
"""The warm-up of stage p has 2 (pp - p - 1) + (vpp - 1) pp forwards: 4 on stage 0, 2 on stage 1."""


@pytest.mark.parametrize(
    ("shape", "pp_rank", "order"),
    [
        (JobShape(pp_size=3), 0, "F0a F1a F2a B0a F3a B1a B2a B3a"),
        (JobShape(pp_size=3), 2, "F0a B0a F1a B1a F2a B2a F3a B3a"),
        (JobShape(pp_size=4, microbatches=2), 0, "F0a F1a B0a B1a"),  # the warm-up contains all forwards
        (INTERLEAVED, 0, "F0a F1a F0b F1b F2a B0b F3a B1b F2b B0a F3b B1a B2b B3b B2a B3a"),
        (INTERLEAVED, 1, "F0a F1a F0b B0b F1b B1b F2a B0a F3a B1a F2b B2b F3b B3b B2a B3a"),
    ],
)
def test_order_of_computes(shape: JobShape, pp_rank: int, order: str) -> None:
    found = compute_order(shape, pp_rank)
    assert " ".join(f"{c.direction[0].upper()}{c.microbatch}{'abc'[c.chunk]}" for c in found) == order


@pytest.mark.parametrize(
    ("sizes", "complaint"),
    [
        ({"vpp_size": 2, "noop_transfers": "all"}, "needs pp_size >= 2"),
        ({"vpp_size": 2, "pp_size": 4, "microbatches": 6, "noop_transfers": "all"}, "microbatches 6"),
        ({"absent": frozenset({"forward-send"})}, "all or not at all"),
        ({"absent": frozenset({"forward-pass"})}, "unknown op types"),
        ({"recorded_tp_ranks": 2}, "more ranks recorded"),
    ],
)
def test_impossible_shapes_are_refused(sizes: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        JobShape(**sizes)  # type: ignore[arg-type]  # the sizes have several types


def run(ops: list[ProgramOp], busy: list[list[float]], delay: list[list[float]]) -> Timeline:
    """Return the start and end of each op on each dp rank in a step.

    busy, delay : durations and launch delays by op and dp rank [us]
    """
    return EventSimulation(ops).run(*(np.array(times)[:, None, :] for times in (busy, delay)))


def test_a_meeting_moves_data_from_its_latest_start() -> None:
    """A send and its recv each end at the later of their two starts plus their own duration."""
    ops = [
        ProgramOp(0, 0, "forward-compute"),
        ProgramOp(1, 0, "forward-send", waits=[0], meeting="m"),
        ProgramOp(2, 1, "forward-recv", meeting="m"),
    ]
    timeline = run(ops, [[10], [3], [2]], [[0], [0], [4]])
    assert timeline.start_us.ravel().tolist() == [0, 10, 4]
    assert timeline.end_us.ravel().tolist() == [10, 13, 12]


def test_a_collective_waits_for_the_latest_replica() -> None:
    ops = [
        ProgramOp(0, 0, "backward-compute"),
        ProgramOp(1, 0, "grads-reduce-scatter", waits=[0], meeting="m"),
    ]
    timeline = run(ops, [[10, 30], [5, 6]], [[0, 0], [1, 1]])
    assert timeline.start_us[1].tolist() == [[11, 31]]
    assert timeline.end_us[1].tolist() == [[36, 37]]


def test_ops_of_one_call_start_and_end_together() -> None:
    ops = [
        ProgramOp(0, 0, "forward-compute"),
        ProgramOp(1, 0, "forward-send", waits=[0], call="c"),
        ProgramOp(2, 0, "backward-recv", call="c", meeting="m"),
        ProgramOp(3, 1, "backward-send", meeting="m"),
    ]
    timeline = run(ops, [[10], [3], [2], [2]], [[0], [0], [1], [40]])
    assert timeline.start_us.ravel().tolist() == [0, 11, 11, 40]
    assert timeline.end_us.ravel().tolist() == [10, 42, 42, 42]


def test_a_program_that_cannot_end_is_refused() -> None:
    with pytest.raises(ValueError, match="in a cycle"):
        EventSimulation([ProgramOp(0, 0, "gc", waits=[1]), ProgramOp(1, 0, "optimizer", waits=[0])])
