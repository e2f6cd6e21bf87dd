"""What a diagnosis said about one job, read from its tables."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from jobs.synthetic.simulation import LABELS
from schemas.vocabulary import JOB_SLOWDOWN, STATUS_CORRUPT_TRACE
from udfs.errors import TraceError

JOB_CAUSES: Final = "job_causes"
"""Table with one row per cause."""

NO_ANSWER: Final = "no answer"
"""Flag of a cause that the diagnosis has no row for."""

Diagnose = Callable[[pa.Table, Mapping[str, object] | None], Mapping[str, pa.Table]]
"""Rows of rank_steps and the manifest in; tables job_slowdown and job_causes out, as of simulate_job."""

Cell = tuple[int, int]
"""(dp_rank, pp_rank)."""


class NoDiagnosisError(Exception):
    """Raised where what should diagnose gives no table of causes."""


@dataclass(frozen=True)
class Named:
    """A culprit as the diagnosis names it; None stands for all."""

    dp_rank: int | None
    pp_rank: int | None

    def cells(self, dp_size: int, pp_size: int) -> frozenset[Cell]:
        """Cells of a layout that it means."""
        dp_ranks = range(dp_size) if self.dp_rank is None else [self.dp_rank]
        pp_ranks = range(pp_size) if self.pp_rank is None else [self.pp_rank]
        return frozenset((dp_rank, pp_rank) for dp_rank in dp_ranks for pp_rank in pp_ranks)


@dataclass(frozen=True)
class CauseAnswer:
    """What was said about one cause.

    time_saved_fraction : predicted, of the actual step time
    is_cause            : the label
    flag                : why not to trust it; None
    culprits            : worst first
    """

    time_saved_fraction: float
    is_cause: bool
    flag: str | None
    culprits: tuple[Named, ...] = ()


@dataclass(frozen=True)
class Indicators:
    """The paper's S (Eq. 1), M_W (Eq. 5), M_S and correlation of a job; None where they do not exist."""

    slowdown: float | None = None
    slow_worker_share: float | None = None
    last_stage_share: float | None = None
    correlation: float | None = None


@dataclass(frozen=True)
class DiagnosedJob:
    """What was said about a job.

    status        : of the unit in job_slowdown, or corrupt_trace where it was refused
    actual_step_s : recorded step time, T_actual [s]; None where the unit was not replayed
    causes        : by cause, those in LABELS
    is_flagged    : whether any row has a flag, that of unexplained time among them
    """

    status: str
    actual_step_s: float | None
    indicators: Indicators
    causes: Mapping[str, CauseAnswer]
    is_flagged: bool


def diagnosed(diagnose: Diagnose, rank_steps: pa.Table, manifest: Mapping[str, object]) -> DiagnosedJob:
    """Let a job be diagnosed; a trace that is refused is an answer too, without causes.

    raises : NoDiagnosisError where there is no table of causes.
    """
    try:
        tables = diagnose(rank_steps, manifest)
    except TraceError:
        return DiagnosedJob(STATUS_CORRUPT_TRACE, None, Indicators(), _answers([]), is_flagged=True)
    if JOB_CAUSES not in tables:
        raise NoDiagnosisError(f"the simulation gives no table {JOB_CAUSES}: there is nothing to evaluate")
    (job,) = tables[JOB_SLOWDOWN].to_pylist()
    rows = tables[JOB_CAUSES].to_pylist()
    answers = _answers(rows)
    is_flagged = any(row["flag_reason"] is not None for row in rows)
    return DiagnosedJob(
        status=job["status"],
        actual_step_s=job["actual_step_s"],
        indicators=Indicators(
            job["slowdown"],
            job["slow_worker_share"],
            job["last_stage_share"],
            job["forward_backward_correlation"],
        ),
        causes=answers,
        is_flagged=is_flagged or any(answer.flag is not None for answer in answers.values()),
    )


def _answers(rows: Iterable[Mapping[str, Any]]) -> dict[str, CauseAnswer]:
    """Answers by cause; a cause without a row saves nothing, is no label and is flagged."""
    given = {row["cause"]: row for row in rows}
    return {
        cause: _answer(given[cause]) if cause in given else CauseAnswer(0.0, is_cause=False, flag=NO_ANSWER)
        for cause in LABELS
    }


def _answer(row: Mapping[str, Any]) -> CauseAnswer:
    saved = row["time_saved_fraction"]
    return CauseAnswer(
        time_saved_fraction=0.0 if saved is None else float(saved),
        is_cause=bool(row["is_cause"]),
        flag=NO_ANSWER if saved is None and row["flag_reason"] is None else row["flag_reason"],
        culprits=tuple(Named(each["dp_rank"], each["pp_rank"]) for each in row["culprits"] or ()),
    )
