"""Late first computes are found, whether parameters are gathered before the computes or during them.

The jobs have two replicas of two chunks, whose parameters are gathered from 0 to 0.1 s and from 0.1 to 0.2 s.
"""

from collections.abc import Sequence
from typing import Final

import pytest

from tests.udfs.kernel.diagnosis.generated import Rows, causes_of
from tests.udfs.lines import Ops, line, manifest, rank_steps
from udfs.kernel import op_type as ot
from udfs.kernel.diagnosis.more_waits import last_gathers, waiting_for_gathers
from udfs.kernel.graph.graph import ALL_DP_RANKS, Cell, OpGraph, ReplayNode, StageProgram

FIRST, SECOND, BACK = ("forward-compute", 0), ("forward-compute", 1), ("backward-compute", 1)
COMPUTES: Final = (FIRST, SECOND, BACK, ("backward-compute", 0))
WITH_LOADS: Final = (("data-load", 0), FIRST, ("data-load", 1), *COMPUTES[1:])
LENGTH_S: Final = {"data-load": 0.5, "grads-reduce-scatter": 1.0}
"""Durations of the ops that follow each other without a break; other ops take two seconds. [s]"""


def step_of(begins_s: float, in_turn: Sequence[tuple[str, int]], second_s: float) -> Ops:
    """Return two gathers, then the ops `in_turn` from `begins_s` on; the second gather takes `second_s`."""
    ops: Ops = [("params-all-gather", 0, 0.1, -1, 0), ("params-all-gather", 0.1, second_s, -1, 1)]
    for name, chunk in (*in_turn, ("grads-reduce-scatter", 1), ("grads-reduce-scatter", 0)):
        ops.append((name, begins_s, LENGTH_S.get(name, 2.0), 0, chunk))
        begins_s += LENGTH_S.get(name, 2.0)
    return ops


def causes(
    begins_s: Sequence[Sequence[float]],
    in_turn: Sequence[tuple[str, int]] = COMPUTES,
    seconds_s: Sequence[float] = (0.1,) * 10,
) -> Rows:
    """Return the causes of a job of ten steps; `begins_s` has the start of computes by step and replica."""
    lines = [
        line(step, dp_rank, 0, step_of(now_s, in_turn, second_s))
        for step, (of_step_s, second_s) in enumerate(zip(begins_s, seconds_s, strict=True))
        for dp_rank, now_s in enumerate(of_step_s)
    ]
    return causes_of(rank_steps(*lines), manifest(dp_size=2, vpp_size=2))


def assert_saves(rows: Rows, saved_s: float, fixed_s: float, cause: str = "launch_delay") -> None:
    """Assert that one cause, by default launch_delay, is named and has the whole loss.

    saved_s, fixed_s : loss in the mean step, and the mean step without the loss. [s]
    """
    saved = saved_s / (saved_s + fixed_s)
    assert rows[cause]["time_saved_fraction"] == pytest.approx(saved)
    assert sum(row["lost_fraction"] for row in rows.values()) == pytest.approx(saved)
    assert [name for name, row in rows.items() if row["is_cause"]] == [cause] * (saved > 0.025)


@pytest.mark.parametrize("late_s", [0.0, 0.3])
@pytest.mark.parametrize(("in_turn", "takes_s"), [(COMPUTES, 10.0), (WITH_LOADS, 11.0)])
def test_where_all_chunks_are_gathered_first_late_is_what_begins_after_the_last_gather(
    in_turn: Sequence[tuple[str, int]], takes_s: float, late_s: float
) -> None:
    assert_saves(causes([(0.2 + late_s,) * 2] * 10, in_turn), late_s, 0.2 + takes_s)


@pytest.mark.parametrize("late_s", [0.0, 0.05])
def test_where_a_chunk_computes_while_another_is_gathered_it_waits_for_its_own(late_s: float) -> None:
    assert_saves(causes([(0.1 + late_s,) * 2] * 10), late_s, 0.1 + 10.0)


@pytest.mark.parametrize("other_s", [(0.1, 0.1), (0.1, 0.5)])
def test_one_compute_beside_a_gather_shows_it_for_the_whole_job(other_s: tuple[float, float]) -> None:
    late_s = 0.9 * 0.4 + 0.1 * (max(other_s) - 0.1)
    assert_saves(causes([*[(0.5, 0.5)] * 9, other_s]), late_s, 0.1 + 10.0)


def test_a_slow_gather_of_another_chunk_is_slow_communication() -> None:
    seconds_s = [0.9] * 4 + [0.1] * 6
    begins_s = [(0.1 + second_s,) * 2 for second_s in seconds_s]
    assert_saves(causes(begins_s, seconds_s=seconds_s), 0.4 * 0.8, 0.2 + 10.0, "communication")


def test_a_gather_that_waits_for_the_compute_cannot_come_before_it() -> None:
    """If a gather waits for a forward-compute, the forward-compute does not wait for that gather."""
    counts = tuple({ot.FORWARD_COMPUTE: 1, ot.PARAMS_ALL_GATHER: 2}.get(each, 0) for each in range(ot.COUNT))
    cell = Cell(0, ALL_DP_RANKS, StageProgram(counts, (), (), (-1,) * 3, ()))
    types, waits_for = (ot.FORWARD_COMPUTE, *[ot.PARAMS_ALL_GATHER] * 2), ((1,), (), (0,))
    nodes: list[ReplayNode] = [((op,), False, waits_for[op], waits_for[op], ((op, op),)) for op in (1, 0, 2)]
    graph = OpGraph((cell,), (0, 3), types, (0,) * 3, waits_for, (), tuple(nodes), 3, ())
    assert last_gathers(graph) == {0: 2}
    assert waiting_for_gathers(graph) is None
