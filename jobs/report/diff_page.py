"""The page of a comparison of two runs: the answer, its parts, and a step of each at the same scale."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from jobs.report import templates, wording
from jobs.report.crop import kind_of

_WIDTH: Final = 1000.0
_LEAST_WIDTH: Final = 0.3
"""Least part of the width, in thousandths, for an op to be drawn: a smaller one could not be seen."""


class Step(NamedTuple):
    """One recorded step of a run: ops of some workers.

    name   : which step, of which unit.
    step_s : its recorded time. [s]
    lanes  : by (stage, dp rank) the name of the worker's host and its ops: type, start and length. [s]
    """

    name: str
    step_s: float
    lanes: Mapping[tuple[int, int], tuple[str, Sequence[tuple[str, float, float]]]]


def diff_page(
    says: str, notes: Sequence[str], parts: Sequence[Mapping[str, Any]], steps: Sequence[Step]
) -> bytes:
    """Render the page as one HTML file.

    says  : the answer in one sentence.
    parts : rows of the table, of one kind after another.
    steps : one of A and one of B; none where recorded ops are not known.
    """
    whole_s = max((_end_s(step) for step in steps), default=0.0)
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


def _end_s(step: Step) -> float:
    return max(
        (start_s + length_s for _, ops in step.lanes.values() for _, start_s, length_s in ops), default=0.0
    )


def _drawn(op: tuple[str, float, float], whole_s: float) -> dict[str, Any] | None:
    name, start_s, length_s = op
    width = _WIDTH * length_s / whole_s if whole_s else 0.0
    if width < _LEAST_WIDTH:
        return None
    x = round(_WIDTH * start_s / whole_s, 1)
    return {
        "kind": kind_of(name),
        "x": x,
        "width": round(width, 1),
        "text": f"{name}, {wording.seconds(length_s)}",
    }
