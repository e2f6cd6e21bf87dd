"""Units of a night without an analysis, in words."""

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
    row("crashed", Status.FAILED, 500.0, status_detail="it took too much memory"),
    row("later", Status.NO_OPS, 500.0, log_date=NEXT_DAY),
    row("no hours", Status.NO_MANIFEST, None, status_detail="job.json is missing or not JSON"),
]


def test_those_with_most_hours_are_named_first_and_why() -> None:
    found = [each.asDict() for each in answer(not_analysed_of(DAY), {JOB_SLOWDOWN: ROWS})]
    assert not_analysed_texts(found) == [
        "not analysed: job large, run r1: too few steps",
        "not analysed: job small, run r1: no recorded ops (no rank recorded an op)",
        "not analysed: job no hours, run r1: no manifest (job.json) (job.json is missing or not JSON)",
    ]
    assert not_analysed_texts(found * 3)[5:] == ["not analysed: and 4 more units"]
