"""Test the rules that tables declare: between columns of a row, and within lists and maps."""

import math
from datetime import date
from typing import Any

from jobs.gates.audit import audit
from schemas.job_causes import CLOCK_NOISE_S
from schemas.tables import TABLES
from schemas.vocabulary import (
    CAUSE_UNEXPLAINED,
    CAUSES,
    COLLECTIVE_ARRIVAL,
    FLEET_DAY,
    JOB_BASELINE,
    JOB_CAUSES,
    JOB_SLOWDOWN,
    JOB_TIME,
    JOBS,
    LIVE_CAUSES,
    LIVE_SLOWDOWN,
    OP_TYPE_SLOWDOWN,
    OP_TYPES,
    RANK_STEPS,
    SOURCE_FILES,
)
from tests.jobs.gates.test_audit import refused
from tests.support.examples import culprit, table_rows
from udfs.kernel.recorded.durations import CLAMP_S

JANUARY = [date(2026, 1, day) for day in range(1, 32)]


def test_waste_that_is_not_that_of_its_slowdown_is_refused() -> None:
    names = ("gc", "optimizer", "forward-pp-comm", "backward-pp-comm", "forward-compute")
    figures = [
        (0.96, (1 - 1 / 0.96) * (1 + 1e-13)),
        (1.25, 0.2 + 1e-11),
        (0.0, 0.0),
        (1.25, -0.2),
        (1.0, 0.0),
    ]
    rows = [
        {"op_type": name, "slowdown": slowdown, "waste_fraction": waste}
        for name, (slowdown, waste) in zip(names, figures, strict=True)
    ]
    assert refused(OP_TYPE_SLOWDOWN, rows) == {"waste_fraction_of_slowdown": 3}
    assert refused(OP_TYPE_SLOWDOWN, [{"op_type": "forward-send"}]) == {"op_type_allowed": 1}


def test_parts_of_a_runs_time_add_up_and_its_ratios_are_theirs() -> None:
    rows: list[dict[str, Any]] = [
        {"run_id": "good"},
        {"run_id": "1", "outage_gpu_hours": 9.0},
        {"run_id": "2", "ettr": 0.5},
        {"run_id": "3", "productive_fraction": 0.25},
        {"run_id": "4", "unknown_gpu_hours": -3.0, "lost_work_gpu_hours": 59.0},
        {"run_id": "good too", "unknown_gpu_hours": -1.0, "lost_work_gpu_hours": 57.0},
        {"run_id": "5", "startup_gpu_hours": -4.0, "unknown_gpu_hours": 48.0},
    ]
    assert refused(JOB_TIME, rows) == {
        "parts_add_up": 1,
        "ettr_of_parts": 1,
        "productive_fraction_of_parts": 1,
        "unknown_is_hardly_negative": 1,
        "startup_gpu_hours_in_range": 1,
    }


def test_a_usual_transfer_may_be_a_little_below_zero_as_clocks_differ() -> None:
    assert CLAMP_S == -CLOCK_NOISE_S, "the replay sets transfers of at most this time to 0"
    times_s = {"good": -0.0099, "clamped": -0.01, "infinite": float("inf"), "unknown": None}
    rows = [
        {"run_id": name, "op_types": [{"op_type": "forward-pp-comm", "ideal_duration_s": time_s}]}
        for name, time_s in times_s.items()
    ]
    assert refused(JOB_BASELINE, rows) == {"times_are_known": 3}


def test_identities_of_a_units_figures_are_checked() -> None:
    unreplayed = {column.name: None for column in TABLES[JOB_SLOWDOWN].columns if column.nullable}
    rows: list[dict[str, Any]] = [
        {"run_id": "good"},
        unreplayed | {"run_id": "good too", "status": "no_ops"},
        {"run_id": "1", "status": "no_ops"},
        {"run_id": "2", "ideal_step_s": None},
        {"run_id": "3", "simulated_total_s": 51.0},
        {"run_id": "4", "wasted_gpu_hours": None},
        {"run_id": "5", "gpu_hours": None},
        {"run_id": "6", "discrepancy": 0.05},
        {"run_id": "7", "launch_slowdown": 1.0},
        unreplayed | {"run_id": "8", "status": "failed"},
        {"run_id": "9", "status": "fine"},
        {"run_id": "10", "failure_traceback": "File <x>, line 7"},
        unreplayed
        | {"run_id": "good three", "status": "failed", "status_detail": "KeyError: 3"}
        | {"failure_traceback": "File <x>, line 7"},
    ]
    found = refused(JOB_SLOWDOWN, rows)
    with_replay = {name: count for name, count in found.items() if name.endswith("_with_replay")}
    assert set(with_replay.values()) == {2, 3}  # of runs 1 and 9, and of run 2, which has no ideal step
    assert with_replay["ideal_step_s_with_replay"] == 3
    assert len(with_replay) == 25
    assert {name: count for name, count in found.items() if name not in with_replay} == {
        "status_allowed": 1,
        "ideal_step_s_is_mean": 1,
        "slowdown_is_ratio_of_sums": 1,
        "simulated_step_s_is_mean": 1,
        "wasted_gpu_hours_of_waste": 2,
        "discrepancy_of_step_times": 1,
        "launch_slowdown_of_step_times": 1,
        "failed_says_why": 2,
    }


def test_line_accounting_and_manifests_are_checked() -> None:
    files: list[dict[str, Any]] = [
        {"source_file": "a", "lines": 4},
        {"source_file": "b", "lines": None},
        {"source_file": "c"},
    ]
    assert refused(SOURCE_FILES, files) == {"every_line_is_accounted_for": 1}
    arrivals: list[dict[str, Any]] = [
        {"rank": 0, "times_last": 41},
        {"rank": 1, "collectives": 0, "times_last": 0},
        {"rank": 2, "mean_late_us": -1.0},
    ]
    assert refused(COLLECTIVE_ARRIVAL, arrivals) == {
        "last_is_a_part": 1,
        "there_are_some": 1,
        "mean_late_us_in_range": 1,
    }
    manifests: list[dict[str, Any]] = [
        {"run_id": "1", "world_size": 9},
        {"run_id": "2", "manifest_status": "bad_layout", "manifest_detail": "9 is not 8", "world_size": 9},
        {"run_id": "3", "vpp_size": None},
        {"run_id": "4", "manifest_status": "no_manifest"},
        {"run_id": "5", "dp_size": 2**31 - 1, "pp_size": 2**31 - 1},  # the product exceeds int64
    ]
    assert refused(JOBS, manifests) == {
        "world_size_is_the_product": 2,
        "good_manifest_is_complete": 1,
        "bad_manifest_says_why": 1,
    }


def test_counts_and_percentiles_of_the_fleet_are_checked() -> None:
    changes: list[dict[str, Any]] = [
        {"jobs": 4},
        {"replayed": 3},
        {"straggling": 2},
        {"waste_p90": 0.1},
        {"waste_p50": None},
        {"failed": -1},
    ]
    rows = [{**change, "log_date": day} for change, day in zip(changes, JANUARY, strict=False)]
    assert refused(FLEET_DAY, rows) == {
        "every_unit_has_one_status": 2,
        "replayed_is_sum": 1,
        "straggling_are_analysed": 1,
        "percentiles_with_analysed": 2,
        "failed_in_range": 1,
    }


def test_every_kind_of_violation_of_a_list_is_refused_and_counted() -> None:
    lists: list[dict[str, Any]] = [
        {},
        {"op": [], "start_us": [], "duration_us": [], "microbatch": [], "model_chunk": []},
        {"microbatch": [-(2**31), 2**31 - 1, 0]},
        {"op": [0, None, 1]},
        {"op": [0, len(OP_TYPES), 1]},
        {"start_us": [0.0, math.nan, 1.0]},
        {"start_us": [0.0, math.inf, 1.0]},
        {"start_us": [0.0, -0.5, 1.0]},
        {"duration_us": [0.0, 1.0]},
        {"microbatch": [-(2**31), None, 0]},
        {"model_chunk": None},
        {"duration_us": [None, None, None]},
    ]
    rows = [{"step": step} | row for step, row in enumerate(lists)]
    assert refused(RANK_STEPS, rows) == {
        "op_elements_not_null": 1,
        "op_elements_in_range": 1,
        "start_us_elements_finite": 2,
        "start_us_elements_in_range": 1,
        "arrays_equally_long": 2,
        "microbatch_elements_not_null": 1,
        "model_chunk_not_null": 1,
        "model_chunk_elements_not_null": 1,
        "duration_us_elements_not_null": 1,
        "duration_us_elements_finite": 1,
        "duration_us_elements_in_range": 1,
    }


def test_fractions_hours_and_words_are_checked() -> None:
    rows: list[dict[str, Any]] = [
        {"time_saved_fraction": -0.5, "flag_reason": "clock_skew", "culprits": [], "evidence": {}},
        {"cause": CAUSES[1], "time_saved_fraction": None},
        {"cause": CAUSES[2], "attributed_fraction": math.nan},
        {"cause": CAUSES[3], "recoverable_gpu_hours": None},
        {"cause": CAUSES[4], "flag_reason": "tired"},
        {"cause": CAUSES[5], "is_cause": None},
        {"cause": CAUSE_UNEXPLAINED},
        {"cause": "weather"},
        {"run_id": "more than the step", "time_saved_fraction": 1.04},
        {"run_id": "less than nothing", "time_saved_fraction": -1.04},
        {"run_id": "more than all", "lost_fraction": 1.04},
    ]
    assert refused(JOB_CAUSES, rows) == {
        "time_saved_fraction_not_null": 1,
        "time_saved_fraction_finite": 1,
        "time_saved_fraction_in_range": 2,
        "lost_fraction_in_range": 1,
        "attributed_fraction_finite": 1,
        "gpu_hours_of_both_or_neither": 1,
        "flag_reason_allowed": 1,
        "is_cause_not_null": 1,
        "nothing_attributed_to_unexplained": 1,
        "cause_allowed": 1,
        "what_does_not_hold_loses_nothing": 1,
    }


def test_culprits_are_checked() -> None:
    earlier: dict[str, Any] = {
        "direction": None,
        "course": None,
        "reach": None,
        "first_step": None,
        "last_step": None,
    }
    culprits: list[Any] = [
        [culprit(0.5), culprit(0.25, reach="stage", pp_rank=1)],
        [culprit(0.5, **earlier), culprit(0.5, first_step=None, last_step=None)],
        [culprit(0.5), None],
        [culprit(math.nan)],
        [culprit(0.5, 1.5)],
        [culprit(0.5, pattern="sometimes")],
        [culprit(0.5, rank=None)],
        [culprit(0.5, reach="stage", host="node-0123")],
        [culprit(0.5, reach="stage", rank=4)],
        [culprit(0.5, course="sometimes")],
        [culprit(0.5, direction=None)],
        [culprit(0.5, last_step=3)],
        [culprit(0.5, last_step=None)],
        None,
    ]
    rows = [{"job_id": str(number), "culprits": each} for number, each in enumerate(culprits)]
    assert refused(JOB_CAUSES, rows) == {
        "culprits_not_null": 1,
        "culprits_are_described": 5,  # a null list also breaks this rule
        "culprits_have_their_course": 5,
        "one_worker_has_its_rank": 4,
    }


def test_evidence_is_checked() -> None:
    evidence: list[Any] = [
        {"peers": 1.0},
        {"peers": math.nan},
        {"peers": -math.inf},
        {"peers": None},
        {"mood": 1.0},
        None,
    ]
    rows = [{"job_id": str(number), "evidence": each} for number, each in enumerate(evidence)]
    assert refused(JOB_CAUSES, rows) == {
        "evidence_not_null": 1,
        "evidence_values_finite": 4,
        "evidence_is_known": 2,
    }


def test_revised_rows_keep_the_figures_before() -> None:
    before: dict[str, Any] = {"is_cause": True, "time_saved_fraction": 0.25, "attributed_fraction": 0.125}
    before |= {"culprits": [], "evidence": {"peers": 7.0}}
    judged = {"flag_reason": "judged_by_history", "evidence": {"revised_from": 0.25, "history_runs": 2.0}}
    rows: list[dict[str, Any]] = [
        judged | {"unrevised": before},
        {},
        judged,
        {"unrevised": before},
        judged | {"unrevised": before, "evidence": {"history_runs": 2.0}},
        {"evidence": {"revised_from": 0.25}},
    ]
    rows = [row | {"job_id": str(number)} for number, row in enumerate(rows)]
    assert refused(JOB_CAUSES, rows) == {"revised_rows_say_so": 4}


def test_a_cause_of_a_run_that_went_back_to_a_checkpoint_is_no_odd_row() -> None:
    back = {"first_step": 940, "last_step": 559}
    assert audit(TABLES[LIVE_CAUSES], table_rows(LIVE_CAUSES, [back])) == []
    assert refused(LIVE_SLOWDOWN, [back]) == {"steps_in_order": 1}
