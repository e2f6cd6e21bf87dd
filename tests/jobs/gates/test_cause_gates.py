"""What the gates of job_causes refuse: culprits and evidence are checked too."""

import math
from typing import Any

from pyspark.sql import SparkSession

from schemas.vocabulary import CAUSES, JOB_CAUSES
from tests.jobs.gates.test_audit import refused

WORKER = (0, 1, 4, "node-0123", 0.5, 1.0, "always")


def test_fractions_hours_and_words_are_checked(spark: SparkSession) -> None:
    rows: list[dict[str, Any]] = [
        {"time_saved_fraction": -0.5, "flag_reason": "clock_skew", "culprits": [], "evidence": {}},
        {"cause": CAUSES[1], "time_saved_fraction": None},
        {"cause": CAUSES[2], "attributed_fraction": math.nan},
        {"cause": CAUSES[3], "recoverable_gpu_hours": None},
        {"cause": CAUSES[4], "flag_reason": "tired"},
        {"cause": CAUSES[5], "is_cause": None},
        {"cause": CAUSES[6]},
        {"cause": "weather"},
    ]
    assert refused(spark, JOB_CAUSES, rows) == {
        "time_saved_fraction_not_null": 1,
        "time_saved_fraction_finite": 1,
        "attributed_fraction_finite": 1,
        "gpu_hours_of_both_or_neither": 1,
        "flag_reason_allowed": 1,
        "is_cause_not_null": 1,
        "nothing_attributed_to_unexplained": 1,
        "cause_allowed": 1,
        "what_does_not_hold_loses_nothing": 1,
    }


def test_culprits_are_checked(spark: SparkSession) -> None:
    stage = (1, None, None, None, 0.25, 1.0, "once")
    culprits: list[Any] = [
        [WORKER, stage],
        [WORKER, None],
        [(*WORKER[:4], math.nan, 1.0, "always")],
        [(*WORKER[:4], 0.5, 1.5, "always")],
        [(*WORKER[:6], "sometimes")],
        [(0, 1, None, *WORKER[3:])],
        [(1, None, None, "node-0123", *stage[4:])],
        [(1, None, 4, None, *stage[4:])],
        None,
    ]
    rows = [{"job_id": str(number), "culprits": each} for number, each in enumerate(culprits)]
    assert refused(spark, JOB_CAUSES, rows) == {
        "culprits_not_null": 1,
        "culprits_are_described": 5,  # a null list cannot be looked into either
        "one_worker_has_its_rank": 4,
    }


def test_evidence_is_checked(spark: SparkSession) -> None:
    evidence: list[Any] = [
        {"peers": 1.0},
        {"peers": math.nan},
        {"peers": -math.inf},
        {"peers": None},
        {"mood": 1.0},
        None,
    ]
    rows = [{"job_id": str(number), "evidence": each} for number, each in enumerate(evidence)]
    assert refused(spark, JOB_CAUSES, rows) == {
        "evidence_not_null": 1,
        "evidence_values_finite": 4,
        "evidence_is_known": 2,
    }


def test_revised_rows_keep_the_figures_before(spark: SparkSession) -> None:
    before: tuple[Any, ...] = (True, 0.25, 0.125, None, [], {"peers": 7.0})
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
    assert refused(spark, JOB_CAUSES, rows) == {"revised_rows_say_so": 4}
