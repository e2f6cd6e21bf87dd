"""Compare the results of the diagnosis with their targets, in one table."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from tests.evaluation.shapes.draw import HEALTHY, SEVERAL, SINGLE
from tests.evaluation.shapes.judge import STARTS_COUNT, Judged, Verdict
from tests.evaluation.shapes.noise import GAUSSIAN, SKEWED
from tests.evaluation.shapes.truth import NO_CAUSE_FITS, TOO_LITTLE

CALM: Final = (GAUSSIAN, SKEWED)
"""Kinds of noise that no worker or host shares, and in which no single op is far from the others."""


def wanted(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """One row per target: the wanted bound, the result in percent, and the number of cases."""
    calm = [job for job in judged if job.noise in CALM]
    other = [job for job in judged if job.noise not in CALM]
    asked = _to_name(judged)
    single_calm, single_other = _to_name(calm, SINGLE), _to_name(other, SINGLE)
    far = [each for each in asked if each.saved_fraction >= STARTS_COUNT]
    errors = [100 * error for job in judged if is_knowable(job) and (error := lost_error(job)) is not None]
    return [
        _at_least("single faults named, calm noise", 99, [each.is_named for each in single_calm]),
        _at_least("single faults named, other noise", 97, [each.is_named for each in single_other]),
        _at_least("each of several faults named", 95, [each.is_named for each in _to_name(judged, SEVERAL)]),
        _at_most("jobs with a wrong name, calm noise", 0.5, [bool(job.wrong) for job in calm]),
        _at_most("jobs with a wrong name, other noise", 1, [bool(job.wrong) for job in other]),
        _at_most("healthy jobs named", 0.2, [bool(job.wrong) for job in judged if job.kind == HEALTHY]),
        _at_least("place right", 98, [each.is_place_right for each in asked]),
        _at_least("direction right", 98, [each.is_direction_right for each in asked]),
        _at_least("first step within one, saves 5 %", 95, [each.is_first_right for each in far]),
        _at_least("course right, saves 5 %", 95, [each.is_course_right for each in far]),
        *(
            _row(f"lost off by, {name}", f"<= {bound}", float(np.quantile(errors, quantile)), len(errors))
            for name, quantile, bound in (("p90", 0.9, 0.3), ("p99", 0.99, 2))
            if errors
        ),
    ]


def is_knowable(job: Judged) -> bool:
    """Return whether the log determines a job's loss: not if heavy data may explain slow workers."""
    return all(each.why_not in ("", TOO_LITTLE, NO_CAUSE_FITS) for each in job.verdicts)


def lost_error(job: Judged) -> float | None:
    """Error of the reported loss as a fraction of the step time; None if no loss was reported."""
    return None if job.said_lost_fraction is None else abs(job.said_lost_fraction - job.lost_fraction)


def share(answers: Iterable[bool | None]) -> float | None:
    """Return the percentage of true values among all values that are not None."""
    asked = [each for each in answers if each is not None]
    return 100 * sum(asked) / len(asked) if asked else None


def _to_name(judged: Sequence[Judged], kind: str | None = None) -> list[Verdict]:
    """Return the verdicts on faults that must be named, in jobs of one class or in all jobs."""
    jobs = [job for job in judged if kind in (None, job.kind)]
    return [each for job in jobs for each in job.verdicts if not each.why_not]


def _at_least(what: str, bound: float, answers: Sequence[bool | None]) -> dict[str, Any]:
    return _row(what, f">= {bound}", share(answers), sum(each is not None for each in answers))


def _at_most(what: str, bound: float, answers: Sequence[bool | None]) -> dict[str, Any]:
    return _row(what, f"<= {bound}", share(answers), len(answers))


def _row(what: str, bound: str, reached: float | None, number: int) -> dict[str, Any]:
    return {"what [%]": what, "wanted": bound, "reached": reached, "of": number}
