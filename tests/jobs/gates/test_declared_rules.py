"""Rules that tables declare: what holds between the columns of a row, and within its lists and maps."""

import math
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from schemas.job_baseline import CLOCK_NOISE_S
from schemas.tables import TABLES
from schemas.vocabulary import (
    CAUSES,
    COLLECTIVE_ARRIVAL,
    FLEET_DAY,
    JOB_BASELINE,
    JOB_CAUSES,
    JOB_SLOWDOWN,
    JOBS,
    OP_TYPE_SLOWDOWN,
    RANK_STEPS,
    SOURCE_FILES,
)
from tests.jobs.gates.test_audit import refused
from udfs.kernel.recorded.durations import CLAMP_S

Rows = Sequence[Mapping[str, Any]]
UNREPLAYED: Final[dict[str, Any]] = {
    column.name: None for column in TABLES[JOB_SLOWDOWN].columns if column.nullable
}
WORKER: Final = (0, 1, 4, "node-0123", 0.5, 1.0, "always")
STAGE: Final = (1, None, None, None, 0.25, 1.0, "once")
BEFORE: Final[tuple[Any, ...]] = (True, 0.25, 0.125, None, [], {"peers": 7.0})
JUDGED: Final[dict[str, Any]] = {
    "flag_reason": "judged_by_history",
    "evidence": {"revised_from": 0.25, "history_runs": 2.0},
}


def numbered(name: str, rows: Rows, of: type[int] | type[str] = str) -> Rows:
    """Rows with keys of their own."""
    return [{name: of(number)} | dict(row) for number, row in enumerate(rows)]


def transfers(*times_s: float | None) -> Rows:
    return [{"op_types": [{"op_type": "forward-pp-comm", "ideal_duration_s": time_s}]} for time_s in times_s]


CASES: Final[dict[str, tuple[str, Rows, dict[str, int]]]] = {
    "lists of numbers": (
        RANK_STEPS,
        numbered(
            "step",
            [
                {},
                {"op": [], "start_us": [], "duration_us": [], "microbatch": [], "model_chunk": []},
                {"microbatch": [-(2**31), 2**31 - 1, 0]},
                {"op": [0, None, 1]},
                {"op": [0, 14, 1]},
                {"start_us": [0.0, math.nan, 1.0]},
                {"start_us": [0.0, math.inf, 1.0]},
                {"start_us": [0.0, -0.5, 1.0]},
                {"duration_us": [0.0, 1.0]},
                {"microbatch": [-(2**31), None, 0]},
                {"model_chunk": None},
                {"duration_us": [None, None, None]},
            ],
            int,
        ),
        {
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
        },
    ),
    "fractions, hours and words of causes": (
        JOB_CAUSES,
        [
            {"time_saved_fraction": -0.5, "flag_reason": "clock_skew", "culprits": [], "evidence": {}},
            {"cause": CAUSES[1], "time_saved_fraction": None},
            {"cause": CAUSES[2], "attributed_fraction": math.nan},
            {"cause": CAUSES[3], "recoverable_gpu_hours": None},
            {"cause": CAUSES[4], "flag_reason": "tired"},
            {"cause": CAUSES[5], "is_cause": None},
            {"cause": CAUSES[6]},
            {"cause": "weather"},
        ],
        {
            "time_saved_fraction_not_null": 1,
            "time_saved_fraction_finite": 1,
            "attributed_fraction_finite": 1,
            "gpu_hours_of_both_or_neither": 1,
            "flag_reason_allowed": 1,
            "is_cause_not_null": 1,
            "nothing_attributed_to_unexplained": 1,
            "cause_allowed": 1,
            "what_does_not_hold_loses_nothing": 1,
        },
    ),
    "culprits": (
        JOB_CAUSES,
        numbered(
            "job_id",
            [
                {"culprits": [WORKER, STAGE]},
                {"culprits": [WORKER, None]},
                {"culprits": [(*WORKER[:4], math.nan, 1.0, "always")]},
                {"culprits": [(*WORKER[:4], 0.5, 1.5, "always")]},
                {"culprits": [(*WORKER[:6], "sometimes")]},
                {"culprits": [(0, 1, None, *WORKER[3:])]},
                {"culprits": [(1, None, None, "node-0123", *STAGE[4:])]},
                {"culprits": [(1, None, 4, None, *STAGE[4:])]},
                {"culprits": None},
            ],
        ),
        # A null list cannot be looked into either.
        {"culprits_not_null": 1, "culprits_are_described": 5, "one_worker_has_its_rank": 4},
    ),
    "evidence": (
        JOB_CAUSES,
        numbered(
            "job_id",
            [
                {"evidence": {"peers": 1.0}},
                {"evidence": {"peers": math.nan}},
                {"evidence": {"peers": -math.inf}},
                {"evidence": {"peers": None}},
                {"evidence": {"mood": 1.0}},
                {"evidence": None},
            ],
        ),
        {"evidence_not_null": 1, "evidence_values_finite": 4, "evidence_is_known": 2},
    ),
    "revised rows": (
        JOB_CAUSES,
        numbered(
            "job_id",
            [
                JUDGED | {"unrevised": BEFORE},
                {},
                JUDGED,
                {"unrevised": BEFORE},
                JUDGED | {"unrevised": BEFORE, "evidence": {"history_runs": 2.0}},
                {"evidence": {"revised_from": 0.25}},
            ],
        ),
        {"revised_rows_say_so": 4},
    ),
    "waste and slowdown": (
        OP_TYPE_SLOWDOWN,
        [
            {"op_type": "gc", "slowdown": 0.96, "waste_fraction": (1 - 1 / 0.96) * (1 + 1e-13)},
            {"op_type": "optimizer", "slowdown": 1.25, "waste_fraction": 0.2 + 1e-11},
            {"op_type": "forward-pp-comm", "slowdown": 0.0, "waste_fraction": 0.0},
            {"op_type": "backward-pp-comm", "slowdown": 1.25, "waste_fraction": -0.2},
            {"op_type": "forward-compute", "slowdown": 1.0, "waste_fraction": 0.0},
            {"op_type": "forward-send"},
        ],
        {"waste_fraction_of_slowdown": 3, "op_type_allowed": 1},
    ),
    "usual transfers, a little below zero where clocks differ": (
        JOB_BASELINE,
        numbered("run_id", transfers(-0.0099, CLAMP_S, float("inf"), None)),
        {"times_are_known": 3},
    ),
    "files": (
        SOURCE_FILES,
        [{"source_file": "a", "lines": 4}, {"source_file": "b", "lines": None}, {"source_file": "c"}],
        {"every_line_is_accounted_for": 1},
    ),
    "arrivals": (
        COLLECTIVE_ARRIVAL,
        [
            {"rank": 0, "times_last": 41},
            {"rank": 1, "collectives": 0, "times_last": 0},
            {"rank": 2, "mean_late_us": -1.0},
        ],
        {"last_is_a_part": 1, "there_are_some": 1, "mean_late_us_in_range": 1},
    ),
    "manifests": (
        JOBS,
        numbered(
            "run_id",
            [
                {"world_size": 9},
                {"manifest_status": "bad_layout", "manifest_detail": "9 is not 8", "world_size": 9},
                {"vpp_size": None},
                {"manifest_status": "no_manifest"},
                {"dp_size": 2**31 - 1, "pp_size": 2**31 - 1},  # the product fits no integer
            ],
        ),
        {"world_size_is_the_product": 2, "good_manifest_is_complete": 1, "bad_manifest_says_why": 1},
    ),
    "the fleet's counts and percentiles": (
        FLEET_DAY,
        [
            {"log_date": date(2026, 1, 1), "jobs": 4},
            {"log_date": date(2026, 1, 2), "replayed": 3},
            {"log_date": date(2026, 1, 3), "straggling": 2},
            {"log_date": date(2026, 1, 4), "waste_p90": 0.1},
            {"log_date": date(2026, 1, 5), "waste_p50": None},
            {"log_date": date(2026, 1, 6), "failed": -1},
        ],
        {
            "every_unit_has_one_status": 2,
            "replayed_is_sum": 1,
            "straggling_are_analysed": 1,
            "percentiles_with_analysed": 2,
            "failed_in_range": 1,
        },
    ),
}
"""Table, rows of it, of which the first is good or near a bound, and how many break which rule."""


@pytest.mark.parametrize("case", CASES)
def test_rows_that_break_a_declared_rule_are_refused_and_counted(spark: SparkSession, case: str) -> None:
    table, rows, wanted = CASES[case]
    assert refused(spark, table, rows) == wanted


def test_the_bound_of_transfers_is_that_of_the_replay() -> None:
    assert CLAMP_S == -CLOCK_NOISE_S, "a transfer of this and less is 0 in the replay"


def test_identities_of_a_units_figures_are_checked(spark: SparkSession) -> None:
    failed = UNREPLAYED | {"status": "failed"}
    rows = numbered(
        "run_id",
        [
            {},
            UNREPLAYED | {"status": "no_ops"},
            {"status": "no_ops"},
            {"ideal_step_s": None},
            {"simulated_total_s": 51.0},
            {"wasted_gpu_hours": None},
            {"gpu_hours": None},
            {"discrepancy": 0.05},
            {"launch_slowdown": 1.0},
            failed,
            {"status": "fine"},
            {"failure_traceback": "File <x>, line 7"},
            failed | {"status_detail": "KeyError: 3", "failure_traceback": "File <x>, line 7"},
        ],
    )
    found = refused(spark, JOB_SLOWDOWN, rows)
    with_replay = {name: count for name, count in found.items() if name.endswith("_with_replay")}
    assert set(with_replay.values()) == {2, 3}  # no_ops and fine, and where the ideal step is null
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
