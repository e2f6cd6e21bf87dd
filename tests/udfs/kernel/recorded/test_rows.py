"""Rows as dense arrays, compared with sorting each row alone."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.synthetic.job import GeneratedJob
from tests.support.random_jobs import named_job
from udfs.kernel import op_type as ot
from udfs.kernel.recorded.rows import US, StageRows, Times, _dense, classify
from udfs.layout import read_layout
from udfs.simulate.rank_rows import replayed_rows


class Op(NamedTuple):
    op_type: int
    start_us: float
    duration_us: float


Row = list[Op]


def stage_of(rows: list[Row], before: int = 0) -> StageRows:
    """Rows of a stage behind `before` ops of another; microbatches differ, so that no compute is doubled."""
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


def compute_order(row: Row) -> tuple[int, ...]:
    """Computes, numbered by (type, start, place in the line), in the order of (start, place)."""
    places = sorted(range(len(row)), key=lambda place: (row[place].op_type, row[place].start_us))
    computes = [place for place in places if row[place].op_type in ot.COMPUTE]
    return tuple(places.index(p) for p in sorted(computes, key=lambda p: (row[p].start_us, p)))


def assert_each_row_sorted(rows: list[Row], before: int = 0) -> None:
    """Every row in one class, its ops by (type, start, place in the line), rows of a class alike."""
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


@settings(max_examples=150, deadline=None)
@given(
    rows=st.integers(1, 4).flatmap(
        lambda length: st.lists(st.lists(ops, min_size=length, max_size=length), min_size=1, max_size=4)
    ),
    before=st.integers(0, 2),
)
def test_equally_long_rows(rows: list[Row], before: int) -> None:
    assert_each_row_sorted(rows, before)


@settings(max_examples=100, deadline=None)
@given(rows=st.lists(st.lists(ops, min_size=1, max_size=4), min_size=1, max_size=5), before=st.integers(0, 2))
def test_rows_of_any_length(rows: list[Row], before: int) -> None:
    assert_each_row_sorted(rows, before)


def row_of(*op_types: int) -> Row:
    return [Op(op_type, float(place), 10.0 + place) for place, op_type in enumerate(op_types)]


A, B, C = ot.FORWARD_COMPUTE, ot.OPTIMIZER, ot.GC


@pytest.mark.parametrize(
    ("lines", "classes"),
    [
        (("AB", "BA"), 1),
        (("AAB", "ABB"), 2),
        (("AAB", "BAA", "ABB"), 2),
        (("AAB", "AAA", "ABB"), 3),
        (("AABB", "ABBB", "AAAB"), 3),
        (("AABC", "ABBC"), 2),
        (("ABBC", "AABC", "ABCC"), 3),
        (("AAB", "ABB", "AAB", "BBA"), 2),
        (("AAA", "BBB"), 2),
        (("AB", "AC"), 2),
        (("AAB", "AAB"), 1),
        (("AAB", "AB"), 2),
        (("AC", "BC", "AB"), 3),
    ],
)
def test_types_swapped_and_counts_that_differ_at_equal_length(lines: tuple[str, ...], classes: int) -> None:
    """Over all rows there may be as many of a type as if each row were like the first."""
    types = {"A": A, "B": B, "C": C}
    rows = [row_of(*(types[letter] for letter in line)) for line in lines]
    assert_each_row_sorted(rows)
    assert len(classify(stage_of(rows))) == classes


def stages_of(job: GeneratedJob) -> list[StageRows]:
    return replayed_rows(job.rank_steps, read_layout(job.manifest)).stages()


@pytest.mark.parametrize(("name", "is_strided"), [("lines_by_op_type", True), ("lines_shuffled", False)])
def test_rows_that_list_the_same_ops_in_the_same_order_are_read_by_strides(
    name: str, is_strided: bool
) -> None:
    for rows in stages_of(named_job(name)):
        every_row = np.arange(len(rows.zero_us))
        dense = _dense(rows, every_row, int(rows.first_op[1] - rows.first_op[0]))
        assert dense is not None
        assert (dense.places is not None) is is_strided


@pytest.mark.parametrize("name", ["usual", "noop_transfers_without_virtual_pipeline", "virtual_pipeline"])
def test_rows_of_one_program_stay_in_the_room_they_were_given(name: str) -> None:
    """Recorded no-op transfers of all rows alike are part of one program: nothing is copied for them."""
    for rows in stages_of(named_job(name)):
        shape = (int(rows.first_op[1] - rows.first_op[0]), len(rows.zero_us))
        room = Times(np.empty(shape), np.empty(shape))
        (only,) = classify(rows, room)
        assert only.times.start_s is room.start_s
        assert only.times.duration_s is room.duration_s
        assert bool(only.program.no_ops) is (name != "usual")
