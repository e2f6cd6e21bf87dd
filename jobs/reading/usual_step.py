"""Choice of the step whose recorded time is closest to a run's median, and of the ops to draw of it."""

from typing import Final

import numpy as np

from jobs.report.diff_page import Step
from schemas.vocabulary import NOT_STATED, OP_TYPES
from udfs.two_runs import ReadRun

MOST_LANES: Final = 16
"""Most workers of a step that are drawn: all of a small job, else those of one dp rank."""
_LOOKED_AT: Final = 4
"""Number of first steps in which compute times are summed, to find the dp rank that computes longest."""
_COMPUTES: Final = ("forward-compute", "backward-compute")


def usual_step(run: ReadRun, name: str, dp_rank: int | None) -> Step:
    """Return the recorded step whose duration is closest to the run's median step.

    name    : of the run, for the title of the step.
    dp_rank : which dp rank to draw if the run has more than MOST_LANES workers; None for the one that
              computes longest.
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
    """Return the dp rank of the worker that computes longest, in the first steps of the run."""
    rows = run.rows
    computing_us = np.zeros(rows.worker_row.shape)  # of each worker, shape (stage, dp_rank)
    for stage, dp_rank in np.ndindex(computing_us.shape):
        for row in rows.replayed_row[stage, :_LOOKED_AT, dp_rank].tolist():
            (line,) = rows.table.slice(row, 1).select(["op", "duration_us"]).to_pylist()
            ops = zip(line["op"], line["duration_us"], strict=True)
            computing_us[stage, dp_rank] += sum(us for op, us in ops if _name(op) in _COMPUTES)
    return int(computing_us.max(axis=0).argmax())


def _name(op: int | str) -> str:
    return op if isinstance(op, str) else OP_TYPES[op]
