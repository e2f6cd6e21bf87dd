"""The bounds of jobs without transfers contain the slowdown of the same jobs with transfers."""

import pytest

from tests.evaluation.partial import drawn, judged, main

FIRST = 40


@pytest.mark.parametrize("seed", range(FIRST, FIRST + 4))
@pytest.mark.parametrize("kind", ["streams", "blocking", "fused", "buffered"])
def test_the_slowdown_lies_within_the_bounds(kind: str, seed: int) -> None:
    job = drawn(seed, kind)
    assert job is not None
    found = judged(job, seed)
    assert found.holds(*found.bounds), str(found)
    assert found.holds(*found.on_clocks), str(found)
    assert job.link in (None, found.largest)


@pytest.mark.parametrize(("kind", "seed"), [("streams", 44), ("blocking", 44), ("fused", 46)])
def test_a_slow_link_has_the_largest_gap(kind: str, seed: int) -> None:
    job = drawn(seed, kind)
    assert job is not None
    assert job.link is not None
    assert judged(job, seed).largest == job.link


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--jobs", "2", "--seed", "11"]) == 0
    *_, every = capsys.readouterr().out.splitlines()
    assert every.startswith("| all | 2 | 2 |")
