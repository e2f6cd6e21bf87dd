"""An injected fault changes a trace by exactly its cost, and a trace without a fault stays the same."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from jobs.synthetic.job import GeneratedJob
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.shape import JobShape, Workload
from tests.evaluation import inject
from tests.evaluation.fakes import rows_by, saying, zero
from tests.evaluation.inject import FAULTS
from tests.evaluation.published import (
    injection_list,
    injection_scores,
    injections,
    judge_injection,
    read_published,
    trace_folders,
)
from tests.evaluation.recording import Recording, read_recording
from tests.support.random_jobs import EXACT, PAIR, PAIR_STEP_S, generate_job
from udfs.kernel import op_type as ot
from udfs.what_if import simulate_job

PIPELINE = JobShape(dp_size=3, pp_size=2, microbatches=4, steps=5)
Strike = Callable[[Recording, float, np.random.Generator], inject.Struck]
TICK_S = 2e-7
"""Starts and durations in logs are rounded to 0.1 us, so a computed end may be off by this. [s]"""


def generated(shape: JobShape, *mechanisms: Mechanism, workload: Workload = EXACT) -> GeneratedJob:
    return generate_job(shape, mechanisms, seed=3, workload=workload)


def recorded(shape: JobShape, *mechanisms: Mechanism) -> Recording:
    job = generated(shape, *mechanisms)
    return read_recording(job.rank_steps, job.manifest)


def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def changed_computes(strike: Strike, strength: float) -> tuple[np.ndarray, inject.Struck]:
    """Inject a fault; return the factor by which it lengthens each compute, and the result."""
    before = recorded(PIPELINE)
    struck = strike(before, strength, rng())
    return struck.recording.duration_s[before.computes()] / before.duration_s[before.computes()], struck


def test_unchanged_the_trace_is_the_one_recorded() -> None:
    job = generated(PIPELINE, workload=Workload())
    again = read_recording(job.rank_steps, job.manifest).rank_steps()
    before, after = (simulate_job(rows, job.manifest) for rows in (job.rank_steps, again))
    for table in ("step_slowdown", "worker_slowdown"):
        columns = [name for name in before[table].column_names if name != "host"]
        for name in columns:
            found, wanted = (numbers(results[table][name]) for results in (after, before))
            assert found == pytest.approx(wanted, abs=1e-9)


def numbers(column: pa.ChunkedArray) -> list[float]:
    """Return all numbers of a column of lists as one list."""
    return list((pc.list_flatten(column) if pa.types.is_list(column.type) else column).to_pylist())


def test_jobs_of_unlike_steps_are_refused() -> None:
    job = generated(PAIR)
    longer = generated(replace(PAIR, microbatches=2))
    is_first = pc.equal(job.rank_steps["step"], job.rank_steps["step"][0])
    mixed = pa.concat_tables([longer.rank_steps.filter(is_first), job.rank_steps.filter(pc.invert(is_first))])
    with pytest.raises(ValueError, match="only where all steps and dp ranks do the same"):
        read_recording(mixed, job.manifest)


@pytest.mark.parametrize(
    ("strike", "costs_s"),
    [
        (inject.slow_cell, 0.15),
        (inject.slow_cell_in_some_steps, 0.15 * 2 / 4),
        (inject.slow_dp_rank, 0.15),
        (inject.late_data, PAIR_STEP_S * 0.5 * 2 / 4),
    ],
)
def test_a_fault_costs_what_it_adds(strike: Strike, costs_s: float) -> None:
    struck = strike(recorded(PAIR), 0.5, rng())
    assert struck.recording.mean_step_s() == pytest.approx(PAIR_STEP_S + costs_s, abs=TICK_S)


def test_a_slow_cell_is_that_of_the_generator() -> None:
    struck = inject.slow_cell(recorded(PIPELINE), 0.5, rng())
    ((dp_rank, pp_rank),) = struck.cells
    same = recorded(PIPELINE, WeakGpu(dp_rank, pp_rank, 1.5))
    assert struck.recording.mean_step_s() == pytest.approx(same.mean_step_s(), abs=10 * TICK_S)


def test_a_slow_dp_rank_is_slow_on_all_stages() -> None:
    ratio, struck = changed_computes(inject.slow_dp_rank, 0.5)
    (dp_rank,) = {dp_rank for dp_rank, _ in struck.cells}
    assert {pp_rank for _, pp_rank in struck.cells} == {0, 1}
    assert ratio[:, :, dp_rank] == pytest.approx(1.5)
    assert (np.delete(ratio, dp_rank, axis=2) == 1.0).all()


def test_heavy_microbatches_are_heavy_everywhere_and_keep_the_work_of_each_step() -> None:
    ratio, struck = changed_computes(inject.heavy_microbatches, 0.5)
    before = recorded(PIPELINE)
    work = [each.duration_s[before.computes()].sum(axis=(0, 2)) for each in (before, struck.recording)]
    assert work[1] == pytest.approx(work[0], rel=1e-12)
    for microbatch in range(4):
        of_one = ratio[before.microbatch[before.computes()] == microbatch]
        assert np.abs(of_one - of_one[0]).max() < 1e-12
    assert (np.isclose(ratio, 1.5).sum(axis=(0, 2)) == 4 * round(0.2 * 4 * 3)).all()


def test_a_longer_last_stage_keeps_the_work() -> None:
    before = recorded(PIPELINE)
    after = inject.longer_last_stage(before, 0.2, rng()).recording
    stages = [[each.duration_s[each.computes(stage=p)].sum() for p in (0, 1)] for each in (before, after)]
    assert stages[1] == pytest.approx([0.8 * stages[0][0], 1.2 * stages[0][1]])


def test_pauses_and_a_slow_link_add_to_some_ops() -> None:
    before = recorded(PIPELINE)
    added = inject.pauses(before, 3.0, rng()).recording.duration_s - before.duration_s
    ops, steps, _ = np.nonzero(added > TICK_S)
    assert (len(ops), len(set(steps)), set(before.op_type[ops])) == (2, 2, {ot.FORWARD_COMPUTE})
    assert added.max() == pytest.approx(3 * 0.1, abs=10 * TICK_S)
    added = inject.slow_link(before, 0.5, rng()).recording.duration_s - before.duration_s
    ops, _, dp_ranks = np.nonzero(added > TICK_S)
    sends, recvs = (added[before.op_type == kind] for kind in (ot.FORWARD_SEND, ot.FORWARD_RECV))
    assert (len(set(dp_ranks)), set(before.op_type[ops])) == (1, {ot.FORWARD_SEND, ot.FORWARD_RECV})
    assert sends == pytest.approx(recvs)


@pytest.mark.parametrize("number", range(len(FAULTS)), ids=lambda number: FAULTS[number].name)
def test_what_is_judged_of_a_published_trace(published_traces: Path, number: int) -> None:
    """The saving before the injection is subtracted from the reported one, to cancel the trace's losses."""
    folder = trace_folders(published_traces)[1]
    task = next(each for each in injections([folder]) if (each.fault, each.strength) == (number, 7))
    cause = FAULTS[number].cause
    published = read_published(folder)
    healthy_s = 0.9 * read_recording(published.rank_steps, published.manifest).without_waiting().mean_step_s()

    def knowing(rank_steps: pa.Table, manifest: Mapping[str, object] | None) -> Mapping[str, pa.Table]:
        recorded_s = simulate_job(rank_steps, manifest)["job_slowdown"]["actual_step_s"][0].as_py()
        return saying({cause: 1 - healthy_s / recorded_s})(rank_steps, manifest)

    judged = judge_injection(task, knowing)
    assert judged["predicted"] == pytest.approx(judged["true"], abs=1e-9)
    assert judged["true"] > 0.01
    assert (judged["is_missed"], judged["is_early"], judged["false_labels"]) == (False, False, "")
    silent = judge_injection(task, zero)
    assert (silent["predicted"], silent["true"]) == (0.0, judged["true"])
    assert silent["is_missed"] is (judged["true"] > 0.035)
    other = "pause" if cause != "pause" else "communication"

    def confused(rank_steps: pa.Table, manifest: Mapping[str, object] | None) -> Mapping[str, pa.Table]:
        before = read_recording(published.rank_steps, published.manifest).without_waiting()
        is_before = rank_steps.equals(before.rank_steps())
        return saying({} if is_before else {other: 0.1})(rank_steps, manifest)

    assert judge_injection(task, confused)["false_labels"] == other


def test_scores_of_injections_by_hand() -> None:
    names = ("fault", "true", "predicted", "is_missed", "is_early", "is_located", "false_labels")
    good = ("pauses", 0.05, 0.05, False, False, None, "")
    bad = ("slow cell", 0.05, 0.01, True, False, False, "pause")
    early = ("slow cell", 0.01, 0.03, False, True, True, "")
    judged = pd.DataFrame([good, bad, early], columns=names).assign(trace="SE", strength=1.0)
    rows = rows_by(injection_scores(judged), "fault")
    assert rows["slow cell"]["MAE [%]"] == pytest.approx(3.0)
    assert rows["all"]["MAE [%]"] == pytest.approx(2.0)
    assert [rows["all"][name] for name in ("missed", "early", "false labels")] == [1, 1, 1]
    assert rows["all"]["located [%]"] == 50.0
    assert rows["all"]["wanted MAE [%]"] == 0.25
    assert injection_list(judged)["error [%]"].to_list() == pytest.approx([-4.0, 2.0])
