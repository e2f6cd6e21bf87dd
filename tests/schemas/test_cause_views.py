"""Test views of causes: no hours are counted twice, and a run counts once in a month."""

from datetime import date, timedelta
from typing import Any

import pytest
from scipy import stats

from jobs.report.news_words import news_texts, outcome_texts
from schemas.vocabulary import JOB_CAUSES, JOB_SLOWDOWN
from tests.schemas.test_views import view
from tests.support.answers import answer
from tests.support.examples import DAY, NEXT_DAY, ROWS, culprit

FEBRUARY = date(2026, 2, 1)


STAGE = culprit(0.2, reach="stage", pp_rank=1)


def cause(
    job: str, day: date, attributed: float | None, recoverable: float | None, **more: object
) -> dict[str, Any]:
    """Return a row of job_causes without culprits, for a unit that loses time only to this cause."""
    hours = {"attributed_gpu_hours": attributed, "recoverable_gpu_hours": recoverable}
    hours |= {"lost_gpu_hours": attributed}
    return {"job_id": job, "log_date": day, "culprits": []} | hours | more


def worker(host: str | None, effect: float, share_of_steps: float = 1.0, **more: object) -> dict[str, object]:
    return culprit(effect, share_of_steps, host=host, **more)


def test_cause_month_counts_a_run_once_and_sums_its_hours() -> None:
    flagged = {"flag_reason": "few_peers"}
    rows = view(
        "cause_month",
        {
            JOB_CAUSES: [
                cause("a", DAY, 8.0, 16.0) | flagged,
                cause("a", NEXT_DAY, 4.0, 6.0),
                cause("b", DAY, 1.0, -2.0, is_cause=False) | flagged,
                cause("c", DAY, None, None) | flagged,
                cause("c", NEXT_DAY, None, None, is_cause=False),
                cause("a", FEBRUARY, 32.0, 64.0),
                cause("c", DAY, None, None, cause="pause"),
            ]
        },
    )
    names = ("replayed", "jobs", "flagged_jobs", "attributed_gpu_hours", "recoverable_gpu_hours")
    assert {(row.month, row.cause): tuple(row[name] for name in names) for row in rows} == {
        (date(2026, 1, 1), "slow_worker"): (3, 2, 1, 13.0, 20.0),
        (date(2026, 1, 1), "pause"): (1, 1, 0, None, None),
        (FEBRUARY, "slow_worker"): (1, 1, 0, 32.0, 64.0),
    }


def test_hours_of_a_month_are_unknown_where_no_run_with_the_cause_states_them() -> None:
    """A month's hours of a cause are unknown if no run that loses time to the cause states its GPU-hours.

    Hours of 0 on days without the cause do not make the sum known. It is known with a further run that loses
    time to the cause and states its hours.
    """
    without = {"cause": "pause", "is_cause": False, "lost_fraction": 0.0}
    unknown = cause("b", DAY, None, None, cause="pause") | {"lost_fraction": 0.5, "lost_gpu_hours": None}
    rows = [
        cause("a", DAY, 0.0, 0.0) | without | {"lost_gpu_hours": 0.0},
        cause("b", NEXT_DAY, 0.0, 0.0) | without | {"lost_gpu_hours": 0.0},
        unknown,
    ]
    names = ("jobs", "attributed_gpu_hours", "recoverable_gpu_hours", "lost_gpu_hours")
    (row,) = view("cause_month", {JOB_CAUSES: rows})
    assert tuple(row[name] for name in names) == (1, None, None, None)
    stated = unknown | dict.fromkeys(names[1:], 4.0) | {"job_id": "c"}
    (row,) = view("cause_month", {JOB_CAUSES: [*rows, stated]})
    assert tuple(row[name] for name in names) == (2, 4.0, 4.0, 4.0)


NO_LOSS = {"lost_fraction": None, "lost_gpu_hours": None}
UNITS = [
    {"job_id": job, "log_date": day, "actual_total_s": 8.0}
    for job in ("a", "b", "c", "few-hours", "many-hours", "no-hours-0.1", "no-hours-0.5", "not-analysed")
    for day in (DAY, NEXT_DAY)
]


def test_fix_first_adds_up_what_a_host_does_to_several_jobs_and_days() -> None:
    rows = answer(
        "SELECT * FROM fix_first",
        {
            JOB_CAUSES: [
                cause("a", DAY, 8.0, 16.0, culprits=[worker("sick", 0.5), worker("sick", 0.25)]),
                cause("a", NEXT_DAY, 8.0, 16.0, culprits=[worker("sick", 0.5)], flag_reason="few_steps"),
                cause("b", DAY, 4.0, 8.0, culprits=[worker("sick", 0.3)]),
                cause("b", DAY, 2.0, 3.0, cause="stage_imbalance", culprits=[STAGE]),
                cause("c", DAY, 1.0, 1.0, cause="stage_imbalance"),
                cause("c", DAY, 99.0, 99.0, cause="pause", is_cause=False),
                cause("b", DAY, 4.0, 99.0, cause="unexplained", is_cause=False),
                cause("c", DAY, 6.0, 99.0, cause="unexplained"),
                cause("not-analysed", DAY, 9.0, 9.0, cause="launch_delay", **NO_LOSS),
            ],
            JOB_SLOWDOWN: UNITS,
        },
    )
    names = ("host", "job_ids", "units", "flagged_units", "lost_gpu_hours", "recoverable_gpu_hours")
    found = {(row.cause, *row.job_ids): tuple(row[name] for name in names) for row in rows}
    assert found == {
        ("slow_worker", "a", "b"): ("sick", ["a", "b"], 3, 1, 20.0, 40.0),
        ("stage_imbalance", "b"): (None, ["b"], 1, 0, 2.0, 3.0),
        ("stage_imbalance", "c"): (None, ["c"], 1, 0, 1.0, 1.0),
        ("unexplained", "b", "c"): (None, ["b", "c"], 2, 0, 10.0, None),
    }
    assert rows[-1].cause == "unexplained"
    assert {(row.first_day, row.last_day) for row in rows if row.host} == {(DAY, NEXT_DAY)}


def test_errors_of_the_diagnosis_add_up_over_the_days_of_a_run_and_others_do_not() -> None:
    """Over days of a run, errors of the diagnosis add up; squares of sampling errors add up."""
    whole = {"lost_fraction_low": 0.0, "lost_fraction_high": 0.25, "diagnosis_error_fraction": 0.03}
    hours = {
        f"{name}_gpu_hours_{end}": value
        for name in ("lost", "recoverable")
        for end, value in (("low", 5.0), ("high", 15.0))
    }
    sick = {"culprits": [worker("sick", 0.5)]} | whole | hours
    units = [{**unit, "gpu_hours": 100.0} for unit in UNITS]

    def bounds(*rows: dict[str, Any]) -> list[float | None]:
        (row,) = answer("SELECT * FROM fix_first", {JOB_CAUSES: list(rows), JOB_SLOWDOWN: units})
        return [row[f"{name}_gpu_hours_{end}"] for name in ("lost", "recoverable") for end in ("low", "high")]

    days = [cause("a", day, 10.0, 10.0, **sick) for day in (DAY, NEXT_DAY)]
    of_run = (2 * 4.0**2 + 6.0**2) ** 0.5
    assert bounds(*days) == pytest.approx([20 - of_run, 20 + of_run] * 2)
    other = cause("b", DAY, 10.0, 10.0, **sick)
    of_both = (2 * 4.0**2 + 6.0**2 + 5.0**2) ** 0.5
    assert bounds(*days, other) == pytest.approx([30 - of_both, 30 + of_both] * 2)
    assert bounds(*days, cause("b", DAY, 10.0, 10.0, culprits=[worker("sick", 0.5)])) == [None] * 4


def test_degrees_of_freedom_of_a_sum_add_up() -> None:
    """The interval of a sum has the degrees of freedom of all its runs: four runs with 3 each give 12."""
    sick: dict[str, Any] = {"culprits": [worker("sick", 0.5)], "diagnosis_error_fraction": 0.03}
    sick |= {"interval_freedom": 3.0, "lost_gpu_hours_low": 5.0, "lost_gpu_hours_high": 15.0}

    def half(jobs: str) -> float:
        rows = [cause(job, DAY, 10.0, 10.0, **sick) for job in jobs]
        units = [{**UNITS[0], "job_id": job, "gpu_hours": 100.0} for job in jobs]
        (row,) = answer("SELECT * FROM fix_first", {JOB_CAUSES: rows, JOB_SLOWDOWN: units})
        return float(row["lost_gpu_hours_high"]) - 10.0 * len(jobs)

    few, many = (stats.t.ppf(0.95, each) for each in (3, 12))
    assert half("a") == pytest.approx(5.0)
    assert half("abcd") == pytest.approx((4 * (4.0 * many / few) ** 2 + 4 * 3.0**2) ** 0.5, rel=0.005)


def test_fix_first_shares_the_hours_of_a_unit_among_its_culprits() -> None:
    """fix_first divides a unit's hours in proportion to each culprit's effect times its share of steps."""
    replica = culprit(0.25, reach="replica", dp_rank=1)
    even = {"culprits": [worker("p", 0.0), worker("q", 0.0)], "cause": "pause"}
    rows = view(
        "fix_first",
        {
            JOB_CAUSES: [
                cause("a", DAY, 8.0, 16.0, culprits=[worker("x", 0.5), worker("y", 0.5, 0.5), replica]),
                cause("a", DAY, 1.0, 2.0) | even,
            ],
            JOB_SLOWDOWN: UNITS,
        },
    )
    found = {row.host: (row.lost_gpu_hours, row.recoverable_gpu_hours) for row in rows}
    assert found == {"x": (4.0, 8.0), "y": (2.0, 4.0), None: (2.0, 4.0), "p": (0.5, 1.0), "q": (0.5, 1.0)}


def test_rows_of_a_slow_link_name_each_other_and_have_half_of_it_each() -> None:
    """In fix_first, the two hosts of a slow link name each other, and each has half of the hours."""
    ends = [worker(host, 0.5, pp_rank=stage, dp_rank=0) for stage, host in enumerate("xy")]
    communication = {"cause": "communication", "time_saved_fraction": 0.5}
    rows = view(
        "fix_first",
        {
            JOB_CAUSES: [
                cause("a", DAY, 8.0, 8.0, culprits=ends, **communication),
                cause("a", DAY, 4.0, 4.0, culprits=ends),
                cause("b", DAY, 2.0, 2.0, culprits=[worker("z", 0.5, pp_rank=1, dp_rank=0)], **communication),
            ],
            JOB_SLOWDOWN: UNITS,
        },
    )
    assert {(row.cause, row.host): row.link_hosts for row in rows} == {
        ("communication", "x"): ["y"],
        ("communication", "y"): ["x"],
        ("communication", "z"): None,
        ("slow_worker", "x"): None,
        ("slow_worker", "y"): None,
    }
    halves = [(row.recoverable_gpu_hours, row.time_saved_fraction_max) for row in rows if row.link_hosts]
    assert halves == [(4.0, 0.25), (4.0, 0.25)]


def test_fix_parts_name_a_host_and_share_by_what_each_culprit_lost() -> None:
    """fix_parts divides hours in proportion to lost_s, or to the effect if a culprit's lost_s is unknown."""
    host = culprit(0.5, reach="host", slow_host="x", lost_s=1.0)
    link = culprit(0.25, reach="link", pp_rank=1, lost_s=3.0)
    unexplained = {"cause": "unexplained", "is_cause": False, "culprits": []}
    rows = view(
        "fix_parts",
        {
            JOB_CAUSES: [
                cause("a", DAY, 8.0, 8.0, culprits=[host, link, worker("x", 0.1, lost_s=4.0)]),
                cause("b", DAY, 6.0, 6.0, culprits=[host, link | {"lost_s": None}]),
                cause("b", DAY, 2.0, 2.0, flag_reason="mostly_unexplained", **unexplained),
                cause("c", DAY, 2.0, 2.0, **unexplained),
            ],
            JOB_SLOWDOWN: UNITS,
        },
    )
    found = {(row.job_id, row.cause, row.host): (row.lost_gpu_hours, row.is_flagged) for row in rows}
    assert found == {
        ("a", "slow_worker", "x"): (5.0, False),
        ("a", "slow_worker", None): (3.0, False),
        ("b", "slow_worker", "x"): (4.0, False),
        ("b", "slow_worker", None): (2.0, False),
        ("b", "unexplained", None): (2.0, True),
        ("c", "unexplained", None): (2.0, False),
    }


def test_pauses_of_which_no_host_has_half_lie_in_the_job() -> None:
    everywhere = [worker(host, 0.1, lost_s=lost_s) for host, lost_s in (("x", 4.0), ("y", 3.0), ("z", 3.0))]
    on_two = [worker("x", 0.1, lost_s=5.0), worker("y", 0.1, lost_s=3.0), worker("z", 0.1, lost_s=2.0)]
    on_unknown = [worker(host, 0.1, lost_s=lost_s) for host, lost_s in ((None, 6.0), ("x", 2.0), ("y", 2.0))]
    rows = answer(
        "SELECT * FROM fix_first",
        {
            JOB_CAUSES: [
                cause("a", DAY, 8.0, 10.0, cause="pause", culprits=everywhere),
                cause("b", DAY, 10.0, 10.0, cause="pause", culprits=on_two),
                cause("c", DAY, 1.0, 1.0, culprits=everywhere),
                cause("c", DAY, 6.0, 7.0, cause="pause", culprits=on_unknown),
            ],
            JOB_SLOWDOWN: UNITS,
        },
    )
    found = {
        (row.cause, *row.job_ids, row.host): (row.lost_gpu_hours, row.recoverable_gpu_hours) for row in rows
    }
    assert found.pop(("pause", "a", None)) == pytest.approx((8.0, 10.0))
    assert found.pop(("pause", "c", None)) == pytest.approx((6.0, 7.0))
    assert found.keys() == {
        (name, job, host) for name, job in (("pause", "b"), ("slow_worker", "c")) for host in "xyz"
    }
    assert sum(lost for lost, _ in found.values()) == pytest.approx(11.0)


def test_fix_parts_share_out_each_unit_and_cause_once() -> None:
    culprits = [worker("x", 0.5), worker("y", 0.5, 0.5), worker(None, 0.25)]
    rows = view(
        "fix_parts",
        {
            JOB_CAUSES: [
                cause(
                    "a", DAY, 8.0, 16.0, culprits=culprits, time_saved_fraction=0.4, flag_reason="few_steps"
                ),
                cause("a", NEXT_DAY, 2.0, 4.0, culprits=culprits[:1]),
                cause("b", DAY, None, None, time_saved_fraction=0.2, cause="pause"),
                cause("b", DAY, 5.0, 5.0, is_cause=False),
            ],
            JOB_SLOWDOWN: UNITS,
        },
    )
    names = ("part", "time_saved_fraction", "lost_gpu_hours", "recoverable_gpu_hours", "is_flagged")
    found = {(row.job_id, row.log_date, row.host): tuple(row[name] for name in names) for row in rows}
    assert sum(row.lost_s for row in rows) == pytest.approx(3 * 0.125 * 8.0, rel=1e-15)
    assert found == {
        ("a", DAY, "x"): (0.5, 0.2, 4.0, 8.0, True),
        ("a", DAY, "y"): (0.25, 0.1, 2.0, 4.0, True),
        ("a", DAY, None): (0.25, 0.1, 2.0, 4.0, True),
        ("a", NEXT_DAY, "x"): (1.0, found["a", NEXT_DAY, "x"][1], 2.0, 4.0, False),
        ("b", DAY, None): (1.0, 0.2, None, None, False),
    }


def test_fix_first_is_ordered_by_hours_lost_then_by_the_time_that_units_without_hours_lose() -> None:
    rows = answer(
        "SELECT element_at(job_ids, 1) AS job_id, time_saved_fraction_max FROM fix_first",
        {
            JOB_CAUSES: [
                cause("few-hours", DAY, 1.0, 90.0, time_saved_fraction=0.9, lost_fraction=0.9),
                cause("no-hours-0.1", DAY, None, None, time_saved_fraction=0.1, lost_fraction=0.1),
                cause("no-hours-0.5", DAY, None, None, time_saved_fraction=0.5, lost_fraction=0.5),
                cause("many-hours", DAY, 9.0, 9.0, time_saved_fraction=0.05),
            ],
            JOB_SLOWDOWN: UNITS,
        },
    )
    assert [tuple(row) for row in rows] == [
        ("many-hours", pytest.approx(0.05)),
        ("few-hours", pytest.approx(0.9)),
        ("no-hours-0.5", 0.5),
        ("no-hours-0.1", 0.1),
    ]


def test_fix_first_puts_what_looks_fixed_behind_what_does_not() -> None:
    """fix_first lists causes that were absent on the last three days behind all others."""
    days = [DAY + timedelta(number) for number in range(5)]
    lasts = {"a": 5, "b": 5, "c": 2, "d": 2, "e": 5}
    units = [
        {"job_id": job, "log_date": day, "actual_total_s": 8.0}
        for job, last in lasts.items()
        for day in days[:last]
    ]
    units += [
        {"job_id": "d", "log_date": day, "actual_total_s": 8.0, "status": "high_discrepancy"}
        for day in days[2:]
    ]
    rows = answer(
        "SELECT coalesce(host, element_at(job_ids, 1)) AS what, days_without FROM fix_first",
        {
            JOB_CAUSES: [
                cause("a", days[0], 9.0, 9.0, culprits=[worker("mended", 0.5)]),
                cause("d", days[1], 3.0, 3.0, culprits=[worker("not analysed", 0.5)]),
                cause("b", days[1], 8.0, 8.0, cause="stage_imbalance"),
                cause("c", days[0], 7.0, 7.0, cause="stage_imbalance"),
                cause("e", days[0], 1.0, 1.0),
                *(cause("e", day, 0.5, 0.5, culprits=[worker("found", 0.5)]) for day in days[1:]),
            ],
            JOB_SLOWDOWN: units,
        },
    )
    assert [tuple(row) for row in rows] == [
        ("c", 1),
        ("not analysed", 0),
        ("found", 0),
        ("e", 0),
        ("mended", 4),
        ("b", 3),
    ]


def test_culprit_history_has_the_first_of_the_days_in_a_row() -> None:
    """culprit_history gives the first of those consecutive days of a job that name the same culprit."""
    days = [date(2026, 1, number) for number in (3, 4, 6, 7, 8)]
    host = culprit(0.5, reach="host", slow_host="x")
    named = [[host], [worker("x", 0.5), STAGE], [host, host], [STAGE], [host]]
    rows = view(
        "culprit_history",
        {
            JOB_CAUSES: [
                *(cause("a", day, 1.0, 1.0, culprits=each) for day, each in zip(days, named, strict=True)),
                cause("a", days[0], 1.0, 1.0, cause="stage_imbalance", culprits=[STAGE]),
                cause("a", days[2], 1.0, 1.0, cause="pause", is_cause=False, culprits=[host]),
                cause("b", days[1], 1.0, 1.0, culprits=[worker(None, 0.5)]),
            ]
        },
    )
    found = {
        (row.job_id, row.log_date.day, row.cause, row.culprit): (row.first_day.day, row.days) for row in rows
    }
    assert len(found) == len(rows)
    assert found == {
        ("a", 3, "slow_worker", "x"): (3, 1),
        ("a", 4, "slow_worker", "x"): (3, 2),
        ("a", 6, "slow_worker", "x"): (3, 3),
        ("a", 8, "slow_worker", "x"): (8, 1),
        ("a", 4, "slow_worker", "stage 1"): (4, 1),
        ("a", 7, "slow_worker", "stage 1"): (7, 1),
        ("a", 3, "stage_imbalance", "stage 1"): (3, 1),
        ("b", 4, "slow_worker", "stage 0, dp rank 1"): (4, 1),
    }


def test_news_are_causes_that_begin_or_end_and_not_those_that_cross_the_line() -> None:
    """cause_news lists causes that clearly begin or end, but no loss that grows from 2 to 3 % of the time."""
    lost = {"begins": (0.0, 0.1), "ends": (0.2, 0.0), "crosses": (0.02, 0.03), "stays": (0.1, 0.2)}
    rows = [
        cause(job, day, 0.0, 0.0, is_cause=part >= 0.025, lost_fraction=part)
        | {"lost_gpu_hours": 100 * part, "culprits": [worker(f"host of {job}", 0.5)] if part else []}
        for job, parts in lost.items()
        for day, part in zip((DAY, NEXT_DAY), parts, strict=True)
    ]
    rows.append(cause("first-day", NEXT_DAY, 0.0, 0.0, lost_fraction=0.5))
    rows += [row | {"cause": "pause", "culprits": []} for row in rows if row["job_id"] == "begins"]
    of_units = [row for row in rows if row.get("cause") != "pause"]
    units = [{name: row[name] for name in ("job_id", "log_date")} for row in of_units]
    found = answer("SELECT * FROM cause_news", {JOB_CAUSES: rows, JOB_SLOWDOWN: units})
    names = ("change", "job_id", "cause", "culprits", "lost_fraction", "lost_gpu_hours")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("new", "begins", "pause", None, 0.1, 10.0),
        ("new", "begins", "slow_worker", ["host of begins"], 0.1, 10.0),
        ("gone", "ends", "slow_worker", ["host of ends"], 0.2, 20.0),
    ]
    assert {(row.log_date, row.day_before) for row in found} == {(NEXT_DAY, DAY)}
    said = [row.asDict() for row in found]
    assert news_texts(said) == [
        "new: pauses in begins loses 10 GPU-hours (10.0 %)",
        "new: slow worker in begins (host of begins) loses 10 GPU-hours (10.0 %)",
        "gone: slow worker in ends (host of ends) lost 20 GPU-hours (20.0 %) on 2026-01-05",
    ]
    many = [
        row.asDict() | {"job_id": str(number), "lost_gpu_hours": None}
        for number in range(7)
        for row in found[1:2]
    ]
    assert news_texts(many)[-2:] == [
        "new: slow worker in 4 (host of begins) loses 10.0 % of the time",
        "new: and 2 more",
    ]


@pytest.mark.parametrize(
    ("changed", "is_followed"),
    [({}, True), ({"workers": 5}, False), ({"ops": 990}, False), ({"beside": "r9"}, False)],
    ids=["alike", "other workers", "other work", "two runs that day"],
)
def test_a_fix_that_came_with_a_new_run_is_followed(changed: dict[str, Any], is_followed: bool) -> None:
    """cause_news and fix_outcome also report a cause that disappears with a new run of the same work."""
    other = {"log_date": NEXT_DAY, "run_id": "r2"}
    held = cause("a", DAY, 0.0, 0.0, lost_fraction=0.2, culprits=[worker("x", 0.5)])
    causes = [held, held | other | {"is_cause": False, "lost_fraction": 0.0, "culprits": []}]
    size = {"job_id": "a", "gpu_hours": 40.0, "steps": 10, "workers": 4, "ops": 1000, "actual_total_s": 80.0}
    before = size | {"log_date": DAY, "run_id": causes[0].get("run_id", ROWS[JOB_CAUSES]["run_id"])}
    units = [before | {"actual_step_s": 10.0}, size | other | {"actual_step_s": 8.0} | changed]
    units += [each | {"run_id": each.pop("beside")} for each in [dict(units[1])] if "beside" in each]
    units[1].pop("beside", None)
    tables = {JOB_CAUSES: causes, JOB_SLOWDOWN: units}
    news, outcomes = (answer(f"SELECT * FROM {name}", tables) for name in ("cause_news", "fix_outcome"))
    if not is_followed:
        assert (news, outcomes) == ([], [])
        return
    ((gone,), (fixed,)) = news, outcomes
    assert (gone.change, gone.run_id, gone.run_before, gone.culprits) == (
        "gone",
        "r2",
        before["run_id"],
        ["x"],
    )
    assert (fixed.verdict, fixed.run_before) == ("came", before["run_id"])
    assert fixed.came_fraction == pytest.approx(0.2)


def test_a_new_run_after_a_day_of_two_runs_follows_neither() -> None:
    """A run after a day with two runs of the job is compared with neither, as it may continue either."""
    days = (DAY, NEXT_DAY, DAY + timedelta(days=2))
    held, gone, beside, after = [
        cause("a", day, 0.0, 0.0, lost_fraction=lost, is_cause=lost > 0.0) | {"run_id": run}
        for day, run, lost in (
            (days[0], "r1", 0.2),
            (days[1], "r1", 0.0),
            (days[1], "r2", 0.0),
            (days[2], "r3", 0.0),
        )
    ]
    causes = [held, gone, beside, after]
    units = [{name: row[name] for name in ("job_id", "log_date", "run_id")} for row in causes]
    news = answer("SELECT * FROM cause_news", {JOB_CAUSES: causes, JOB_SLOWDOWN: units})
    assert [(row.log_date, row.run_id, row.change) for row in news] == [(NEXT_DAY, "r1", "gone")]


@pytest.mark.parametrize(
    ("steps_s", "verdict", "came", "said"),
    [
        ((8.0, 8.0), "came", 0.2, "20.0 % shorter, for 20.0 % predicted: as predicted"),
        ((9.0, 9.0), "part", 0.1, "10.0 % shorter, for 20.0 % predicted: less than predicted"),
        ((10.0, 10.0), "did_not_come", 0.0, "0 % shorter, for 20.0 % predicted: not what was predicted"),
        ((6.0, 10.0), "came", 0.2, "20.0 % shorter, for 20.0 % predicted: as predicted"),
    ],
)
def test_a_fix_returns_what_was_predicted_or_not(
    steps_s: tuple[float, float], verdict: str, came: float, said: str
) -> None:
    """fix_outcome compares how much shorter steps are since a cause disappeared with the predicted saving."""
    days = [DAY, NEXT_DAY, DAY + timedelta(days=2), DAY + timedelta(days=9)]
    causes = [
        cause("a", day, 0.0, 0.0, is_cause=day == DAY, lost_fraction=0.2 * (day == DAY)) for day in days
    ]
    units = [
        {"job_id": "a", "log_date": day, "gpu_hours": 40.0, "steps": 10}
        | {"actual_step_s": step_s, "actual_total_s": 10 * step_s}
        for day, step_s in zip(days, (10.0, *steps_s, 99.0), strict=True)
    ]
    (row,) = answer("SELECT * FROM fix_outcome", {JOB_CAUSES: causes, JOB_SLOWDOWN: units})
    assert (row.log_date, row.causes, row.verdict, row.days_after) == (NEXT_DAY, ["slow_worker"], verdict, 2)
    assert (row.predicted_fraction, row.came_fraction) == pytest.approx((0.2, came))
    assert (row.predicted_gpu_hours, row.came_gpu_hours) == pytest.approx((20.0, 80 * came / (1 - came)))
    assert outcome_texts([row.asDict()]) == [f"fixed: slow worker in a: a step is {said}"]
    new = [row | {"cause": "pause", "is_cause": not row["is_cause"]} for row in causes]
    new = [row | {"lost_fraction": 0.1 * row["is_cause"]} for row in new]
    (row,) = answer("SELECT * FROM fix_outcome", {JOB_CAUSES: causes + new, JOB_SLOWDOWN: units})
    assert (row.causes, row.verdict) == (["slow_worker"], "came" if verdict == "came" else "not_alone")
    unknown = [row | {"cause": "unexplained"} for row in causes]
    unknown = [row | {"lost_fraction": 0.3 * (row["log_date"] > DAY)} for row in unknown]
    (row,) = answer("SELECT * FROM fix_outcome", {JOB_CAUSES: causes + unknown, JOB_SLOWDOWN: units})
    assert row.verdict == verdict, "unexplained loss does not hide a cause"
    held = [row | {"cause": "pause", "is_cause": True, "lost_fraction": 0.1} for row in causes]
    grown = [row | {"lost_fraction": 0.3 if row["log_date"] > DAY else 0.1} for row in held]
    for others, hides in ((held, False), (grown, verdict != "came")):
        (row,) = answer("SELECT * FROM fix_outcome", {JOB_CAUSES: causes + others, JOB_SLOWDOWN: units})
        assert row.verdict == ("not_alone" if hides else verdict)
    is_hidden = outcome_texts([row.asDict()])[0].startswith("fixed or hidden: slow worker in a: ")
    assert is_hidden == (verdict != "came")
