"""Power of units and days in megawatts equals numbers computed by hand."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import JOB_MEGAWATTS, JOB_POWER, JOBS, POWER_DAY, POWER_IN_PHASE
from tests.support.examples import DAY, NEXT_DAY, ROWS
from udfs.power import days
from udfs.power.days import READ, Watts, power_tables

WATTS = {"H100": Watts(700.0, 200.0)}
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def unit(job_id: str, **changes: object) -> dict[str, Any]:
    """Return a unit on 1,000 H100 for a whole day, whose share of computing workers is 0.25 to 0.75."""
    row = {name: ROWS[JOB_POWER][name] for name in READ[JOB_POWER]}
    row |= dict.fromkeys(READ[JOBS]) | {"gpu_type": "H100", "world_size": 1000, "gpu_hours": 24000.0}
    return Unit(DAY, job_id, "r1")._asdict() | row | changes


def tables(*units: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    fields = [TABLES[name].arrow_schema.field(each) for name in (JOB_POWER, JOBS) for each in READ[name]]
    key = [TABLES[JOBS].arrow_schema.field(name) for name in Unit._fields]
    made = power_tables(pa.Table.from_pylist(list(units), pa.schema([*key, *fields])), WATTS)
    for name, rows in made.items():
        assert TABLES[name].differences(rows.schema) == []
    return {name: rows.to_pylist() for name, rows in made.items()}


def test_megawatts_of_a_unit() -> None:
    (row,) = tables(unit("a"))[JOB_MEGAWATTS]
    assert (row["mean_mw"], row["low_mw"], row["high_mw"]) == pytest.approx((0.45, 0.325, 0.575))
    assert (row["swing_mw"], row["hours"], row["energy_mwh"]) == pytest.approx((0.25, 24.0, 0.45 * 24))


@pytest.mark.parametrize("gpu_type", ["A100", None])
def test_without_watts_there_are_no_megawatts(gpu_type: str | None) -> None:
    found = tables(unit("a", gpu_type=gpu_type))
    (row,), (day,) = found[JOB_MEGAWATTS], found[POWER_DAY]
    assert (row["mean_mw"], row["swing_mw"], row["energy_mwh"], row["hours"]) == (None, None, None, 24.0)
    assert (day["timed_jobs"], day["powered_jobs"], day["gpus"], day["mean_mw"]) == (1, 0, 1000.0, None)


@pytest.mark.parametrize(
    ("gpu_type", "by_host", "known"),
    [
        ("H100", None, "H100"),
        ("H100", {"one": "H100"}, "H100"),
        (None, {"one": "H100", "two": "H100"}, "H100"),
        ("H100", {"one": "A100"}, None),
        (None, {"one": "A100", "two": "H100"}, None),
    ],
)
def test_a_unit_of_several_types_has_no_megawatts(
    gpu_type: str | None, by_host: dict[str, str] | None, known: str | None
) -> None:
    (row,) = tables(unit("a", gpu_type=gpu_type, gpu_types=by_host))[JOB_MEGAWATTS]
    assert (row["gpu_type"], row["mean_mw"] is None) == (known, known is None)


@pytest.mark.parametrize(
    ("said", "hours"),
    [
        ({"gpu_hours": 6000.0}, 6.0),
        ({"gpu_hours": 60000.0}, 24.0),
        ({"started_at": NOON, "ended_at": NOON + timedelta(hours=20)}, 12.0),
        ({"started_at": NOON - timedelta(days=2), "ended_at": NOON}, 12.0),
        ({"started_at": NOON + timedelta(days=2), "ended_at": NOON + timedelta(days=3)}, 0.0),
        ({"started_at": NOON}, None),
        ({}, None),
    ],
)
def test_how_long_a_unit_ran_on_its_day(said: dict[str, object], hours: float | None) -> None:
    (row,) = tables(unit("a", **{"gpu_hours": None} | said))[JOB_MEGAWATTS]
    assert row["hours"] == hours
    assert (row["energy_mwh"] is None) == (hours is None)


def test_the_last_day_of_the_calendar_has_an_end() -> None:
    last, begins = date(9999, 12, 31), datetime(9999, 12, 31, tzinfo=UTC)
    some = unit("a", log_date=last, gpu_hours=None, started_at=begins, ended_at=begins + timedelta(hours=6))
    assert tables(some)[JOB_MEGAWATTS][0]["hours"] == 6.0


def test_a_day_sums_units_for_the_time_they_ran() -> None:
    """A day's power sums units, weighted by their running time; units without GPU-hours are left out."""
    units = [
        unit("a", gpu_hours=12000.0),
        unit("b", world_size=2000, gpu_hours=48000.0, gpu_type="A100"),
        unit("c", gpu_hours=None),
    ]
    today, tomorrow = tables(*units, unit("a", log_date=NEXT_DAY))[POWER_DAY]
    assert (today["jobs"], today["timed_jobs"], today["powered_jobs"], tomorrow["jobs"]) == (3, 2, 1, 1)
    assert (today["gpus"], today["computing_gpus"]) == (2500.0, 1250.0)
    assert today["swing_gpus"] == 0.5 * 500 + 1000
    assert today["independent_swing_gpus"] == pytest.approx((0.5 * 500**2 + 1000**2) ** 0.5)
    assert (today["mean_mw"], today["low_mw"], today["high_mw"]) == pytest.approx((0.225, 0.1625, 0.2875))
    assert (today["swing_mw"], today["energy_mwh"]) == pytest.approx((0.125, 0.45 * 12))
    assert today["independent_swing_mw"] == pytest.approx(0.5**0.5 * 0.25)


def test_units_in_phase() -> None:
    """Pairs of units in phase are sorted by their swing; units without a known phase are left out."""
    peak_us = ROWS[JOB_POWER]["peak_us"]
    units = [
        unit("a"),
        unit("b", peak_us=peak_us + 1_200_500_000),
        unit("c", peak_us=peak_us - 500_000, world_size=2000, gpu_type="A100"),
        unit("d", peak_us=None),
    ]
    found = tables(*units)
    pairs = {(row["job_id"], row["other_job_id"]): row for row in found[POWER_IN_PHASE]}
    assert list(pairs) == [("a", "c"), ("a", "b")], "sorted by swing, largest first"
    assert found[POWER_DAY][0]["in_phase_pairs"] == 2
    row = pairs["a", "b"]
    assert (row["period_s"], row["other_period_s"], row["common_s"]) == (5.0, 5.0, 12 * 3600.0)
    assert (row["drift"], row["phase_difference"]) == (0.0, pytest.approx(0.1))
    assert (row["swing_gpus"], row["swing_mw"]) == pytest.approx((1000.0, 0.5))
    assert (pairs["a", "c"]["swing_gpus"], pairs["a", "c"]["swing_mw"]) == (1500.0, None)
    assert pairs["a", "c"]["phase_difference"] == pytest.approx(-0.1)


def test_of_many_pairs_the_largest_are_kept_and_all_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(days, "MOST_PAIRS", 1)
    found = tables(unit("a"), unit("b"), unit("c", world_size=5000))
    assert [(row["job_id"], row["other_job_id"]) for row in found[POWER_IN_PHASE]] == [("a", "c")]
    assert found[POWER_DAY][0]["in_phase_pairs"] == 3


def test_a_day_without_units_has_no_rows() -> None:
    assert tables() == {JOB_MEGAWATTS: [], POWER_DAY: [], POWER_IN_PHASE: []}
