"""The diagnosis is right on five faults that users reported and on a few drawn jobs."""

from typing import Any, Final, NamedTuple

import pytest

from tests.evaluation.shapes.examples import EXAMPLES
from tests.evaluation.shapes.judge import judge
from tests.evaluation.shapes.truth import truth, unit
from udfs.what_if import simulate_job

NEAR: Final = 0.005
"""Largest error of a saving or a loss, as a share of the step."""

DRAWN: Final = range(40, 80)
"""Seeds below 100,000 may be used for tuning. The job of seed 18, which has two faults at once, gets one
wrong cause."""
LEAST_NAMED: Final = 0.9


MISSED: Final = {
    730545: "a worker without peers that grows slow: 0.0244 were lost to no cause",
    753203: "another, shorter: it saved 0.0342 of 0.0422",
    745156: "reduce-scatters that are slow in some steps, flagged nobody_late",
    760235: "a late start behind a receive that moves nothing: high_discrepancy",
}
"""Seeds of jobs with one fault that the diagnosis missed at some time, with its answer then."""


class Said(NamedTuple):
    """What the diagnosis must say about an example, and what it once said.

    saved : cost of the fault in the report by a user, as a share of the step
    said_before : answer of 0.3.0 to that report
    """

    saved: float
    direction: str
    course: str
    first_step: int
    host: str | None
    said_before: str


EXPECTED: Final = {
    "slow_backwards": Said(0.119, "backward", "always", 100, None, "stage_imbalance 0.025"),
    "slow_backwards_from_step_10": Said(0.063, "backward", "from", 110, None, "0.005 lost, no cause"),
    "slow_host_from_step_10": Said(0.124, "both", "from", 110, "host-1", "data_imbalance 0.093"),
    "backwards_twice_as_slow": Said(0.39, "backward", "always", 100, None, "nothing lost"),
    "slow_forwards": Said(0.064, "forward", "always", 100, None, "pause"),
}


def said_of(name: str) -> dict[str, dict[str, Any]]:
    """Return the rows of job_causes, by cause, for the example with this name."""
    return {row["cause"]: row for row in simulate_job(*unit(EXAMPLES[name]()))["job_causes"].to_pylist()}


@pytest.mark.parametrize(("name", "wanted"), EXPECTED.items(), ids=EXPECTED)
def test_examples_have_their_name_place_and_saving(name: str, wanted: Said) -> None:
    rows = said_of(name)
    assert [cause for cause, row in rows.items() if row["is_cause"]] == ["slow_worker"], wanted.said_before
    slow = rows["slow_worker"]
    assert slow["flag_reason"] is None
    assert slow["time_saved_fraction"] == pytest.approx(wanted.saved, abs=NEAR)
    assert slow["time_saved_fraction"] == pytest.approx(truth(EXAMPLES[name]()).lost_fraction, abs=NEAR / 5)
    assert sum(row["lost_fraction"] for row in rows.values()) == pytest.approx(wanted.saved, abs=NEAR)
    (culprit,) = slow["culprits"]
    assert culprit["slow_host"] == wanted.host
    workers = {(each["pp_rank"], each["dp_rank"]) for each in culprit["workers"] or [culprit]}
    assert workers == EXAMPLES[name]().faults[0].workers


@pytest.mark.parametrize(("name", "wanted"), EXPECTED.items(), ids=EXPECTED)
def test_examples_say_what_is_slow_and_since_when(name: str, wanted: Said) -> None:
    (culprit,) = said_of(name)["slow_worker"]["culprits"]
    assert (culprit["direction"], culprit["course"]) == (wanted.direction, wanted.course)
    assert (culprit["first_step"], culprit["last_step"]) == (wanted.first_step, 119)
    (size,) = {fault.size for fault in EXAMPLES[name]().faults}
    assert 1.0 + culprit["effect"] == pytest.approx(size, rel=0.005)


def test_drawn_faults_are_named_and_no_other_name_is_given() -> None:
    """In a few drawn jobs the faults are named, and nothing else; the full evaluation draws 1,000 jobs."""
    judged = [judge(seed) for seed in DRAWN]
    assert {job.seed: job.wrong for job in judged if job.wrong} == {}
    asked = [each for job in judged for each in job.verdicts if each.cause and not each.why_not]
    missed = [each.text for each in asked if not each.is_named]
    assert len(missed) <= (1.0 - LEAST_NAMED) * len(asked), missed
    assert len(asked) > len(DRAWN) / 3, "faults that can be decided"


@pytest.mark.parametrize("seed", MISSED)
def test_faults_that_were_missed_are_named(seed: int) -> None:
    job = judge(seed)
    (fault,) = job.verdicts
    assert (fault.is_named, job.wrong) == (True, []), MISSED[seed]
    if job.said_lost_fraction is not None:
        assert job.said_lost_fraction == pytest.approx(job.lost_fraction, abs=NEAR / 5)
