"""Records that differ from their peers' are counted, and left out or refused if they would change results."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from itertools import combinations
from typing import Any

import pyarrow as pa
import pytest

from jobs.synthetic.job import GeneratedJob
from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.shape import JobShape
from schemas.vocabulary import OP_CODES
from tests.support.skewed import job_on_hosts, simulated

SHAPE = JobShape(dp_size=4, pp_size=4, microbatches=8, steps=20)
DAY = date(2026, 1, 5)
Row = dict[str, Any]
Places = dict[int, int]


@pytest.fixture(scope="module")
def job() -> GeneratedJob:
    return job_on_hosts(SHAPE, noise=0.03)


def changed(job: GeneratedJob, change: Callable[[Row], Row | None]) -> pa.Table:
    """Apply `change` to each row of a job; rows for which it returns None are dropped."""
    rows = [change(row) for row in job.rank_steps.to_pylist()]
    return pa.Table.from_pylist([row for row in rows if row is not None], schema=job.rank_steps.schema)


def without_op(row: Row, op_type: str) -> Row:
    place = row["op"].index(OP_CODES[op_type])
    lists = ("op", "start_us", "duration_us", "microbatch", "model_chunk")
    return row | {name: row[name][:place] + row[name][place + 1 :] for name in lists}


@pytest.mark.parametrize("factor", [1e-3, 1e-6, 1e3])
def test_a_rank_in_another_unit_refuses_the_unit(job: GeneratedJob, factor: float) -> None:
    def in_other_unit(row: Row) -> Row:
        times = ("start_us", "duration_us")
        if row["rank"] != 5:
            return row
        return row | {name: [each * factor for each in row[name]] for name in times}

    found = simulated(changed(job, in_other_unit), job.manifest)
    assert (found["status"], found["odd_ranks"], found["slowdown"]) == ("odd_ranks", 1, None)
    assert "rank 5: forward-compute" in found["status_detail"]


def test_a_slow_worker_is_in_no_other_unit() -> None:
    slow = job_on_hosts(SHAPE, WeakGpu(1, 1, 100.0))
    assert simulated(slow.rank_steps, slow.manifest)["odd_ranks"] == 0


@pytest.mark.parametrize("op_type", ["forward-recv", "params-all-gather", "forward-compute"])
def test_a_rank_step_that_lacks_an_op_is_left_out(job: GeneratedJob, op_type: str) -> None:
    """If a rank lacks an op in a step, the unit gets the result of its other steps."""
    odd = int(job.rank_steps["step"][7].as_py())
    found = simulated(
        changed(job, lambda row: without_op(row, op_type) if (row["step"], row["rank"]) == (odd, 6) else row),
        job.manifest,
    )
    others = simulated(changed(job, lambda row: row if row["step"] != odd else None), job.manifest)
    assert (found["odd_rank_steps"], found["steps_dropped"]) == (1, 1)
    assert found["slowdown"] == others["slowdown"]


def test_steps_of_another_schedule_stay(job: GeneratedJob) -> None:
    """A step in which all ranks ran another schedule is kept, because no peer contradicts it."""
    odd = int(job.rank_steps["step"][7].as_py())
    found = simulated(
        changed(job, lambda row: without_op(row, "params-all-gather") if row["step"] == odd else row),
        job.manifest,
    )
    assert (found["odd_rank_steps"], found["steps_dropped"], found["graphs"]) == (0, 0, 2)


def test_ranks_that_are_exchanged_refuse_the_unit(job: GeneratedJob) -> None:
    places = {row["rank"]: (row["rank"], row["dp_rank"]) for row in job.rank_steps.to_pylist()}
    other = {4: 6, 6: 4}

    def exchanged(row: Row) -> Row:
        rank, dp_rank = places[other.get(row["rank"], row["rank"])]
        return row | {"rank": rank, "dp_rank": dp_rank}

    found = simulated(changed(job, exchanged), job.manifest)
    assert (found["status"], found["odd_ranks"]) == ("odd_ranks", 2)
    assert "ranks 4 and 6 of stage 1 are exchanged" in found["status_detail"]


@pytest.mark.parametrize(("dp_size", "pp_size"), [(2, 2), (3, 2), (4, 2), (2, 4)])
def test_two_of_few_dp_ranks_that_are_exchanged_refuse_the_unit(dp_size: int, pp_size: int) -> None:
    """If two of few dp ranks are exchanged, the unit is refused, because half of its links are irregular."""
    made = job_on_hosts(replace(SHAPE, dp_size=dp_size, pp_size=pp_size), noise=0.03)
    ranks = {(row["dp_rank"], row["pp_rank"]): row["rank"] for row in made.rank_steps.to_pylist()}
    assert simulated(made.rank_steps, made.manifest)["odd_ranks"] == 0

    def exchanged(row: Row) -> Row:
        if row["pp_rank"] != 1 or row["dp_rank"] > 1:
            return row
        dp_rank = 1 - row["dp_rank"]
        return row | {"dp_rank": dp_rank, "rank": ranks[dp_rank, 1]}

    found = simulated(changed(made, exchanged), made.manifest)
    assert (found["status"], found["odd_ranks"]) == ("odd_ranks", 2)


STAGES = {
    "1F1B": SHAPE,
    "one replica": replace(SHAPE, dp_size=1),
    "two stages": replace(SHAPE, pp_size=2),
    "virtual": replace(SHAPE, dp_size=2, vpp_size=2, noop_transfers="all", steps=12),
}


@pytest.mark.parametrize("name", STAGES)
def test_exchanged_stages_refuse_the_unit_and_are_named(name: str) -> None:
    """If two stages are exchanged, in all replicas or in one, the unit is refused and they are named."""
    shape = STAGES[name]
    made = job_on_hosts(shape, noise=0.03)
    rank_of = {(row["dp_rank"], row["pp_rank"]): row["rank"] for row in made.rank_steps.to_pylist()}
    assert simulated(made.rank_steps, made.manifest)["odd_ranks"] == 0
    for one, other in combinations(range(shape.pp_size), 2):
        for replicas in {tuple(range(shape.dp_size)), (shape.dp_size - 1,)}:
            places = {one: other, other: one}

            def exchanged(row: Row, replicas: tuple[int, ...] = replicas, places: Places = places) -> Row:
                pp_rank = places.get(row["pp_rank"], row["pp_rank"])
                if row["dp_rank"] not in replicas:
                    return row
                return row | {"pp_rank": pp_rank, "rank": rank_of[row["dp_rank"], pp_rank]}

            found = simulated(changed(made, exchanged), made.manifest)
            assert (found["status"], found["odd_ranks"]) == ("odd_ranks", 2 * len(replicas)), (one, other)
            ranks = [rank_of[replicas[0], stage] for stage in (one, other)]
            assert f"ranks {ranks[0]} and {ranks[1]} of stages {one} and {other}" in found["status_detail"]


def test_lines_of_another_day_are_left_out(job: GeneratedJob) -> None:
    """Lines of another day, such as in 9999 or 1970, are left out; the other lines give the result."""
    facts = job.manifest | {"log_date": DAY}
    assert simulated(job.rank_steps, facts)["other_day_lines"] == 0
    zeros = {0: 253_400_000_000_000_000, 1: 1_000_000}
    numbers = sorted(set(job.rank_steps["step"].to_pylist()))

    def elsewhere(row: Row) -> Row:
        if row["rank"] != 3 or row["step"] not in numbers[:2]:
            return row
        return row | {"t0_us": zeros[numbers.index(row["step"])]}

    found = simulated(changed(job, elsewhere), facts)
    assert (found["other_day_lines"], found["steps_dropped"]) == (2, 2)
    others = simulated(changed(job, lambda row: row if row["step"] not in numbers[:2] else None), facts)
    assert found["slowdown"] == others["slowdown"]
    nowhere = changed(job, lambda row: row | {"t0_us": zeros[1]})
    refused = simulated(nowhere, facts)
    assert (refused["status"], refused["other_day_lines"]) == ("no_ops", job.rank_steps.num_rows)
    assert simulated(changed(job, lambda row: row | {"t0_us": 0}), facts)["other_day_lines"] == 0


def test_a_log_of_another_calendar_is_counted_and_stays(job: GeneratedJob) -> None:
    facts = job.manifest | {"log_date": DAY + timedelta(days=30)}
    found = simulated(job.rank_steps, facts)
    assert (found["status"], found["other_day_lines"]) == ("analysed", job.rank_steps.num_rows)
    assert found["slowdown"] == simulated(job.rank_steps, job.manifest)["slowdown"]


def test_one_line_of_no_calendar_costs_its_step_and_not_the_log_of_another(job: GeneratedJob) -> None:
    """If one line has an impossible date, only its step is left out, though all lines are of another day."""
    facts = job.manifest | {"log_date": DAY + timedelta(days=30)}
    stray_us = 253_400_000_000_000_000
    step = job.rank_steps["step"].to_pylist()[0]
    rows = changed(
        job, lambda row: row | {"t0_us": stray_us} if row["step"] == step and not row["rank"] else row
    )
    found, others = simulated(rows, facts), changed(job, lambda row: None if row["step"] == step else row)
    assert (found["status"], found["steps_dropped"]) == ("analysed", 1)
    assert found["other_day_lines"] == job.rank_steps.num_rows
    assert found["slowdown"] == simulated(others, facts)["slowdown"]


def test_sizes_that_no_rank_shows(job: GeneratedJob) -> None:
    assert simulated(job.rank_steps, job.manifest)["unshown_sizes"] is None
    facts = job.manifest | {"vpp_size": 2, "tp_size": 2, "world_size": 32}
    assert simulated(job.rank_steps, facts)["unshown_sizes"] == "tp_size, vpp_size"
    every = job_on_hosts(JobShape(dp_size=2, tp_size=2, recorded_tp_ranks=2, steps=3))
    assert simulated(every.rank_steps, every.manifest)["unshown_sizes"] is None
