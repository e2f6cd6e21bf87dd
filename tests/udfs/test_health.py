"""Failed health checks are matched with culprits, and explain them by the stated rules, in small fleets."""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from schemas.health_tables import EXPLAINS_CHANCE, LEAST_LIFT
from schemas.tables import TABLES
from schemas.vocabulary import CAUSE_EVIDENCE, HOST_HEALTH, JOB_CAUSES
from tests.support.examples import culprit, table_rows
from udfs.health.evidence import cause_evidence

DAY = date(2026, 1, 5)
DAY_BEFORE = date(2026, 1, 4)
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
OTHERS = [f"other-{n}" for n in range(50)]


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


def span(begin: float, end: float, host: str = "sick", **changes: object) -> dict[str, Any]:
    """Return a span in which a health check failed; `begin` and `end` are minutes after noon."""
    return {
        "host": host, "check_name": "hot", "first_at": NOON + minutes(begin), "last_at": NOON + minutes(end),
        "log_date": DAY, **changes,
    }  # fmt: skip


def by_day(health: pa.Table) -> Callable[[date], pa.Table]:
    """Return a function that returns the rows of `health` on a given day."""
    return lambda day: health.filter(pc.equal(health["log_date"], day))


def slow(at: float = 0.0, **changes: object) -> dict[str, Any]:
    """Return a culprit on the host "sick" that is slow from `at` minutes after noon on."""
    return culprit(0.5, host="sick", course="from", first_time=NOON + minutes(at)) | changes


def beside(
    *spans: Mapping[str, Any],
    culprits: list[dict[str, Any]] | None = None,
    trained: tuple[date, ...] = (DAY,),
) -> list[dict[str, Any]]:
    health = table_rows(HOST_HEALTH, list(spans)) if spans else TABLES[HOST_HEALTH].arrow_schema.empty_table()
    rows = [{"cause": "slow_worker", "is_cause": True, "culprits": culprits or [slow()]}]
    causes = table_rows(JOB_CAUSES, rows)
    hosts = pa.Table.from_pylist(
        [{"log_date": day, "host": host} for day in trained for host in ["sick", *OTHERS]]
    )
    found = cause_evidence(by_day(health), causes, hosts, [DAY], 14)
    assert found.schema == TABLES[CAUSE_EVIDENCE].arrow_schema
    rows_: list[dict[str, Any]] = found.to_pylist()
    return rows_


@pytest.mark.parametrize(
    ("one", "wanted"),
    [
        (span(-5, 60), [300.0]),  # begins before the slowness and goes on
        (span(1.5, 60), [-90.0]),  # begins with it, within the tolerance for clocks and scrapes
        (span(3, 60), []),  # begins after it
        (span(-60, -5), []),  # ends before it
        (span(-60, -1.5), [3600.0]),
        (span(-60, -30, is_open=True), [3600.0]),  # its end is unknown
        (span(-5, 60, host="other-1"), []),
        (span(-5, 60, severity="ok"), []),
        (span(-5, 60, began_before=True), [43200.0]),  # began at midnight or earlier
        (span(-5, 60, log_date=DAY_BEFORE), []),
        (span(-1440, -1440, log_date=DAY_BEFORE, is_open=True), [86400.0]),
    ],
)
def test_what_began_before_or_with_a_culprit_and_goes_on_stands_beside_it(
    one: dict[str, Any], wanted: list[float]
) -> None:
    assert [row["lead_s"] for row in beside(one)] == wanted


def test_an_open_span_of_the_day_before_is_gone_where_the_day_says_more_of_the_check() -> None:
    yesterday = span(-1440, -1440, log_date=DAY_BEFORE, is_open=True)
    assert beside(yesterday, span(30, 31)) == []
    assert beside(yesterday, span(-30, 60, severity="ok")) == []
    (row,) = beside(yesterday, span(30, 60, severity="ok"), span(-30, 60, severity="ok", device=7))
    assert (row["is_open"], row["lead_s"]) == (False, 86400.0)


def lasting(at: float) -> dict[str, Any]:
    """Return a culprit that is slow in all steps of a day, from `at` minutes after noon of DAY on."""
    return slow(at, course="always")


def over_days(one: Mapping[str, Any], *days: tuple[int, list[dict[str, Any]]]) -> list[tuple[float, float]]:
    """Return (lead_s, minutes before noon when the culprit became slow) of each failed check.

    days : analysed days of the run, as (days after DAY, culprits named on that day)
    """
    rows = [
        {"log_date": DAY + timedelta(age), "cause": "slow_worker", "is_cause": bool(named), "culprits": named}
        for age, named in days
    ]
    hosts = pa.table({"log_date": [DAY] * 51, "host": ["sick", *OTHERS]})
    found = cause_evidence(
        by_day(table_rows(HOST_HEALTH, [one])), table_rows(JOB_CAUSES, rows), hosts, [DAY], 3
    )
    return [(row["lead_s"], (NOON - row["slow_from"]) / minutes(1)) for row in found.to_pylist()]


@pytest.mark.parametrize(
    ("days", "since"),
    [
        ([(0, [lasting(0)])], 0),
        ([(-1, [slow(-1440)]), (0, [lasting(0)])], 1440),
        ([(-2, [slow(-2880)]), (-1, [slow(-1430)]), (0, [lasting(0)])], 1430),  # the slowness of day -2 ended
        ([(-2, [slow(-2880)]), (0, [lasting(0)])], 2880),  # day -1 was not analysed
        ([(-2, [slow(-2880)]), (-1, []), (0, [lasting(0)])], 0),  # no culprit on day -1
        ([(-1, [slow(-1440, host="other-1")]), (0, [lasting(0)])], 0),
        ([(-1, [slow(-1430), slow(-1440, dp_rank=3)]), (0, [lasting(0)])], 1440),
        ([(-1, [slow(-1440)]), (0, [slow()])], 0),  # slow again, after healthy steps
        ([(-3, [slow(-4320)]), (0, [lasting(0)])], None),  # the days between are unknown
        ([(-4, [slow(-5760)]), (-1, [lasting(-1440)]), (0, [lasting(0)])], 1440),  # day -4 is too long ago
        ([(-1, [slow(first_time=None)]), (0, [lasting(0)])], None),
    ],
)
def test_a_culprit_is_slow_since_the_first_of_the_days_in_a_row(
    days: list[tuple[int, list[dict[str, Any]]]], since: float | None
) -> None:
    """A culprit is slow since the first of several days in a row; checks are compared with that time."""
    wanted = [] if since is None else [(60.0, since)]
    began = NOON - minutes((since or 0) + 1)
    before = span(0, 0, log_date=began.date(), first_at=began, last_at=began, is_open=True)
    assert over_days(before, *days) == wanted
    began += minutes(31)
    later = span(0, 0, log_date=began.date(), first_at=began, last_at=began, is_open=True)
    assert over_days(later, *days) == []


def test_what_began_before_the_first_of_the_days_began_at_its_midnight_at_the_latest() -> None:
    earlier = span(-1441, -1441, log_date=DAY_BEFORE, began_before=True)
    days = [(-1, [slow(-1440)]), (0, [lasting(0)])]
    assert over_days(earlier, *days) == [(43200.0, 1440.0)]


def test_a_check_that_failed_a_day_later_does_not_explain_what_was_slow_before() -> None:
    next_morning = span(-719.5, -719.5, is_open=True)
    days = [(-1, [lasting(-1980)]), (0, [lasting(-540)])]
    assert over_days(next_morning, days[1]) == [(179.5 * 60, 540.0)]
    assert over_days(next_morning, *days) == []


def test_lift_and_chance_are_those_of_the_equations() -> None:
    """Lift and chance of a failed check are as computed by hand, beside a rare and a frequent other check."""
    rest = [span(0, 1, host) for host in OTHERS[:2]]
    rest += [span(0, 1, OTHERS[2], check_name="rare")]
    rest += [span(0, 1, host, check_name="often") for host in OTHERS[:20]]
    (row,) = beside(span(-5, 60), *rest)
    assert (row["slow_host_days"], row["slow_host_days_with"]) == (1, 1)
    assert (row["other_host_days"], row["other_host_days_with"]) == (50, 2)
    assert row["lift"] == pytest.approx((1.5 / 2) / (2.5 / 51))
    near = (300 + 2 * 120) / 86_400
    assert row["chance"] == pytest.approx(near * (2 + 1 + 0.5) / 51)
    assert row["explains"]


def test_what_fails_everywhere_explains_nothing_and_what_was_always_slow_takes_more() -> None:
    everywhere = [span(-5, 60, host) for host in OTHERS]
    (row,) = beside(span(-5, 60), *everywhere)
    assert row["lift"] < LEAST_LIFT
    assert not row["explains"]
    always = slow(course="always")
    (row,) = beside(span(-5, 60), culprits=[always])
    assert row["chance"] == pytest.approx(0.5 / 51)
    assert row["explains"]
    (row,) = beside(span(-5, 60), *[span(0, 1, host) for host in OTHERS[:2]], culprits=[always])
    assert row["chance"] > EXPLAINS_CHANCE
    assert not row["explains"]


def test_a_check_that_goes_on_for_days_is_one_coincidence_of_a_host() -> None:
    """In the estimate of chance, a check that fails for days in a row on a host counts once."""
    before = DAY_BEFORE
    days = [span(-5, 60, log_date=day) for day in (before, DAY)] + [span(-5, 60, "other-1")]
    found = beside(*days, culprits=[slow(course="always")], trained=(before, DAY))
    assert [row["other_host_days_with"] for row in found] == [2]
    assert [row["chance"] for row in found] == pytest.approx([1.5 / 51])
    found = beside(
        *days,
        span(-5, 60, "other-1", log_date=before),
        culprits=[slow(course="always")],
        trained=(before, DAY),
    )
    assert [row["chance"] for row in found] == pytest.approx([3.5 / 102]), "a host counts once"


def test_what_explains_far_worse_than_another_span_is_not_named() -> None:
    near, far = span(-0.5, 60), span(-700, 60, check_name="cold")
    rest = [span(0, 1, host, check_name="cold") for host in OTHERS[:4]]
    found = {row["check_name"]: row["explains"] for row in beside(near, far, *rest)}
    assert found == {"hot": True, "cold": False}


def test_a_link_has_two_ends_and_a_stage_has_no_host() -> None:
    link = span(-5, 60, host="other-1", component="link", peer="sick")
    assert [row["host"] for row in beside(link)] == ["other-1"]
    assert beside(span(-5, 60, host="other-1", component="disk", peer="sick")) == []
    ends = [{"pp_rank": n, "dp_rank": 0, "rank": n, "host": host} for n, host in enumerate(("a", "sick"))]
    both = slow(reach="link", host=None, rank=None, dp_rank=None, workers=ends)
    assert [row["culprit_host"] for row in beside(span(-5, 60), culprits=[both])] == [None]
    stage = slow(reach="stage", host=None, rank=None, dp_rank=None, workers=ends)
    timeless = slow(first_time=None)
    assert beside(span(-5, 60), culprits=[stage, timeless]) == []
