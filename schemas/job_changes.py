"""job_changes: since which day a job takes longer or loses more, and what else changed then."""

from typing import Final

import pyarrow as pa

from schemas import columns as col
from schemas.table import Column, Expectation, Table, sql_strings
from schemas.vocabulary import CAUSES

OF_STEP: Final = "step time"
OF_LOST: Final = "lost"
NO_CAUSE: Final = "no cause recorded"

JOB_CHANGES: Final = Table(
    "job_changes",
    "One row per job of the day and change of its step time, of what it loses, or of what one cause loses "
    "it, among its days so far: the day itself and revision.days (a setting) before, over all its runs. A "
    "change is a new level that holds from a day on. Three or four days show only a large one (steps that "
    "differ by 5 %), two show none.",
    grain=("log_date", "job_id", "of", "since", "run_id"),
    columns=(
        *col.UNIT[:2],
        Column("since", "first day of the new level", pa.date32()),
        col.text("run_id", "the run that began it"),
        Column("until", "last day of the new level, so far", pa.date32()),
        col.count("days_before", "units that have the level before"),
        col.count("days", "units that have the new level"),
        col.text(
            "of",
            f"what changed: {OF_STEP}, {OF_LOST} (what all causes lose), or what one cause loses",
            allowed=(OF_STEP, OF_LOST, *CAUSES),
        ),
        col.real(
            "before", f"level before; of {OF_STEP} in seconds, else a part of the step", unit="s, fraction"
        ),
        col.real("after", "new level, in the same unit", unit="s, fraction"),
        col.fraction("change", f"of {OF_STEP} relative to before, else after - before"),
        col.text(
            "cause",
            f"the cause whose part of the step makes up at least half of a change of {OF_STEP}, or "
            f"{NO_CAUSE}; null for others",
            nullable=True,
            allowed=(*CAUSES, NO_CAUSE),
        ),
        col.texts(
            "also",
            "what else differs from the day before: run, restarts, hosts, type of GPU, layout, labels",
        ),
    ),
    expectations=(
        Expectation(
            "days_are_in_order",
            "since <= until AND until <= log_date AND days >= 1 AND days_before >= 1",
            "a level has days, none of them after the row's",
        ),
        Expectation(
            "step_times_have_a_cause",
            f"(of = {sql_strings([OF_STEP])}) = (cause IS NOT NULL)",
            f"only changes of {OF_STEP} name a cause, or that none is recorded",
        ),
    ),
)
