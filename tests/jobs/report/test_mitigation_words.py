"""A night's summary names the best mitigation of each unit, and the command that prints all mitigations."""

from jobs.report.cause_words import best, mitigation_texts, mitigations_of
from schemas.vocabulary import MITIGATIONS
from tests.support.answers import answer
from tests.support.examples import DAY, NEXT_DAY


def row(job_id: str, name: str, saved: float, hours: float | None, **more: object) -> dict[str, object]:
    found = {"job_id": job_id, "mitigation": name, "time_saved_fraction": saved, "gpu_hours_saved": hours}
    return found | more


ROWS = [
    row("small", "layers between stages", 0.2, 4.0),
    row("large", "layers between stages", 0.03, 90.0),
    row("large", "planned garbage collection", 0.05, 150.0, cause="pause", plan="collect every 8 steps"),
    row("large", "replica removed", -0.05, 200.0, cause="slow_worker"),
    row("no hours", "layers between stages", 0.3, None),
    row("fourth", "layers between stages", 0.04, 1.0),
    row("dear", "replica removed", -0.01, 500.0, cause="slow_worker"),
    row("later", "layers between stages", 0.5, 900.0, log_date=NEXT_DAY),
]


def test_the_best_of_each_unit_is_said_most_hours_first() -> None:
    found = [each.asDict() for each in answer(mitigations_of(DAY), {MITIGATIONS: ROWS})]
    assert [each["job_id"] for each in found] == ["large", "small", "fourth"]
    assert mitigation_texts(found, "W")[0] == (
        "mitigate large: planned garbage collection (collect every 8 steps) saves 150 GPU-hours (5.0 %): "
        "straggler mitigate --warehouse W large/r3@2026-01-05"
    )


def test_nothing_is_named_that_costs_more_than_it_saves() -> None:
    less, more = (row("a", "x", saved, 1.0, cause="pause") for saved in (0.1, 0.2))
    dear = row("a", "replica removed", -0.05, 200.0, cause="slow_worker")
    assert best([less, more, dear], "pause") == more
    assert best([less, more, dear], "slow_worker") is None
