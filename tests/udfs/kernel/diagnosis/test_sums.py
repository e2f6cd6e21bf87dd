"""Savings of each fix alone, of all fixes together, and each cause's part of the latter are right."""

from collections.abc import Sequence
from itertools import combinations
from typing import Final

import numpy as np
import pytest

from jobs.synthetic.shape import JobShape, Workload
from tests.support.random_jobs import LAYOUTS, generate_job, named_job
from tests.udfs.kernel.diagnosis.generated import OVERLAPPED, USUAL, VIRTUAL, WORKLOAD
from tests.udfs.kernel.diagnosis.kernel_jobs import found_in, job_of, mean_step_s
from udfs.kernel import cause
from udfs.kernel.arrays import Floats
from udfs.kernel.cause import Diagnosis
from udfs.kernel.diagnosis.fixes import Fixed
from udfs.kernel.diagnosis.savings import EVERYTHING, savings_of, shapley
from udfs.kernel.what_if import WhatIf

SAME: Final = 1e-12
STEADY: Final = Workload(launch_s=0.0, noise=0.0)


def diagnosis_of(found: WhatIf) -> Diagnosis:
    assert found.diagnosis is not None
    return found.diagnosis


@pytest.mark.parametrize("name", [*LAYOUTS, "disagreeing", *range(12)])
def test_what_causes_are_given_sums_to_what_all_fixes_save(name: str | int) -> None:
    found = job_of(named_job(name)).analysed()
    diagnosis = diagnosis_of(found)
    given = [each.attributed_fraction for each in diagnosis.causes]
    assert sum(given) == pytest.approx(diagnosis.all_fixes_fraction, abs=SAME)
    assert given[cause.UNEXPLAINED] == 0.0
    assert {code for code, each in enumerate(given) if each} <= diagnosis.shown


@pytest.mark.parametrize(
    "name", ["usual", "virtual_pipeline_batched_overlapped", "one_worker", "disagreeing"]
)
def test_savings_are_differences_of_step_times_over_that_of_the_record(name: str) -> None:
    job = job_of(named_job(name))
    found = job.analysed()
    diagnosis = diagnosis_of(found)
    replays = found_in(job.blocks(), job.layout, job.rows.worker_host)
    actual_s = found.recorded.actual_s.mean()
    before_s = mean_step_s(replays, frozenset())
    for code in cause.FIXABLE:
        saved_s = before_s - mean_step_s(replays, frozenset({code}))
        assert diagnosis.causes[code].time_saved_fraction == pytest.approx(saved_s / actual_s, abs=SAME)
    after_s = mean_step_s(replays, frozenset(cause.FIXABLE))
    assert diagnosis.all_fixes_fraction == pytest.approx((before_s - after_s) / actual_s, abs=SAME)
    beyond_s = after_s - mean_step_s(replays, EVERYTHING)
    rest = diagnosis.causes[cause.UNEXPLAINED].time_saved_fraction
    assert rest == pytest.approx(max(0.0, beyond_s / actual_s), abs=SAME)


@pytest.mark.parametrize("shape", [USUAL, VIRTUAL, OVERLAPPED, JobShape(steps=4), JobShape(pp_size=2)])
def test_all_fixes_of_a_job_in_which_all_is_alike_save_nothing(shape: JobShape) -> None:
    """If all ops of a type take equally long, no fix saves more than the rounding of logs to 0.1 us."""
    diagnosis = diagnosis_of(job_of(generate_job(shape, [], 1, workload=STEADY)).analysed())
    assert diagnosis.all_fixes_fraction == pytest.approx(0.0, abs=1e-6)
    assert [each.time_saved_fraction for each in diagnosis.causes] == pytest.approx(
        [0.0] * cause.COUNT, abs=1e-6
    )


@pytest.mark.parametrize("shape", [USUAL, VIRTUAL, OVERLAPPED])
def test_all_fixes_of_a_healthy_job_save_next_to_nothing(shape: JobShape) -> None:
    diagnosis = diagnosis_of(job_of(generate_job(shape, [], 1, workload=WORKLOAD)).analysed())
    assert diagnosis.all_fixes_fraction == pytest.approx(0.0, abs=0.002)


GLOVES: Final = {frozenset({0, 1}): 1.0, frozenset({0, 2}): 1.0, frozenset({0, 1, 2}): 1.0}
"""A game in which player 0 has a left glove, players 1 and 2 have a right one each, and a pair is worth 1."""
UNEVEN: Final = {
    frozenset({0}): 1.0, frozenset({1}): 2.0, frozenset({2}): 0.0,
    frozenset({0, 1}): 6.0, frozenset({0, 2}): 4.0, frozenset({1, 2}): 2.0, frozenset({0, 1, 2}): 12.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("worth", "wanted"),
    [
        (GLOVES, [4 / 6, 1 / 6, 1 / 6]),
        # Contributions of players 0, 1 and 2 by order of arrival: 012: 1 + 5 + 6, 021: 1 + 8 + 3, 102: 4 + 2
        # + 6, 120: 10 + 2 + 0, 201: 4 + 8 + 0, 210: 10 + 2 + 0.
        (UNEVEN, [30 / 6, 27 / 6, 15 / 6]),
    ],
    ids=["gloves", "uneven"],
)
def test_shapley_values_of_three_players_by_hand(worth: dict[Fixed, float], wanted: list[float]) -> None:
    value_of: dict[Fixed, float] = {
        frozenset(chosen): worth.get(frozenset(chosen), 0.0)
        for size in range(4)
        for chosen in combinations(range(3), size)
    }
    assert list(shapley(value_of, [0, 1, 2]).values()) == pytest.approx(wanted, rel=SAME)


def test_no_culprit_without_an_effect() -> None:
    assert shapley({frozenset(): 0.0}, []) == {}


def test_a_fix_that_costs_time_alone_and_helps_beside_another_shares_what_both_save() -> None:
    """A fix that costs time alone, but makes another fix save more, gets a part of the joint saving."""
    pair = frozenset({cause.SLOW_WORKER, cause.COMMUNICATION})
    worth_s = {
        pair: 3.0,
        frozenset({cause.SLOW_WORKER}): 2.0,
        frozenset({cause.COMMUNICATION}): -0.5,
        frozenset[int](): 0.0,
    }

    def times_s(fixes: Sequence[Fixed]) -> dict[Fixed, Floats]:
        """Return, by set of fixes, the mean time of two steps and their times; only the second varies. [s]"""
        return {fixed: 10.0 - worth_s[fixed & pair] * np.array([1.0, 0.0, 2.0]) for fixed in fixes}

    found = savings_of(times_s, 10.0)
    wanted = dict.fromkeys(cause.FIXABLE, 0.0) | {cause.SLOW_WORKER: 0.275, cause.COMMUNICATION: 0.025}
    assert found.attributed == pytest.approx(wanted, abs=SAME)
    of_causes = np.array([*wanted.values(), 0.0])
    assert found.by_step[1] == pytest.approx(np.column_stack([0 * of_causes, 2 * of_causes]), abs=SAME)
    assert found.by_step[0].mean(axis=1)[: len(found.alone)] == pytest.approx(list(found.alone.values()))


def test_causes_that_hide_each_other_have_equal_parts_of_what_both_save() -> None:
    """If either of two causes alone hides the other, each gets half of what fixing both saves."""

    def times_s(fixes: Sequence[Fixed]) -> dict[Fixed, Floats]:
        return {
            fixed: np.full(
                2, max(10.0 - 2.0 * (each in fixed) for each in (cause.SLOW_WORKER, cause.COMMUNICATION))
            )
            for fixed in fixes
        }

    found = savings_of(times_s, 10.0, frozenset(cause.FIXABLE) - {cause.DATA_LOADING, cause.MIXED_HARDWARE})
    assert found.alone == pytest.approx(dict.fromkeys(cause.FIXABLE, 0.0), abs=SAME)
    wanted = dict.fromkeys(cause.FIXABLE, 0.0) | {cause.SLOW_WORKER: 0.1, cause.COMMUNICATION: 0.1}
    assert found.attributed == pytest.approx(wanted, abs=SAME)
