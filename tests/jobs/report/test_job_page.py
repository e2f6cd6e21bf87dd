"""Test the job page of a job with a slow host, of published traces, and of jobs that were not replayed."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jobs.report.job_page import Links, figures, job_page, trust
from jobs.report.loss import interval, of_unit, unexplained
from jobs.report.rows import UnitTables
from jobs.report.wording import BELOW_NOTHING, MISSING, hours, percent, seconds
from jobs.what_if import main as what_if_command
from schemas.causes import OF_CAUSE
from tests.evaluation.shapes.examples import EXAMPLES
from tests.evaluation.shapes.truth import unit
from tests.jobs.report.fleets import NAUGHTY
from tests.jobs.report.pages import Page
from tests.jobs.report.units import DAY, recorded_job, sick_job, unit_tables
from tests.support import published
from tests.support.commands import arguments_of
from tests.support.examples import NEXT_DAY, culprit
from udfs.custom_scenario import replay_causes
from udfs.lost import lost_columns
from udfs.what_if import SimulationSettings

SICK = sick_job()
PAGE = Page(job_page(SICK, "a b/warehouse"))


def commands(page: Page) -> list[list[str]]:
    """Return the command lines on a page, each split as a shell splits it."""
    return [shlex.split(text) for text in page.words if text.startswith("straggler ")]


def test_it_says_what_is_lost_why_and_what_fixing_returns() -> None:
    job = SICK.job
    share = percent(job["lost_fraction"])
    fixed_s = job["actual_step_s"] * (1 - job["lost_fraction"])
    assert (
        f"A step takes {seconds(job['actual_step_s'])}, {job['actual_step_s'] / fixed_s:.2f} times the "
        f"{seconds(fixed_s)} with nothing lost: {share} of its time is lost, "
        f"{hours(job['lost_gpu_hours'])} of its 192 GPU-hours."
    ) in PAGE.text
    (cause,) = [row for row in SICK.causes if row["is_cause"]]
    assert f"slow worker: {of_unit(cause['lost_fraction'], cause['lost_gpu_hours'])} lost" in PAGE.text
    alone = of_unit(cause["time_saved_fraction"], cause["recoverable_gpu_hours"])
    between = interval(cause, "time_saved_fraction")
    assert between
    assert f"Fixing it alone saves {alone}, {between}. To do: repair or replace the host" in PAGE.text
    assert f"lost, {interval(cause, 'lost_fraction')} Fixing" in PAGE.text
    assert "of the waste goes (M_W)" in PAGE.text
    assert f"{job['slowdown']:.2f} replayed / ideal step" in PAGE.text


@pytest.mark.parametrize(("gpu_hours", "amount"), [(192.0, r"([\d.]+) GPU-hours \("), (None, "")])
def test_what_causes_and_none_lost_sums_to_what_the_page_says_is_lost(
    gpu_hours: float | None, amount: str
) -> None:
    saved = {"slow_worker": 0.2, "data_imbalance": 0.1, "pause": 0.03, "unexplained": 0.05}
    rows = []
    for row in SICK.causes:
        part = saved.get(row["cause"], 0.0)
        of_fixes = 0.0 if row["cause"] == "unexplained" else part
        figures = {"time_saved_fraction": part, "attributed_fraction": of_fixes, "flag_reason": None}
        rows.append({**row, **figures, "is_cause": part > 0.06})
    lost = lost_columns(rows, gpu_hours, is_analysed=True)
    lost_hours = None if gpu_hours is None else gpu_hours * 0.38
    whole = {"lost_fraction": 0.38, "lost_gpu_hours": lost_hours, "gpu_hours": gpu_hours}
    causes = [{**row, **each} for row, each in zip(rows, lost, strict=True)]
    text = Page(job_page(replace(SICK, job={**SICK.job, **whole}, causes=causes))).text
    parts = re.findall(rf"{amount}([\d.]+) %(?:\)| of the time) lost", text)
    assert len(parts) == 3, "the losses of two causes, and the rest of the loss"
    numbers = np.array(parts, dtype=np.float64).reshape(3, -1)
    assert numbers[:, -1].sum() == pytest.approx(38.0)
    assert "38.0 % of its time is lost" in text or "38 % of its time is lost" in text
    if gpu_hours is not None:
        assert numbers[:, 0].sum() == pytest.approx(gpu_hours * 0.38, abs=1.0)
        assert f"{hours(gpu_hours * 0.38)} of its 192 GPU-hours" in text


def test_the_command_reproduces_every_figure_beside_it() -> None:
    """The command on a page prints the figures beside it from the logs of the page's day alone."""
    revised = [
        dict(row, flag_reason="judged_by_history", time_saved_fraction=0.9, attributed_fraction=0.9)
        | {
            "unrevised": dict(row),
            "evidence": {**row["evidence"], "revised_from": row["time_saved_fraction"]},
        }
        if row["is_cause"]
        else row
        for row in SICK.causes
    ]
    job = recorded_job()
    for tables in (SICK, replace(SICK, causes=revised)):
        page = Page(job_page(tables, "a b/warehouse"))
        asked = arguments_of(what_if_command, commands(page)[0][2:])
        found = replay_causes(job.rank_steps, job.manifest, asked["fix"], SimulationSettings()).answers
        assert [answer.scenario for answer in found] == ["slow_worker", "all causes"]
        for answer in found:
            figures = (
                f"{answer.scenario} {percent(answer.time_saved_fraction)} {hours(answer.gpu_hours_saved)}"
            )
            assert figures in page.text
        assert ("this day alone; the figure above also uses" in page.text) is (tables is not SICK)
        assert found[-1].time_saved_fraction == pytest.approx(SICK.job["lost_fraction"], rel=1e-12)
        assert found[-1].gpu_hours_saved == pytest.approx(SICK.job["lost_gpu_hours"], rel=1e-12)


def test_it_names_the_pattern_the_worker_and_its_host() -> None:
    (worker,) = [row for row in SICK.workers if row["host"] == "sick"]
    assert (
        f"One worker is slow, dp rank {worker['dp_rank']} of stage {worker['pp_rank']}, in every step."
        in PAGE.text
    )
    verdict = "slow: measured in 2 jobs, and slow in more jobs than chance explains (0.4 %)"
    assert f"slow in 2 of 3 jobs, chronic; {verdict}" in PAGE.text
    assert "never slow in the period" in PAGE.text


def test_without_a_warehouse_the_page_says_nothing_of_a_hosts_record() -> None:
    text = Page(job_page(replace(SICK, hosts={}), None)).text
    assert "Hosts of the slowest workers" in text
    assert "record of the host" not in text
    assert "never slow" not in text


def test_the_charts_have_the_rows() -> None:
    charts = {chart["name"]: chart for chart in PAGE.data["charts"]}
    assert list(charts) == ["workers", "steps", "opTypes", "power", "stepMap"]
    found = charts["workers"]["rows"]
    wanted = [100 * (row["slowdown"] - 1) for row in SICK.workers]
    np.testing.assert_allclose(found["excess"], wanted, rtol=1e-2, atol=1e-9)
    assert found["host"] == [row["host"] for row in SICK.workers]
    cells = list(charts["stepMap"]["rows"].values())
    by_stage = sorted(SICK.workers, key=lambda row: (row["pp_rank"], row["dp_rank"]))
    steps = [row["step"] for row in SICK.steps]
    assert cells[0] == [f"{row['pp_rank']} / {row['dp_rank']}" for row in by_stage for _ in steps]
    assert cells[1] == steps * len(by_stage)
    slowdowns = np.concatenate([row["step_slowdowns"] for row in by_stage])
    np.testing.assert_allclose(cells[2], 100 * (slowdowns - 1), rtol=1e-2, atol=1e-9)
    for chart in charts.values():
        assert chart["id"] in PAGE.all("div", "id")
    assert charts["steps"]["rows"]["burst"] == [row["step"] - place for place, row in enumerate(SICK.steps)]


def test_it_says_how_far_to_trust_it() -> None:
    for name in ("steps replayed", "discrepancy", "transfers below -10 ms", "launch delays below -10 ms"):
        assert name in PAGE.text
    assert "100 % of the recorded ones" in PAGE.text
    assert "the others lack a worker" not in PAGE.text
    ((_, _, some),) = [
        each for each in trust({**SICK.job, "steps_dropped": 1}) if each[0] == "steps replayed"
    ]
    assert some.endswith(" of the recorded ones; the others lack a worker")


def test_lines_of_another_day_are_mentioned_where_there_are_any() -> None:
    assert [each[1] for each in trust({**SICK.job, "other_day_lines": 12}) if "another day" in each[0]] == [
        "12"
    ]
    assert all("another day" not in each[0] for each in trust(SICK.job))


def test_no_line_ends_between_a_number_and_its_per_cent_sign() -> None:
    content = job_page(SICK).decode()
    assert "\N{NO-BREAK SPACE}%" in content
    assert re.findall(r"[^>]{0,20}\d %\s*<", content) == []


def test_its_commands_name_the_unit_and_can_be_parsed() -> None:
    what_if, timeline = commands(PAGE)
    assert what_if[1] == "what-if"
    given = {
        "job_id": "job",
        "run_id": "r1",
        "log_date": DAY,
        "warehouse": "a b/warehouse",
        "fix": ("slow_worker",),
    }
    assert given.items() <= arguments_of(what_if_command, what_if[2:]).items()
    slowest = max(SICK.steps, key=lambda row: row["slowdown"])["step"]
    assert timeline[1:] == [
        "timeline", "--warehouse", "a b/warehouse", "--job-id=job", "--run-id=r1",
        "--log-date", DAY.isoformat(), "--step", str(slowest),
    ]  # fmt: skip
    assert shlex.split(PAGE.data["timeline"]) == timeline[:-1]


def test_names_that_are_markup_or_shell_stay_names() -> None:
    page = Page(job_page(sick_job(NAUGHTY, NAUGHTY)))
    assert "img" not in {tag for tag, _ in page.tags}
    assert NAUGHTY in page.words
    assert f"--job-id={NAUGHTY}" in commands(page)[0]


def test_a_measured_cause_that_hides_behind_another_is_named_beside_what_is_unexplained() -> None:
    """The text on unexplained loss names a cause whose fix alone saves nothing because another hides it."""
    place = {"culprits": [culprit(0.14, pp_rank=3, reach="stage")], "is_cause": False}
    hidden = place | {"cause": "stage_imbalance", "time_saved_fraction": -0.018, "attributed_fraction": 0.028}
    rest = {"cause": "unexplained", "is_cause": False, "lost_fraction": 0.03, "lost_gpu_hours": 42.6}
    rest |= {"flag_reason": None, "culprits": [], "time_saved_fraction": 0.0, "attributed_fraction": 0.0}
    slow = {"cause": "slow_worker", "is_cause": True, "attributed_fraction": 0.03, "culprits": []}
    slow |= {"time_saved_fraction": 0.03}
    said = unexplained([slow, hidden, rest], 10)
    assert "Most of it is measured: uneven stages (stage 3, always)." in said
    assert "Its fix alone saves -1.8 % of the time, too little to be a cause" in said
    assert said.endswith("; after the fix of slow worker it saves more: 7.4 %."), (
        "twice the attributed 2.8 %, less the -1.8 % saved alone"
    )
    share = "it saves more: its part of what all fixes save together is 2.8 %, which is a share, not what its"
    loads = slow | {"cause": "data_imbalance"}
    several = unexplained([slow, loads, hidden, rest], 10)
    assert f"; after the fix of slow worker and {OF_CAUSE['data_imbalance'].words} {share}" in several
    small = loads | {"is_cause": False, "time_saved_fraction": -0.01}
    assert f"; after the fix of slow worker {share}" in unexplained([slow, small, hidden, rest], 10)
    assert f"; after the fix of all others {share}" in unexplained([hidden, rest], 10)
    alike = hidden | {"time_saved_fraction": 0.0277}
    assert unexplained([slow, alike, rest], 10).endswith("saves 2.8 % of the time, too little to be a cause.")
    others: list[dict[str, object]] = [
        {"attributed_fraction": 0.01}, {"culprits": []}, {"time_saved_fraction": 0.028},
    ]  # fmt: skip
    for seen in others:
        assert unexplained([hidden | seen, rest], 10).endswith("or that no fix removes.")


def test_causes_that_hide_each_other_are_named_together() -> None:
    """If two causes hide each other, so that fixing one alone saves nothing, one sentence names both."""
    worker = {"cause": "slow_worker", "is_cause": False, "time_saved_fraction": 0.0004}
    worker |= {"attributed_fraction": 0.072, "culprits": [culprit(0.3, pp_rank=1, dp_rank=0, host="h-08")]}
    link = worker | {"cause": "communication", "culprits": [culprit(0.2, pp_rank=1, dp_rank=2, host="h-06")]}
    rest = {"cause": "unexplained", "is_cause": False, "lost_fraction": 0.144, "lost_gpu_hours": 443.0}
    rest |= {"flag_reason": None, "culprits": [], "time_saved_fraction": 0.0, "attributed_fraction": 0.0}
    small = worker | {"cause": "pause", "attributed_fraction": 0.01}
    said = unexplained([worker, link, small, rest], 10)
    assert "Most of it is measured: slow worker (h-08" in said
    assert f"and {OF_CAUSE['communication'].words} (h-06" in said
    assert OF_CAUSE["pause"].words not in said
    assert said.endswith(
        "alone saves at most < 0.1 % of the time, too little to be a cause; their part of what all "
        "fixes save together is 14.4 %."
    )


def test_the_ends_of_a_slow_link_are_named() -> None:
    ends = [(1, 0, "left"), (2, 0, "right"), (1, 1, "left"), (2, 1, "right"), (0, 0, "left"), (3, 3, None)]
    culprits = [culprit(1.5, 0.5, pp_rank=stage, dp_rank=dp_rank, host=host) for stage, dp_rank, host in ends]
    causes = [
        dict(row, is_cause=True, culprits=culprits) if row["cause"] == "communication" else row
        for row in SICK.causes
    ]
    text = Page(job_page(replace(SICK, causes=causes))).text
    assert text.count("The link between") == 1
    assert "The link between left (stage 1) and right (stage 2) is slow at both ends." in text
    assert "1.5 s" in text


@pytest.mark.parametrize(
    ("struck", "advice"),
    [
        ([(0, 4, 8)] * 4, "check what pauses these workers"),
        ([(0, 4), (0, 4), (0, 4), (1, 4)], "check what pauses these workers"),
        ([(3, 7)], "check what pauses these workers"),
        ([(0, 4), (1, 5), (2, 6), (3, 7)], "collect garbage on all workers in the same steps"),
        ([(0, 4), (1, 5)], "collect garbage on all workers in the same steps"),
    ],
    ids=["all together", "nearly together", "one worker", "each on its own", "two apart"],
)
def test_pauses_are_to_coincide_only_where_they_do_not(struck: Sequence[Sequence[int]], advice: str) -> None:
    workers = [
        dict(row, step_slowdowns=[1.3 if step in steps else 1.01 for step in range(12)])
        for row, steps in zip(SICK.workers, struck, strict=False)
    ]
    places = [{name: row[name] for name in ("pp_rank", "dp_rank", "rank", "host")} for row in workers]
    culprits = [culprit(0.3, 0.2, **place) for place in places]
    if len(places) > 1:
        culprits[1:] = [culprit(0.3, 0.2, reach="host", slow_host="h", workers=places[1:])]
    causes = [
        dict(row, is_cause=row["cause"] == "pause", culprits=culprits if row["cause"] == "pause" else [])
        for row in SICK.causes
    ]
    others = SICK.workers[len(workers) :]
    text = Page(job_page(replace(SICK, causes=causes, workers=[*workers, *others]))).text
    assert f"To do: {advice}" in text


def test_a_unit_that_is_not_analysed_says_so_first_and_has_no_loss() -> None:
    job = dict(
        SICK.job,
        status="high_discrepancy",
        status_detail="9 % apart",
        lost_fraction=None,
        lost_gpu_hours=None,
    )
    causes = [dict(row, lost_fraction=None, lost_gpu_hours=None) for row in SICK.causes]
    text = Page(job_page(replace(SICK, job=job, causes=causes))).text
    assert (
        "Analysed, but outside the fleet's figures: replay and recording too far apart (9 % apart). The "
        "figures on this page are still the best estimates" in text
    )
    assert "is lost" not in text
    assert "GPU-hours lost" not in text


def test_without_slowdowns_by_step_it_says_how_to_get_them() -> None:
    earlier = [dict(row, step_slowdowns=None) for row in SICK.workers]
    page = Page(job_page(replace(SICK, workers=earlier)))
    assert "This command adds them: straggler simulate --log-date 2026-01-05" in page.text
    assert "chart-step-map" not in page.all("div", "id")
    assert "One worker is slow, dp rank 0 of stage 0, in the mean over all steps." in page.text


def test_it_leads_to_the_fleets_page_other_days_and_hosts() -> None:
    days = [(NEXT_DAY, "7 GPU-hours lost", "../d.html")]
    links = Links("../index.html", "../q.html", "../c.html", days, {"sick": "../h.html"})
    page = Page(job_page(SICK, links=links))
    assert {"../index.html", "../q.html", "../c.html", "../d.html", "../h.html"} <= set(page.all("a", "href"))
    assert "2026-01-06 (7 GPU-hours lost)" in page.text
    assert Page(job_page(SICK)).all("a", "href") == ["#main", "#mitigations"]


def test_it_says_what_can_be_done_about_a_cause() -> None:
    """The page names a cause's best mitigation in one clause, and links to all mitigations."""
    page = Page(job_page(SICK))
    assert "What can be done: host exchanged (replace sick by a healthy host) saves " in page.text
    assert page.all("a", "href").count("#mitigations") == 1
    assert "mitigations" in page.all("section", "id")
    best, other = (
        page.text.index(each) for each in ("host exchanged: replace sick", "replica removed: continue")
    )
    assert best < other
    assert not [href for href in page.all("a", "href") if "dictionary" in href]
    led = Page(job_page(SICK, links=Links(dictionary="../dictionary.html")))
    assert led.all("a", "href").count("../dictionary.html#mitigations") == 1


def test_a_worker_that_turns_slow_in_mid_run_is_named_beside_the_map_that_shows_it() -> None:
    text = Page(job_page(unit_tables(*unit(EXAMPLES["slow_backwards_from_step_10"]())))).text
    assert "One worker is slow, dp rank 1 of stage 0, in 10 of 20 steps." in text
    assert "6.4 % of its time is lost" in text
    assert "No cause holds" not in text
    assert "backwards 1.30 times as long 0 1 2 since step 110" in text


@pytest.mark.parametrize("steps", [12, 3])
def test_a_job_that_nothing_slows_says_so(steps: int) -> None:
    tables = sick_job(steps=steps)
    healthy = replace(tables, causes=[dict(row, is_cause=False) for row in tables.causes])
    assert "No cause holds" in Page(job_page(healthy)).text


def test_a_job_that_was_not_replayed_says_why() -> None:
    facts = {"status": "missing_workers", "status_detail": "none of 14 steps has all 4 x 4 workers"}
    job = dict.fromkeys(SICK.job) | {"log_date": DAY, "job_id": "job", "run_id": "r1", **facts}
    rejects = [{"reason": "bad_type", "count": 12, "detail": "rank is text <b>, not an integer"}]
    page = Page(job_page(UnitTables(job=job, rejects=rejects)))
    assert "Not analysed: no step with all workers (none of 14 steps has all 4 x 4 workers)." in page.text
    assert "What to do Look for workers whose file is missing or was rejected" in page.text
    assert "bad_type 12 rank is text <b>, not an integer" in page.text
    assert "What to do" not in PAGE.text
    assert "What was rejected" not in PAGE.text
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
    assert "Not analysed: a defect of this software (KeyError: 3)." in page.text
    assert facts["failure_traceback"] in page.words
    assert "Where it failed" not in PAGE.text


@pytest.mark.parametrize(
    ("trace", "pattern", "returned", "slowdown"),
    [
        ("SE", ("hot all over", "but not all in the same"), "24.7 %", "1.54"),
        ("ST", ("hot row", "Stage 3 (of 0 to 3) is slow in all replicas, in every step."), "13.3 %", "1.18"),
    ],
)
def test_published_traces(
    published_traces: Path, trace: str, pattern: tuple[str, str], returned: str, slowdown: str
) -> None:
    """In trace SE all workers are slow, but not in the same steps; in trace ST only its last stage is."""
    rows = published.rank_steps(published_traces, trace)
    page = Page(job_page(unit_tables(rows, published.manifest(published_traces, trace))))
    returns = f"Fixing it alone saves {returned} of the time"
    for words in (*pattern, returns, f"{slowdown} replayed / ideal"):
        assert words in page.text


def test_of_very_many_workers_the_map_by_steps_shows_the_slowest() -> None:
    workers = [
        dict(SICK.workers[0], dp_rank=dp, slowdown=1 + dp / 1000, step_slowdowns=[1 + dp / 1000] * 12)
        for dp in range(200)
    ]
    page = Page(job_page(replace(SICK, workers=workers)))
    (rows,) = [chart["rows"] for chart in page.data["charts"] if chart["name"] == "stepMap"]
    assert list(dict.fromkeys(rows["worker"])) == [f"0 / {dp}" for dp in range(72, 200)]
    assert "Only the 128 slowest of 200 workers are shown." in page.text


def test_a_run_that_left_its_events_shows_what_its_hours_were_spent_on() -> None:
    assert "How its GPU-hours were spent" not in PAGE.text
    at_us = 1_767_600_000_000_000
    minutes = {"start": 0, "first_step": 60, "failure": 120, "restart": 180}
    events = [{"event": name, "at_us": at_us + 60_000_000 * minute} for name, minute in minutes.items()]
    job = recorded_job()
    tables = unit_tables(job.rank_steps, job.manifest | {"events": events})
    page = Page(job_page(tables, "warehouse"))
    assert "0 % of 192 GPU-hours went into steps that stayed" in page.text
    assert "2 starts, 1 failure, 0 checkpoints." in page.text
    assert "start-ups, until the first step 64 33.3 % checkpoints 0 0 % evaluations 0 0 %" in page.text
    assert "loads of data, between steps 0 0 % not known 64 33.3 %" in page.text
    assert "Contradictions" not in page.text
    (row,) = tables.further["job_time"]
    wrong = replace(tables, further={"job_time": [{**row, "contradictions": 2}]})
    assert "Contradictions among its events: 2;" in Page(job_page(wrong, "warehouse")).text


@pytest.mark.parametrize(("share", "is_beyond"), [(1.06, True), (0.9, False)])
def test_more_than_all_of_the_waste_has_its_reason_beside_it(share: float, *, is_beyond: bool) -> None:
    causes = [
        {**row, "evidence": {**dict(row["evidence"]), "indicator": share}}
        if row["cause"] == "slow_worker"
        else row
        for row in SICK.causes
    ]
    job = {**SICK.job, "slow_worker_share": share, "last_stage_share": 0.1}
    text = Page(job_page(replace(SICK, causes=causes, job=job))).text
    assert text.count("above 100 %, as the other ops are faster than the ideal") == 2 * is_beyond


def test_a_share_of_hardly_any_waste_is_not_shown() -> None:
    """If the waste is below 1 % of the time, the page shows no shares of it, because they mean little."""
    job = {**SICK.job, "waste_fraction": 0.0022, "slow_worker_share": -50.55, "last_stage_share": 0.1}
    shown = {name: (value, meaning) for name, value, meaning in figures(job)}
    for name in ("by the slowest 3 % of workers", "by the last stage"):
        assert shown[name] == (MISSING, "not shown, because parts of a waste below 1 % are noise")


def test_a_share_below_zero_says_why() -> None:
    job = {**SICK.job, "waste_fraction": 0.09, "slow_worker_share": -0.24, "last_stage_share": 0.1}
    (value, meaning) = next(each[1:] for each in figures(job) if each[0] == "by the slowest 3 % of workers")
    assert (value, meaning.rpartition("; ")[2]) == ("-24.0 %", BELOW_NOTHING)
