import numpy as np
import pytest

from jobs.synthetic.program import ProgramOp
from jobs.synthetic.timeline import EventSimulation


def _lanes(*per_op: list[float]) -> np.ndarray:
    """Times of each op on each dp rank, in one step."""
    return np.array(per_op)[:, None, :]


def test_a_meeting_moves_data_from_its_latest_start() -> None:
    """A send issued at 10 meets a recv issued at 4; each takes its time after that."""
    ops = [
        ProgramOp(0, 0, "forward-compute"),
        ProgramOp(1, 0, "forward-send", waits=[0], meeting="m"),
        ProgramOp(2, 1, "forward-recv", meeting="m"),
    ]
    timeline = EventSimulation(ops).run(_lanes([10], [3], [2]), _lanes([0], [0], [4]))
    assert timeline.start_us.ravel().tolist() == [0, 10, 4]
    assert timeline.end_us.ravel().tolist() == [10, 13, 12]


def test_a_collective_waits_for_the_latest_replica() -> None:
    ops = [
        ProgramOp(0, 0, "backward-compute"),
        ProgramOp(1, 0, "grads-reduce-scatter", waits=[0], meeting="m"),
    ]
    timeline = EventSimulation(ops).run(_lanes([10, 30], [5, 6]), _lanes([0, 0], [1, 1]))
    assert timeline.start_us[1].tolist() == [[11, 31]]
    assert timeline.end_us[1].tolist() == [[36, 37]]


def test_ops_of_one_call_start_and_end_together() -> None:
    ops = [
        ProgramOp(0, 0, "forward-compute"),
        ProgramOp(1, 0, "forward-send", waits=[0], call="c"),
        ProgramOp(2, 0, "backward-recv", call="c", meeting="m"),
        ProgramOp(3, 1, "backward-send", meeting="m"),
    ]
    timeline = EventSimulation(ops).run(_lanes([10], [3], [2], [2]), _lanes([0], [0], [1], [40]))
    assert timeline.start_us.ravel().tolist() == [0, 11, 11, 40]
    assert timeline.end_us.ravel().tolist() == [10, 42, 42, 42]


def test_a_program_that_cannot_end_is_refused() -> None:
    ops = [ProgramOp(0, 0, "gc", waits=[1]), ProgramOp(1, 0, "optimizer", waits=[0])]
    with pytest.raises(ValueError, match="in a cycle"):
        EventSimulation(ops).run(_lanes([1], [1]), _lanes([0], [0]))
