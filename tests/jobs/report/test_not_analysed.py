"""Test the words for units that were not analysed, and for units that the fleet's figures leave out."""

from jobs.report.news_words import not_analysed_of, not_analysed_texts
from schemas.vocabulary import JOB_SLOWDOWN, Status
from tests.support.answers import answer
from tests.support.examples import DAY, NEXT_DAY


def row(job_id: str, status: Status, hours: float | None, **more: object) -> dict[str, object]:
    return {"job_id": job_id, "run_id": "r1", "status": status, "gpu_hours": hours} | more


ROWS = [
    row("small", Status.NO_OPS, 4.0, status_detail="no rank recorded an op"),
    row("large", Status.TOO_FEW_STEPS, 90.0, status_detail=None),
    row("good", Status.ANALYSED, 500.0),
    row("wide", Status.BAD_LAYOUT, 500.0),
    row("wild", Status.TOO_MANY_RESTARTS, 500.0),
    row("crashed", Status.FAILED, 500.0, status_detail="it took too much memory"),
    row("later", Status.NO_OPS, 500.0, log_date=NEXT_DAY),
    row("no hours", Status.NO_MANIFEST, None, status_detail="job.json is missing or not JSON"),
]


def test_those_with_most_hours_are_named_first_and_why() -> None:
    found = [each.asDict() for each in answer(not_analysed_of(DAY), {JOB_SLOWDOWN: ROWS})]
    assert not_analysed_texts(found) == [
        "job large, run r1: analysed, but outside the fleet's figures: too few steps",
        "job small, run r1: not analysed: no recorded ops (no rank recorded an op)",
        "job no hours, run r1: not analysed: job.json is missing or not JSON",
    ]


def test_of_many_the_first_are_named_and_the_others_counted() -> None:
    many = [row(f"job {number}", Status.TOO_FEW_STEPS, None) for number in range(8)]
    found = [each.asDict() for each in answer(not_analysed_of(DAY), {JOB_SLOWDOWN: many})]
    assert len(found) == 5
    assert not_analysed_texts(found)[5:] == ["and 3 more units that the figures leave out"]
    assert not_analysed_texts([]) == []
