"""Read stored tables into the records of the reference implementation."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from schemas.vocabulary import OP_TYPES
from tests.oracle.records import Layout, Op


def read_layout(manifest: Mapping[str, Any]) -> Layout:
    """Read a job's sizes from its manifest."""
    return Layout(
        dp_size=int(manifest["dp_size"]),
        pp_size=int(manifest["pp_size"]),
        tp_size=int(manifest.get("tp_size", 1)),
        cp_size=int(manifest.get("cp_size", 1)),
        vpp_size=int(manifest.get("vpp_size", 1)),
    )


def read_rank_steps(rank_steps: pa.Table) -> list[Op]:
    """Read the ops of the replayed ranks: of each worker and step, the lowest (cp_rank, tp_rank).

    rank_steps : one row per (step, rank); times in arrays of microseconds, op types as names or codes.
    """
    chosen: dict[tuple[int, int, int], dict[str, Any]] = {}
    for row in rank_steps.to_pylist():
        worker = (row["step"], row["dp_rank"], row["pp_rank"])
        if worker not in chosen or _within_worker(row) < _within_worker(chosen[worker]):
            chosen[worker] = row
    zero: dict[int, int] = {}
    for (step, _, _), row in chosen.items():
        zero[step] = min(row["t0_us"] or 0, zero.get(step, row["t0_us"] or 0))
    return [op for (step, _, _), row in chosen.items() for op in _ops_of(row, zero[step])]


def _within_worker(row: Mapping[str, Any]) -> tuple[int, int, int]:
    return row.get("cp_rank") or 0, row.get("tp_rank") or 0, row["rank"]


def _ops_of(row: Mapping[str, Any], zero_us: int) -> list[Op]:
    late_us = (row["t0_us"] or 0) - zero_us
    columns = (row["op"], row["start_us"], row["duration_us"], row["microbatch"], row["model_chunk"])
    return [
        Op(
            dp_rank=row["dp_rank"],
            pp_rank=row["pp_rank"],
            step=row["step"],
            op_type=kind if isinstance(kind, str) else OP_TYPES[kind],
            start_s=(late_us + start_us) * 1e-6,
            duration_s=duration_us * 1e-6,
            microbatch=microbatch,
            model_chunk=model_chunk,
            rank=row["rank"],
            host=row.get("host"),
        )
        for kind, start_us, duration_us, microbatch, model_chunk in zip(*columns, strict=True)
    ]
