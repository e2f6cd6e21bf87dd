"""Steps of a run with a role get absolute times if log and manifest state their zeros and iterations."""

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from tests.udfs.lines import line, manifest, rank_steps
from udfs.what_if import SimulationSettings, simulate_job

DAY = date(2026, 1, 5)
NOON_US = int(datetime(2026, 1, 5, 12, tzinfo=UTC).timestamp()) * 1_000_000
WHOLE = {"part_of": "rlhf-7", "role": "actor", "iterations": {7: 3, 9: 4}, "log_date": DAY}
FEW_STEPS = SimulationSettings(minimum_steps=1)


def two_ranks(step: int, zero_us: int) -> list[dict[str, Any]]:
    """Return rows of two ranks that count from zeros 10 us apart; the step lasts from 3 us to 2 s + 11 us."""
    return [
        line(step, 0, 0, [("optimizer", 3e-6, 1)], t0_us=zero_us),
        line(step, 1, 0, [("optimizer", 1e-6, 2)], t0_us=zero_us + 10),
    ]


def role_steps(zero_us: int = NOON_US, /, **changes: object) -> list[dict[str, Any]]:
    lines = [*two_ranks(7, zero_us), *two_ranks(8, zero_us), *two_ranks(9, zero_us + 5_000_000)]
    tables = simulate_job(rank_steps(*lines), manifest(dp_size=2) | WHOLE | changes, FEW_STEPS)
    return list(tables["role_step"].to_pylist())


def test_steps_with_an_iteration_have_their_times() -> None:
    first, second = role_steps()
    assert (first["step"], first["iteration"], second["step"], second["iteration"]) == (7, 3, 9, 4)
    assert {(row["part_of"], row["role"]) for row in (first, second)} == {("rlhf-7", "actor")}
    assert (first["start_us"], first["end_us"]) == (NOON_US + 3, NOON_US + 2_000_011)
    assert second["start_us"] == NOON_US + 5_000_003
    assert first["actual_step_s"] == pytest.approx(2.000008)
    assert (first["simulated_step_s"], first["ideal_step_s"]) == (2.0, 1.5)


def test_iterations_as_job_json_spells_them() -> None:
    assert role_steps(iterations={"7": 3, "9": 4}) == role_steps()


@pytest.mark.parametrize("left_out", ["part_of", "role", "iterations"])
def test_a_manifest_without_one_of_the_fields_has_no_rows(left_out: str) -> None:
    assert role_steps(**{left_out: None}) == []


def test_times_far_from_the_log_date_are_not_absolute() -> None:
    day_us = 86_400_000_000
    assert role_steps(NOON_US + day_us)
    assert role_steps(NOON_US + 2 * day_us) == []
    assert role_steps(NOON_US - 2 * day_us) == []
    assert role_steps(0, log_date=None) == []


@pytest.mark.parametrize("log_date", [DAY, None])
@pytest.mark.parametrize(
    ("zero_us", "start_s"), [(2**63 - 9_000_000, 0.0), (NOON_US, 1e13), (NOON_US, 1e12), (NOON_US, 1e15)]
)
def test_times_that_no_calendar_holds_cost_no_other_result(
    zero_us: int, start_s: float, log_date: date | None
) -> None:
    """Steps outside the calendar have no rows; the unit's other results stay, and no number overflows."""
    lines = [line(step, 0, 0, [("optimizer", start_s, 1e9)], t0_us=zero_us + step) for step in range(7, 12)]
    tables = simulate_job(rank_steps(*lines), manifest() | WHOLE | {"log_date": log_date}, FEW_STEPS)
    assert tables["role_step"].num_rows == 0
    for row in tables["job_power"].to_pylist():
        assert row["peak_us"] is None
        assert row["first_us"] is None or row["first_us"] <= row["last_us"]


def test_a_log_without_times_has_no_rows() -> None:
    rows = rank_steps(*two_ranks(7, NOON_US))
    without = rows.set_column(rows.column_names.index("t0_us"), "t0_us", pa.nulls(rows.num_rows, pa.int64()))
    assert simulate_job(without, manifest(dp_size=2) | WHOLE, FEW_STEPS)["role_step"].num_rows == 0
    assert simulate_job(rows, manifest(dp_size=2) | WHOLE, FEW_STEPS)["role_step"].num_rows == 1
