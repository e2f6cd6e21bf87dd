"""Test the words for a culprit on pages and in commands: where, since when, and by how much it is slow."""

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from jobs.report.culprit_words import course, culprit_words, steps_at_onset
from jobs.report.job_page import job_page
from tests.jobs.report.pages import Page
from tests.jobs.report.units import DAY, sick_job
from tests.support.examples import culprit

AT = datetime(2026, 1, 5, 14, 3, 20, tzinfo=UTC)
HOST = culprit(0.3, 0.5, reach="host", slow_host="host-2", direction="backward", course="from") | {
    "first_step": 110,
    "first_time": AT,
    "workers": [{"pp_rank": stage, "dp_rank": 1, "rank": 8, "host": "host-2"} for stage in (0, 1)],
}


@pytest.mark.parametrize(
    ("changes", "where", "course", "effect"),
    [
        ({}, "host-2", "since step 110, 14:03 UTC", "backwards 1.30 times as long"),
        (
            {"course": "grows", "direction": "both"},
            "host-2",
            "growing since step 110, 14:03 UTC",
            "forwards and backwards 1.30 times as long",
        ),
        (
            {"course": "until", "slow_host": None, "slow_rack": "r7", "direction": "optimizer"},
            "rack r7",
            "until step 1209",
            "optimizer 1.30 times as long",
        ),
        (
            {
                "course": "comes_and_goes",
                "slow_host": None,
                "pp_rank": 3,
                "direction": "grads-reduce-scatter",
            },
            "stage 3",
            "comes and goes, in 6 of 12 steps",
            "grads-reduce-scatter entered late by 30.0 % of a step",
        ),
        (
            {"course": "always", "slow_host": None, "dp_rank": 2},
            "dp rank 2",
            "always",
            "backwards 1.30 times as long",
        ),
        (
            {"slow_host": None, "pp_rank": 1, "dp_rank": 2, "host": "h", "last_step": 110},
            "h (stage 1, dp rank 2)",
            "in step 110, 14:03 UTC alone",
            "backwards 1.30 times as long",
        ),
        (
            {"course": None, "pattern": "intermittent", "direction": None, "workers": None},
            "host-2",
            "intermittent",
            "computes 1.30 times as long",
        ),
    ],
)
def test_where_since_when_and_how_slow(
    changes: dict[str, object], where: str, course: str, effect: str
) -> None:
    words = culprit_words("slow_worker", HOST | changes, 12, {})
    assert (words["where"], words["course"], words["effect"]) == (where, course, effect)


def test_seconds_are_how_much_longer_ops_take_and_in_which_steps_not_what_is_lost() -> None:
    assert culprit_words("pause", HOST | {"course": "always"}, 12, {})["effect"] == "300 ms longer per step"
    said = culprit_words("launch_delay", HOST | {"course": "comes_and_goes"}, 12, {})["effect"]
    assert said == "300 ms late in each such step"


def test_an_uneven_stage_is_measured_by_all_stages_itself_included() -> None:
    stage = culprit(0.27, 1.0, pp_rank=3, direction="both")
    said = culprit_words("stage_imbalance", stage, 12, {})["effect"]
    assert said == "forwards and backwards 1.27 times as long as the mean of all stages"


def test_a_slow_link_has_its_direction_and_both_ends() -> None:
    workers = [{"pp_rank": p, "dp_rank": d, "host": f"host-{p}{d}"} for p in range(3) for d in range(2)]
    end = culprit(1.7, 1.0, pp_rank=1, dp_rank=1, rank=4, host="host-11")

    def said(direction: str, stage: int = 1) -> object:
        changed = end | {"direction": direction, "pp_rank": stage}
        return culprit_words("communication", changed, 12, {}, None, workers)["effect"]

    assert said("forward-send") == "1.7 s longer per step in forward transfers to host-21 (stage 2)"
    assert said("forward-recv") == "1.7 s longer per step in forward transfers from host-01 (stage 0)"
    assert said("backward-send") == "1.7 s longer per step in backward transfers to host-01 (stage 0)"
    assert said("backward-recv") == "1.7 s longer per step in backward transfers from host-21 (stage 2)"
    assert said("forward-send", 2) == "1.7 s longer per step in forward transfers to host-01 (stage 0)", (
        "the last stage sends to stage 0, for the next model chunk"
    )
    assert said("both") == "1.7 s longer per step in transfers there and back, both together"
    assert said("grads-reduce-scatter") == "1.7 s longer per step in grads-reduce-scatter"


def test_the_page_has_one_culprit_with_its_workers_below_and_the_first_day_that_named_it() -> None:
    sick = sick_job()
    causes = [dict(row, culprits=[HOST]) if row["is_cause"] else row for row in sick.causes]
    named = {"cause": "slow_worker", "culprit": "host-2", "first_day": date(2026, 1, 3), "days": 3}
    tables = replace(sick, causes=causes, history=[named])
    text = Page(job_page(tables)).text
    assert (
        "host-2 backwards 1.30 times as long all all \N{EN DASH} since step 110, 14:03 UTC; "
        "named since 2026-01-03 50.0 % Workers of host-2 (stage / dp rank): 0 / 1, 1 / 1"
    ) in text
    for other in ({"first_day": DAY}, {"cause": "pause"}, {"culprit": "host-3"}):
        assert "named since" not in Page(job_page(replace(tables, history=[named | other]))).text


def test_the_map_marks_each_worker_of_a_culprit_where_it_begins_and_leads_to_the_steps_around() -> None:
    sick = sick_job()
    steps = [row["step"] for row in sick.steps]
    turned = HOST | {"first_step": steps[4]}
    causes = [dict(row, culprits=[turned]) if row["is_cause"] else row for row in sick.causes]
    page = Page(job_page(replace(sick, causes=causes)))
    (rows,) = [chart["rows"] for chart in page.data["charts"] if chart["name"] == "stepMap"]
    marked = {
        (worker, step): title
        for worker, step, title in zip(rows["worker"], rows["step"], rows["onset"], strict=True)
        if title
    }
    assert marked == {("0 / 1", steps[4]): "slow worker", ("1 / 1", steps[4]): "slow worker"}
    assert f"before a culprit became slow, {steps[3]}, and its first slow step, {steps[4]}" in page.text
    timelines = [text for text in page.words if text.startswith("straggler timeline")]
    assert [text.rsplit(" ", 1)[1] for text in timelines[1:]] == [str(steps[3]), str(steps[4])]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, (9, 10)),
        ({"course": "always"}, None),
        ({"first_step": None}, None),
        ({"first_step": 7}, None),
    ],
    ids=["turns slow", "always slow", "of no known step", "from the first step on"],
)
def test_only_a_culprit_that_turns_slow_has_steps_around(
    changes: dict[str, object], found: tuple[int, int] | None
) -> None:
    row = {"is_cause": True, "time_saved_fraction": 0.1, "culprits": [HOST | {"first_step": 10} | changes]}
    assert steps_at_onset([row, row | {"is_cause": False}], [7, 8, 9, 10, 11]) == found
    costlier = row | {"time_saved_fraction": 0.2, "culprits": [HOST | {"first_step": 8}]}
    assert steps_at_onset([row, costlier], [7, 8, 9, 10, 11]) == (7, 8)


def test_a_time_is_that_of_the_nearest_minute() -> None:
    late = HOST | {"first_time": datetime(2026, 1, 5, 13, 59, 59, 999_800, tzinfo=UTC)}
    assert course(late, 20) == "since step 110, 14:00 UTC"
