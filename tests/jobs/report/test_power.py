"""Test a job page's section and chart on swings of the job's electric power."""

from dataclasses import replace

import pytest

from jobs.report.job_charts import CHART, charts, power_section
from jobs.report.job_page import job_page
from schemas.vocabulary import JOB_MEGAWATTS, JOB_POWER
from tests.jobs.report.units import sick_job
from tests.support.examples import ROWS

TABLES = sick_job()
POWERED = replace(TABLES, further={**TABLES.further, JOB_MEGAWATTS: [ROWS[JOB_MEGAWATTS]]})


def test_shares_and_gpus_of_the_job() -> None:
    """The section on power states each share of the workers also as a number of the job's 64 GPUs."""
    (row,), found = TABLES.further[JOB_POWER], power_section(TABLES)
    assert found is not None
    assert found.columns == ["", "of the workers", "GPUs"]
    cells = {name: rest for name, *rest in found.rows}
    assert cells["mean"] == [f"{100 * row['mean_share']:.1f} %", f"{64 * row['mean_share']:.0f}"]
    assert cells["least"] == ["0 %", "0"]
    assert "with a period of" in found.says


def test_megawatts_where_the_settings_have_watts() -> None:
    found = power_section(POWERED)
    assert found is not None
    assert found.columns[-1] == "MW"
    assert [row[-1] for row in found.rows] == ["0.004", "0.003", "0.005", "0.002", "\N{EN DASH}"]


@pytest.mark.parametrize("megawatts", [[], [{**ROWS[JOB_MEGAWATTS], "mean_mw": None}]])
def test_without_watts_there_is_no_column_of_megawatts(megawatts: list[dict[str, object]]) -> None:
    tables = replace(TABLES, further={**TABLES.further, JOB_MEGAWATTS: megawatts})
    assert power_section(tables) == power_section(TABLES)


def test_the_chart_has_the_share_by_time_in_the_step() -> None:
    (row,) = TABLES.further[JOB_POWER]
    (chart,) = [each for each in charts(TABLES)[1] if each["id"] == CHART]
    assert chart["rows"]["at_s"][64] == pytest.approx(row["actual_step_s"] * 64.5 / 128, abs=1e-6)
    for name, column in (("share", ""), ("low", "_low"), ("high", "_high")):
        assert chart["rows"][name] == pytest.approx(row[f"computing_share{column}"], abs=1e-4)
    assert f'id="{CHART}"' in job_page(TABLES).decode()


def test_a_unit_without_a_row_has_neither() -> None:
    tables = replace(TABLES, further={})
    assert power_section(tables) is None
    assert CHART not in job_page(tables).decode()


def test_it_stands_below_how_far_to_trust_the_rest() -> None:
    page = job_page(TABLES).decode()
    assert page.index('id="trust-title"') < page.index('id="power-title"')
