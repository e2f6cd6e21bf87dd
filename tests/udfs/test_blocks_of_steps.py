"""Laying out and replaying a large unit by blocks of steps does not change its results."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from jobs.synthetic.job import GeneratedJob
from tests.support.random_jobs import LAYOUTS, NOISY, USUAL, generate_job, named_job
from tests.support.regressions import REGRESSIONS
from tests.udfs.equal_results import assert_same_results, in_chunks, shuffled_rows
from tests.udfs.lines import Ops, crossed_stages, line, manifest, rank_steps
from udfs.errors import TraceError
from udfs.kernel.recorded.rows import StageRows
from udfs.simulate.rank_rows import ReplayedRows
from udfs.what_if import SimulationSettings, simulate_job

SEEDS = range(16)
"""Seeds of random layouts, some of which have steps or dp ranks that disagree."""
NAMES: list[str | int] = [*LAYOUTS, *REGRESSIONS, "disagreeing", *SEEDS]
EVERY_STEP = 1
"""Ops per block; so few that every step is a block."""


def job_of(name: str | int) -> GeneratedJob:
    return REGRESSIONS[name]() if isinstance(name, str) and name in REGRESSIONS else named_job(name)


def results(rows: pa.Table, facts: dict[str, Any], ops_together: int) -> dict[str, pa.Table]:
    return simulate_job(rows, facts, SimulationSettings(ops_together=ops_together))


def assert_same_by_blocks(rows: pa.Table, facts: dict[str, Any]) -> None:
    """Assert that replays in two blocks, three blocks and single steps give the results of one block."""
    whole = results(rows, facts, 10**12)
    ops = whole["job_slowdown"]["ops"][0].as_py()
    for ops_together in (ops // 2, ops // 3, EVERY_STEP):
        assert_same_results(results(rows, facts, ops_together), whole)


@pytest.mark.parametrize("name", NAMES)
def test_blocks_give_what_the_whole_gives(name: str | int) -> None:
    job = job_of(name)
    assert_same_by_blocks(job.rank_steps, job.manifest)


@pytest.mark.parametrize(
    "stored",
    [shuffled_rows, lambda rows: in_chunks(rows, 5), lambda rows: in_chunks(shuffled_rows(rows), 7)],
    ids=["shuffled", "chunks", "shuffled chunks"],
)
@pytest.mark.parametrize(
    "name", ["usual", "tensor_parallelism_all_ranks_recorded", "context_parallelism", "disagreeing"]
)
def test_blocks_of_rows_stored_elsewhere(name: str, stored: Callable[[pa.Table], pa.Table]) -> None:
    job = job_of(name)
    whole = results(job.rank_steps, job.manifest, 10**12)
    for ops_together in (10**12, whole["job_slowdown"]["ops"][0].as_py() // 2, EVERY_STEP):
        assert_same_results(results(stored(job.rank_steps), job.manifest, ops_together), whole)


@pytest.mark.parametrize(
    ("share", "blocks"), [(1.5, [7]), (0.5, [4, 3]), (0.25, [2, 2, 2, 1]), (0.01, [1] * 7)]
)
def test_how_many_steps_are_laid_out_at_a_time(
    share: float, blocks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block has whole steps, and about as many ops as are wanted."""
    asked = []
    lay_out = ReplayedRows.stages

    def stages(rows: ReplayedRows, first: int = 0, end: int | None = None, apart: int = 1) -> list[StageRows]:
        asked.append((first, end))
        return lay_out(rows, first, end, apart)

    monkeypatch.setattr(ReplayedRows, "stages", stages)
    job = generate_job(replace(USUAL, pp_size=2, steps=7), [], seed=3, workload=NOISY)
    # Blocking is stated, so that no step is laid out to find it.
    results(job.rank_steps, job.manifest | {"blocking_transfers": []}, int(job.ops * share))
    assert [(end or 0) - first for first, end in asked] == blocks
    assert [first for first, _ in asked] == [sum(blocks[:place]) for place in range(len(blocks))]


def healthy(step: int) -> list[dict[str, Any]]:
    first: Ops = [("forward-compute", 0, 1), ("forward-send", 1, 1), ("backward-compute", 2, 1)]
    last: Ops = [("forward-recv", 0, 2), ("forward-compute", 2, 1), ("backward-compute", 3, 1)]
    return [line(step, 0, 0, first), line(step, 0, 1, last)]


def lonely(step: int) -> list[dict[str, Any]]:
    first, last = healthy(step)
    return [first, line(step, 0, 1, [("forward-compute", 2, 1)]) if last else first]


def doubled(step: int) -> list[dict[str, Any]]:
    twice: Ops = [("forward-recv", 0, 2), ("forward-compute", 2, 1, 5), ("forward-compute", 3, 1, 5)]
    return [healthy(step)[0], line(step, 0, 1, twice)]


def endless(step: int) -> list[dict[str, Any]]:
    return [line(step, 0, stage, [("optimizer", 0, 1e13)]) for stage in (0, 1)]


def timeless(step: int) -> list[dict[str, Any]]:
    return [line(step, 0, stage, [("gc", 0, 0)]) for stage in (0, 1)]


DEFECTS = {
    "1 sends of stage 0 meet 0 recvs of stage 1: forward-send 0 of rank 0": lonely,
    "microbatch 5 of model chunk 0 is computed twice .*: forward-compute 0 of rank 1 ": doubled,
    "8 ops wait for each other|wait for each other in a circle": crossed_stages,
    "takes 1e.13 s": endless,
    "take no time at all, beginning with: gc 0 of rank 0 ": timeless,
}


@pytest.mark.parametrize("steps_together", [9, 4, 2, 1])
@pytest.mark.parametrize("place", [0, 5, 8])
@pytest.mark.parametrize(("message", "defect"), DEFECTS.items(), ids=[f.__name__ for f in DEFECTS.values()])
def test_a_defect_names_its_step(
    message: str, defect: Callable[[int], list[dict[str, Any]]], place: int, steps_together: int
) -> None:
    """The error about a defect names the right step, whichever block contains the step."""
    lines = [
        row for number in range(9) for row in (defect if number == place else healthy)(100 + 10 * number)
    ]
    ops = sum(len(row["op"]) for row in lines)
    with pytest.raises(TraceError, match=rf"^step {100 + 10 * place}: .*({message})"):
        results(rank_steps(*lines), manifest(pp_size=2), ops * steps_together // 9)
