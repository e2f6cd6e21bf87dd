"""Write lines of rank logs in a short notation, and make tables of rank_steps from them."""

from typing import Any

import pyarrow as pa

from schemas.tables import TABLES
from schemas.vocabulary import OP_CODES, RANK_STEPS, UNIT_KEY

Ops = list[tuple[str, float, float] | tuple[str, float, float, int] | tuple[str, float, float, int, int]]
"""(op type, start [s], duration [s], microbatch, model chunk); the last two default to 0."""

S = 1_000_000.0
"""Microseconds in a second; tests state the times of their timelines in seconds."""


def line(step: int, dp_rank: int, pp_rank: int, ops: Ops, **more: object) -> dict[str, Any]:
    """Return a row of rank_steps; `more` sets rank, tp_rank, cp_rank, host or t0_us."""
    filled = [(*op, 0, 0)[:5] for op in ops]
    return {
        "step": step,
        "rank": 100 * dp_rank + pp_rank,
        "dp_rank": dp_rank,
        "pp_rank": pp_rank,
        "op": [OP_CODES[op[0]] for op in filled],
        "start_us": [op[1] * S for op in filled],
        "duration_us": [op[2] * S for op in filled],
        "microbatch": [op[3] for op in filled],
        "model_chunk": [op[4] for op in filled],
    } | more


def rank_steps(*lines: dict[str, Any]) -> pa.Table:
    schema = TABLES[RANK_STEPS].arrow_schema
    fields = [field for field in schema if field.name not in (*UNIT_KEY, "source_file")]
    return pa.Table.from_pylist(list(lines), schema=pa.schema(fields))


def manifest(dp_size: int = 1, pp_size: int = 1, **more: int) -> dict[str, Any]:
    sizes = {"dp_size": dp_size, "pp_size": pp_size, "tp_size": 1, "cp_size": 1, "vpp_size": 1} | more
    world_size = sizes["dp_size"] * sizes["pp_size"] * sizes["tp_size"] * sizes["cp_size"]
    return {"job_id": "drawn", "run_id": "0", "world_size": world_size} | sizes


def crossed_stages(step: int) -> list[dict[str, Any]]:
    """Return two stages that each wait for the other's microbatch before they send, so neither can start."""
    first: Ops = [
        ("backward-recv", 0, 1),
        ("backward-compute", 1, 1),
        ("forward-compute", 2, 1),
        ("forward-send", 3, 1),
    ]
    last: Ops = [
        ("forward-recv", 0, 1),
        ("forward-compute", 1, 1),
        ("backward-compute", 2, 1),
        ("backward-send", 3, 1),
    ]
    return [line(step, 0, 0, first), line(step, 0, 1, last)]
