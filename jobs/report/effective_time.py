"""Section of a job's page: what its GPU-hours were spent on."""

from typing import Final

from jobs.report import wording
from jobs.report.rows import Row, UnitTables
from jobs.report.section import Section
from schemas.vocabulary import JOB_TIME

_WORDS: Final = {
    "kept": "steps that stayed",
    "lost_work": "steps done again after a restart, or still to be",
    "outage": "outages, from a failure to the next start",
    "startup": "start-ups, until the first step",
    "checkpoint": "checkpoints",
    "unknown": "not known",
}
_KEPT: Final = ("productive", "straggling", "late_start")
"""Parts that are steps that stayed. Of them the chain says what is lost: a page has one figure for it."""


def effective_time(tables: UnitTables) -> Section | None:
    """Return the section of a run that left its events."""
    if not tables.further.get(JOB_TIME):
        return None
    (row,) = tables.further[JOB_TIME]
    scheduled = row["scheduled_gpu_hours"]
    ettr, ideal = (wording.percent(row[name]) for name in ("ettr", "productive_fraction"))
    says = (
        f"Effective training time ratio: {ettr} of {wording.hours(scheduled)} GPU-hours went into steps "
        f"that stayed; {ideal} would have been enough at the paper's ideal: the chain at the top calls "
        f"these productive. {_counted(row)}."
    )
    if row["contradictions"]:
        says += f" Contradictions among its events: {row['contradictions']}; what they concern is not known."
    kept = sum(row[f"{name}_gpu_hours"] for name in _KEPT)
    hours = {name: kept if name == "kept" else row[f"{name}_gpu_hours"] for name in _WORDS}
    texts = [
        (_WORDS[name], wording.hours(part), wording.percent(part / scheduled)) for name, part in hours.items()
    ]
    heads = ("GPU-hours spent on", "GPU-hours", "share")
    return Section("effective-time", "What its GPU-hours were spent on", says, heads, texts)


def _counted(row: Row) -> str:
    names = ("start", "failure", "checkpoint")
    return ", ".join(wording.counted(row[f"{name}s"], name) for name in names)
