"""The judge scores diagnoses correctly on generated jobs with known truth."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from jobs.synthetic.sample_job import sample_job
from jobs.synthetic.shape import JobShape
from jobs.synthetic.simulation import JobPlan, Simulation, Truth, true_savings
from schemas.vocabulary import FIXABLE_CAUSES, LOGGED_CAUSES
from tests.evaluation.fakes import Culprits, rows_by, saying
from tests.evaluation.judge import (
    NO_ANSWER,
    USUAL,
    VARIANTS,
    Diagnose,
    DiagnosedJob,
    healthy_seeds,
    is_hidden,
    judge_job,
    judge_plan,
)
from tests.evaluation.score import by_class
from tests.evaluation.skews import HostClocks
from tests.support.sampled import with_loads
from udfs.errors import TraceError
from udfs.what_if import simulate_job

SMALL = 2000
"""Largest number of ops of a job."""


@cache
def drawn(seed: int) -> JobPlan:
    return sample_job(seed, most_ops=SMALL)


@cache
def truth(seed: int) -> Truth:
    return true_savings(Simulation(drawn(seed)))


@cache
def slow_worker_seed() -> int:
    """Return the first seed whose job loses 2.5 % of the step time or more to a slow worker among several."""
    for seed in range(100):
        shape = drawn(seed).shape
        if shape.dp_size * shape.pp_size > 1 and truth(seed).time_saved_fraction["slow_worker"] >= 0.025:
            return seed
    raise AssertionError


def judged(seed: int, diagnose: Diagnose) -> pd.DataFrame:
    return pd.DataFrame(judge_job(seed, USUAL, diagnose, SMALL))


def is_located(seed: int, *slow: tuple[int | None, int | None]) -> bool | None:
    (found,) = set(judged(seed, saying({}, slow=slow)).is_located)
    return None if found is None else bool(found)


@pytest.mark.parametrize("error", [0.0, 0.01])
def test_the_error_of_an_answer_is_its_distance_from_the_truth(error: float) -> None:
    seeds = range(8)
    off = ({name: saved - error for name, saved in truth(s).time_saved_fraction.items()} for s in seeds)
    answers = pd.concat([judged(seed, saying(saved)) for seed, saved in zip(seeds, off, strict=True)])
    assert len(answers) == 8 * len(FIXABLE_CAUSES)
    row = rows_by(by_class(answers), "class")["all"]
    assert (row["MAE [%]"], row["p95 [%]"]) == pytest.approx((100 * error, 100 * error), abs=1e-12)
    assert row["precision"] == 1


def test_no_word_of_the_page_is_missed() -> None:
    judgement = judged(slow_worker_seed(), saying({})).set_index("cause")
    assert judgement.is_true["slow_worker"]
    assert not judgement.is_cause.any()
    assert judgement.true.to_dict() == truth(slow_worker_seed()).time_saved_fraction


def test_a_worker_is_located_where_all_cells_named_worst_are_slow() -> None:
    seed = slow_worker_seed()
    shape = drawn(seed).shape
    (slow,) = (each for each in truth(seed).mechanisms if each["cause"] == "slow_worker")
    cells: Culprits = [(dp_rank, pp_rank) for dp_rank, pp_rank in slow["culprits"]["workers"]]
    every = [(dp_rank, pp_rank) for dp_rank in range(shape.dp_size) for pp_rank in range(shape.pp_size)]
    wrong = next(cell for cell in every if cell not in cells)
    found = [is_located(seed, *named) for named in (cells, [wrong, *cells], [(None, None)], [])]
    assert found == [True, False, False, False]
    assert is_located(healthy_seeds(0, 1)[0], (0, 0)) is None


def test_the_cells_of_a_host_are_its_workers() -> None:
    host = {"dp_rank": None, "pp_rank": None, "workers": [{"dp_rank": 1, "pp_rank": pp} for pp in (0, 2)]}
    job = DiagnosedJob({}, {"slow_worker": {"culprits": [host]}})
    assert job.worst_cells("slow_worker", 4, 4) == {(1, 0), (1, 2)}


def test_any_flag_flags_the_job() -> None:
    assert not judged(1, saying({})).is_flagged.any()
    job = judged(1, saying({}, flags={"pause": "few_steps"}))
    assert job.is_flagged.all()
    assert dict(zip(job.cause, job.flag, strict=True)) == {
        **dict.fromkeys(FIXABLE_CAUSES),
        "pause": "few_steps",
    }


def test_a_cause_that_the_log_cannot_show_has_no_answer_and_flags_nothing() -> None:
    silent = judge_job(1, diagnose=simulate_job, most_ops=SMALL)
    assert {row["cause"] for row in silent} == set(FIXABLE_CAUSES) - set(LOGGED_CAUSES)
    assert not any(row["flag"] == NO_ANSWER for row in silent)
    loading = judge_plan(with_loads(sample_job(1, most_ops=SMALL)))
    assert "data_loading" in {row["cause"] for row in loading}


def test_a_refused_trace_is_flagged_and_saves_nothing() -> None:
    def refusing(rank_steps: pa.Table, manifest: Mapping[str, object] | None) -> Mapping[str, pa.Table]:
        raise TraceError("no")

    job = judged(1, refusing)
    judgement = job[["status", "is_flagged", "predicted", "is_cause", "flag"]].itertuples(index=False)
    assert set(map(tuple, judgement)) == {("corrupt_trace", True, 0.0, False, NO_ANSWER)}
    assert rows_by(by_class(job), "class")["all"]["no answer"] == 1


def test_healthy_seeds_are_the_next_without_a_fault() -> None:
    found = healthy_seeds(10, 5)
    assert found == [seed for seed in range(10, found[-1] + 1) if sample_job(seed).kind == "healthy"]


def test_variants_change_noise_steps_and_clocks_alone() -> None:
    job = drawn(slow_worker_seed())
    usual, noisy, few, both, skewed = (variant.of(job) for variant in (USUAL, *VARIANTS))
    assert usual == job
    assert [plan.workload.noise for plan in (noisy, both)] == [0.06, 0.06]
    assert [plan.shape.steps for plan in (few, both)] == [4, 4]
    assert (few.workload, noisy.shape, skewed.workload) == (usual.workload, usual.shape, usual.workload)
    *mechanisms, clocks = skewed.mechanisms
    assert tuple(mechanisms) == tuple(usual.mechanisms)
    assert isinstance(clocks, HostClocks)


@pytest.mark.parametrize(
    ("shape", "fault", "is_nothing_left"),
    [
        (JobShape(dp_size=4, steps=2), {"parameters": {"traffic": "replicas"}}, True),
        (JobShape(dp_size=4, steps=3), {"parameters": {"traffic": "replicas"}}, False),
        (JobShape(dp_size=4, pp_size=2, steps=2), {"parameters": {"traffic": "pipeline"}}, False),
        (JobShape(dp_size=1, pp_size=2, steps=2), {"parameters": {"pp_rank": 0}}, True),
        (JobShape(dp_size=1, pp_size=3, steps=2), {"parameters": {"pp_rank": 0}}, False),
        (JobShape(dp_size=4, steps=2), {"cause": "pause", "parameters": {}}, False),
    ],
)
def test_only_a_fault_of_all_steps_that_hits_a_collective_or_the_only_link_is_hidden(
    shape: JobShape, fault: dict[str, Any], *, is_nothing_left: bool
) -> None:
    described = {"cause": "communication", "slowed_steps": [7, 9], **fault}
    assert is_hidden(described, shape) is is_nothing_left
