"""The job page: what it says of a slow host, of published traces, of jobs that were not replayed."""

import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jobs.report.job_page import job_page
from jobs.report.rows import UnitTables
from jobs.report.wording import hours
from jobs.what_if import main as what_if_command
from tests import published
from tests.jobs.report.fleets import NAUGHTY
from tests.jobs.report.pages import Page
from tests.jobs.report.units import DAY, sick_job, unit_tables

SICK = sick_job()
PAGE = Page(job_page(SICK, "a b/warehouse"))


def commands(page: Page) -> list[list[str]]:
    """Command lines as a shell splits them."""
    return [shlex.split(text) for text in page.words if text.startswith(".venv/bin/python -m jobs.")]


def test_it_says_what_is_lost_why_and_what_fixing_returns() -> None:
    job = SICK.job
    assert f"A step takes {job['slowdown']:.2f} times its ideal time" in PAGE.text
    assert f"{hours(job['wasted_gpu_hours'])} of its 192 GPU-hours" in PAGE.text
    (cause,) = [row for row in SICK.causes if row["is_cause"]]
    saved = f"fixing it saves {100 * cause['time_saved_fraction']:.1f} % of the step time"
    assert f"slow worker: {saved}, {hours(cause['recoverable_gpu_hours'])} GPU-hours" in PAGE.text
    assert "repair or replace the host" in PAGE.text
    assert "the paper's M_W is" in PAGE.text


def test_it_names_the_pattern_the_worker_and_its_host() -> None:
    (worker,) = [row for row in SICK.workers if row["host"] == "sick"]
    assert (
        f"One worker is slow, dp rank {worker['dp_rank']} of stage {worker['pp_rank']}, in every step."
        in PAGE.text
    )
    assert "slow in 2 of 3 jobs, chronic, beyond chance" in PAGE.text
    assert "never slow in the period" in PAGE.text


def test_the_charts_hold_the_rows() -> None:
    charts = {chart["name"]: chart for chart in PAGE.data["charts"]}
    assert list(charts) == ["workers", "steps", "opTypes", "stepMap"]
    found = charts["workers"]["rows"]
    wanted = [100 * (row["slowdown"] - 1) for row in SICK.workers]
    np.testing.assert_allclose(found["excess"], wanted, rtol=1e-2, atol=1e-9)
    assert found["host"] == [row["host"] for row in SICK.workers]
    cells = list(charts["stepMap"]["rows"].values())
    by_stage = sorted(SICK.workers, key=lambda row: (row["pp_rank"], row["dp_rank"]))
    steps = [row["step"] for row in SICK.steps]
    assert cells[0] == [f"{row['pp_rank']} / {row['dp_rank']}" for row in by_stage for _ in steps]
    assert cells[1] == steps * len(by_stage)
    told = np.concatenate([row["step_slowdowns"] for row in by_stage])
    np.testing.assert_allclose(cells[2], 100 * (told - 1), rtol=1e-2, atol=1e-9)
    for chart in charts.values():
        assert chart["id"] in PAGE.all("div", "id")
        assert chart["text"]


def test_it_says_how_far_to_trust_it() -> None:
    for name in ("steps replayed", "discrepancy", "transfers below -10 ms", "launch delays below -10 ms"):
        assert name in PAGE.text
    assert "100 % of those recorded" in PAGE.text


def test_its_commands_name_the_unit_and_can_be_parsed() -> None:
    what_if, timeline = commands(PAGE)
    args = what_if_command.read(what_if[3:])
    assert (args.job_id, args.run_id, args.log_date, args.warehouse) == ("job", "r1", DAY, "a b/warehouse")
    assert [each.text for each in args.fix] == ["host = 'sick'"]
    slowest = max(SICK.steps, key=lambda row: row["slowdown"])["step"]
    assert timeline[2:] == [
        "jobs.export_timeline", "--warehouse", "a b/warehouse", "--job-id=job", "--run-id=r1",
        "--log-date", DAY.isoformat(), "--step", str(slowest),
    ]  # fmt: skip


def test_names_that_are_markup_or_shell_stay_names() -> None:
    page = Page(job_page(sick_job(NAUGHTY, NAUGHTY)))
    assert "img" not in {tag for tag, _ in page.tags}
    assert NAUGHTY in page.words
    what_if = commands(page)[0]
    assert f"--job-id={NAUGHTY}" in what_if
    (fix,) = what_if_command.read(what_if[3:]).fix
    assert fix.text == "host = '" + NAUGHTY.replace("'", "''") + "'"


def test_without_slowdowns_by_step_it_says_how_to_get_them() -> None:
    earlier = [dict(row, step_slowdowns=None) for row in SICK.workers]
    page = Page(job_page(replace(SICK, workers=earlier)))
    assert "This adds them: simulate_what_if --log-date 2026-01-05" in page.text
    assert "chart-step-map" not in page.all("div", "id")
    assert "One worker is slow, dp rank 0 of stage 0, in the mean over all steps." in page.text


def test_it_leads_back_to_the_fleets_page_where_there_is_one() -> None:
    assert "../index.html" in PAGE.all("a", "href")
    assert Page(job_page(SICK, has_fleet_page=False)).all("a", "href") == ["#main"]


@pytest.mark.parametrize("steps", [12, 3])
def test_a_job_that_nothing_slows_says_so(steps: int) -> None:
    tables = sick_job(steps=steps)
    healthy = replace(tables, causes=[dict(row, is_cause=False) for row in tables.causes])
    assert "No cause holds" in Page(job_page(healthy)).text


def test_a_job_that_was_not_replayed_says_why() -> None:
    facts = {"status": "missing_workers", "status_detail": "none of 14 steps has all 4 x 4 workers"}
    job = dict.fromkeys(SICK.job) | {"log_date": DAY, "job_id": "job", "run_id": "r1", **facts}
    page = Page(job_page(UnitTables(job=job)))
    assert "Not analysed: no step with all workers (none of 14 steps has all 4 x 4 workers)." in page.text
    assert not commands(page)
    assert page.all("div", "id") == []


def test_a_job_that_failed_by_a_defect_of_ours_shows_where() -> None:
    facts = {
        "status": "failed",
        "status_detail": "KeyError: 3",
        "failure_traceback": "File <x>, line 7\nKeyError: 3\n",
    }
    job = dict.fromkeys(SICK.job) | {"log_date": DAY, "job_id": "job", "run_id": "r1", **facts}
    page = Page(job_page(UnitTables(job=job)))
    assert "Not analysed: our own defect (KeyError: 3)." in page.text
    assert facts["failure_traceback"] in page.words
    assert "Where it failed" not in PAGE.text


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        ("SE", ("hot all over", "uneven data: fixing it saves 25.0 % of the step time", "1.54 times")),
        ("ST", ("hot row", "uneven stages: fixing it saves 13.3 % of the step time", "1.18 times")),
    ],
)
def test_published_traces(published_traces: Path, trace: str, said: tuple[str, ...]) -> None:
    rows = published.rank_steps(published_traces, trace)
    page = Page(job_page(unit_tables(rows, published.manifest(published_traces, trace))))
    for text in said:
        assert text in page.text


def test_of_very_many_workers_the_map_by_steps_shows_the_slowest() -> None:
    workers = [
        dict(SICK.workers[0], dp_rank=dp, slowdown=1 + dp / 1000, step_slowdowns=[1 + dp / 1000] * 12)
        for dp in range(200)
    ]
    page = Page(job_page(replace(SICK, workers=workers)))
    (rows,) = [chart["rows"] for chart in page.data["charts"] if chart["name"] == "stepMap"]
    assert list(dict.fromkeys(rows["worker"])) == [f"0 / {dp}" for dp in range(72, 200)]
    assert "The 128 slowest of 200 workers." in page.text
