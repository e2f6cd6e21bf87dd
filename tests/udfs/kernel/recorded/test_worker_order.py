"""Transfers of one call have one place in their worker's order of ops, whichever of them starts first."""

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import common_order, sorted_by
from udfs.kernel.recorded.worker_order import WorkerOrder, WorkerTurns

FORWARD, BACKWARD, RECV = 0, 1, 2
SENDS = (3, 4)
"""Places of the two sends in a row; the other ops are a compute of each direction and a receive."""

COUNTS = tuple(
    {ot.FORWARD_COMPUTE: 1, ot.BACKWARD_COMPUTE: 1, ot.FORWARD_RECV: 1, ot.BACKWARD_SEND: 2}.get(each, 0)
    for each in range(ot.COUNT)
)
TYPES = (ot.FORWARD_RECV, ot.BACKWARD_SEND)


def turns(send_s: list[list[float]], lasts_s: float, *, is_no_op: bool = False) -> WorkerTurns:
    """Return the order of a worker that runs a forward, two sends that start at `send_s`, and a backward."""
    sends = np.array(send_s).T
    rows = sends.shape[1]
    start_s = np.concatenate([np.full((3, rows), [[1.0], [3.0], [0.0]]), sends])
    duration_s = np.full(start_s.shape, 0.5)
    duration_s[3:] = lasts_s
    no_ops = np.zeros((5, 1), dtype=bool)
    no_ops[4] = is_no_op
    at = np.arange(start_s.size).reshape(rows, -1).T
    return WorkerTurns(COUNTS, start_s, duration_s, no_ops, lambda ops: at[ops])


def order(send_s: list[list[float]], lasts_s: float, *, is_no_op: bool = False) -> WorkerOrder:
    return turns(send_s, lasts_s, is_no_op=is_no_op).order(TYPES)


def test_transfers_that_overlap_have_one_turn_whichever_starts_first() -> None:
    found = order([[1.6, 1.601], [1.601, 1.6]], 0.2)
    assert found.ops.shape[1] == 1
    assert found.turns(0) == found.turns(1) == ((RECV,), (FORWARD,), SENDS, (BACKWARD,))
    assert found.calls(0) == ()


def test_transfers_one_after_the_other_wait() -> None:
    found = order([[1.6, 1.9], [1.9, 1.6]], 0.2)
    assert found.turns(0) == ((RECV,), (FORWARD,), (3,), (4,), (BACKWARD,))
    assert found.turns(1) == ((RECV,), (FORWARD,), (4,), (3,), (BACKWARD,))


def test_what_overlaps_in_one_row_of_many_waits() -> None:
    apart = [[1.6, 1.9]] * 20
    assert (3,) in order([*apart, [1.6, 1.61]], 0.2).turns(0)
    assert (3,) not in order([*apart, [1.6, 1.61], [1.6, 1.61]], 0.2).turns(0)


def test_transfers_that_start_and_end_together_are_a_call() -> None:
    found = order([[1.6, 1.6]] * 3, 0.2)
    assert found.turns(0) == ((RECV,), (FORWARD,), SENDS, (BACKWARD,))
    assert found.calls(0) == (SENDS,)


def test_transfers_that_start_together_and_end_apart_are_no_call() -> None:
    """Transfers that start within the resolution of clocks, but end apart, are not one call."""
    found = turns([[1.6, 1.6 + 1e-8]] * 3, 0.2)
    found.duration_s[4] = 0.1
    assert found.order(TYPES).turns(0) == ((RECV,), (FORWARD,), SENDS, (BACKWARD,))
    assert found.order(TYPES).calls(0) == ()


def test_a_transfer_that_moved_nothing_has_no_turn() -> None:
    found = order([[1.6, 1.9]] * 3, 0.2, is_no_op=True)
    assert found.turns(0) == ((RECV,), (FORWARD,), (3,), (BACKWARD,))


def test_fewer_types_keep_the_order_of_each_row() -> None:
    found = turns([[1.6, 1.9], [1.9, 1.6]], 0.2)
    assert found.order(TYPES).turns(1) == ((RECV,), (FORWARD,), (4,), (3,), (BACKWARD,))
    assert found.order((ot.FORWARD_RECV,)).turns(1) == ((RECV,), (FORWARD,), (BACKWARD,))
    fewer = found.order((ot.BACKWARD_SEND,))
    assert fewer.turns(0) == ((FORWARD,), (3,), (4,), (BACKWARD,))
    assert fewer.turns(1) == ((FORWARD,), (4,), (3,), (BACKWARD,))
    assert found.order(()).turns(0) == ()


def test_columns_in_an_order_of_their_own() -> None:
    values = np.random.default_rng(1).random((5, 7))
    order = np.argsort(-values, axis=0)
    for some in (values, values[::2].T.copy().T):
        at = np.argsort(-some, axis=0)
        assert np.array_equal(sorted_by(some, at), np.take_along_axis(some, at, axis=0))
    assert np.array_equal(sorted_by(order, order), np.take_along_axis(order, order, axis=0))


def test_ops_that_start_together_stand_in_the_order_of_their_ends_then_of_the_log() -> None:
    """Ops that start together are ordered by their ends, and then by their places in the log."""
    of_both = turns([[3.0, 3.0], [3.0, 3.0]], 0.5)
    of_both.duration_s[3] = 0.0
    assert of_both.order(TYPES).ops[:, 0].tolist().index(3) < 3
    ordered, starts_s, ends_s = of_both._by_start
    assert ordered[:, 0].tolist() == [RECV, FORWARD, 3, BACKWARD, 4]
    assert (np.diff(starts_s, axis=0) >= 0.0).all()
    assert ends_s[2:, 0].tolist() == [3.0, 3.5, 3.5]


def test_one_order_of_all_rows_is_that_of_each() -> None:
    rng = np.random.default_rng(3)
    for rows in (1, 2, 40):
        for values in (3, 1000):  # few values give many ties, many values hardly any
            first, then = rng.integers(0, values, (2, 6, rows)).astype(float)
            place = np.broadcast_to(np.arange(6)[:, None], first.shape)
            alike = (np.repeat(each[:, :1], rows, axis=1) for each in (first, then))
            for one, other in ((first, then), alike):
                found = common_order(place, other, one)
                wanted = np.lexsort((place, other, one), axis=0)
                assert np.array_equal(np.broadcast_to(found, wanted.shape), wanted)
    same = np.ones((6, 40))
    assert common_order(np.cumsum(same, axis=0), same, same).shape == (6, 1)


def test_a_call_is_whole_whichever_of_its_types_block() -> None:
    together = turns([[0.0, 1.6]] * 20 + [[0.1, 1.6]], 0.5)
    assert together.order((ot.FORWARD_RECV,)).turns(0) == ((RECV, 3), (FORWARD,), (BACKWARD,))
    assert together.order((ot.FORWARD_RECV,)).calls(0) == ((RECV, 3),)
    apart = turns([[0.0, 1.6], [0.1, 1.6]], 0.5)
    assert apart.order((ot.FORWARD_RECV,)).turns(0) == ((RECV,), (FORWARD,), (BACKWARD,))
