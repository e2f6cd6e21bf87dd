"""Hosts to drain are ranked by expected savings, from the past of similar hosts or from a prior."""

from datetime import UTC, datetime, timedelta
from math import exp, log, sqrt
from typing import Any

import pytest
from pyspark.sql import Row

from jobs.report.news_words import drain_row, drain_text, drain_texts, kept_text
from schemas.drain import AGAIN_OFTEN, AGAIN_ONCE, PRIOR_HOSTS, DrainTerms
from schemas.views import drain_by
from schemas.vocabulary import JOB_CAUSES, JOB_SLOWDOWN, WORKER_SLOWDOWN, Status
from tests.support.answers import answer
from tests.support.examples import DAY, culprit

TERMS = DrainTerms(days=7, restart_minutes=30.0, redone_minutes=30.0, spare_hours=1.0)
HOURS = 1_000.0
GPUS = 8
Tables = dict[str, list[dict[str, Any]]]


def fleet(courses: dict[str, str], share: float = 0.1, hours: float | None = HOURS) -> Tables:
    """Return rows of one job for each given host; the job's other two workers are on a healthy host.

    courses : by host, a letter for each day: x slow, . not slow, - no job
    share : share of a job's time that is lost on a slow day
    """
    tables: Tables = {JOB_SLOWDOWN: [], WORKER_SLOWDOWN: [], JOB_CAUSES: []}
    for host, course in courses.items():
        for day, letter in enumerate(course):
            if letter == "-":
                continue
            unit = {"log_date": DAY + timedelta(day), "job_id": f"job of {host}", "run_id": "r1"}
            sizes = {"gpu_hours": hours, "world_size": GPUS, "workers": 4}
            tables[JOB_SLOWDOWN].append({**unit, **sizes})
            tables[WORKER_SLOWDOWN] += [
                {**unit, "dp_rank": place, "host": host if place < 2 else f"other {host}"}
                for place in range(4)
            ]
            named: dict[str, Any] = {
                "lost_fraction": share,
                "lost_gpu_hours": None if hours is None else share * hours,
                "time_saved_fraction": share,
            }
            named["culprits"] = [culprit(0.5, host=host)]
            tables[JOB_CAUSES].append(
                {
                    **unit,
                    "cause": "slow_worker",
                    "is_cause": letter == "x",
                    **(named if letter == "x" else {}),
                }
            )
    return tables


def drained(courses: dict[str, str], share: float = 0.1, hours: float | None = HOURS) -> dict[str, Row]:
    return {row.host: row for row in answer(drain_by(TERMS), fleet(courses, share, hours))}


def test_without_history_the_prior_says_how_long_it_lasts() -> None:
    row = drained({"a": "..xxxx"})["a"]
    assert row.probability == pytest.approx(sum(4 / (4 + t) for t in range(1, 8)) / 7)
    assert (row.state, row.days_slow_in_row, row.spells, row.hosts_alike) == ("slow_longer", 4, 1, 0)
    assert row.share_lost == pytest.approx(0.1)
    assert row.expected_gpu_hours == pytest.approx(0.1 * HOURS * 7 * row.probability)
    assert row.cost_gpu_hours == pytest.approx(GPUS * 1.0 + GPUS / 2 * 1.0)
    assert row.break_even_days == pytest.approx(12.0 / 100.0)
    assert row.net_gpu_hours == pytest.approx(row.expected_gpu_hours - 12.0)
    assert (row.as_of_day, row.last_slow, row.job_ids) == (
        DAY + timedelta(5),
        DAY + timedelta(5),
        ["job of a"],
    )
    assert row.verdict == "drain"


@pytest.mark.parametrize(("course", "again"), [("x.", AGAIN_ONCE), ("x.x..", AGAIN_OFTEN)])
def test_a_quiet_host_may_fall_back(course: str, again: float) -> None:
    row = drained({"a": course})["a"]
    assert row.probability == pytest.approx(sum(1 - (1 - again) ** t for t in range(1, 8)) / 7)
    assert row.days_slow_in_row == 0


def test_own_history_moves_the_prior_by_its_hosts() -> None:
    """Each similar host of the past moves the probability that a host stays slow away from the prior."""
    history = dict.fromkeys("abc", "x.......-")
    row = drained({**history, "new": "........x"})["new"]
    prior = sum(1 / (1 + t) for t in range(1, 8)) / 7
    assert (row.state, row.hosts_alike) == ("slow_1_day", 3)
    assert row.prior == pytest.approx(prior)
    assert row.probability == pytest.approx(PRIOR_HOSTS * prior / (3 + PRIOR_HOSTS))
    stays = drained({**dict.fromkeys("abc", "xxxxxxxx-"), "new": "........x"})["new"]
    assert stays.probability == pytest.approx((3 + PRIOR_HOSTS * prior) / (3 + PRIOR_HOSTS))
    assert stays.expected_low > row.expected_low


def test_the_interval_is_that_of_its_parts() -> None:
    row = drained({"a": "xxxx"})["a"]
    p = row.probability
    relative = (1 - p) / (p * (PRIOR_HOSTS + 1))  # the share has no error, as all days lose the same share
    assert row.expected_low < row.expected_gpu_hours < row.expected_high <= 0.1 * HOURS * 7
    assert row.expected_low == pytest.approx(
        row.expected_gpu_hours / sqrt(1 + relative) * exp(-1.645 * sqrt(log(1 + relative)))
    )
    once = drained({"a": "x"})["a"]
    assert once.expected_high / once.expected_low > row.expected_high / row.expected_low


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ({}, "drain"),
        ({"share": 0.004}, "probably"),
        ({"share": 0.001}, "no"),
        ({"hours": None}, "unknown"),
        ({"hours": 0.0}, "unknown"),
    ],
)
def test_when_the_answer_is_no(more: dict[str, Any], verdict: str) -> None:
    row = drained({"a": "xxxx"}, **more)["a"]
    assert row.verdict == verdict
    assert (row.net_gpu_hours is None) == (verdict == "unknown")


def test_what_another_cause_hides_does_not_come_back() -> None:
    """The saving expected of a drain excludes the loss that would remain because of another cause."""
    tables = fleet({"a": "xxxx", "b": "xxxx"})
    saved = {"job of a": 0.06, "job of b": -0.02}
    tables[JOB_CAUSES] = [row | {"time_saved_fraction": saved[row["job_id"]]} for row in tables[JOB_CAUSES]]
    rows = {row.host: row for row in answer(drain_by(TERMS), tables)}
    assert [rows[host].share_lost for host in "ab"] == pytest.approx([0.1, 0.1])
    assert [rows[host].share_saved for host in "ab"] == pytest.approx([0.06, 0.0])
    assert rows["a"].expected_gpu_hours == pytest.approx(0.06 * HOURS * 7 * rows["a"].probability)
    assert rows["b"].verdict == "no"


def test_a_host_that_moved_is_judged_by_the_job_that_it_serves_now() -> None:
    """A host that moved is judged by the loss of its present job or, if that is 0, by its last loss."""
    tables = fleet({"a": "xxxx", "b": "xxx."})
    for name in (JOB_SLOWDOWN, WORKER_SLOWDOWN, JOB_CAUSES):
        for row in tables[name]:
            if row["log_date"] < DAY + timedelta(3):
                row["job_id"] = f"old {row['job_id']}"
                if row.get("is_cause"):
                    row |= {"lost_fraction": 0.3, "lost_gpu_hours": 300.0, "time_saved_fraction": 0.3}
    rows = {row.host: row for row in answer(drain_by(TERMS), tables)}
    assert [rows[host].share_lost for host in "ab"] == pytest.approx([0.1, 0.3])
    assert [rows[host].share_saved for host in "ab"] == pytest.approx([0.1, 0.3])
    assert rows["a"].expected_gpu_hours == pytest.approx(0.1 * HOURS * 7 * rows["a"].probability)
    assert rows["a"].days_slow == 4


def test_a_host_that_became_slow_within_a_day_is_judged_by_what_it_costs_since() -> None:
    tables = fleet({"a": "x"})
    half: dict[str, Any] = {"lost_fraction": 1 / 9, "lost_gpu_hours": HOURS / 9, "time_saved_fraction": 0.1}
    half["culprits"] = [culprit(0.25, 0.5, host="a", course="from")]
    tables[JOB_CAUSES] = [tables[JOB_CAUSES][0] | half]
    (row,) = answer(drain_by(TERMS), tables)
    assert (row.share_lost, row.share_saved) == pytest.approx((0.2, 0.18))
    assert row.expected_gpu_hours == pytest.approx(0.18 * HOURS * 7 * row.probability)
    longer = fleet({"a": "xx"}, 0.2)
    longer[JOB_CAUSES][0] |= half
    (row,) = answer(drain_by(TERMS), longer)
    assert (row.share_lost, row.share_saved) == pytest.approx((0.2, 0.19))


def test_hosts_that_became_slow_after_each_other_share_the_step_of_the_last() -> None:
    """If hosts became slow one after another, each one's loss is a share of the final step time."""
    tables = fleet({"a": "x"})
    for row in tables[WORKER_SLOWDOWN]:
        if row["dp_rank"] == 3:
            row["host"] = "b"
    named = [
        culprit(0.25, 0.5, host="a", course="from", lost_s=0.125),
        culprit(0.5, 0.25, host="b", course="from", lost_s=0.125),
    ]
    tables[JOB_CAUSES][0] |= {"lost_fraction": 0.2, "time_saved_fraction": 0.2, "culprits": named}
    rows = {row.host: row for row in answer(drain_by(TERMS), tables)}
    assert [rows[host].share_lost for host in "ab"] == pytest.approx([0.25 / 1.75, 0.5 / 1.75])


def halves(tables: Tables, second: dict[str, Any] | None = None, **ended: object) -> Tables:
    """Return `tables` with host a slow in the first half of a day, and host b, if wanted, in the second."""
    if second is not None:
        for row in tables[WORKER_SLOWDOWN]:
            if row["dp_rank"] == 3 and row["job_id"] == "job of a":
                row["host"] = "b"
    named = [culprit(0.5, 0.5, host="a", course="until", lost_s=0.1, first_step=0, last_step=49) | ended]
    named += [] if second is None else [culprit(0.5, 0.5, host="b", course="from", lost_s=0.1) | second]
    tables[JOB_CAUSES][0] |= {"culprits": named, "lost_fraction": 0.2, "time_saved_fraction": 0.2}
    return tables


def test_a_host_that_is_healthy_again_within_its_last_day_is_not_slow_now() -> None:
    at = datetime(DAY.year, DAY.month, DAY.day, 8, tzinfo=UTC)
    (row,) = answer(drain_by(TERMS), halves(fleet({"a": "x"}), last_time=at))
    assert (row.state, row.days_slow_in_row, row.days_slow) == ("quiet_after_one", 0, 1)
    assert (row.slow_until_step, row.slow_until_time.hour, row.last_slow) == (49, 8, DAY)
    assert row.probability == pytest.approx(sum(1 - (1 - AGAIN_ONCE) ** t for t in range(1, 8)) / 7)
    assert row.share_lost == pytest.approx(0.2)
    said = drain_text(row.asDict(), 7)
    assert f"; healthy again: slow until step 49, 08:00 UTC, of {DAY};" in said
    (row,) = answer(drain_by(TERMS), halves(fleet({"a": "x"})))
    assert f"; healthy again: slow until step 49, of {DAY};" in drain_text(row.asDict(), 7)
    (row,) = answer(drain_by(TERMS), halves(fleet({"a": "xx"})))
    assert (row.state, row.slow_until_step) == ("slow_2_or_3_days", None)
    (row,) = answer(drain_by(TERMS), halves(fleet({"a": "x."})))
    assert (row.state, row.slow_until_step) == ("quiet_after_one", None)


def test_a_host_that_is_slow_nearly_to_the_end_of_the_day_is_slow_now() -> None:
    (row,) = answer(drain_by(TERMS), halves(fleet({"a": "x"}), share_of_steps=0.95, last_step=94))
    assert (row.state, row.slow_until_step) == ("slow_1_day", None)


def test_a_host_that_is_slow_in_another_job_is_slow_now() -> None:
    tables = halves(fleet({"a": "x", "c": "x"}))
    for worker in tables[WORKER_SLOWDOWN]:
        worker["host"] = "a" if worker["host"] == "c" else worker["host"]
    tables[JOB_CAUSES][1]["culprits"] = [culprit(0.5, host="a")]
    (row,) = answer(drain_by(TERMS), tables)
    assert (row.state, row.slow_until_step) == ("slow_1_day", None)


def test_what_ended_within_the_day_no_longer_lengthens_the_step() -> None:
    """The loss of a host that is slow in a day's second half is a share of the steps of that half."""
    rows = {row.host: row for row in answer(drain_by(TERMS), halves(fleet({"a": "x"}), second={}))}
    # Of a mean step of 1, a and b lose 0.1 each: 0.2 of the steps in their halves.
    assert (rows["b"].share_lost, rows["b"].share_saved) == pytest.approx((0.2, 0.2))
    assert (rows["a"].share_lost, rows["b"].state) == (pytest.approx(0.1), "slow_1_day")


@pytest.mark.parametrize("course", ["until", "comes_and_goes", None])
def test_of_other_courses_the_whole_day_counts(course: str | None) -> None:
    """A host's loss is a share of the whole day unless all its slowness lasts until the day's end."""
    tables = fleet({"a": "x"})
    tables[JOB_CAUSES][0]["culprits"] = [
        culprit(0.5, 0.5, host="a", course="from"),
        culprit(0.5, 0.5, host="a", course=course),
    ]
    (row,) = answer(drain_by(TERMS), tables)
    assert row.share_lost == pytest.approx(0.1)


def test_where_no_slowed_job_states_its_hours_nothing_is_known() -> None:
    """If no slowed job of a host states GPU-hours, the verdict is unknown, whatever its other jobs state."""
    tables = fleet({"a": "x."})
    slowed = tables[JOB_SLOWDOWN][0]
    tables[JOB_SLOWDOWN].append(slowed | {"job_id": "another"})
    slowed["gpu_hours"] = None
    tables[WORKER_SLOWDOWN].append(tables[WORKER_SLOWDOWN][0] | {"job_id": "another"})
    (row,) = answer(drain_by(TERMS), tables)
    assert (row.verdict, row.share_lost, row.share_saved) == ("unknown", None, None)


def test_a_slowed_job_without_hours_leaves_what_the_others_say() -> None:
    """A slowed job without GPU-hours is ignored if other slowed jobs of the host state theirs."""
    tables = fleet({"a": "xxxxxx"})
    for name in (JOB_SLOWDOWN, WORKER_SLOWDOWN, JOB_CAUSES):
        tables[name] += [row | {"job_id": "silent"} for row in tables[name]]
    for unit in tables[JOB_SLOWDOWN]:
        if unit["job_id"] == "silent" or unit["log_date"] < DAY + timedelta(2):
            unit["gpu_hours"] = None
    for named, share in zip(tables[JOB_CAUSES], (0.3, 0.3, 0.1, 0.2, 0.1, 0.2), strict=False):
        named["time_saved_fraction"] = share
    (row,) = answer(drain_by(TERMS), tables)
    assert (row.share_lost, row.share_saved) == pytest.approx((0.1, 0.15))
    # The shares of the four days with hours have a standard deviation of 0.0577.
    p, of_share = row.probability, (0.1 / sqrt(3) / 0.15) ** 2 / 4
    spread = log(1 + of_share + (1 - p) / (p * (PRIOR_HOSTS + 1)))
    low = row.expected_gpu_hours * exp(-spread / 2 - 1.645 * sqrt(spread))
    assert row.expected_low == pytest.approx(low)


def test_who_is_not_asked_about() -> None:
    """The view omits hosts that were never slow, that no job used for a week, or that only paused."""
    tables = fleet({"slow": "xxxxxxxxxx", "never": "..........", "gone": "xx--------", "idle": "xxxxxxxx--"})
    rows = {row.host: row for row in answer(drain_by(TERMS), tables)}
    assert set(rows) == {"slow", "idle"}
    assert rows["idle"].gpu_hours_per_day == pytest.approx(5 * HOURS / 7)
    assert rows["idle"].cost_gpu_hours == pytest.approx(
        4.0
    )  # the cost of a spare host; no job has to restart
    tables[JOB_CAUSES] = [{**row, "cause": "pause"} for row in tables[JOB_CAUSES]]
    assert answer(drain_by(TERMS), tables) == []


def test_a_host_that_no_job_uses_is_not_drained() -> None:
    """A host that no job uses on the last day is not drained, unless its job of that day has no results."""
    tables = fleet({"idle": "xxxxxxxx-", "slow": "xxxxxxxxx"})
    rows = {row.host: row for row in answer(drain_by(TERMS), tables)}
    assert {host: (row.verdict, row.is_idle) for host, row in rows.items()} == {
        "idle": ("no", True),
        "slow": ("drain", False),
    }
    idle, last = rows["idle"], DAY + timedelta(8)
    assert (idle.last_served, rows["slow"].last_served) == (DAY + timedelta(7), last)
    assert idle.net_gpu_hours > 0
    assert kept_text(idle.asDict()) == (
        f"do not drain idle now: slow for 8 days in a row; no job used it on {last}, "
        f"the last one on {DAY + timedelta(7)}"
    )
    assert kept_text(rows["slow"].asDict()) == ""
    unit = {"log_date": last, "job_id": "job of idle", "run_id": "r2"}
    tables[JOB_SLOWDOWN].append({**unit, "status": Status.FAILED})
    rows = {row.host: row for row in answer(drain_by(TERMS), tables)}
    assert (rows["idle"].verdict, rows["idle"].is_idle) == ("drain", False)


def test_as_of_an_earlier_day() -> None:
    tables = fleet({"a": "x......."})
    assert [row.state for row in answer(drain_by(TERMS), tables)] == ["quiet_after_one"]
    (row,) = answer(drain_by(TERMS, DAY), tables)
    assert (row.state, row.as_of_day) == ("slow_1_day", DAY)


def test_the_dearest_first() -> None:
    tables = fleet({"a": "xx", "b": "xxxxx", "c": "xxx"})
    assert next(row.host for row in answer("SELECT * FROM drain", tables)) == "b"


def test_two_ends_of_one_slow_link_name_each_other() -> None:
    """In drain, the two ends of a slow link name each other, and state the expected saving of both."""
    tables = fleet({"a": "xxx"})
    for row in tables[WORKER_SLOWDOWN]:
        if row["dp_rank"] == 3:
            row["host"] = "b"
    ends = [culprit(0.5, host=host, pp_rank=stage, dp_rank=0) for stage, host in enumerate("ab")]
    for row in tables[JOB_CAUSES]:
        row |= {"cause": "communication", "culprits": ends}
    found = {row.host: row for row in answer(drain_by(TERMS), tables)}
    assert {host: row.link_hosts for host, row in found.items()} == {"a": ["b"], "b": ["a"]}
    both = sum(row.expected_gpu_hours for row in found.values())
    assert [row.link_gpu_hours for row in found.values()] == pytest.approx([both, both])
    assert "one end of the slow link to b: drain one end first" in drain_text(found["a"].asDict(), 7)
    for row in tables[JOB_CAUSES]:
        row["cause"] = "slow_worker"
    other = answer(drain_by(TERMS), tables)[0]
    assert (other.link_hosts, other.link_gpu_hours) == (None, None)
    assert "link" not in drain_text(other.asDict(), 7)


def test_the_summary_says_how_many_hosts_more_are_worth_a_drain() -> None:
    rows = [row.asDict() for row in answer(drain_by(TERMS), fleet(dict.fromkeys("abc", "xxxxx")))]
    assert [len(drain_texts(rows, 7, most)) for most in (1, 2, 3)] == [2, 3, 3]
    assert drain_texts(rows, 7, 1)[1] == "drain: and 2 more (straggler drain)"


def test_two_slow_hosts_of_one_job_name_each_other() -> None:
    """In drain, two slow hosts of a job name each other, because each may hide what the other costs."""
    tables = fleet({"a": "xxx", "c": "x"})
    for row in tables[WORKER_SLOWDOWN]:
        if row["dp_rank"] == 3 and row["job_id"] == "job of a":
            row["host"] = "b"
    both = [culprit(0.5, host=host, pp_rank=stage, dp_rank=0) for stage, host in enumerate("ab")]
    for row in tables[JOB_CAUSES]:
        if row["job_id"] == "job of a":
            row["culprits"] = both
    found = {row.host: row for row in answer(drain_by(TERMS), tables)}
    assert {host: row.beside_hosts for host, row in found.items()} == {"a": ["b"], "b": ["a"], "c": None}
    said = "; slow in one job with b: draining it alone may save little or nothing (straggler what-if);"
    assert said in drain_text(found["a"].asDict(), 7)
    assert "slow in one job with" not in drain_text(found["c"].asDict(), 7)
    nothing = [row | {"lost_fraction": 0.0} for row in tables[JOB_CAUSES]]
    assert not any(row.beside_hosts for row in answer(drain_by(TERMS), tables | {JOB_CAUSES: nothing}))
    for row in tables[JOB_CAUSES]:
        row["cause"] = "communication"
    assert [row.beside_hosts for row in answer(drain_by(TERMS), tables)] == [None, None, None]


def beside(courses: dict[str, str], parts: dict[str, float], share: float = 0.1) -> Tables:
    """Return the rows of `fleet`, changed so that host b is slow in the job of host a too.

    parts : by host, how much longer its ops take in a step [s]
    """
    tables = fleet(courses, share)
    for row in tables[WORKER_SLOWDOWN]:
        if row["dp_rank"] == 3 and row["job_id"] == "job of a":
            row["host"] = "b"
    named = [culprit(0.5, host=host, lost_s=part) for host, part in parts.items()]
    for row in tables[JOB_CAUSES]:
        if row["job_id"] == "job of a":
            row["culprits"] = named
    return tables


def test_two_slow_hosts_of_one_cause_are_drained_together() -> None:
    """Two hosts that may hide each other get one verdict and one rank: those of draining both together."""
    tables = beside({"a": "xxx", "c": "xxx"}, {"a": 0.1, "b": 0.1}, share=0.006)
    rows = answer(drain_by(TERMS), tables)
    found = {row.host: row for row in rows}
    assert {host: row.together_hosts for host, row in found.items()} == {"a": ["b"], "b": ["a"], "c": None}
    a, b, c = (found[host] for host in "abc")
    assert a.together_gpu_hours == pytest.approx(a.expected_gpu_hours + b.expected_gpu_hours)
    assert a.together_gpu_hours == pytest.approx(c.expected_gpu_hours)
    restart, spares = GPUS * 1.0, a.cost_gpu_hours - GPUS + b.cost_gpu_hours - GPUS
    assert a.together_cost_gpu_hours == pytest.approx(restart + spares)
    assert a.together_break_even_days == pytest.approx((restart + spares) / (0.006 * HOURS))
    assert a.expected_gpu_hours < a.cost_gpu_hours
    assert [row.verdict for row in (a, b)] == ["probably", "probably"]
    said = drain_texts([row.asDict() for row in rows], 7, 5)
    assert len(said) == 2
    assert f"probably drain a together with b: {a.together_gpu_hours:.1f} GPU-hours" in said[1]
    assert "not worth it if they stay slow for less than" in said[1]
    assert drain_row(a.asDict())["verdict"] == "probably, together with b"


def test_if_draining_all_does_not_pay_one_is_judged_by_its_part_at_most_probably() -> None:
    """If draining both costs more than it saves, the verdict on one host is at most "probably"."""
    tables = beside({"a": "xxx", "big": "..."}, {"a": 0.1, "b": 0.0001})
    for unit in tables[JOB_SLOWDOWN]:
        unit["world_size"] = 4000 if unit["job_id"] == "job of big" else GPUS
    for worker in tables[WORKER_SLOWDOWN]:
        worker["host"] = "b" if worker["host"] == "big" else worker["host"]
    found = {row.host: row for row in answer(drain_by(TERMS), tables)}
    a = found["a"]
    assert a.expected_low > a.cost_gpu_hours
    assert a.together_gpu_hours < a.together_cost_gpu_hours
    assert (a.verdict, found["b"].verdict) == ("probably", "no")
    assert "slow in one job with b: the saving that is expected" in drain_text(a.asDict(), 7)


def test_hosts_of_different_causes_or_healthy_again_are_drained_alone() -> None:
    tables = halves(fleet({"a": "x"}), second={})
    assert [row.together_hosts for row in answer(drain_by(TERMS), tables)] == [None, None]
    tables = beside({"a": "xxx"}, {"a": 0.1})
    other = [
        row | {"cause": "communication", "culprits": [culprit(0.5, host="b")]} for row in tables[JOB_CAUSES]
    ]
    tables[JOB_CAUSES] += other
    found = {row.host: row for row in answer(drain_by(TERMS), tables)}
    assert {host: row.together_hosts for host, row in found.items()} == {"a": None, "b": None}
    assert found["a"].beside_hosts == ["b"]
