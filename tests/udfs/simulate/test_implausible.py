"""Logs whose times are not in microseconds are refused, and the likely unit is named."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from jobs.synthetic.job import GeneratedJob
from jobs.synthetic.shape import JobShape
from schemas.vocabulary import JOB_SLOWDOWN, Status
from tests.support.random_jobs import generate_job
from udfs.what_if import simulate_job

DAY = date(2026, 1, 5)
MIDNIGHT_US = round(datetime(DAY.year, DAY.month, DAY.day, tzinfo=UTC).timestamp() * 1e6)
JOB = generate_job(JobShape(dp_size=2, pp_size=2, microbatches=4, steps=12), [], 1)
Row = dict[str, Any]


def simulated(change: Callable[[Row], Row], job: GeneratedJob = JOB) -> Row:
    lines = [
        change(row | {"t0_us": MIDNIGHT_US + row["step"] * 1_000_000}) for row in job.rank_steps.to_pylist()
    ]
    rows = pa.Table.from_pylist(lines, job.rank_steps.schema)
    (found,) = simulate_job(rows, job.manifest | {"log_date": DAY})[JOB_SLOWDOWN].to_pylist()
    return dict(found)


def scaled(factor: float) -> Callable[[Row], Row]:
    return lambda row: row | {name: [factor * t for t in row[name]] for name in ("start_us", "duration_us")}


def lasting(factor: float) -> Callable[[Row], Row]:
    return lambda row: row | {"duration_us": [factor * t for t in row["duration_us"]]}


def apart(seconds: float, change: Callable[[Row], Row]) -> Callable[[Row], Row]:
    return lambda row: change(row) | {"t0_us": MIDNIGHT_US + round(row["step"] * seconds * 1e6)}


def ended(row: Row) -> Row:
    return row | {
        "duration_us": [start + t for start, t in zip(row["start_us"], row["duration_us"], strict=True)]
    }


def since_1970(row: Row) -> Row:
    return row | {"start_us": [row["t0_us"] + start for start in row["start_us"]]}


def test_starts_since_1970_beside_zeros_of_0_are_analysed() -> None:
    """If a producer writes t0_us = 0 and counts starts from 1970, the unit is analysed."""
    assert simulated(lambda row: since_1970(row) | {"t0_us": 0})["status"] == "analysed"


def test_microseconds_are_analysed() -> None:
    assert simulated(lambda row: row)["status"] == "analysed"


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        (scaled(1e-6), r"steps of [0-9.]+ us: are these seconds\?"),
        (scaled(2e-4), r"steps of [0-9.]+ us: are these milliseconds\?"),
        (scaled(1e6), r"steps of [0-9.e+]+ days: are these nanoseconds\?"),
        (
            lambda row: row | {"duration_us": [1e-300 * t for t in row["duration_us"]]},
            r"no op takes longer than [0-9.e-]+ us: is duration_us in seconds\?",
        ),
        (lasting(1e3), r"ops take up to .* us: is duration_us in nanoseconds, or start_us in milliseconds\?"),
        (lasting(1e-3), r"the ops of a step take 0.\d+% of its time: is duration_us in milliseconds\?"),
        (scaled(1e3), r"steps of [0-9.e+]+ s begin 1 s apart: are these nanoseconds\?"),
        (apart(13.0, scaled(0.016)), r"steps begin 13 s apart but last [0-9.]+ ms: are these milliseconds\?"),
        (since_1970, r"start_us begins at \d+: is it counted from 1970, and not from t0_us\?"),
        (ended, r"every op takes at least as long as its start_us: does duration_us hold ends\?"),
        (lambda row: row | {"t0_us": row["t0_us"] // 1_000_000}, r"t0_us is \d+, .* are these seconds\?"),
        (lambda row: row | {"t0_us": row["t0_us"] // 1_000}, r"t0_us is \d+, .* are these milliseconds\?"),
        (lambda row: row | {"t0_us": row["t0_us"] * 1_000}, r"t0_us is \d+, .* are these nanoseconds\?"),
    ],
    ids=[
        "seconds",
        "milliseconds",
        "nanoseconds",
        "durations alone",
        "durations in ns",
        "durations in ms",
        "times in ns, zeros in us",
        "times in ms, zeros in us",
        "starts since 1970",
        "ends",
        "zeros in s",
        "zeros in ms",
        "zeros in ns",
    ],
)
def test_times_in_another_unit_are_seen(change: Callable[[Row], Row], detail: str) -> None:
    found = simulated(change)
    assert (found["status"], found["slowdown"]) == (Status.IMPLAUSIBLE_TIMES, None)
    assert re.fullmatch(detail, found["status_detail"])


def test_where_no_day_is_known_all_times_may_be_milliseconds() -> None:
    """If t0_us is in early 1970 and steps take 1 to 60 ms, the unit is refused: it may use milliseconds."""
    lines = [
        scaled(0.005)(row) | {"t0_us": (MIDNIGHT_US + row["step"] * 5_000_000) // 1000}
        for row in JOB.rank_steps.to_pylist()
    ]
    slow = [scaled(200.0)(line) | {"t0_us": line["t0_us"] + line["step"] * 1_000_000} for line in lines]
    found = [
        simulate_job(pa.Table.from_pylist(each, JOB.rank_steps.schema), JOB.manifest)[JOB_SLOWDOWN]
        for each in (lines, slow)
    ]
    assert [each["status"].to_pylist() for each in found] == [[Status.IMPLAUSIBLE_TIMES], [Status.ANALYSED]]
    assert "of early 1970: are these milliseconds?" in found[0]["status_detail"].to_pylist()[0]


def test_idle_time_between_some_steps_is_no_other_unit() -> None:
    def change(row: Row) -> Row:
        checkpoints = row["step"] // 4
        return scaled(0.016)(row) | {"t0_us": MIDNIGHT_US + row["step"] * 20_000 + checkpoints * 13_000_000}

    assert simulated(change)["status"] == "analysed"


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (1e3, "after the year 9999: are these nanoseconds?"),
        (1e-3, "of early 1970: are these milliseconds?"),
        (1e-6, "of early 1970: are these seconds?"),
    ],
)
def test_zeros_in_another_unit_are_seen_where_no_day_is_known(factor: float, said: str) -> None:
    lines = [
        row | {"t0_us": round((MIDNIGHT_US + row["step"] * 1_000_000) * factor)}
        for row in JOB.rank_steps.to_pylist()
    ]
    rows = pa.Table.from_pylist(lines, JOB.rank_steps.schema)
    (found,) = simulate_job(rows, JOB.manifest)[JOB_SLOWDOWN].to_pylist()
    assert found["status"] == Status.IMPLAUSIBLE_TIMES
    assert said in found["status_detail"]


def test_zeros_since_the_host_started_are_no_seconds() -> None:
    """Zeros in microseconds since the host's boot are not mistaken for seconds since 1970."""
    half_an_hour_us = 1_800_000_000
    lines = [row | {"t0_us": half_an_hour_us + row["step"] * 1_000_000} for row in JOB.rank_steps.to_pylist()]
    rows = pa.Table.from_pylist(lines, JOB.rank_steps.schema)
    (found,) = simulate_job(rows, JOB.manifest)[JOB_SLOWDOWN].to_pylist()
    assert found["status"] == Status.ANALYSED


def test_exchanged_dp_and_pp_ranks_are_named() -> None:
    found = simulated(lambda row: row | {"dp_rank": row["pp_rank"], "pp_rank": row["dp_rank"]})
    assert found["status"] == Status.ODD_RANKS
    assert found["status_detail"].startswith("dp_rank and pp_rank look exchanged")
