"""For hand-made rows of job_causes, the judge finds whether cause, workers and steps are right."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.evaluation.shapes.__main__ import main
from tests.evaluation.shapes.draw import CLASS_OF_DIGIT, HEALTHY, Job, draw_job
from tests.evaluation.shapes.examples import EXAMPLES
from tests.evaluation.shapes.faults import slow_computes
from tests.evaluation.shapes.judge import Judged, compare, implied_workers
from tests.evaluation.shapes.layout import hosts
from tests.evaluation.shapes.report import is_wrong, listing, markdown, tables
from tests.evaluation.shapes.truth import truth

Row = dict[str, Any]

HOST_JOB = EXAMPLES["slow_host_from_step_10"]()
HOST_TRUTH = truth(HOST_JOB)


def culprit(**fields: object) -> Row:
    nulls = dict.fromkeys(("pp_rank", "dp_rank", "rank", "host"))
    return {**nulls, "effect": 0.3, "share_of_steps": 0.5, "pattern": "intermittent", **fields}


def answer(cause: str, *culprits: Row, flag: str | None = None, **fields: object) -> Row:
    row = {"cause": cause, "is_cause": True, "flag_reason": flag, "culprits": list(culprits)}
    return {**row, "time_saved_fraction": 0.1249, "lost_fraction": 0.1249, **fields}


def judged(*rows: Row, job: Job = HOST_JOB) -> Judged:
    true = HOST_TRUTH if job is HOST_JOB else truth(job)
    return compare(job, true, {row["cause"]: row for row in rows}, "analysed")


HOST = culprit(host="host-1", direction="both", first_step=110, last_step=119, course="from")
WORKERS = [culprit(pp_rank=stage, dp_rank=1) for stage in range(4)]


def test_a_right_answer_is_right_in_all() -> None:
    found = judged(answer("slow_worker", HOST))
    (verdict,) = found.verdicts
    assert verdict.is_named
    assert verdict.is_place_right
    assert verdict.is_direction_right
    assert verdict.is_first_right
    assert verdict.is_course_right
    assert found.wrong == []
    assert found.said_lost_fraction == pytest.approx(found.lost_fraction, abs=1e-3)
    assert not is_wrong(found)


@pytest.mark.parametrize(
    ("culprits", "is_right"),
    [
        (WORKERS, True),
        ([culprit(dp_rank=1)], True),
        (WORKERS[:3], False),
        ([culprit(dp_rank=2)], False),
        ([HOST, culprit(pp_rank=0, dp_rank=0)], False),
    ],
)
def test_a_place_is_all_of_its_workers_and_no_other(culprits: list[Row], is_right: bool) -> None:
    (verdict,) = judged(answer("slow_worker", *culprits)).verdicts
    assert verdict.is_place_right is is_right


def test_the_first_step_may_be_off_by_one_and_the_rest_may_not() -> None:
    for first, is_right in ((109, True), (111, True), (112, False), (None, False)):
        (verdict,) = judged(answer("slow_worker", culprit(host="host-1", first_step=first))).verdicts
        assert verdict.is_first_right is is_right
        assert verdict.is_course_right is False


def test_a_flag_abstains_and_another_name_is_wrong() -> None:
    flagged = judged(answer("slow_worker", HOST, flag="few_peers"))
    assert flagged.verdicts[0].flag == "few_peers"
    assert not flagged.verdicts[0].is_named
    assert flagged.wrong == []
    misnamed = judged(answer("data_imbalance"), answer("unexplained", lost_fraction=0.0))
    assert misnamed.wrong == ["data_imbalance"]
    assert is_wrong(misnamed)
    assert "WRONG data_imbalance" in listing(misnamed)
    assert judged(answer("data_imbalance", is_cause=False)).wrong == []


def test_any_name_is_wrong_in_a_healthy_job_and_a_loss_unsaid_is_no_error() -> None:
    healthy = draw_job(100)
    found = judged(answer("pause", lost_fraction=None), job=healthy)
    assert healthy.kind == HEALTHY
    assert found.wrong == ["pause"]
    assert found.said_lost_fraction is None


def test_a_culprit_is_a_worker_a_host_a_stage_a_replica_or_all() -> None:
    layout = HOST_JOB.layout
    assert implied_workers(culprit(pp_rank=2, dp_rank=3, host="host-3"), layout) == {(2, 3)}
    assert implied_workers(culprit(hosts=["host-1"]), layout) == {(stage, 1) for stage in range(4)}
    workers = [{"pp_rank": 1, "dp_rank": 0}, {"pp_rank": 1, "dp_rank": 1}]
    assert implied_workers(culprit(slow_host="host-1", workers=workers), layout) == {(1, 0), (1, 1)}
    assert implied_workers(culprit(pp_rank=2), layout) == {(2, dp_rank) for dp_rank in range(4)}
    assert implied_workers(culprit(), layout) == layout.workers


def test_a_heavy_stage_is_not_wrong_where_a_stage_is_slow_always() -> None:
    for is_along_stages, wrong in ((False, []), (True, ["stage_imbalance"])):
        layout = replace(HOST_JOB.layout, host=hosts(4, 4, 4, is_along_stages=is_along_stages))
        stage = frozenset((2, dp_rank) for dp_rank in range(4))
        always = slow_computes(layout, stage, "stage", ("both", "always", 1.5), np.ones(20))
        job = replace(HOST_JOB, layout=layout, faults=(always,))
        assert judged(answer("stage_imbalance", culprit(pp_rank=2)), job=job).wrong == wrong


def test_a_thousand_seeds_hold_the_classes_that_are_wanted() -> None:
    kinds = [CLASS_OF_DIGIT[seed % 10] for seed in range(1000)]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "healthy": 300,
        "single": 400,
        "several": 200,
        "no cause": 100,
    }


def test_tables_count_what_was_judged(capsys: pytest.CaptureFixture[str]) -> None:
    found = tables([judged(answer("slow_worker", HOST)), judged(answer("pause"))])
    rows = {row["what [%]"]: row for row in found["Wanted"]}
    assert rows["jobs with a wrong name, calm noise"]["reached"] == 50
    assert rows["place right"] == {"what [%]": "place right", "wanted": ">= 98", "reached": 100, "of": 1}
    (by_reach,) = found["Faults by reach"]
    assert (by_reach["reach"], by_reach["faults"], by_reach["named [%]"]) == ("host", 2, 50)
    assert "| host | 2 | 2 | 50.00 |" in markdown(found)
    assert main(["--jobs", "1", "--seed", "0", "--processes", "1", "--list-all"]) == 0
    assert "seed 0 (healthy" in capsys.readouterr().out
