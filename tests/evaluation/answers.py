"""What a diagnosis said about one job, read from its tables."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from jobs.synthetic.conditions import Cell
from jobs.synthetic.simulation import LABELS
from schemas.vocabulary import JOB_CAUSES, JOB_SLOWDOWN, STATUS_CORRUPT_TRACE
from udfs.errors import TraceError

NO_ANSWER: Final = "no answer"
"""Flag of a cause that the diagnosis has no row for."""

Row = dict[str, Any]
Diagnose = Callable[[pa.Table, Mapping[str, object] | None], Mapping[str, pa.Table]]
"""Rows of rank_steps and the manifest in; tables job_slowdown and job_causes out, as of simulate_job."""


@dataclass(frozen=True)
class DiagnosedJob:
    """What was said about a job.

    job    : row of job_slowdown; of a trace that was refused its status alone
    causes : rows of job_causes, by cause; none of a trace that was refused
    """

    job: Row
    causes: Mapping[str, Row]

    @property
    def is_flagged(self) -> bool:
        """Whether any cause has a flag, the unexplained rest among them."""
        return any(self.answer(cause)["flag"] is not None for cause in {*LABELS, *self.causes})

    def answer(self, cause: str) -> Row:
        """Columns predicted, is_cause and flag; a cause without a row saves nothing and is no label."""
        row = self.causes.get(cause, {})
        saved = row.get("time_saved_fraction")
        return {
            "predicted": saved or 0.0,
            "is_cause": bool(row.get("is_cause")),
            "flag": row.get("flag_reason") or (NO_ANSWER if saved is None else None),
        }

    def worst_cells(self, cause: str, dp_size: int, pp_size: int) -> frozenset[Cell]:
        """Cells that the culprit named worst stands for: null is all of them. Empty where none is named."""
        culprits = self.causes.get(cause, {}).get("culprits") or []
        return frozenset(
            (dp_rank, pp_rank)
            for worst in culprits[:1]
            for dp_rank in (range(dp_size) if worst["dp_rank"] is None else [worst["dp_rank"]])
            for pp_rank in (range(pp_size) if worst["pp_rank"] is None else [worst["pp_rank"]])
        )


def diagnosed(diagnose: Diagnose, rank_steps: pa.Table, manifest: Mapping[str, object]) -> DiagnosedJob:
    """Let a job be diagnosed; a trace that is refused is an answer too, without causes."""
    try:
        tables = diagnose(rank_steps, manifest)
    except TraceError:
        return DiagnosedJob({"status": STATUS_CORRUPT_TRACE}, {})
    (job,) = tables[JOB_SLOWDOWN].to_pylist()
    return DiagnosedJob(job, {row["cause"]: row for row in tables[JOB_CAUSES].to_pylist()})
