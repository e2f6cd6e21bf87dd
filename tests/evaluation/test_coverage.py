"""The evaluation of intervals chooses logged steps and adds up intervals as computed by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tests.evaluation import coverage


@pytest.mark.parametrize("design", coverage.DESIGNS)
def test_a_tenth_of_the_day_is_logged(design: str) -> None:
    logged = coverage._logged(design, np.random.default_rng(1), 10)
    assert (len(logged), logged) == (coverage.DAY // 10, sorted(set(logged)))
    gaps = np.diff(logged)
    assert {"even": (gaps == 10).all(), "random": len(set(gaps)) > 2, "bursts": set(gaps) == {1, 46}}[design]


def judged(shared: float, freedom: float, **errors: float) -> pd.DataFrame:
    """Return ten judged jobs per class, with intervals of half width 1 % and the given errors. [%]"""
    return pd.DataFrame(
        {"class": of, "seed": seed, "true": 5.0, "saved": 5.0 + error, "width": 2.0, "design": "even",
         "shared": shared, "freedom": freedom}
        for of, error in errors.items() for seed in range(coverage.TOGETHER)
    )  # fmt: skip


def test_squares_of_errors_of_ten_jobs_add_up() -> None:
    """Ten intervals of +-1 % add up to +-3.16 %, which contains ten errors of 0.3 %, but not of 0.4 %."""
    found = coverage.sums(judged(0.0, np.inf, stage=0.3, host=0.4))
    assert found.groupby("class")["inside"].agg(["size", "mean"]).to_dict(orient="index") == {
        "stage": {"size": coverage.ROUNDS, "mean": 1.0},
        "host": {"size": coverage.ROUNDS, "mean": 0.0},
    }


@pytest.mark.parametrize("freedom", [1.0, 1.6, 3.0, 9.0, 100.0])
def test_degrees_of_freedom_add_up(freedom: float) -> None:
    """A sum of ten equal jobs has ten times the degrees of freedom of one, and the quantile for these."""
    few, many = (stats.t.ppf(0.95, each) for each in (freedom, 10 * freedom))
    assert coverage.student_squared(pd.Series([1 / freedom]))[0] == pytest.approx(few**2, rel=0.005)
    half = coverage.sums(judged(0.6, freedom, stage=0.0))["half"]
    assert half[0] ** 2 == pytest.approx(10 * (0.8 * many / few) ** 2 + 10 * 0.6**2, rel=0.01)


def test_the_command_judges_days(capsys: pytest.CaptureFixture[str]) -> None:
    assert coverage.main(["--jobs", "1", "--seed", "9", "--part", "1", "--classes", "stage"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("1 jobs a class of seeds 9 to ")
    assert "BY CLASS OF FAULT" in out
