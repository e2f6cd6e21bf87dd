"""No fix saves more than the recorded step time, even if a unit's replay takes longer than the record."""

from dataclasses import replace
from typing import Any

import pyarrow as pa

from schemas.vocabulary import JOB_CAUSES, JOB_SLOWDOWN, OP_CODES, Status
from tests.support.random_jobs import USUAL, generate_job
from udfs.what_if import simulate_job


def stretched(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with forward sends and recvs of the first link 2 s longer, so that they overlap ops."""
    ends = {0: "forward-send", 1: "forward-recv"}
    code = OP_CODES[ends[row["pp_rank"]]] if row["pp_rank"] in ends else None
    lengths = [
        length + 2e6 if op == code else length
        for op, length in zip(row["op"], row["duration_us"], strict=True)
    ]
    return row | {"duration_us": lengths}


def test_no_saving_exceeds_the_step_where_the_replay_does() -> None:
    job = generate_job(replace(USUAL, pp_size=4, microbatches=8, steps=12), [], 3)
    rows = pa.Table.from_pylist([stretched(row) for row in job.rank_steps.to_pylist()], job.rank_steps.schema)
    found = simulate_job(rows, job.manifest)
    (unit,) = found[JOB_SLOWDOWN].to_pylist()
    assert unit["status"] == Status.HIGH_DISCREPANCY
    assert unit["simulated_step_s"] > 2 * unit["actual_step_s"]
    causes = found[JOB_CAUSES].to_pylist()
    assert 0.9 < max(row["time_saved_fraction"] for row in causes) <= 1.0
    assert sum(row["attributed_fraction"] for row in causes) <= 1.0 + 1e-9
