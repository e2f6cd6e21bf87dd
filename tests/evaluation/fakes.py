"""Replacements for `simulate_job` that return results chosen by a test."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from schemas.vocabulary import FIXABLE_CAUSES, JOB_CAUSES, JOB_SLOWDOWN
from tests.evaluation.judge import Diagnose

Culprits = Sequence[tuple[int | None, int | None]]
"""Workers as (dp_rank, pp_rank), worst first; None stands for every rank or stage."""

SCHEMA = pa.schema(
    {
        "cause": pa.string(),
        "is_cause": pa.bool_(),
        "time_saved_fraction": pa.float64(),
        "flag_reason": pa.string(),
        "culprits": pa.list_(pa.struct({"pp_rank": pa.int32(), "dp_rank": pa.int32()})),
    }
)
JOB = {
    "status": "analysed",
    "actual_step_s": 1.0,
    "slowdown": 1.2,
    "slow_worker_share": 0.5,
    "last_stage_share": 0.5,
    "forward_backward_correlation": 0.9,
}


def saying(
    saved: Mapping[str, float],
    *,
    flags: Mapping[str, str] | None = None,
    slow: Culprits = (),
    job: Mapping[str, Any] | None = None,
) -> Diagnose:
    """Return a diagnosis with the same savings for every job; causes that save 2.5 % of the step are named.

    Causes that are not in `saved` save 0.
    """
    rows = [
        {
            "cause": cause,
            "time_saved_fraction": saved.get(cause, 0.0),
            "is_cause": saved.get(cause, 0.0) >= 0.025,
            "flag_reason": (flags or {}).get(cause),
            "culprits": [{"dp_rank": d, "pp_rank": p} for d, p in slow] if cause == "slow_worker" else [],
        }
        for cause in FIXABLE_CAUSES
    ]
    tables = {
        JOB_CAUSES: pa.Table.from_pylist(rows, SCHEMA),
        JOB_SLOWDOWN: pa.Table.from_pylist([{**JOB, **(job or {})}]),
    }
    return lambda rank_steps, manifest: tables


def zero(rank_steps: pa.Table, manifest: Mapping[str, object] | None) -> Mapping[str, pa.Table]:
    """Return a diagnosis without causes; defined at module level so that other processes can import it."""
    return saying({})(rank_steps, manifest)


def rows_by(frame: pd.DataFrame, *names: str) -> dict[Any, dict[str, Any]]:
    """Index the rows of a table by one column, or by several as a tuple."""
    rows: list[dict[Any, Any]] = frame.to_dict(orient="records")
    return {row[names[0]] if len(names) == 1 else tuple(row[name] for name in names): row for row in rows}
