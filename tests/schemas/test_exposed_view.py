"""exposed_month gives ratios of a month's sums, and the share of GPU-hours whose communication is known."""

from datetime import date
from typing import Any

import pytest

from schemas.vocabulary import EXPOSED_COMMUNICATION, JOB_SLOWDOWN, JOBS
from tests.schemas.test_views import view
from tests.support.examples import DAY, NEXT_DAY

FEBRUARY = date(2026, 2, 1)


def unit(job: str, day: date = DAY, hours: float | None = 100.0, **more: object) -> dict[str, Any]:
    """Return a row of job_slowdown for a unit with ten steps of 2 s."""
    times = {"actual_step_s": 2.0, "actual_total_s": 20.0}
    return {"job_id": job, "log_date": day, "gpu_hours": hours, **times, **more}


def exposed(job: str, day: date = DAY, exposed_s: float = 0.5, **more: object) -> dict[str, Any]:
    """Return a row of exposed_communication for a job as a whole."""
    seconds = {"exposed_s": exposed_s, "busy_s": 1.0, "hidden_s": 1 - exposed_s, "overlap_saved_s": 0.25}
    return {"job_id": job, "log_date": day, "scope": "job", "op_type": "all"} | seconds | more


def test_exposed_month_sums_what_is_known() -> None:
    units = [
        unit("a"), unit("a", NEXT_DAY, 300.0), unit("b", hours=None), unit("c", status="too_few_steps"),
        unit("silent"), unit("other"), unit("a", FEBRUARY, 10.0),
    ]  # fmt: skip
    model = {each["job_id"]: "dense" if each["job_id"] == "other" else "moe" for each in units}
    rows = view(
        "exposed_month",
        {
            JOB_SLOWDOWN: units,
            JOBS: [{name: each[name] for name in ("job_id", "log_date")} | {"model": model[each["job_id"]],
                   "framework": "megatron"} for each in units],
            EXPOSED_COMMUNICATION: [
                exposed("a"), exposed("a", NEXT_DAY, 1.0), exposed("b"), exposed("c"), exposed("other"),
                exposed("a", FEBRUARY, 0.0),
                exposed("a", exposed_s=0.5, scope="op_type", op_type="forward-pp-comm"),
                exposed("a", exposed_s=0.5, scope="stage", pp_rank=0),
            ],
        },
    )  # fmt: skip
    found = {(row.month, row.model): row for row in rows}
    assert found.keys() == {
        (date(2026, 1, 1), "moe"),
        (date(2026, 1, 1), "dense"),
        (FEBRUARY, "moe"),
    }
    row = found[date(2026, 1, 1), "moe"]
    assert (row.framework, row.size_bucket, row.units, row.known_units) == ("megatron", "< 128", 5, 3)
    assert (row.gpu_hours, row.known_gpu_hours, row.coverage) == (600.0, 400.0, pytest.approx(2 / 3))
    assert (row.exposed_gpu_hours, row.overlap_saved_gpu_hours) == (25.0 + 150.0, 50.0)
    assert row.exposed_share == pytest.approx(175 / 400)
    assert (row.known_s, row.exposed_s) == (60.0, 5.0 + 10.0 + 5.0)
    assert (found[FEBRUARY, "moe"].exposed_share, found[FEBRUARY, "moe"].coverage) == (0.0, 1.0)
