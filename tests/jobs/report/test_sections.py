"""Test sections of job pages: communication, GPU types, and a training that consists of several runs."""

from dataclasses import replace
from typing import Any

import pytest

from jobs.report.job_page import job_page
from jobs.report.rows import UnitTables
from jobs.report.sections import exposed_section, gpu_types, whole
from jobs.report.wording import hours, percent, seconds
from jobs.synthetic.mechanisms.workers import MixedTypes
from jobs.synthetic.shape import JobIdentity, JobShape
from schemas.vocabulary import EXPOSED_COMMUNICATION, GPU_TYPE_SLOWDOWN, ROLE_STEP
from tests.jobs.report.pages import Page
from tests.jobs.report.units import sick_job, unit_tables
from tests.support.examples import ROWS
from tests.support.random_jobs import generate_job
from udfs.kernel.replay.exposed import COMMUNICATION

SICK = sick_job()
EXPOSED = SICK.further[EXPOSED_COMMUNICATION]


def test_it_says_what_workers_wait_for_and_what_overlap_returns() -> None:
    section = exposed_section(SICK)
    assert section is not None
    (of_job,) = [row for row in EXPOSED if row["scope"] == "job"]
    for name, words in (("exposed_s", "Waiting for communication takes "), ("overlap_saved_s", "at most ")):
        share = of_job[name] / SICK.job["actual_step_s"]
        assert f"{words}{hours(192.0 * share)} GPU-hours ({percent(share)})." in section.says
    first, *others = section.rows
    names = ("busy_s", "exposed_s", "hidden_s", "overlap_saved_s")
    assert first == ("all communication", *(seconds(of_job[name]) for name in names))
    exposed_s = {row["op_type"]: row["exposed_s"] for row in EXPOSED if row["scope"] == "op_type"}
    assert [name for name, *_ in others] == sorted(exposed_s, key=lambda name: -exposed_s[name])
    assert 4 <= len(others) <= len(COMMUNICATION)
    assert section.title in Page(job_page(SICK)).text


def test_without_gpu_hours_it_speaks_of_the_time() -> None:
    section = exposed_section(replace(SICK, job={**SICK.job, "gpu_hours": None}))
    assert section is not None
    assert "GPU-hours" not in section.says
    assert section.says.count("of the time") == 2


@pytest.mark.parametrize("further", [{}, {EXPOSED_COMMUNICATION: ()}])
def test_a_unit_without_communication_has_no_section(further: dict[str, tuple[()]]) -> None:
    assert exposed_section(replace(SICK, further=further)) is None


TYPES = {f"node-{number:04d}": "A100" if number in {1, 3} else "H100" for number in range(4)}


def test_a_job_on_two_types_has_a_section_of_them_and_others_have_none() -> None:
    shape = JobShape(dp_size=4, pp_size=1, tp_size=8, steps=12)
    mixed = MixedTypes(TYPES, {"H100": (1.0, 1.0), "A100": (1.5, 1.5)})
    job = generate_job(shape, [mixed], seed=1, identity=JobIdentity(fields={"gpu_hours": 100.0}))
    tables = unit_tables(job.rank_steps, job.manifest)
    found = gpu_types(tables)
    assert found is not None
    assert [row[0] for row in found.rows] == ["H100", "A100"]
    assert [row[5] for row in found.rows] == ["1.00", "1.50"]
    page = Page(job_page(tables, None))
    assert "Types of GPU" in page.text
    assert "unlike GPUs (mixed_hardware)" in page.text
    assert gpu_types(sick_job()) is None


def test_what_is_not_known_is_left_open() -> None:
    """An unknown factor of a GPU type is shown as a dash, and one that may be due to chance in brackets."""
    row = {"gpu_type": "A100", "workers": 2, "hosts": 1, "forward_ideal_s": 0.1, "backward_ideal_s": None} | {
        "slowdown": 1.2,
        "time_saved_fraction": None,
        "saved_gpu_hours": None,
    }
    rows = [row | {"factor": None, "is_slower": False}, row | {"factor": 1.02, "is_slower": False}]
    found = gpu_types(replace(sick_job(), further={GPU_TYPE_SLOWDOWN: rows}))
    assert found is not None
    assert found.says.startswith("Times as long")
    assert [each[5] for each in found.rows] == ["(1.02)", "\N{EN DASH}"]
    assert found.rows[0][4] == "\N{EN DASH}"


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
