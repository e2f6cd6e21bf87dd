"""Tables of runs in progress: live_slowdown (the latest window) and live_causes (begin and end of causes).

Preliminary: no publication, sum or fingerprint has their rows, and the night reads none of them.
"""

from dataclasses import replace
from typing import Final

from schemas import columns as col
from schemas.job_causes import CULPRIT_RULES, CULPRITS
from schemas.table import Table
from schemas.vocabulary import UNIT_KEY

LIVE_SLOWDOWN: Final = Table(
    "live_slowdown",
    "One row per run whose day is not finished: its last window of complete steps, replayed as a night does. "
    "Preliminary: it is replaced while the run goes on, and the night computes the day anew. It has no "
    "GPU-hours, which a manifest states for the whole day.",
    grain=UNIT_KEY,
    columns=col.declared("""
        log_date, job_id, run_id
        status (text of STATUSES): how far the analysis of the window came, as in job_slowdown
        status_detail (text?): facts behind the status, in a line; null: no facts are needed
        steps (count): steps of the window that were replayed; 0 if none was
        first_step (integer?): first step of the window; null without any
        last_step (integer?): last step of the window; null without any
        first_time (instant?): when its first step began; null without any
        last_time (instant?): when its last step began; null without any
        actual_step_s (seconds? >= 0): as in job_slowdown, of the window
        slowdown (ratio?): as in job_slowdown, of the window; null unless replayed
        lost_fraction (share? >= 0): what the causes lose together, over the window's recorded time; null
            unless it is analysed
        world_size (size?): ranks of the run, from the manifest
        rejects (count): lines of the window that were rejected; an unfinished last line does not count
        simulator_version (text): version of the simulator that replayed the window
        log_bytes (text -> integer): bytes of each rank log, by name, when the window was read: a run is read
            again once all of them differ
        """),
    expectations=col.rules("""
        -- first step before the last
        steps_in_order: coalesce(first_step <= last_step, true)
        """),
)

LIVE_CAUSES: Final = Table(
    "live_causes",
    "One row per cause that began in a run whose day is not finished, from its beginning to its end, as the "
    "windows of live_slowdown show it; a cause that ended and began again has two rows. It begins in the "
    "first window in which it holds and loses enough, and ends in the first in which it does not hold; a "
    "window that cannot be analysed changes nothing. If a run continues over midnight, a cause that still "
    "holds continues in rows of the new day.",
    grain=(*UNIT_KEY, "cause", "first_step"),
    columns=(
        *col.declared(
            """
            log_date, job_id, run_id
            cause (text of FIXABLE_CAUSES): as in job_causes
            first_step (integer): step in which the culprits were first slow in the window where the cause
                began, else that window's first step
            first_time (instant?): when that step began; null where the log has no times of day
            last_step (integer): step in which it was last seen; before first_step if the run went back since
            last_time (instant?): when that step began; null where the log has no times of day
            is_now (flag): whether the cause holds in the last window that was analysed
            lost_fraction (share >= 0): as in job_causes, in the last window in which it held
            """,
        ),
        replace(CULPRITS, meaning="as in job_causes, in the last window in which it held"),
        *col.declared("""
            is_warned (flag): whether a warning was sent for its beginning or, once is_now is false, for its
                end
            """),
    ),
    expectations=CULPRIT_RULES,
)
