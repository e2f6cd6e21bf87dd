"""The page of a comparison of two runs: the answer, its parts, and a step of each at the same scale."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from jobs.report import templates, wording
from jobs.report.crop import kind_of
from schemas.vocabulary import COMPUTE_DIRECTIONS, NOT_STATED, OP_TYPES
from udfs.kernel.arrays import Floats
from udfs.two_runs import ReadRun

MOST_LANES: Final = 16
"""Workers of a step that are drawn: all of a small job, else the stages of one dp rank."""
_LOOKED_AT: Final = 4
"""Steps by which the dp rank that computes longest is chosen."""
_WIDTH: Final = 1000.0
_LEAST_WIDTH: Final = 0.3
"""Part of the width, in thousandths, below which an op is not drawn: it could not be seen."""


class Step(NamedTuple):
    """One recorded step of a run: ops of some workers.

    name   : which step, of which unit.
    step_s : its recorded time. [s]
    lanes  : by (stage, dp rank) the name of the worker's host and its ops: type, start and length. [s]
    """

    name: str
    step_s: float
    lanes: Mapping[tuple[int, int], tuple[str, Sequence[tuple[str, float, float]]]]


def usual_step(run: ReadRun, name: str, dp_rank: int | None) -> Step:
    """Read the step that takes about as long as the run's median step.

    name    : of the unit.
    dp_rank : drawn of a job with more than MOST_LANES workers; None: the one that computes longest.
    """
    rows, actual_s = run.rows, run.recorded.actual_s
    at = int(np.argmin(np.abs(actual_s - np.median(actual_s))))
    stages, _, dp_ranks = rows.replayed_row.shape
    if stages * dp_ranks > MOST_LANES:
        drawn = [dp_rank if dp_rank is not None and dp_rank < dp_ranks else slowest(run)]
    else:
        drawn = list(range(dp_ranks))
    lanes = {}
    for stage in range(min(stages, MOST_LANES)):
        for each in drawn:
            (line,) = rows.table.slice(int(rows.replayed_row[stage, at, each]), 1).to_pylist()
            zero_us = float(rows.zero_us[stage, at, each])
            ops = [
                (_name(op), (zero_us + start_us) / 1e6, length_us / 1e6)
                for op, start_us, length_us in zip(
                    line["op"], line["start_us"], line["duration_us"], strict=True
                )
            ]
            lanes[stage, each] = (line["host"] or NOT_STATED, ops)
    return Step(f"{name}, step {int(rows.steps[at])}", float(actual_s[at]), lanes)


def slowest(run: ReadRun) -> int:
    """Dp rank that computes longest, in the stage that computes longest in it."""
    return int(_computing_us(run).max(axis=0).argmax())


def _computing_us(run: ReadRun) -> Floats:
    """Time that each worker computes in the first steps, shape (stage, dp_rank). [us]"""
    rows = run.rows
    found = np.zeros(rows.worker_row.shape)
    for stage, dp_rank in np.ndindex(found.shape):
        for row in rows.replayed_row[stage, :_LOOKED_AT, dp_rank].tolist():
            (line,) = rows.table.slice(row, 1).select(["op", "duration_us"]).to_pylist()
            ops = zip(line["op"], line["duration_us"], strict=True)
            found[stage, dp_rank] += sum(us for op, us in ops if kind_of(_name(op)) in COMPUTE_DIRECTIONS)
    return found


def _name(op: int | str) -> str:
    return op if isinstance(op, str) else OP_TYPES[op]


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
