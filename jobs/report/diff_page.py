"""The page that compares two runs, A and B: the difference, its parts, and a step of each at one scale."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from jobs.report import templates, wording
from jobs.report.crop import kind_of

_WIDTH: Final = 1000.0
_LEAST_WIDTH: Final = 0.3
"""Least width of an op that is drawn, in units of _WIDTH: a narrower one could not be seen."""


class Step(NamedTuple):
    """One recorded step of a run, with the ops of some workers.

    name   : name of the run and number of the step, as the page shows it.
    step_s : recorded time of the step. [s]
    lanes  : by (stage, dp rank), the worker's host, and type, start and length of each op. [s]
    """

    name: str
    step_s: float
    lanes: Mapping[tuple[int, int], tuple[str, Sequence[tuple[str, float, float]]]]


def diff_page(
    says: str, notes: Sequence[str], parts: Sequence[Mapping[str, Any]], steps: Sequence[Step]
) -> bytes:
    """Render the page as one HTML file.

    says  : the difference, in one sentence.
    notes : sentences on what was left out, without full stops.
    parts : rows of the tables, with the fields of jobs.reading.difference.Part.
    steps : one of A and one of B; empty if recorded ops are not known.
    """
    lanes = [ops for step in steps for _, ops in step.lanes.values()]
    whole_s = max((start_s + length_s for ops in lanes for _, start_s, length_s in ops), default=0.0)
    drawn = [
        {
            "title": f"{letter}: {step.name}, {wording.seconds(step.step_s)}",
            "lanes": [
                {
                    "title": f"stage {stage}, dp rank {dp_rank}, {host}",
                    "is_culprit": False,
                    "ops": [op for op in map(_drawn, ops, [whole_s] * len(ops)) if op is not None],
                }
                for (stage, dp_rank), (host, ops) in step.lanes.items()
            ],
        }
        for letter, step in zip("AB", steps, strict=False)
    ]
    values = {"root": "", "title": "What made it slower", "says": says, "notes": notes, "steps": drawn}
    kinds = dict.fromkeys(part["of"] for part in parts)
    tables = [(kind, [part for part in parts if part["of"] == kind]) for kind in kinds]
    page = templates.page("diff.html", values | {"tables": tables, "whole": wording.seconds(whole_s)})
    return templates.single_file(page, templates.shared_files(templates.DICTIONARY_SCRIPT))


def _drawn(op: tuple[str, float, float], whole_s: float) -> dict[str, Any] | None:
    name, start_s, length_s = op
    width = _WIDTH * length_s / whole_s if whole_s else 0.0
    if width < _LEAST_WIDTH:
        return None
    return {
        "kind": kind_of(name),
        "x": round(_WIDTH * start_s / whole_s, 1),
        "width": round(width, 1),
        "text": f"{name}, {wording.seconds(length_s)}",
    }
