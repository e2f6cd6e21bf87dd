"""Tables of runs in progress: live_slowdown (the latest window of steps) and live_causes (causes that began).

Their rows are preliminary: they are in no publication, sum or fingerprint, and no night reads them.
"""

from dataclasses import replace
from typing import Final

from schemas import columns as col
from schemas.job_causes import CULPRIT_RULES, CULPRITS
from schemas.table import Table
from schemas.vocabulary import UNIT_KEY

LIVE_SLOWDOWN: Final = Table(
    "live_slowdown",
    "One row per run whose day is not finished, with the results of its last window of complete steps, "
    "replayed as a night would. The row is preliminary: each round replaces it, and the night computes the "
    "whole day. It has no GPU-hours, because manifests state these for the whole day.",
    grain=UNIT_KEY,
    columns=col.declared("""
        log_date, job_id, run_id
        status (text of STATUSES): how far the analysis of the window came, as in job_slowdown
        status_detail (text?): facts behind the status, in a line; null: no facts are needed
        steps (count): steps of the window that were replayed; 0 if it was not replayed
        first_step (integer?): first step of the window; null if it has no steps
        last_step (integer?): last step of the window; null if it has no steps
        first_time (instant?): when the first step began; null if the window has no steps
        last_time (instant?): when the last step began; null if the window has no steps
        actual_step_s (seconds? >= 0): as in job_slowdown, of the window
        slowdown (ratio?): as in job_slowdown, of the window; null unless replayed
        lost_fraction (share? >= 0): part of the window's recorded time that is lost to all causes; null
            unless the window is analysed
        world_size (size?): ranks of the run, from the manifest
        rejects (count): lines of the window that were rejected; an unfinished last line does not count
        simulator_version (text): version of the simulator that replayed the window
        log_bytes (text -> integer): size of each rank log, by name, when the window was read; a run is read
            again once the sizes of all its rank logs differ from these
        """),
    expectations=col.rules("""
        -- first_step <= last_step
        steps_in_order: coalesce(first_step <= last_step, true)
        """),
)

LIVE_CAUSES: Final = Table(
    "live_causes",
    "One row per cause that began in a run whose day is not finished, with the beginning and the end that "
    "the windows of live_slowdown show; a cause that ended and began again has two rows. A cause begins in "
    "the first window in which it holds and loses enough, and ends in the first later window in which it "
    "does not hold; windows that cannot be analysed count as neither. If the run continues over midnight, a "
    "cause that still holds gets a row of the new day.",
    grain=(*UNIT_KEY, "cause", "first_step"),
    columns=(
        *col.declared(
            """
            log_date, job_id, run_id
            cause (text of FIXABLE_CAUSES): as in job_causes
            first_step (integer): first slow step of the culprits in the window in which the cause began; if
                not known, the first step of that window
            first_time (instant?): when first_step began; null if the log has no times of day
            last_step (integer): last step in which the cause was seen; before first_step if the run has since
                restarted from an earlier step
            last_time (instant?): when last_step began; null if the log has no times of day
            is_now (flag): whether the cause holds in the last window that was analysed
            lost_fraction (share >= 0): as in job_causes, in the last window in which the cause held
            """,
        ),
        replace(CULPRITS, meaning="as in job_causes, in the last window in which the cause held"),
        *col.declared("""
            is_warned (flag): whether a warning was sent: of the cause's beginning while is_now is true, then
                of its end
            """),
    ),
    expectations=CULPRIT_RULES,
)
