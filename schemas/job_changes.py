"""job_changes: days from which on a job takes longer or loses more, and what else changed on these days."""

from typing import Final

from schemas import columns as col
from schemas.table import Table, sql_strings
from schemas.vocabulary import CAUSES

OF_STEP: Final = "step time"
OF_LOST: Final = "lost"
NO_CAUSE: Final = "no cause recorded"

JOB_CHANGES: Final = Table(
    "job_changes",
    "One row per job of the day and change of its step time, of its loss, or of its loss to one cause. The "
    "days compared are the day itself and revision.days (a setting) before it, over all runs of the job. A "
    "change is a new level that holds from a day on. Three or four units, days of a run, show only a large "
    "one (steps that differ by 5 %), two show none; a day with two runs has two. No later day counts.",
    grain=("log_date", "job_id", "of", "since", "run_id"),
    columns=col.declared(
        f"""
        log_date, job_id
        since (day): first day of the new level
        run_id (text): the run that began it
        until (day): last day of the new level, so far
        days_before (count): units that have the level before
        days (count): units that have the new level
        of (text of OF): what changed: {OF_STEP}, {OF_LOST} (what all causes lose), or what one cause loses
        before (real [s, fraction]): level before; for {OF_STEP} in seconds, else a part of the step
        after (real [s, fraction]): new level, in the same unit
        change (fraction): for {OF_STEP} relative to before, else after - before
        cause (text? of BESIDE): the cause whose part of the step makes up at least half of a change of
            {OF_STEP}, or {NO_CAUSE}; null for others
        also (text[]): other differences from the day before: run, restarts, hosts, type of GPU, layout,
            labels
        """,
        own={"OF": (OF_STEP, OF_LOST, *CAUSES), "BESIDE": (*CAUSES, NO_CAUSE)},
    ),
    expectations=col.rules(f"""
        -- a level has days, none of them after the row's
        days_are_in_order: since <= until AND until <= log_date AND days >= 1 AND days_before >= 1
        -- only changes of {OF_STEP} name a cause, or that none is recorded
        step_times_have_a_cause: (of = {sql_strings([OF_STEP])}) = (cause IS NOT NULL)
        """),
)
