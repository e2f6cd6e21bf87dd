"""Gaps between ops, which replays leave out, are reported if they lengthen steps beyond their replay."""

import numpy as np
import pytest

from schemas.vocabulary import JOB_SLOWDOWN
from tests.udfs.lines import Ops, line, manifest, rank_steps
from udfs.kernel.arrays import Floats
from udfs.kernel.recorded.gaps import gap_of
from udfs.what_if import simulate_job

STEPS = 12


def said(pause_s: float, struck: dict[int, list[int]], first: bool = False) -> tuple[str, str | None]:
    """Simulate two replicas that pause in some steps; return the status and its detail.

    struck : by dp rank, the steps in which the rank pauses before its backward
    first  : whether the pause is also before the forward
    """
    rows = []
    for step in range(STEPS):
        pauses_s = [pause_s * (step in struck.get(dp_rank, [])) for dp_rank in range(2)]
        for dp_rank, own_s in enumerate(pauses_s):
            forward_s = 0.1 + own_s * first
            backward_s = 1.1 + own_s
            ops: Ops = [
                ("params-all-gather", 0, 0.1),
                ("forward-compute", forward_s, 1),
                ("backward-compute", backward_s, 1),
                ("grads-reduce-scatter", backward_s + 1, max(pauses_s) - own_s + 0.1),
            ]
            rows.append(line(step, dp_rank, 0, ops, host=f"node-{dp_rank}"))
    (job,) = simulate_job(rank_steps(*rows), manifest(dp_size=2))[JOB_SLOWDOWN].to_pylist()
    return job["status"], job["status_detail"]


@pytest.mark.parametrize(("pause_s", "status"), [(1.0, "high_discrepancy"), (0.4, "analysed")])
def test_who_pauses_between_two_ops_is_named(pause_s: float, status: str) -> None:
    found, detail = said(pause_s, {1: [3, 7]})
    assert found == status
    gap = f"worker dp 1 pp 0 (host node-1): no op runs for {pause_s:.3g} s before backward-compute in 2 of 12"
    assert detail is not None
    assert gap in detail
    assert "other worker" not in detail


def test_others_that_pause_are_counted() -> None:
    _, detail = said(0.5, {0: [3, 7], 1: [4, 5, 8]})
    assert detail is not None
    assert "worker dp 1 pp 0 (host node-1): no op runs for 0.5 s before backward-compute in 3 of 12" in detail
    assert "and before computes of 1 other worker;" in detail


@pytest.mark.parametrize(("pause_s", "first"), [(0.1, False), (0.0, False), (1.0, True)])
def test_nothing_is_said_of_less_and_of_late_starts_that_are_a_cause(pause_s: float, first: bool) -> None:
    """Gaps under 2 % of the step are not reported, nor are late starts, which have their own cause."""
    _, detail = said(pause_s, {1: [3, 7]}, first)
    assert "no op runs" not in (detail or "")


def test_gaps_are_read_only_where_steps_take_longer_than_their_replay() -> None:
    read = list[str]()

    def gaps() -> Floats:
        read.append("gaps")
        return np.full((2, 1, 4, 1), 0.5)

    assert gap_of(gaps, np.full(4, 1.01), np.ones(4)) is None
    assert read == []
    assert gap_of(gaps, np.full(4, 1.5), np.ones(4)) is not None
    assert read == ["gaps"]
