"""A picture draws ops of a culprit beside those of a healthy peer, in a slow step and in a usual step."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from jobs.report.crop import crop_of, crop_picture, crop_question
from jobs.report.job_page import job_page
from jobs.report.rows import UnitTables
from jobs.report.templates import shared_files
from schemas.causes import DECLARED
from schemas.vocabulary import CAUSE_UNEXPLAINED, OP_CODES, RANK_STEPS
from tests.jobs.report.pages import Page
from tests.jobs.report.units import recorded_job, sick_job, unit_tables
from tests.support.answers import answer

SICK = sick_job()


@pytest.fixture(scope="module")
def drawn() -> UnitTables:
    """A job with a slow host, with the recorded ops that its picture shows."""
    job = recorded_job()
    rows = job.rank_steps.select(["rank", "step", "op", "start_us", "duration_us"]).to_pylist()
    lines = [row | {"op": [OP_CODES.get(op, op) for op in row["op"]]} for row in rows]
    return replace(unit_tables(job.rank_steps, job.manifest), crop=lines)


def test_the_culprit_is_drawn_beside_a_worker_of_its_stage_that_is_none() -> None:
    crop = crop_of(SICK)
    assert crop is not None
    assert (crop.culprit["host"], crop.peer["pp_rank"]) == ("sick", crop.culprit["pp_rank"])
    assert crop.peer["host"].startswith("well")
    slowdowns = crop.culprit["step_slowdowns"]
    steps = [row["step"] for row in SICK.steps]
    assert slowdowns[steps.index(crop.slow_step)] == max(slowdowns)
    assert slowdowns[steps.index(crop.usual_step)] == min(slowdowns)


def test_a_stage_of_which_all_are_slow_is_drawn_beside_another() -> None:
    (slow,) = {row["pp_rank"] for row in SICK.workers if row["host"] == "sick"}
    causes = [
        {
            **row,
            "culprits": [
                {**each, "dp_rank": None, "pp_rank": slow, "workers": []} for each in row["culprits"]
            ],
        }
        for row in SICK.causes
    ]
    crop = crop_of(replace(SICK, causes=causes))
    assert crop is not None
    assert crop.culprit["pp_rank"] == slow != crop.peer["pp_rank"]


@pytest.mark.parametrize(
    "without",
    [
        {"causes": [{**row, "is_cause": False} for row in SICK.causes]},
        {"causes": [{**row, "culprits": []} for row in SICK.causes]},
        {"workers": [{**row, "step_slowdowns": None} for row in SICK.workers]},
        {"workers": [row for row in SICK.workers if row["host"] == "sick"]},
    ],
)
def test_nothing_is_drawn_without_a_culprit_a_peer_or_steps(without: dict[str, Any]) -> None:
    tables = replace(SICK, **without)
    assert crop_of(tables) is None
    assert crop_picture(tables) is None


def test_nothing_is_drawn_once_the_ops_have_expired() -> None:
    assert crop_picture(SICK) is None
    assert 'id="crop-title"' not in job_page(SICK).decode()


def test_forwards_of_the_culprit_are_seen_to_be_longer(drawn: UnitTables) -> None:
    picture = crop_picture(drawn)
    assert picture is not None
    culprit, peer, *_ = picture["lanes"]
    assert [each["is_culprit"] for each in picture["lanes"]] == [True, False, True, False]
    assert "sick" in culprit["title"]
    longest = [max(op["width"] for op in lane["ops"] if op["kind"] == "forward") for lane in (culprit, peer)]
    assert longest[0] == pytest.approx(1.5 * longest[1], rel=0.1)
    ends = [op["x"] + op["width"] for lane in picture["lanes"] for op in lane["ops"]]
    assert 0 < max(ends) <= 1000.6
    kinds = {op["kind"] for lane in picture["lanes"] for op in lane["ops"]}
    assert kinds >= {"forward", "backward"}
    assert "transfer" not in kinds


def test_slow_transfers_are_drawn_where_they_are_the_cause(drawn: UnitTables) -> None:
    causes = [{**row, "cause": "communication"} if row["is_cause"] else row for row in drawn.causes]
    picture = crop_picture(replace(drawn, causes=causes))
    assert picture is not None
    assert any(op["kind"] == "transfer" for op in picture["lanes"][0]["ops"])


def test_loads_of_data_are_drawn_and_named_where_there_are_some(drawn: UnitTables) -> None:
    assert "loads of data" not in Page(job_page(drawn)).text
    code, load = OP_CODES["forward-compute"], OP_CODES["data-load"]
    loading = [{**row, "op": [load if op == code else op for op in row["op"]]} for row in drawn.crop]
    page = job_page(replace(drawn, crop=loading))
    assert "op-load" in Page(page).all("rect", "class")
    assert "loads of data" in Page(page).text


def test_ops_have_the_colour_of_their_cause_or_of_none() -> None:
    files = shared_files()
    colours = re.search(r"CAUSE_COLOURS = (.*);", files["report.js"].decode())
    assert colours is not None
    of_cause = dict(zip((each.name for each in DECLARED), json.loads(colours[1]), strict=True))
    css = files["report.css"].decode()
    drawn = dict(re.findall(r"\.op-(\w+) { fill: (.*?); }", css))
    assert (drawn["transfer"], drawn["load"]) == (of_cause["communication"], of_cause["data_loading"])
    assert drawn["other"] == of_cause[CAUSE_UNEXPLAINED]
    assert not {drawn["forward"], drawn["backward"]}.intersection(of_cause.values())
    assert len({*drawn.values()}) == len(drawn)
    key = dict(re.findall(r"\.key-(\w+) { border-bottom: 3px solid (.*?); }", css))
    assert key == {kind: colour for kind, colour in drawn.items() if kind != "other"}


def test_the_page_has_the_picture_with_words_for_who_does_not_see(drawn: UnitTables) -> None:
    page = Page(job_page(drawn))
    labels = [each for each in page.all("svg", "aria-label") if each.startswith("Ops of step ")]
    assert len(labels) == 4
    assert "as recorded in the steps in which the former is slowest and least slow" in page.text
    assert page.open == []


def test_a_worker_without_a_host_has_its_place_alone(drawn: UnitTables) -> None:
    nameless = replace(drawn, workers=[{**row, "host": None} for row in drawn.workers])
    text = Page(job_page(nameless)).text
    assert "(not stated) (stage" not in text
    assert " beside stage " in text


def test_only_the_lines_that_are_drawn_are_read() -> None:
    crop = crop_of(SICK)
    assert crop is not None
    key = SICK.key._asdict()
    lines = [
        key | {"rank": rank, "step": step}
        for rank in {crop.culprit["rank"], crop.peer["rank"], 63}
        for step in {crop.slow_step, crop.usual_step, 999}
    ]
    others = [line | {"job_id": "other"} for line in lines]
    rows = answer(crop_question({SICK.key: crop}), {RANK_STEPS: lines + others})
    assert {(row.job_id, row.rank, row.step) for row in rows} == {
        (key["job_id"], rank, step)
        for rank in (crop.culprit["rank"], crop.peer["rank"])
        for step in (crop.slow_step, crop.usual_step)
    }
