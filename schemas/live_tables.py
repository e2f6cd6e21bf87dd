"""Runs in progress: live_slowdown, the last window of each; live_causes, what began and ended in them.

Preliminary: no publication, sum or fingerprint has their rows, and the night reads none of them.
"""

from dataclasses import replace
from typing import Final

import pyarrow as pa

from schemas import columns as col
from schemas.job_causes import CULPRIT_RULES, CULPRITS
from schemas.table import Column, Expectation, Table
from schemas.vocabulary import CAUSE_UNEXPLAINED, CAUSES, STATUSES, UNIT_KEY

_IN_ORDER: Final = Expectation(
    "steps_in_order", "coalesce(first_step <= last_step, true)", "first step before the last"
)

LIVE_SLOWDOWN: Final = Table(
    "live_slowdown",
    "One row per run whose day is not finished: its last window of complete steps, replayed as a night does. "
    "Preliminary: it is replaced while the run goes on, and the night computes the day anew. Without "
    "GPU-hours, which a manifest states for the whole day.",
    grain=UNIT_KEY,
    columns=(
        *col.UNIT,
        col.text("status", "how far the analysis of the window came, as in job_slowdown", allowed=STATUSES),
        col.text("status_detail", "the facts behind the status, in a line; null: none needed", nullable=True),
        col.count("steps", "steps of the window that were replayed; 0 where none was"),
        col.integer("first_step", "first step of the window; null without any", nullable=True),
        col.integer("last_step", "last step of the window; null without any", nullable=True),
        col.instant("first_time", "when its first step began; null without any", nullable=True),
        col.instant("last_time", "when its last step began; null without any", nullable=True),
        col.seconds("actual_step_s", "as in job_slowdown, of the window", nullable=True, minimum=0),
        col.ratio("slowdown", "as in job_slowdown, of the window; null unless replayed", nullable=True),
        col.share(
            "lost_fraction",
            "what the causes lose together, over the window's recorded time; null unless it is analysed",
            nullable=True,
            minimum=0,
        ),
        col.size("world_size", "ranks of the run, from the manifest", nullable=True),
        col.count("rejects", "lines of the window that were rejected; an unfinished last line is none"),
        col.text("simulator_version", "version of the simulator that replayed the window"),
        Column(
            "log_bytes",
            "bytes of each rank log, by name, when the window was read: a run is read again once all of "
            "them differ",
            pa.map_(pa.string(), pa.int64()),
        ),
    ),
    expectations=(_IN_ORDER,),
)

LIVE_CAUSES: Final = Table(
    "live_causes",
    "One row per cause that began in a run whose day is not finished, from its begin to its end, as the "
    "windows of live_slowdown show it: one that ended and began again has two rows. It begins in the first "
    "window in which it holds and loses enough, and ends in the first in which it does not hold; a window "
    "that cannot be analysed changes nothing. Where a run goes on over midnight, what holds goes on in rows "
    "of the new day.",
    grain=(*UNIT_KEY, "cause", "first_step"),
    columns=(
        *col.UNIT,
        col.text(
            "cause", "as in job_causes", allowed=tuple(name for name in CAUSES if name != CAUSE_UNEXPLAINED)
        ),
        col.integer(
            "first_step",
            "in which its culprits were first slow in the window where it began, else that window's first",
        ),
        col.instant(
            "first_time", "when that step began; null where the log has no times of day", nullable=True
        ),
        col.integer(
            "last_step", "step in which it was last seen; before first_step where the run went back since"
        ),
        col.instant("last_time", "when that step began; null likewise", nullable=True),
        col.flag("is_now", "it holds in the last window that was analysed"),
        col.share("lost_fraction", "as in job_causes, in the last window in which it held", minimum=0),
        replace(CULPRITS, meaning="as in job_causes, in the last window in which it held"),
        col.flag(
            "is_warned",
            "its begin, or once is_now is false its end, has been warned of",
        ),
    ),
    expectations=CULPRIT_RULES,
)
