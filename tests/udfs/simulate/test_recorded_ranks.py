"""A profile of only some ranks of a job gives the length of steps and the exposed communication."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from schemas.vocabulary import JOB_SLOWDOWN, OP_CODES
from udfs.what_if import simulate_job

Op = tuple[str, float, float]

MANIFEST = {"dp_size": 4, "pp_size": 1, "tp_size": 1, "cp_size": 1, "vpp_size": 1, "world_size": 4}
OPS = [
    ("forward-compute", 0.0, 10.0),
    ("backward-compute", 20.0, 30.0),
    ("grads-reduce-scatter", 30.0, 40.0),  # overlaps the backward pass for 20 us
    ("separate-grads-all-reduce", 60.0, 20.0),  # overlaps the other collective for 10 us
    ("optimizer", 80.0, 20.0),
]


SCALE = 1000
"""Factor on the times above, so that a step takes 0.1 s."""


def rows(ranks: Sequence[int], steps: int = 3, ops: Sequence[Op] = OPS) -> pa.Table:
    names, start, duration = zip(*ops, strict=True)
    return pa.Table.from_pylist(
        [
            {
                "step": step,
                "rank": rank,
                "dp_rank": rank,
                "pp_rank": 0,
                "tp_rank": 0,
                "cp_rank": 0,
                "t0_us": SCALE * (1000 * step + rank),
                "op": [OP_CODES[name] for name in names],
                "start_us": [SCALE * each for each in start],
                "duration_us": [SCALE * each for each in duration],
                "microbatch": [0] * len(ops),
                "model_chunk": [0] * len(ops),
            }
            for step in range(steps)
            for rank in ranks
        ]
    )


def outcome(table: pa.Table, **more: object) -> dict[str, Any]:
    found: dict[str, Any] = simulate_job(table, {**MANIFEST, "source_format": "kineto-dp", **more})[
        JOB_SLOWDOWN
    ].to_pylist()[0]
    return found


def test_the_ranks_that_are_there_say_their_step_time_and_what_of_it_is_bare_communication() -> None:
    job = outcome(rows([0, 2]))
    assert (job["status"], job["recorded_ranks"], job["recorded_steps"]) == ("some_ranks", 2, 3)
    assert job["recorded_step_s"] == pytest.approx(0.102)  # rank 2 begins, and ends, 2 us later
    assert job["recorded_exposed_s"] == pytest.approx(0.03)  # exposed from 50 to 80 us
    assert job["status_detail"].startswith("2 of 4 ranks recorded, in 3 steps: a step takes 0.102 s")
    assert (job["slowdown"], job["wasted_gpu_hours"]) == (None, None)


def test_communication_without_a_place_is_not_passed_over() -> None:
    """If some communication is not in the log, the exposed time is reported as "at least", not as 0 s."""
    said = outcome(rows([0]), left_out={"send-recv without a place": 75})["status_detail"]
    assert "at least 0.03 s of it in communication" in said
    assert "at least" not in outcome(rows([0]), left_out={"kernels outside of steps": 3})["status_detail"]


def test_a_rank_that_was_recorded_and_is_missing_in_every_step_is_a_missing_worker() -> None:
    apart = pa.concat_tables([rows([0, 1, 2]).slice(0, 3), rows([3]).slice(1)])
    for table, source_format in ((apart, "kineto-dp"), (rows([0, 2]), "rank-log/1")):
        job = outcome(table, source_format=source_format)
        assert (job["status"], job["recorded_step_s"], job["recorded_ranks"]) == (
            "missing_workers",
            None,
            None,
        )


def test_computes_alone_expose_nothing_and_order_within_a_row_does_not_matter() -> None:
    assert outcome(rows([1], ops=OPS[:2]))["recorded_exposed_s"] == 0.0
    assert outcome(rows([1], ops=OPS[::-1]))["recorded_exposed_s"] == pytest.approx(0.03)
