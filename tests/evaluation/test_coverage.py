"""The evaluation of intervals: what is logged, and sums by hand."""

import numpy as np
import pandas as pd
import pytest

from tests.evaluation import coverage


@pytest.mark.parametrize("design", coverage.DESIGNS)
def test_a_tenth_of_the_day_is_logged(design: str) -> None:
    logged = coverage._logged(design, np.random.default_rng(1), 10)
    assert (len(logged), logged) == (coverage.DAY // 10, sorted(set(logged)))
    gaps = np.diff(logged)
    assert {"even": (gaps == 10).all(), "random": len(set(gaps)) > 2, "bursts": set(gaps) == {1, 46}}[design]


def test_squares_of_errors_of_ten_jobs_add_up() -> None:
    """Half widths of 1 % each are 3.16 % of ten together; errors of 0.3 % add up to 3 %, of 0.4 % to 4 %."""
    rows = [
        {"class": of, "seed": seed, "true": 5.0, "saved": 5.0 + error, "width": 2.0}
        for of, error in (("stage", 0.3), ("host", 0.4))
        for seed in range(coverage.TOGETHER)
    ]
    found = coverage.sums(pd.DataFrame(rows))
    assert dict(zip(found["class"], found["inside"], strict=True)) == {"stage": True, "host": False}


def test_the_command_judges_days(capsys: pytest.CaptureFixture[str]) -> None:
    assert coverage.main(["--jobs", "1", "--seed", "9", "--part", "1", "--classes", "stage"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("1 jobs a class of seeds 9 to ")
    assert "BY CLASS OF FAULT" in out
