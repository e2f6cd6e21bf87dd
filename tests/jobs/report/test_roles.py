"""The section of the whole that a run is part of: who is waited for, and why nothing is said."""

from dataclasses import replace
from typing import Any

import pytest

from jobs.report.job_page import job_page
from jobs.report.rows import UnitTables
from jobs.report.sections import whole
from schemas.vocabulary import ROLE_STEP
from tests.jobs.report.pages import Page
from tests.jobs.report.units import sick_job
from tests.support.examples import ROWS

ACTOR = dict(ROWS["role_effect"])
ROLLOUT: dict[str, Any] = ACTOR | {
    "role": "rollout", "waits_for": [], "waits_for_before": ["actor"], "waited_for_s": 102.0,
    "iterations_waited_for": 10, "runs": 3, "runs_left_out": 1,
}  # fmt: skip
UNANSWERED = ACTOR | dict.fromkeys(name for name in ACTOR if name.endswith("_s") or name.startswith("saved"))


def part(*roles: dict[str, Any], **further: Any) -> UnitTables:  # noqa: ANN401  # any columns
    job = {"part_of": "rlhf-7", "role": "actor"}
    return UnitTables(job=job, roles=roles, further={ROLE_STEP: [ROWS[ROLE_STEP]]} | further)


def test_a_run_that_is_part_of_no_whole_has_no_section() -> None:
    assert whole(UnitTables(job={"part_of": None, "role": None})) is None
    assert "The whole that this run is part of" not in Page(job_page(sick_job())).text


def test_it_says_who_is_waited_for_and_what_a_faster_role_returns() -> None:
    tables = part(ACTOR, ROLLOUT)
    sick = sick_job()
    of_whole = replace(sick, job={**sick.job, **tables.job}, roles=tables.roles, further=tables.further)
    text = Page(job_page(of_whole)).text
    assert "This run is part of rlhf-7, as its actor. Its recorded iterations took 170 s" in text
    assert "for 60.0 % of that time the others waited for the rollout." in text
    assert "rollout, waits for actor of the iteration before 3, 1 left out" in text
    assert "5.0 % (19.2) 6.0 % (23) 15.0 % (57.6)" in text


@pytest.mark.parametrize(
    ("tables", "rows", "why"),
    [
        (part(), 0, "it needs the logs of all runs"),
        (part(UNANSWERED), 0, "fewer than 3 of its iterations"),
        (part(ACTOR, **{ROLE_STEP: []}), 1, "no absolute times of this day"),
    ],
)
def test_it_says_why_nothing_is_said(tables: UnitTables, rows: int, why: str) -> None:
    section = whole(tables)
    assert section is not None
    assert (len(section.rows), why in section.says) == (rows, True)
    assert ("leave it out" in section.says) == (rows == 1)
