"""The evaluation finds that mixed GPU types cost time, and that equally fast ones cost none."""

import pytest

from tests.evaluation.gpu_types import MIXED, alike, jobs, judge, main
from udfs.kernel.diagnosis.diagnose import LEAST_SAVED


def test_unlike_types_cost_what_they_do_and_equal_ones_nothing() -> None:
    plans = list(jobs(4, 105))
    unlike = [judged for plan in plans if (judged := judge(plan)) is not None]
    trusted = [each for each in unlike if each.flag[MIXED] is None and each.true[MIXED] >= LEAST_SAVED]
    assert len(trusted) >= 2
    assert all(each.found[MIXED] for each in trusted)
    assert max(abs(each.saved_error) for each in trusted) < 0.03
    equal = [judged for plan in plans if (judged := judge(alike(plan))) is not None]
    assert equal
    assert not any(each.found[MIXED] for each in equal if each.flag[MIXED] is None)


def test_the_report_says_how_many_of_what(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--jobs", "1", "--seed", "101"]) == 0
    assert capsys.readouterr().out.startswith("1 jobs from seed 101\nunlike types: ")
