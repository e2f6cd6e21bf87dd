"""The table job_changes: days from which on a job takes longer or loses more, and what else changed then."""

from typing import Final

from schemas import columns as col
from schemas.table import Table, sql_strings
from schemas.vocabulary import CAUSES

OF_STEP: Final = "step time"
OF_LOST: Final = "lost"
NO_CAUSE: Final = "no cause recorded"

JOB_CHANGES: Final = Table(
    "job_changes",
    "One row per job of the day and change of its step time, of its loss, or of its loss to one cause. A "
    "change is a new level that holds from a day on. It is found among the job's units (one run on one day) "
    "of the day and of the revision.days (a setting) before it, over all runs of the job; later days do not "
    "count. Three or four units show only a large change (step times that differ by 5 %), one or two units "
    "show none.",
    grain=("log_date", "job_id", "of", "since", "run_id"),
    columns=col.declared(
        f"""
        log_date, job_id
        since (day): first day of the new level
        run_id (text): the run that began it
        until (day): last day of the new level, up to the log date
        days_before (count): number of units at the level before
        days (count): number of units at the new level
        of (text of OF): what changed: {OF_STEP}, {OF_LOST} (the loss to all causes), or the loss to this
            cause
        before (real [s, fraction]): level before; for {OF_STEP} in seconds, else a part of the step
        after (real [s, fraction]): new level, in the same unit
        change (fraction): for {OF_STEP} (after - before) / before, else after - before
        cause (text? of BESIDE): for a change of {OF_STEP} the cause whose loss accounts for at least half of
            it, or {NO_CAUSE}; null for other changes
        also (text[]): what else differs from the day before: run, restarts, hosts, type of GPU, layout,
            labels
        """,
        own={"OF": (OF_STEP, OF_LOST, *CAUSES), "BESIDE": (*CAUSES, NO_CAUSE)},
    ),
    expectations=col.rules(f"""
        -- both levels have units, and no day of a level is after the log date
        days_are_in_order: since <= until AND until <= log_date AND days >= 1 AND days_before >= 1
        -- exactly the changes of {OF_STEP} have a cause, which may be {NO_CAUSE}
        step_times_have_a_cause: (of = {sql_strings([OF_STEP])}) = (cause IS NOT NULL)
        """),
)
