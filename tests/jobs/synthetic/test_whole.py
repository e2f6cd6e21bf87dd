"""In a training of several runs, a run's role starts after the roles it waits for; faster roles save time."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from jobs.synthetic.whole import WholeSimulation
from tests.support.wholes import roles_of, sample_whole, saved_fraction, time_s

SEEDS = (0, 3, 5)


def spans(whole: WholeSimulation) -> list[dict[int, tuple[float, float]]]:
    """Return the start and end of each iteration in each run's log, on the common clock. [s]"""
    found = []
    for run, job in zip(whole.runs, whole.recorded(), strict=True):
        of_run: dict[int, tuple[float, float]] = {}
        for row in job.rank_steps.to_pylist():
            iteration = job.manifest["iterations"][str(row["step"])]
            first, last = of_run.get(iteration, (np.inf, -np.inf))
            starts_us = row["t0_us"] + np.array(row["start_us"])
            end_us = (starts_us + row["duration_us"]).max()
            clock_s = run.clock_s
            of_run[iteration] = (
                min(first, starts_us.min() / 1e6 - clock_s),
                max(last, end_us / 1e6 - clock_s),
            )
        found.append(of_run)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_a_role_starts_after_the_ends_that_it_waits_for(seed: int) -> None:
    whole = sample_whole(seed, iterations=4, most_ops=500)
    of_runs = spans(whole)
    pairs = product(zip(whole.runs, of_runs, strict=True), repeat=2)
    for (run, own), (other, its) in pairs:
        assert sorted(own) == [0, 1, 2, 3]
        for iteration, (start_s, _) in own.items():
            if other.role in run.waits_for:
                assert start_s > its[iteration][1] - 0.005
            if iteration and other.role in (*run.waits_for_before, run.role):
                assert start_s > its[iteration - 1][1] - 0.005


@pytest.mark.parametrize("seed", SEEDS)
def test_the_recorded_time_is_that_of_the_whole(seed: int) -> None:
    whole = sample_whole(seed, iterations=4, most_ops=500)
    times = [time for of_run in spans(whole) for span in of_run.values() for time in span]
    assert time_s(whole, whole.steps_s) == pytest.approx(max(times) - min(times), abs=0.01)


def test_half_of_the_only_role_on_the_path_saves_half_of_its_time() -> None:
    whole = sample_whole(0, iterations=4, most_ops=500)
    saved = {role: saved_fraction(whole, role, is_half=True) for role in roles_of(whole)}
    assert all(0 <= each < 0.5 for each in saved.values())
    assert max(saved.values()) > 0.1


def test_the_same_seed_gives_the_same_logs() -> None:
    first, again = (sample_whole(3, iterations=3, most_ops=500).recorded() for _ in range(2))
    rows: list[Any] = [[job.rank_steps for job in jobs] for jobs in (first, again)]
    assert all(one.equals(other) for one, other in zip(*rows, strict=True))
    assert [job.manifest for job in first] == [job.manifest for job in again]
