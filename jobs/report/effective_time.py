"""Section of a job's page: what its GPU-hours were spent on."""

from typing import Final

from jobs.report import wording
from jobs.report.rows import Row, UnitTables
from jobs.report.section import Section
from schemas.vocabulary import JOB_TIME

_WORDS: Final = {
    "productive": "training at ideal speed",
    "straggling": "stragglers",
    "late_start": "late starts",
    "lost_work": "steps done again after a restart, or still to be",
    "outage": "outages, from a failure to the next start",
    "startup": "start-ups, until the first step",
    "checkpoint": "checkpoints",
    "unknown": "not known",
}


def effective_time(tables: UnitTables) -> Section | None:
    """Return the section of a run that left its events."""
    if not tables.further.get(JOB_TIME):
        return None
    (row,) = tables.further[JOB_TIME]
    scheduled = row["scheduled_gpu_hours"]
    ettr, ideal = (wording.percent(row[name]) for name in ("ettr", "productive_fraction"))
    says = (
        f"Effective training time ratio: {ettr} of {wording.hours(scheduled)} GPU-hours went into steps "
        f"that stayed; {ideal} would have been enough at ideal speed. {_counted(row)}."
    )
    if row["contradictions"]:
        says += f" Contradictions among its events: {row['contradictions']}; what they concern is not known."
    hours = {name: row[f"{name}_gpu_hours"] for name in _WORDS}
    texts = [
        (_WORDS[name], wording.hours(part), wording.percent(part / scheduled)) for name, part in hours.items()
    ]
    heads = ("GPU-hours spent on", "GPU-hours", "share")
    return Section("effective-time", "What its GPU-hours were spent on", says, heads, texts)


def _counted(row: Row) -> str:
    names = ("start", "failure", "checkpoint")
    return ", ".join(wording.counted(row[f"{name}s"], name) for name in names)
