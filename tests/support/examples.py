"""One good row of every table, and frames made of such rows with something changed."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from jobs.warehouse.frames import spark_schema
from schemas.tables import TABLES
from schemas.vocabulary import STATUSES

DAY: Final = date(2026, 1, 5)
NEXT_DAY: Final = date(2026, 1, 6)
_UNIT: Final = {"log_date": DAY, "job_id": "gpt-175b", "run_id": "r3"}
_FILE: Final = "log_date=2026-01-05/job_id=gpt-175b/run_id=r3/rank-00000.jsonl"

ROWS: Final[Mapping[str, Mapping[str, Any]]] = {
    "rank_steps": {
        **_UNIT, "step": 1200, "rank": 0, "dp_rank": 0, "pp_rank": 0, "tp_rank": 0, "cp_rank": None,
        "host": "node-0123", "gpu": 3, "t0_us": 1767600000000000, "op": [6, 3, 0],
        "start_us": [0.0, 15480.5, 15500.0], "duration_us": [15443.0, 5.5, 166722.0],
        "microbatch": [-1, -1, 0], "model_chunk": [0, 0, 0], "source_file": _FILE,
    },
    "jobs": {
        **_UNIT, "dp_size": 2, "pp_size": 4, "tp_size": 1, "cp_size": 1, "vpp_size": 1, "world_size": 8,
        "team": "language", "started_at": datetime(2026, 1, 5, 8, 30, tzinfo=UTC), "gpu_hours": 192.0,
        "labels": {"trial": "a"},
    },
    "rejects": {
        **_UNIT, "source_file": _FILE, "line": 3, "reason": "not_json", "detail": "no object", "text": "{",
    },
    "source_files": {**_UNIT, "source_file": _FILE, "bytes": 4096, "lines": 3, "rows": 2, "rejects": 1},
    "collective_arrival": {
        **_UNIT, "communicator": "0x7f8c496ae9f661", "rank": 1, "collectives": 40, "times_last": 12,
        "mean_late_us": 250.0, "mean_wait_us": 30.0,
    },
    "job_slowdown": {
        **_UNIT, "status": "analysed", "slowdown": 1.25, "waste_fraction": 1 - 1 / 1.25,
        "actual_step_s": 5.1, "simulated_step_s": 5.0, "ideal_step_s": 4.0, "actual_total_s": 51.0,
        "simulated_total_s": 50.0, "ideal_total_s": 40.0, "discrepancy": (5.1 - 5.0) / 5.1,
        "launch_slowdown": 5.1 / 5.0, "slow_worker_share": 1.22, "last_stage_share": -0.01,
        "ideal": "pooled-mean-median", "steps": 10, "steps_dropped": 1, "workers": 8, "ops": 800,
        "graphs": 1, "clamped_transfers": 0, "buffered_sends": 3, "clamped_launch_delays": 2, "clocks": 1,
        "clock_offset_s": 0.0, "clock_drift_ppm": 0.0, "clock_residual_s": 0.0, "is_clock_corrected": False,
        "odd_rank_steps": 0, "odd_ranks": 0, "other_day_lines": 0, "world_size": 8, "gpu_hours": 192.0,
        "wasted_gpu_hours": 192.0 * (1 - 1 / 1.25), "simulator_version": "1.0.0",
        "simulation_settings": "{}",
    },
    "step_slowdown": {
        **_UNIT, "step": 1200, "actual_step_s": 5.1, "simulated_step_s": 5.0, "ideal_step_s": 4.0,
        "slowdown": 1.25,
    },
    "op_type_slowdown": {
        **_UNIT, "op_type": "forward-compute", "slowdown": 0.96, "waste_fraction": 1 - 1 / 0.96,
    },
    "stage_slowdown": {**_UNIT, "pp_rank": 0, "slowdown": 0.96},
    "dp_rank_slowdown": {**_UNIT, "dp_rank": 0, "slowdown": 1.04},
    "worker_slowdown": {
        **_UNIT, "dp_rank": 0, "pp_rank": 0, "rank": 0, "host": "node-0123", "slowdown": 1.2,
        "slowdown_approx": 1.21, "is_slowest": True, "step_slowdowns": [1.1, 1.3],
    },
    "exposed_communication": {
        **_UNIT, "scope": "op_type", "op_type": "forward-pp-comm", "pp_rank": -1, "busy_s": 0.5,
        "exposed_s": 0.2, "hidden_s": 0.3, "overlap_saved_s": 0.15,
    },
    "host_clock": {
        **_UNIT, "clock": "node-0123", "host": "node-0123", "rank": 0, "part": 0, "offset_s": 0.02,
        "largest_offset_s": 0.021, "drift_ppm": 1.5, "jumps": 0, "largest_jump_s": 0.0, "error_s": 1e-5,
        "is_corrected": True,
    },
    "job_causes": {
        **_UNIT, "cause": "slow_worker", "is_cause": True, "time_saved_fraction": 0.25,
        "attributed_fraction": 0.125, "recoverable_gpu_hours": 48.0, "attributed_gpu_hours": 24.0,
        "lost_fraction": 0.125, "lost_gpu_hours": 24.0,
        "culprits": [(0, 1, 4, "node-0123", 0.5, 1.0, "always"), (1, None, None, None, 0.25, 0.5, "once")],
        "evidence": {"effect": 0.5, "peers": 7.0},
    },
    "job_baseline": {
        **_UNIT, "status": "analysed", "model": "gpt-175b", "gpu_type": "H100", "dp_size": 2, "pp_size": 2,
        "cp_size": 1, "vpp_size": 1, "world_size": 8, "ideal": "pooled-mean-median",
        "simulator_version": "1.0.0", "ops_per_step": 80.0, "actual_step_s": 5.1, "ideal_step_s": 4.0,
        "stages": [(0, 1.5, ["node-0123"]), (1, 1.75, None)], "op_types": [("forward-compute", 0.25)],
        "slow_hosts": [("node-0123", 0.5)],
    },
    "fleet_day": {
        **dict.fromkeys(STATUSES, 0), "log_date": DAY, "jobs": 3, "no_manifest": 1, "too_few_steps": 1,
        "analysed": 1, "replayed": 2, "straggling": 1, "waste_p50": 0.2, "waste_p90": 0.2, "waste_p99": 0.2,
    },
    "cause_day": {
        "log_date": DAY, "cause": "slow_worker", "replayed": 2, "jobs": 1, "flagged_jobs": 0,
        "attributed_gpu_hours": 24.0, "recoverable_gpu_hours": 48.0, "analysed_jobs": 1,
        "lost_gpu_hours": 24.0, "lost_s": 6.4,
    },
    "host_day": {
        "log_date": DAY, "host": "node-0123", "workers": 8, "jobs": 2, "times_slowest": 1,
        "worker_slowdown_max": 1.2, "worker_slowdown_median": 1.0,
    },
    "coverage_day": {"log_date": DAY, "status": "analysed", "jobs": 1, "gpu_hours": 192.0},
    "group_day": {
        "log_date": DAY, "dimension": "team", "value": "language", "jobs": 3, "replayed": 2, "analysed": 1,
        "straggling": 1, "worker_driven": 1, "stage_driven": 0, "sequence_driven": 0, "gpu_hours": 192.0,
        "analysed_gpu_hours": 192.0, "straggling_gpu_hours": 192.0, "wasted_gpu_hours": 38.4,
    },
    "op_type_day": {
        "log_date": DAY, "op_type": "forward-compute", "jobs": 1, "slowed": 0, "gpu_hours": 192.0,
        "wasted_gpu_hours": 9.6,
    },
    "publications": {
        "publication": 1, "published_at": datetime(2026, 1, 6, 1, 0, tzinfo=UTC), "phase": "ingest",
        "log_dates": [DAY], "versions": {"jobs": 1},
    },
    "pipeline_runs": {
        "pipeline_run_id": "0b1c2d3e-0000-4000-8000-000000000000", "entry_point": "run_nightly",
        "arguments": "--log-date 2026-01-05", "log_date": DAY,
        "started_at": datetime(2026, 1, 6, 1, 0, tzinfo=UTC), "seconds": 60.0, "rows_out": 12,
        "outcome": "done", "stages": [("ingest", 12.5, 2, 4096, 800, 0.5, 30, 0)],
        "refusals": [("fleet_day", "replayed_is_sum", 1, "replayed = sum of its statuses")],
        "accepted": ["fleet_day.replayed_is_sum"],
    },
    "unit_fingerprints": {
        **_UNIT, "stage": "ingest", "inputs": "0" * 64, "settings": "{}", "version": "1", "bytes": 4096,
        "ops": 800, "files": [("rank-00000.jsonl", 4096, 1767600000000000, "1" * 64)],
    },
}  # fmt: skip
"""By table name; columns not named are null."""


def table_rows(name: str, changes: Sequence[Mapping[str, Any]] = ({},)) -> pa.Table:
    """One row for each mapping in `changes`: the good row of this table with these columns changed."""
    return pa.Table.from_pylist([{**ROWS[name], **change} for change in changes], TABLES[name].arrow_schema)


def frame(spark: SparkSession, name: str, changes: Sequence[Mapping[str, Any]] = ({},)) -> DataFrame:
    """One row for each mapping in `changes`: the good row of this table with these columns changed."""
    table = TABLES[name]
    rows = [{**ROWS[name], **change} for change in changes]
    values = [tuple(row.get(column) for column in table.column_names) for row in rows]
    return spark.createDataFrame(values, spark_schema(table))
