"""Steps in which every worker waits although none is late are flagged, because a slow rank may hide there."""

from typing import Any

import numpy as np
import pytest

from schemas.causes import NOBODY_LATE
from schemas.vocabulary import JOB_CAUSES, JOB_SLOWDOWN
from tests.udfs.lines import Ops, line, manifest, rank_steps
from udfs.kernel.recorded.nobody_late import nobody_late
from udfs.what_if import simulate_job

STEPS = 12


def found(
    scatter_s: list[float], late_s: float = 0.0, gather_s: float = 0.1
) -> dict[str, list[dict[str, Any]]]:
    """Simulate two replicas whose steps are a gather, 1 s forward, 1 s backward, and a reduce-scatter.

    scatter_s : duration of the reduce-scatter in each step, from when the later replica begins it
    late_s : additional time of replica 1's backward
    """
    rows = []
    for step, scattered_s in enumerate(scatter_s):
        for dp_rank in range(2):
            backward_s = 1 + late_s * dp_rank
            ready_s = gather_s + 1 + backward_s
            ops: Ops = [
                ("params-all-gather", 0, gather_s),
                ("forward-compute", gather_s, 1),
                ("backward-compute", gather_s + 1, backward_s),
                ("grads-reduce-scatter", ready_s, gather_s + 2 + late_s + scattered_s - ready_s),
            ]
            rows.append(line(step, dp_rank, 0, ops, host=f"node-{dp_rank}"))
    tables = simulate_job(rank_steps(*rows), manifest(dp_size=2))
    return {name: table.to_pylist(maps_as_pydicts="strict") for name, table in tables.items()}


def flags(tables: dict[str, list[dict[str, Any]]]) -> dict[str, str | None]:
    return {row["cause"]: row["flag_reason"] for row in tables[JOB_CAUSES]}


def test_a_rank_that_hides_in_its_reduce_scatter_is_flagged() -> None:
    """If a reduce-scatter takes 0.9 s longer than a gather, a flag says that a slow rank may hide there."""
    tables = found([1.0] * STEPS)
    (job,) = tables[JOB_SLOWDOWN]
    assert (job["slowdown"], job["nobody_late_steps"]) == (pytest.approx(1.0), STEPS)
    assert flags(tables)["slow_worker"] == flags(tables)["communication"] == NOBODY_LATE
    assert NOBODY_LATE not in {flags(tables)["pause"], flags(tables)["launch_delay"]}


@pytest.mark.parametrize("late_s", [0.0, 1.0])
def test_who_waits_for_a_late_one_is_explained(late_s: float) -> None:
    tables = found([0.2] * STEPS, late_s)
    assert tables[JOB_SLOWDOWN][0]["nobody_late_steps"] == 0
    assert NOBODY_LATE not in flags(tables).values()


def test_single_steps_are_counted_and_flag_no_cause() -> None:
    tables = found([1.0, *[0.2] * (STEPS - 1)])
    assert tables[JOB_SLOWDOWN][0]["nobody_late_steps"] == 1
    assert NOBODY_LATE not in flags(tables).values()


def test_scatters_that_take_less_in_other_steps_show_a_slow_network() -> None:
    """If reduce-scatters are shorter in other steps, communication is named for the long ones."""
    tables = found([0.2] * 5 + [1.5] * (STEPS - 5))
    assert tables[JOB_SLOWDOWN][0]["nobody_late_steps"] == STEPS - 5
    (named,) = (row for row in tables[JOB_CAUSES] if row["is_cause"])
    assert (named["cause"], named["flag_reason"]) == ("communication", None)
    assert flags(tables)["slow_worker"] == NOBODY_LATE


def test_stages_are_compared_where_nothing_is_gathered() -> None:
    """Without gathers, the waits of stages are compared; the second waits ten times as long as the first."""
    waits_s = np.zeros((2, 2, 3))
    waits_s[0] = [[0.1] * 3, [1.0] * 3]
    assert nobody_late(waits_s, np.full(3, 4.0)).tolist() == [True] * 3
    assert nobody_late(waits_s / 10, np.full(3, 4.0)).tolist() == [False] * 3, (
        "waits that are a small share of the step do not count"
    )


def test_alone_only_a_large_share_of_the_step_counts() -> None:
    waits_s = np.zeros((2, 1, 2))
    waits_s[0] = [[1.0, 2.0]]
    assert nobody_late(waits_s, np.full(2, 4.0)).tolist() == [False, True]
