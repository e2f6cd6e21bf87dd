"""Generated jobs beside their truth: what a diagnosis says is what is judged."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from jobs.synthetic.sample_job import sample_job
from jobs.synthetic.shape import JobShape
from jobs.synthetic.simulation import LABELS, Simulation
from jobs.synthetic.truth import Truth, true_savings
from tests.evaluation.answers import NO_ANSWER, Diagnose, NoDiagnosisError
from tests.evaluation.fakes import Culprits, rows_by, saying
from tests.evaluation.judge import USUAL, VARIANTS, Variant, healthy_seeds, is_hidden, judge_job
from tests.evaluation.score import by_class
from tests.evaluation.skews import HostClocks
from udfs.errors import TraceError
from udfs.what_if import simulate_job

SMALL = 2000
"""Most ops of a job."""


@cache
def truth(seed: int) -> Truth:
    return true_savings(Simulation(sample_job(seed, most_ops=SMALL).plan))


@cache
def slow_worker_seed() -> int:
    """First job of more than one worker that a slow one costs at least 2.5 %."""
    for seed in range(100):
        shape = sample_job(seed, most_ops=SMALL).plan.shape
        if shape.dp_size * shape.pp_size > 1 and truth(seed).time_saved_fraction["slow_worker"] >= 0.025:
            return seed
    raise AssertionError


def judged(seed: int, diagnose: Diagnose, variant: Variant = USUAL) -> pd.DataFrame:
    return pd.DataFrame(judge_job(seed, variant, diagnose, SMALL))


def is_located(seed: int, diagnose: Diagnose) -> bool | None:
    (found,) = set(judged(seed, diagnose).is_located)
    return None if found is None else bool(found)


def true_cells(seed: int) -> Culprits:
    (slow,) = (each for each in truth(seed).mechanisms if each["cause"] == "slow_worker")
    return [(dp_rank, pp_rank) for dp_rank, pp_rank in slow["culprits"]["workers"]]


def test_a_perfect_diagnosis_makes_no_error() -> None:
    jobs = [judged(seed, saying(truth(seed).time_saved_fraction)) for seed in range(8)]
    answers = pd.concat(jobs)
    assert len(answers) == 8 * len(LABELS)
    assert (answers.predicted == answers.true).all()
    row = rows_by(by_class(answers), "class")["all"]
    assert (row["MAE [%]"], row["p95 [%]"], row["precision"], row["recall"], row["F1"]) == (0, 0, 1, 1, 1)
    assert [set(job.seed) for job in jobs] == [{seed} for seed in range(8)]


def test_a_shift_by_a_constant_is_the_error() -> None:
    shifted = {cause: saved - 0.01 for cause, saved in truth(1).time_saved_fraction.items()}
    row = rows_by(by_class(judged(1, saying(shifted))), "class")["all"]
    assert row["MAE [%]"] == pytest.approx(1.0, abs=1e-12)
    assert row["p95 [%]"] == pytest.approx(1.0, abs=1e-12)


def test_nothing_said_is_missed_and_errs_by_the_truth() -> None:
    seed = slow_worker_seed()
    said = judged(seed, saying({})).set_index("cause")
    assert said.is_true["slow_worker"]
    assert not said.is_cause.any()
    assert said.true.to_dict() == truth(seed).time_saved_fraction


def test_a_worker_is_located_where_all_cells_named_worst_are_slow() -> None:
    seed = slow_worker_seed()
    shape = sample_job(seed, most_ops=SMALL).plan.shape
    cells = true_cells(seed)
    every = [(dp_rank, pp_rank) for dp_rank in range(shape.dp_size) for pp_rank in range(shape.pp_size)]
    wrong = [cell for cell in every if cell not in cells]
    assert is_located(seed, saying({}, slow=cells)) is True
    assert is_located(seed, saying({}, slow=[wrong[0], *cells])) is False
    assert is_located(seed, saying({}, slow=[(None, None)])) is False
    assert is_located(seed, saying({})) is False


def test_a_job_without_a_slow_worker_has_none_to_locate() -> None:
    (seed,) = healthy_seeds(0, 1)
    assert is_located(seed, saying({}, slow=[(0, 0)])) is None


def test_any_flag_flags_the_job() -> None:
    assert not judged(1, saying({})).is_flagged.any()
    job = judged(1, saying({}, flags={"pause": "few_steps"}))
    assert job.is_flagged.all()
    assert dict(zip(job.cause, job.flag, strict=True)) == {**dict.fromkeys(LABELS), "pause": "few_steps"}


def test_a_refused_trace_is_flagged_and_saves_nothing() -> None:
    def refusing(rank_steps: pa.Table, manifest: Mapping[str, object] | None) -> Mapping[str, pa.Table]:
        raise TraceError("no")

    job = judged(1, refusing)
    said = job[["status", "is_flagged", "predicted", "is_cause", "flag"]].itertuples(index=False)
    assert set(map(tuple, said)) == {("corrupt_trace", True, 0.0, False, NO_ANSWER)}
    assert rows_by(by_class(job), "class")["all"]["no answer"] == 1


def test_without_causes_there_is_nothing_to_judge() -> None:
    def causeless(rank_steps: pa.Table, manifest: Mapping[str, object] | None) -> Mapping[str, pa.Table]:
        return {"job_slowdown": simulate_job(rank_steps, manifest)["job_slowdown"]}

    with pytest.raises(NoDiagnosisError, match="no table job_causes"):
        judged(1, causeless)


def test_healthy_seeds_are_the_next_without_a_fault() -> None:
    found = healthy_seeds(10, 5)
    assert found == [seed for seed in range(10, found[-1] + 1) if sample_job(seed).kind == "healthy"]


def test_variants_change_noise_and_steps_alone() -> None:
    noisy, few, both, skewed = VARIANTS
    job = sample_job(slow_worker_seed(), most_ops=SMALL)
    assert noisy.of(job).plan.workload.noise == both.of(job).plan.workload.noise == 0.06
    assert few.of(job).plan.workload == job.plan.workload
    assert few.of(job).plan.shape.steps == both.of(job).plan.shape.steps == 4
    assert noisy.of(job).plan.shape == job.plan.shape
    assert set(judged(slow_worker_seed(), saying({}), few).steps) == {4}
    assert USUAL.of(job) == job
    *mechanisms, clocks = skewed.of(job).plan.mechanisms
    assert tuple(mechanisms) == tuple(job.plan.mechanisms)
    assert isinstance(clocks, HostClocks)
    assert skewed.of(job).plan.workload == job.plan.workload


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
