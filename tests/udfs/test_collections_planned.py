"""Planned garbage collection saves what reruns save; if no saving is predicted, a reason is given."""

from dataclasses import replace

import numpy as np
import pytest

from jobs.synthetic.conditions import Conditions
from jobs.synthetic.mechanisms.workers import AllocatorStalls, UnsynchronisedGc
from jobs.synthetic.shape import JobShape
from schemas.mitigations import COLLECTIONS, OVER_DP_RANKS, SEQUENCES
from tests.evaluation.mitigated_runs import PlannedCollections
from tests.evaluation.mitigations import judge
from tests.support.mitigated import SEQUENCES_OF_ALL, SHAPE, answer, found, step_s
from udfs.kernel.diagnosis.collections_planned import usual_number


class GcOfOneWorker(UnsynchronisedGc):
    """Garbage collection on the first worker only."""

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        before_s = conditions.added_s.copy()
        super().change(conditions, rng)
        is_other = (conditions.place.pp_rank != 0)[:, None, None] | (np.arange(conditions.lanes[1]) != 0)
        conditions.added_s[:] = np.where(is_other, before_s, conditions.added_s)


def test_collections_are_planned() -> None:
    pauses = UnsynchronisedGc(pause_s=0.3, every_steps=4)
    one = answer(found(pauses), COLLECTIONS)
    assert one.plan.startswith("collect on all workers together after every 4 steps (")
    true_s = step_s(PlannedCollections(**vars(pauses), planned_steps=4))
    assert one.step_s == pytest.approx(true_s, rel=0.01)
    assert one.time_saved_fraction > 0.1


@pytest.mark.parametrize(
    ("pauses", "usual"),
    [
        ([3, 0, 0, 0], 2.82),  # others never pause: by chance only 6 % of workers would do so
        ([2, 2, 2, 2], 2.0),
        ([1, 0, 0, 1], 0.5),  # the other workers may pause in later steps
    ],
)
def test_how_often_a_worker_pauses_that_does(pauses: list[int], usual: float) -> None:
    assert usual_number(np.array(pauses, float)) == pytest.approx(usual, abs=0.01)


def test_workers_that_never_pause_do_not_make_collections_rare() -> None:
    """Collections are planned as often as the pausing workers need, even if most workers never pause."""
    pauses = GcOfOneWorker(pause_s=0.3, every_steps=2, spread=0.0)
    one = answer(found(pauses, shape=replace(SHAPE, steps=24)), COLLECTIONS)
    assert one.plan.startswith("collect on all workers together after every 3 steps (0.3 s")
    assert COLLECTIONS in found(pauses).without


def test_pauses_that_are_no_collections_stay() -> None:
    """Short stalls in 5 % of the forwards are no garbage collection, so the mitigation keeps them."""
    pauses = UnsynchronisedGc(pause_s=0.3, every_steps=4)
    stalls = AllocatorStalls(stall_s=0.03, compute_share=0.05)
    true_s = step_s(PlannedCollections(**vars(pauses), planned_steps=4), stalls)
    one = answer(found(pauses, stalls), COLLECTIONS)
    assert one.time_saved_fraction == pytest.approx(1 - true_s / step_s(pauses, stalls), abs=0.01)
    assert 1 - step_s(pauses) / step_s(pauses, stalls) > 0.015
    alone = JobShape(dp_size=1, pp_size=1, microbatches=8, steps=20)
    assert COLLECTIONS in found(pauses, shape=alone).without


def test_pauses_that_strike_most_uneven_microbatches_hide_their_work() -> None:
    """If pauses hit most microbatches of uneven work, the mitigations for uneven data have no answer."""
    often = UnsynchronisedGc(pause_s=0.3, every_steps=3)
    hidden = found(SEQUENCES_OF_ALL, often, shape=replace(SHAPE, microbatches=2)).without
    assert {SEQUENCES, OVER_DP_RANKS, COLLECTIONS} <= set(hidden)
    rare = found(SEQUENCES_OF_ALL, replace(often, every_steps=12)).without
    assert {SEQUENCES, COLLECTIONS}.isdisjoint(rare)


def test_of_one_microbatch_a_step_other_stages_tell_a_pause() -> None:
    """With one microbatch a step, a pause is recognised only by comparison with other stages."""
    pauses = UnsynchronisedGc(pause_s=0.3, every_steps=6)
    alone = replace(SHAPE, microbatches=1)
    one = answer(found(pauses, shape=alone), COLLECTIONS)
    assert one.plan.startswith("collect on all workers together after every 9 steps (")
    true_s = step_s(PlannedCollections(**vars(pauses), planned_steps=9), shape=alone)
    assert one.step_s == pytest.approx(true_s, rel=0.01)
    assert COLLECTIONS in found(pauses, shape=replace(alone, pp_size=2)).without
    often = replace(pauses, every_steps=1.5)
    assert COLLECTIONS in found(often, shape=replace(SHAPE, microbatches=2)).without


def test_a_worker_that_is_slow_in_one_step_collects_nothing() -> None:
    """Long backwards of a worker in one single step do not count as garbage collection."""
    row = judge(3400017, COLLECTIONS, 6_000)
    assert row is not None
    assert row["answered"]
    assert abs(row["error"]) < 0.7
