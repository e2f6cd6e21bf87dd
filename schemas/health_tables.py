"""What others know of hosts: host_health, spans of checks; cause_evidence, those beside culprits."""

from typing import Final

from schemas import columns as col
from schemas.table import Expectation, Table
from schemas.vocabulary import CAUSES, HEALTH_COMPONENTS, HEALTH_OK, HEALTH_SEVERITIES, UNIT_KEY

EXPLAINS_CHANCE: Final = 0.02
"""A span explains a culprit where chance alone puts such a one beside it this rarely, or more rarely."""
LEAST_LIFT: Final = 2.0
"""And where it stands beside slow hosts this many times as often as beside others."""

MOST_WORSE: Final = 100.0
"""And where no other span explains it by so much better."""
WITH_IT_S: Final = 120.0
"""A span that begins this much later than the culprit was slow, or has ended this much earlier, is with it:
health is scraped once a minute or so, by other clocks than training's. [s]"""

NO_DEVICE: Final = -1
_AS_STATED: Final = "as stated"

_CHECK: Final = (
    col.text("component", "what was checked", allowed=HEALTH_COMPONENTS),
    col.integer(
        "device",
        f"its number on the host, as gpu 3 or port 1; {NO_DEVICE}: not one of several",
        minimum=NO_DEVICE,
    ),
    col.text("check_name", "name of the check, as the landing's file says"),
)
_SEVERITY: Final = col.text("severity", "the worst of its events", allowed=HEALTH_SEVERITIES)
_BEGAN_BEFORE: Final = col.flag(
    "began_before", "it was going on before the day's first event of it: first_at is only when it was seen"
)
_IS_OPEN: Final = col.flag("is_open", "the day has no end of it: last_at is only when it was last seen")
_PEER: Final = col.text("peer", "host at the other end of a link; empty if it is none, or not known")
_IN_ORDER: Final = Expectation("ends_after_it_begins", "first_at <= last_at", "no span ends before it begins")

HOST_HEALTH: Final = Table(
    "host_health",
    "One row per span in which a check of a host did not pass, from the day's health.jsonl: events that flap "
    "are folded into one span, which counts them. Where a check passed, one row with severity "
    f"{HEALTH_OK} for the whole day: the check was watched. A day without such a file has no rows.",
    grain=("log_date", "host", "component", "device", "check_name", "peer", "severity", "first_at"),
    columns=(
        col.LOG_DATE,
        col.text("host", "machine, as rank logs name it"),
        *_CHECK,
        _PEER,
        _SEVERITY,
        col.instant("first_at", "time of its first event"),
        col.instant("last_at", "time of its last event"),
        _BEGAN_BEFORE,
        _IS_OPEN,
        col.count("events", "events of the log that it was made of"),
        col.real("value_min", "smallest value stated; null: none", unit=_AS_STATED, nullable=True),
        col.real("value_max", "largest value stated; null: none", unit=_AS_STATED, nullable=True),
        col.text("unit", "unit of the values, as stated", nullable=True),
        col.text("message", "the first message, its first 300 characters", nullable=True),
        col.SOURCE_FILE,
    ),
    expectations=(
        _IN_ORDER,
        Expectation("has_events", "events >= 1", "no span without an event"),
        Expectation(
            "values_in_order",
            "(value_min IS NULL) = (value_max IS NULL) AND coalesce(value_min <= value_max, true)",
            "both values or none, in order",
        ),
    ),
)

CAUSE_EVIDENCE: Final = Table(
    "cause_evidence",
    "One row per culprit of a cause that holds and span of host_health beside it: on its host, on a host "
    "that it holds, or at an end of its link; begun before the culprit was slow, or with it, and not ended "
    "by then. Says how often such spans stand beside hosts that are slow, against others, over the days that "
    "history looks back on, and whether it explains the culprit. Beside is not because: lift and chance say "
    "how far coincidence goes. Culprits without times of day, and stages or replicas, have no rows.",
    grain=(*UNIT_KEY, "cause", "culprit", "host", "component", "device", "check_name", "peer", "first_at"),
    columns=(
        *col.UNIT,
        col.text("cause", "see job_causes", allowed=CAUSES),
        col.integer("culprit", "its place in job_causes.culprits, from 0", minimum=0),
        col.text("culprit_host", "its host, slow or that of its worker; null: several", nullable=True),
        col.text("host", "host of the span"),
        *_CHECK,
        _PEER,
        _SEVERITY,
        col.instant("first_at", "when the span began, or was first seen"),
        col.instant("last_at", "when it ended, or was last seen"),
        _BEGAN_BEFORE,
        _IS_OPEN,
        col.instant("slow_from", "when the culprit was first slow"),
        col.seconds(
            "lead_s", "by how much the span began earlier; below 0: so much later, within the tolerance"
        ),
        col.count("slow_host_days", "hosts that were slow, by day, over the days looked back on"),
        col.count("slow_host_days_with", "of these, with a span of this check"),
        col.count("other_host_days", "hosts that trained and were not slow, by day"),
        col.count("other_host_days_with", "of these, with a span of this check"),
        col.ratio(
            "lift",
            "how often the check fails on slow hosts against others: (slow_host_days_with + 1/2) / "
            "(slow_host_days + 1) over (other_host_days_with + 1/2) / (other_host_days + 1)",
            minimum=0,
        ),
        col.fraction(
            "chance",
            "how many spans that have nothing to do with it, of checks that fail as rarely, stand so near a "
            "culprit by chance; 1 at most",
            minimum=0,
            maximum=1,
        ),
        col.flag(
            "explains",
            f"chance is at most {EXPLAINS_CHANCE} and lift at least {LEAST_LIFT:g}, and no other span of the "
            f"culprit has a chance {MOST_WORSE:g} times as small",
        ),
    ),
    expectations=(
        _IN_ORDER,
        Expectation(
            "counts_are_nested",
            "slow_host_days_with <= slow_host_days AND other_host_days_with <= other_host_days",
            "hosts with the span are among all",
        ),
        Expectation(
            "explanations_are_unlikely",
            f"NOT explains OR (chance <= {EXPLAINS_CHANCE} AND lift >= {LEAST_LIFT})",
            "what chance explains as well does not explain",
        ),
    ),
)
