"""The section of a job's page on communication."""

from dataclasses import replace

import pytest

from jobs.report.job_page import job_page
from jobs.report.sections import exposed_section
from jobs.report.wording import hours, percent, seconds
from schemas.vocabulary import EXPOSED_COMMUNICATION
from tests.jobs.report.pages import Page
from tests.jobs.report.units import sick_job
from udfs.kernel.replay.spent import COMMUNICATION

SICK = sick_job()
ROWS = SICK.further[EXPOSED_COMMUNICATION]


def test_it_says_what_workers_wait_for_and_what_overlap_returns() -> None:
    section = exposed_section(SICK)
    assert section is not None
    (of_job,) = [row for row in ROWS if row["scope"] == "job"]
    for name, words in (("exposed_s", "Waiting for communication takes "), ("overlap_saved_s", "at most ")):
        share = of_job[name] / SICK.job["actual_step_s"]
        assert f"{words}{hours(192.0 * share)} GPU-hours ({percent(share)})." in section.says
    first, *others = section.rows
    names = ("busy_s", "exposed_s", "hidden_s", "overlap_saved_s")
    assert first == ("all communication", *(seconds(of_job[name]) for name in names))
    exposed_s = {row["op_type"]: row["exposed_s"] for row in ROWS if row["scope"] == "op_type"}
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
