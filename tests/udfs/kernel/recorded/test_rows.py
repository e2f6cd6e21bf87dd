"""Dense arrays of ops equal rows that are sorted one by one, and transfers without data are recognised."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.random_jobs import named_job
from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Mask
from udfs.kernel.recorded.durations import no_op_transfers
from udfs.kernel.recorded.programs import RowClass
from udfs.kernel.recorded.rows import US, StageRows, lay_out_rows
from udfs.layout import read_layout
from udfs.simulate.rank_rows import replayed_rows


class Op(NamedTuple):
    op_type: int
    start_us: float
    duration_us: float


Row = list[Op]


def stage_of(rows: list[Row], before: int = 0) -> StageRows:
    """Return rows as arrays of a stage after `before` ops of another stage; no microbatch number repeats."""
    ops = [op for row in rows for op in row]
    first_op = np.cumsum([before] + [len(row) for row in rows])
    other = Op(ot.GC, -1.0, -1.0)
    return StageRows(
        first_op=first_op,
        op_type=np.array([op.op_type for op in [other] * before + ops], np.int8),
        start_us=np.array([op.start_us for op in [other] * before + ops]),
        duration_us=np.array([op.duration_us for op in [other] * before + ops]),
        microbatch=np.arange(before + len(ops), dtype=np.int32),
        chunk=np.zeros(before + len(ops), np.int32),
        zero_us=np.array([0.5 * row for row in range(len(rows))]),
    )


def classify(rows: StageRows) -> list[RowClass]:
    return [each for laid in lay_out_rows(rows) for each in laid.classes()]


def compute_order(row: Row) -> tuple[int, ...]:
    """Number the computes by (type, start, place in the line), and list the numbers by (start, place)."""
    places = sorted(range(len(row)), key=lambda place: (row[place].op_type, row[place].start_us))
    computes = [place for place in places if row[place].op_type in ot.COMPUTE]
    return tuple(places.index(p) for p in sorted(computes, key=lambda p: (row[p].start_us, p)))


def assert_each_row_sorted(rows: list[Row], before: int = 0) -> None:
    """Assert that rows with equal op counts are in one class, with ops sorted by (type, start, place)."""
    classes = classify(stage_of(rows, before))
    assert sorted(np.concatenate([found.rows for found in classes]).tolist()) == list(range(len(rows)))
    for found in classes:
        assert (np.diff(found.rows) > 0).all()
        for column, number in enumerate(found.rows.tolist()):
            wanted = sorted(rows[number], key=lambda op: (op.op_type, op.start_us))
            counts = np.bincount([op.op_type for op in wanted], minlength=ot.COUNT)
            assert found.program.counts == tuple(counts.tolist())
            assert found.program.compute_order == compute_order(rows[number])
            start_us = [op.start_us + 0.5 * number for op in wanted]
            assert found.times.start_s[:, column].tolist() == [us * US for us in start_us]
            assert found.times.duration_s[:, column].tolist() == [op.duration_us * US for op in wanted]


TYPES = [ot.FORWARD_COMPUTE, ot.BACKWARD_COMPUTE, ot.FORWARD_SEND, ot.GC]
ops = st.builds(Op, st.sampled_from(TYPES), st.integers(0, 3).map(float), st.integers(0, 9).map(float))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    rows=st.integers(1, 4).flatmap(
        lambda length: st.lists(st.lists(ops, min_size=length, max_size=length), min_size=1, max_size=4)
    ),
    before=st.integers(0, 2),
)
def test_equally_long_rows(rows: list[Row], before: int) -> None:
    assert_each_row_sorted(rows, before)


@pytest.mark.parametrize(
    ("lines", "classes"),
    [("AAB ABB", 2), ("AAB BAA ABB", 2), ("AAB AAA ABB", 3), ("AABB ABBB AAAB", 3), ("ABBC AABC ABCC", 3)],
)
def test_counts_that_differ_at_equal_length(lines: str, classes: int) -> None:
    """Rows with equally many ops, but other numbers of ops by type, are in different classes."""
    types = {"A": ot.FORWARD_COMPUTE, "B": ot.OPTIMIZER, "C": ot.GC}
    rows = [[Op(types[each], float(at), 10.0 + at) for at, each in enumerate(row)] for row in lines.split()]
    assert_each_row_sorted(rows)
    assert len(classify(stage_of(rows))) == classes


@settings(max_examples=100, deadline=None, derandomize=True)
@given(rows=st.lists(st.lists(ops, min_size=1, max_size=4), min_size=1, max_size=5), before=st.integers(0, 2))
def test_rows_of_any_length(rows: list[Row], before: int) -> None:
    assert_each_row_sorted(rows, before)


@pytest.mark.parametrize("name", ["usual", "noop_transfers_without_virtual_pipeline", "virtual_pipeline"])
def test_rows_of_one_program_are_one_class(name: str) -> None:
    """Rows that all record the same transfers without data are in one class."""
    job = named_job(name)
    for rows in replayed_rows(job.rank_steps, read_layout(job.manifest)).stages():
        (only,) = classify(rows)
        assert bool(only.program.no_ops) is (name != "usual")


COMPUTE_S = (1.0, 2.0)
"""Start and end of the computes of both lanes; a transfer takes 0.2 s by default. [s]"""


def flags(op_type: int, starts_s: list[list[float]], duration_s: float = 0.2) -> Mask:
    """Return which transfers of a row with a forward-compute are no-ops; starts_s has axes (op, lane)."""
    counts = tuple({ot.FORWARD_COMPUTE: 1, op_type: len(starts_s)}.get(t, 0) for t in range(ot.COUNT))
    lanes = len(starts_s[0])
    compute_start_s, compute_s = COMPUTE_S
    start_s = np.array([[compute_start_s] * lanes, *starts_s])
    durations_s = np.array([[compute_s] * lanes, *([duration_s] * lanes for _ in starts_s)])
    return no_op_transfers(counts, start_s, durations_s)[1:]


def test_a_recv_is_a_no_op_where_it_starts_after_the_last_compute_has_started() -> None:
    found = flags(ot.FORWARD_RECV, [[0.1, 0.1], [0.2, 1.5], [2.0, 2.0]])
    assert found.tolist() == [[False, False], [False, True], [True, True]]


def test_the_search_goes_on_while_a_recv_is_late_in_any_lane() -> None:
    assert flags(ot.FORWARD_RECV, [[0.1, 1.5], [0.2, 2.0]]).tolist() == [[False, True], [False, True]]


def test_a_send_is_a_no_op_where_it_ends_before_the_first_compute_has_ended() -> None:
    found = flags(ot.FORWARD_SEND, [[0.1, 0.1], [2.7, 2.9], [3.0, 2.95]])
    assert found.tolist() == [[True, True], [True, False], [False, False]]


def test_clocks_round_by_less_than_50_us() -> None:
    late = flags(ot.FORWARD_RECV, [[1.0 + 40e-6, 1.0 + 60e-6]])
    early = flags(ot.FORWARD_SEND, [[2.8 - 40e-6, 2.8 - 60e-6]])
    assert late.tolist() == early.tolist() == [[False, True]]
