"""Make local warehouses without Spark, and rows of small jobs."""

from datetime import date
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import SparkSession

from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import JOBS, RANK_STEPS
from tests.support.examples import DAY, NEXT_DAY, table_rows
from tests.udfs.lines import Ops, crossed_stages, line

SIZES = {"dp_size": 2, "pp_size": 1, "tp_size": 1, "cp_size": 1, "vpp_size": 1, "world_size": 2}


def warehouse_of(root: Path, **tables: pa.Table) -> Warehouse:
    """Write a local warehouse with the given rows, by table, without a Spark session."""
    made = Warehouse(cast("SparkSession", None), str(root))
    for name, rows in tables.items():
        made.replace(TABLES[name], rows, rows.column("log_date").unique().to_pylist())
    return made


def replicas(slow_s: float, step: int = 7) -> list[dict[str, Any]]:
    """Return a step's rows of two replicas: forwards of 1 s and of `slow_s`, then a reduce-scatter.

    The reduce-scatter ends 1 s after the slower forward, and the faster replica waits in it.
    """
    lines = []
    for dp_rank, forward_s in enumerate((1, slow_s)):
        reduce_s = slow_s + 1 - forward_s
        ops: Ops = [("forward-compute", 0, forward_s), ("grads-reduce-scatter", forward_s, reduce_s)]
        lines.append(line(step, dp_rank, 0, ops, host=f"node-{dp_rank}"))
    return lines


def replicated() -> dict[str, pa.Table]:
    """Return rows of jobs and rank_steps: llm-a on two days, two runs of llm-b, three runs not replayed."""

    def unit(job_id: str, run_id: str, day: date, **more: object) -> dict[str, Any]:
        return {"job_id": job_id, "run_id": run_id, "log_date": day, **more}

    jobs = [
        unit("llm-a", "r3", DAY) | SIZES,
        unit("llm-a", "r3", NEXT_DAY, gpu_hours=40.0) | SIZES,
        unit("llm-b", "r1", DAY, gpu_hours=None) | SIZES,
        unit("llm-b", "r2", DAY) | SIZES,
        unit("bad", "c", DAY, manifest_status="bad_layout", manifest_detail="world_size is 2") | SIZES,
        unit("bad", "d", DAY) | SIZES,
        unit("bad", "e", DAY) | SIZES | {"dp_size": 1, "pp_size": 2},
    ]
    recorded = [
        (unit("llm-a", "r3", DAY), replicas(1)),
        (unit("llm-a", "r3", NEXT_DAY), replicas(3)),
        (unit("llm-b", "r1", DAY), replicas(3)),
        (unit("llm-b", "r2", DAY), replicas(5)),
        (unit("bad", "e", DAY), crossed_stages(7)),
    ]
    rows = [key | each for key, lines in recorded for each in lines]
    return {JOBS: table_rows(JOBS, jobs), RANK_STEPS: table_rows(RANK_STEPS, rows)}
