"""Tables of host health as other tools report it: failed checks, and the failed checks near slow hosts."""

from typing import Final

from schemas import columns as col
from schemas.table import Table
from schemas.vocabulary import HEALTH_OK, UNIT_KEY

EXPLAINS_CHANCE: Final = 0.02
"""A span of a failed check explains a culprit only if its `chance` is at most this."""
LEAST_LIFT: Final = 2.0
"""A span explains a culprit only if its `lift` is at least this."""

MOST_WORSE: Final = 100.0
"""A span explains a culprit unless another span's `chance` is smaller by this factor."""
WITH_IT_S: Final = 120.0
"""A span may begin this long after the culprit became slow, or end this long before, as health is sampled
about once a minute, by other clocks than training's. [s]"""

NO_DEVICE: Final = -1

_OF_SPANS: Final = {
    column.name: column
    for column in col.declared(f"""
        component (text of HEALTH_COMPONENTS): component of the host that was checked
        device (integer >= {NO_DEVICE}): number of the component on the host, as in gpu 3 or port 1;
            {NO_DEVICE}: the host has only one
        check_name (text): name of the check, as the landing's file says
        peer (text): host at the other end of a link; empty if not known, and for other components
        severity (text of HEALTH_SEVERITIES): worst severity of the span's events
        began_before (flag): whether the span had begun before the day's first event, so that first_at is
            only when it was first seen
        is_open (flag): whether no event of the day ends the span, so that last_at is only when it was last
            seen
        """)
}
(_IN_ORDER,) = col.rules("""
    -- no span ends before it begins
    ends_after_it_begins: first_at <= last_at
    """)

HOST_HEALTH: Final = Table(
    "host_health",
    "One row per span in which a check of a host did not pass, from the day's health.jsonl; a check that "
    f"fails again within a short time continues its span. A check that passed has one row with severity "
    f"{HEALTH_OK} for the whole day, which shows that it was done. A day without health.jsonl has no rows.",
    grain=("log_date", "host", "component", "device", "check_name", "peer", "severity", "first_at"),
    columns=col.declared(
        """
        log_date
        host (text): machine, as rank logs name it
        component, device, check_name, peer, severity
        first_at (instant): time of the span's first event
        last_at (instant): time of the span's last event
        began_before, is_open
        events (count): events of the log in this span
        value_min (real? [as stated]): smallest value that its events state; null: they state none
        value_max (real? [as stated]): largest value that its events state; null: they state none
        unit (text?): unit of the values, as stated
        message (text?): first 300 characters of the first message; null: no event has a message
        source_file
        """,
        own=_OF_SPANS,
    ),
    expectations=(
        _IN_ORDER,
        *col.rules("""
            -- no span without an event
            has_events: events >= 1
            -- both values or none, in order
            values_in_order: (value_min IS NULL) = (value_max IS NULL) AND coalesce(value_min <= value_max,
                true)
            """),
    ),
)

CAUSE_EVIDENCE: Final = Table(
    "cause_evidence",
    "One row per culprit of a cause that holds, and span of host_health that was open, or began, when the "
    "culprit became slow. The span is on the culprit's host, on a host that the culprit contains, or at "
    "an end of the culprit's slow link. The row says how often spans of this check occur on slow hosts, "
    "compared with other hosts, on the days that history looks back on, and whether the span explains the "
    "culprit. The span need not be the reason: lift and chance say how likely a coincidence is. Culprits "
    "without times of day, and culprits that are stages or replicas, have no rows.",
    grain=(*UNIT_KEY, "cause", "culprit", "host", "component", "device", "check_name", "peer", "first_at"),
    columns=col.declared(
        f"""
        log_date, job_id, run_id
        cause (text of CAUSES): see job_causes
        culprit (integer >= 0): place of the culprit in job_causes.culprits, from 0
        culprit_host (text?): host of the culprit; null: it has several
        host (text): host of the span
        component, device, check_name, peer, severity
        first_at (instant): when the span began, or was first seen
        last_at (instant): when it ended, or was last seen
        began_before, is_open
        slow_from (instant): when the culprit became slow: its first slow step on the first of the successive
            days on which its run names its hosts for the cause; later if healthy steps came in between
        lead_s (seconds): slow_from less the time at which the span began; below 0 if the span began later,
            which a tolerance allows
        slow_host_days (count): pairs of a slow host and a day, on the days looked back on
        slow_host_days_with (count): slow_host_days on which this check failed
        other_host_days (count): pairs of a host that trained and was not slow, and a day
        other_host_days_with (count): other_host_days on which this check failed
        lift (ratio >= 0): frequency of the failed check on slow hosts over that on other hosts:
            (slow_host_days_with + 1/2) / (slow_host_days + 1) over (other_host_days_with + 1/2) /
            (other_host_days + 1)
        chance (fraction >= 0 <= 1): expected number of unrelated spans, of checks that fail at most as often,
            that are by chance as near to the start of a culprit's slowness; 1 at most
        explains (flag): whether chance is at most {EXPLAINS_CHANCE}, lift at least {LEAST_LIFT:g}, and chance
            less than {MOST_WORSE:g} times that of the culprit's other spans
        """,
        own=_OF_SPANS,
    ),
    expectations=(
        _IN_ORDER,
        *col.rules(f"""
            -- hosts with the span are among all
            counts_are_nested: slow_host_days_with <= slow_host_days AND other_host_days_with <=
                other_host_days
            -- a span that explains a culprit is unlikely to be near it by chance
            explanations_are_unlikely: NOT explains OR (chance <= {EXPLAINS_CHANCE} AND lift >= {LEAST_LIFT})
            """),
    ),
)
