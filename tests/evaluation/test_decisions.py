"""An engineer acts each morning as a policy prescribes, and saves the expected GPU-hours."""

from dataclasses import replace

import pytest

from jobs.synthetic.mechanisms.work import LossLayer, UnevenLayers
from jobs.synthetic.mechanisms.workers import UnsynchronisedGc
from schemas.mitigations import COLLECTIONS, LAYERS
from tests.evaluation.decisions import POLICIES, Mornings, changed, follow
from tests.evaluation.drain_fleets import World
from tests.evaluation.mitigated_runs import PlannedCollections


@pytest.fixture(scope="module")
def world() -> World:
    """Return a fleet with one job that pauses, on hosts that are never slow."""
    found = World(20, jobs=1, days=7, most_ops=500)
    (job,) = found.fleet.jobs
    pauses = UnsynchronisedGc(3 * job.plan.workload.forward_s, 6.0)
    plan = replace(job.plan, mechanisms=[pauses])
    found.fleet = replace(found.fleet, jobs=[replace(job, plan=plan)], spells=[])
    return found


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_is_changed_once_and_returns_what_the_same_steps_take_less(world: World, policy: str) -> None:
    course = follow(world, POLICIES[policy], Mornings(1, 1))
    (first,) = world.fleet.jobs
    assert list(course.changed) == [(first.job_id, COLLECTIONS)]
    since, after = course.changed[first.job_id, COLLECTIONS], course.jobs[first.job_id]
    (planned,) = after.plan.mechanisms
    assert isinstance(planned, PlannedCollections)
    days = [day for day in first.days if day >= since]
    steps_us = [[world.step_us(world.ran(job, day)) for day in days] for job in (first, after)]
    saved = sum(1 - now / before for before, now in zip(*steps_us, strict=True))
    assert len(days) >= 2
    assert saved > 0.0
    assert course.by_changes == pytest.approx(24.0 * first.shape.world_size * saved)
    assert course.returned == pytest.approx(0.0)
    assert course.drained == {}
    assert course.cost == pytest.approx(first.shape.world_size / 2)


def test_layers_are_moved_as_advised_and_stated_anew(world: World) -> None:
    (job,) = world.fleet.jobs
    chunks = job.shape.last_chunk + 1
    assert chunks > 1
    advice = {
        "mitigation": LAYERS,
        "plan": f"{', '.join(['5'] * chunks)} instead of {', '.join(['5'] * chunks)}",
    }
    labelled = replace(job, fields={"labels": {"layers": ",".join(["5"] * chunks)}})
    even, uneven = UnevenLayers((5.0,) * chunks), UnevenLayers((6.0, 4.0, *[5.0] * (chunks - 2)))
    for trouble, left in ((LossLayer(0.1, 0.1), 2), (uneven, 1)):
        before = replace(labelled, plan=replace(job.plan, mechanisms=[trouble]))
        after = changed(before, advice)
        assert even in after.plan.mechanisms
        assert len(after.plan.mechanisms) == left
        assert after.fields["labels"] == {"layers": ",".join(["5"] * chunks)}
    assert changed(job, advice) is job
