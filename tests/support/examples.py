"""One valid row of every table, and tables and DataFrames of such rows with changed columns."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from jobs.warehouse.frames import spark_schema
from schemas.job_causes import CULPRIT
from schemas.tables import TABLES
from schemas.vocabulary import STATUSES

DAY: Final = date(2026, 1, 5)
NEXT_DAY: Final = date(2026, 1, 6)
_UNIT: Final = {"log_date": DAY, "job_id": "gpt-175b", "run_id": "r3"}
_FILE: Final = "log_date=2026-01-05/job_id=gpt-175b/run_id=r3/rank-00000.jsonl"


def culprit(effect: float, share_of_steps: float = 1.0, **changes: object) -> dict[str, object]:
    """Return a culprit of job_causes; by default the culprit is one worker on a known host."""
    is_worker = changes.get("reach", "worker") == "worker"
    return dict.fromkeys(CULPRIT.names) | {
        **({"pp_rank": 0, "dp_rank": 1, "rank": 4, "host": "node-0123"} if is_worker else {}),
        "effect": effect, "share_of_steps": share_of_steps, "pattern": "always", "direction": "both",
        "course": "always", "first_step": 1200, "last_step": 1209, "reach": "worker", "workers": [],
        **changes,
    }  # fmt: skip


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
        "mean_late_us": 250.0, "mean_wait_us": 30.0, "unrecorded_ranks": 0,
    },
    "run_events": {
        **_UNIT, "source_file": "log_date=2026-01-05/job_id=gpt-175b/run_id=r3/events.jsonl", "line": 3,
        "event": "checkpoint", "at_us": 1767600000000000, "step": 1300, "duration_us": 4.5e6,
    },
    "host_health": {
        "log_date": DAY, "host": "node-0123", "component": "gpu", "device": 3, "peer": "",
        "check_name": "throttle_thermal", "severity": "warning",
        "first_at": datetime(2026, 1, 5, 8, 1, tzinfo=UTC), "last_at": datetime(2026, 1, 5, 9, 0, tzinfo=UTC),
        "began_before": False, "is_open": False, "events": 12, "value_min": 32.0, "value_max": 96.0,
        "source_file": "log_date=2026-01-05/health.jsonl",
    },
    "cause_evidence": {
        **_UNIT, "cause": "slow_worker", "culprit": 0, "culprit_host": "node-0123", "host": "node-0123",
        "component": "gpu", "device": 3, "check_name": "throttle_thermal", "severity": "warning", "peer": "",
        "first_at": datetime(2026, 1, 5, 8, 1, tzinfo=UTC), "last_at": datetime(2026, 1, 5, 9, 0, tzinfo=UTC),
        "began_before": False, "is_open": False, "slow_from": datetime(2026, 1, 5, 8, 2, tzinfo=UTC),
        "lead_s": 60.0, "slow_host_days": 3, "slow_host_days_with": 2, "other_host_days": 40,
        "other_host_days_with": 0, "lift": (2.5 / 4) / (0.5 / 41), "chance": 1e-4, "explains": True,
    },
    "job_changes": {
        **_UNIT, "since": DAY, "until": DAY, "days_before": 3, "days": 1, "of": "step time", "before": 5.1,
        "after": 6.12, "change": 0.2, "cause": "slow_worker", "also": ["run r2 -> r3"],
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
        "culprits": [culprit(0.5), culprit(0.25, 0.5, reach="stage", pp_rank=1)],
        "evidence": {"effect": 0.5, "peers": 7.0},
    },
    "job_baseline": {
        **_UNIT, "status": "analysed", "model": "gpt-175b", "gpu_type": "H100", "dp_size": 2, "pp_size": 2,
        "cp_size": 1, "vpp_size": 1, "world_size": 8, "ideal": "pooled-mean-median",
        "simulator_version": "1.0.0", "ops_per_step": 80.0, "actual_step_s": 5.1, "ideal_step_s": 4.0,
        "stages": [(0, 1.5, ["node-0123"]), (1, 1.75, None)], "op_types": [("forward-compute", 0.25)],
        "slow_hosts": [("node-0123", 0.5)],
    },
    "gpu_type_slowdown": {
        **_UNIT, "gpu_type": "A100", "workers": 4, "hosts": 2, "forward_ideal_s": 0.075,
        "backward_ideal_s": 0.15,
        "factor": 1.5, "forward_factor": 1.5, "backward_factor": 1.5, "is_slower": True, "slowdown": 1.25,
        "time_saved_fraction": 0.25, "saved_gpu_hours": 48.0,
    },
    "job_time": {
        **_UNIT, "scheduled_gpu_hours": 192.0, "productive_gpu_hours": 96.0, "straggling_gpu_hours": 24.0,
        "late_start_gpu_hours": -1.0, "lost_work_gpu_hours": 16.0, "outage_gpu_hours": 8.0,
        "startup_gpu_hours": 4.0, "checkpoint_gpu_hours": 2.0, "evaluation_gpu_hours": 2.0,
        "data_loading_gpu_hours": 1.0, "unknown_gpu_hours": 40.0,
        "ettr": 119 / 192, "productive_fraction": 0.5, "lost_to_causes_gpu_hours": 30.0,
        "steps_kept": 800.0, "steps_lost": 100.5,
        "outage_s": 3600.0, "queued_gpu_hours": 64.0,
        "starts": 2, "failures": 1, "checkpoints": 9, "contradictions": 0,
    },
    "mitigations": {
        **_UNIT, "mitigation": "layers between stages", "cause": "stage_imbalance", "host": None,
        "plan": "9, 9, 9, 5 instead of 8, 8, 8, 8", "assumes": "layers are alike", "step_s": 1.9,
        "time_saved_fraction": 0.05, "gpu_hours_saved": 9.6,
    },
    "job_power": {
        **_UNIT, "actual_step_s": 5.0, "computing_share": [0.25, 0.75], "computing_share_low": [0.125, 0.5],
        "computing_share_high": [0.5, 1.0], "mean_share": 0.5, "low_share": 0.25, "high_share": 0.75,
        "swing_share": 0.5, "step_swing_share": 0.5, "dominant_harmonic": 1, "dominant_period_s": 5.0,
        "dominant_amplitude": 0.25, "harmonic_amplitudes": [0.25, 0.125],
        "first_us": 1767600000000000, "last_us": 1767643200000000, "step_every_s": 5.0, "beat_scatter": 0.01,
        "peak_us": 1767621602000000,
    },
    "role_step": {
        **_UNIT, "step": 1200, "part_of": "rlhf-7", "role": "actor", "iteration": 30,
        "start_us": 1767600000000000, "end_us": 1767600005100000, "actual_step_s": 5.1,
        "simulated_step_s": 5.0, "ideal_step_s": 4.0,
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
    "job_megawatts": {
        **_UNIT, "gpu_type": "H100", "world_size": 8, "hours": 24.0, "computing_w": 700.0,
        "otherwise_w": 200.0, "mean_mw": 0.0036, "low_mw": 0.0026, "high_mw": 0.0046, "swing_mw": 0.002,
        "energy_mwh": 0.0864,
    },
    "power_day": {
        "log_date": DAY, "jobs": 2, "timed_jobs": 1, "powered_jobs": 1, "in_phase_pairs": 1, "gpus": 8.0,
        "computing_gpus": 4.0, "swing_gpus": 4.0, "independent_swing_gpus": 4.0, "mean_mw": 0.0036,
        "low_mw": 0.0026, "high_mw": 0.0046, "swing_mw": 0.002, "independent_swing_mw": 0.002,
        "energy_mwh": 0.0864,
    },
    "power_in_phase": {
        **_UNIT, "other_job_id": "moe-8x22b", "other_run_id": "r1", "period_s": 5.0, "other_period_s": 5.0001,
        "common_s": 7200.0, "drift": 0.03, "phase_difference": -0.05, "swing_gpus": 12.0,
    },
    "role_iteration": {
        "log_date": DAY, "part_of": "rlhf-7", "iteration": 30, "role": "actor", "runs": 1,
        "start_us": 1767600000000000, "end_us": 1767600005100000, "busy_s": 5.1, "waiting_s": 12.5,
        "transition_s": 0.5, "waited_for_s": 5.1, "is_waited_for": False,
    },
    "role_effect": {
        "log_date": DAY, "part_of": "rlhf-7", "role": "actor", "runs": 1, "runs_left_out": 0,
        "iterations": 10, "waits_for": ["rollout"], "waits_for_before": [],
        "busy_s": 51.0, "waiting_s": 112.5,
        "waited_for_s": 51.0, "transition_s": 5.0, "iterations_waited_for": 0, "whole_s": 170.0,
        "gpu_hours": 384.0, "saved_fraction_if_fixed": 0.05, "saved_gpu_hours_if_fixed": 19.2,
        "saved_fraction_if_ideal": 0.06, "saved_gpu_hours_if_ideal": 23.04,
        "saved_fraction_if_twice_as_fast": 0.15, "saved_gpu_hours_if_twice_as_fast": 57.6,
    },
    "live_slowdown": {
        **_UNIT, "status": "analysed", "steps": 60, "first_step": 1200, "last_step": 1259,
        "first_time": datetime(2026, 1, 5, 8, 0, tzinfo=UTC),
        "last_time": datetime(2026, 1, 5, 8, 5, tzinfo=UTC), "actual_step_s": 5.1, "slowdown": 1.25,
        "lost_fraction": 0.125, "world_size": 8, "rejects": 0, "simulator_version": "1.0.0",
        "log_bytes": {"rank-00000.jsonl": 4096},
    },
    "live_causes": {
        **_UNIT, "cause": "slow_worker", "first_step": 1240,
        "first_time": datetime(2026, 1, 5, 8, 4, tzinfo=UTC), "last_step": 1259,
        "last_time": datetime(2026, 1, 5, 8, 5, tzinfo=UTC), "is_now": True, "lost_fraction": 0.125,
        "culprits": [culprit(0.5)], "is_warned": True,
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
        "phases": [("ingest", 12.5, 2, 4096, 800, 0.5, 30, 0)],
        "refusals": [("fleet_day", "replayed_is_sum", 1, "replayed = sum of its statuses")],
        "accepted": ["fleet_day.replayed_is_sum"],
    },
    "unit_fingerprints": {
        **_UNIT, "stage": "ingest", "phase": "ingest", "inputs": "0" * 64, "settings": "{}", "version": "1",
        "bytes": 4096, "ops": 800, "files": [("rank-00000.jsonl", 4096, 1767600000000000, "1" * 64)],
    },
}  # fmt: skip
"""Valid rows by table name; columns that are not stated are null."""


def table_rows(name: str, changes: Sequence[Mapping[str, Any]] = ({},)) -> pa.Table:
    """Return one row per mapping in `changes`: the table's valid row with these columns changed."""
    return pa.Table.from_pylist([{**ROWS[name], **change} for change in changes], TABLES[name].arrow_schema)


def frame(spark: SparkSession, name: str, changes: Sequence[Mapping[str, Any]] = ({},)) -> DataFrame:
    """Return one row per mapping in `changes`: the table's valid row with these columns changed."""
    table = TABLES[name]
    rows = [{**ROWS[name], **change} for change in changes]
    values = [tuple(row.get(column) for column in table.column_names) for row in rows]
    return spark.createDataFrame(values, spark_schema(table))
