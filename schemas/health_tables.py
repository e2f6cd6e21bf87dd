"""Tables of host health from other sources: failed checks (host_health), and those near slow hosts."""

from typing import Final

from schemas import columns as col
from schemas.table import Table
from schemas.vocabulary import HEALTH_OK, UNIT_KEY

EXPLAINS_CHANCE: Final = 0.02
"""A span explains a culprit if its `chance` is at most this."""
LEAST_LIFT: Final = 2.0
"""A span explains a culprit if such spans are this many times as frequent on slow hosts as on others."""

MOST_WORSE: Final = 100.0
"""A span explains a culprit unless another span's `chance` is smaller by this factor."""
WITH_IT_S: Final = 120.0
"""Tolerance for a span that begins after the culprit was slow, or ended before: health is scraped about once
a minute, by other clocks than training's. [s]"""

NO_DEVICE: Final = -1

_OF_SPANS: Final = {
    column.name: column
    for column in col.declared(f"""
        component (text of HEALTH_COMPONENTS): component of the host that was checked
        device (integer >= {NO_DEVICE}): number of the component on the host, as in gpu 3 or port 1;
            {NO_DEVICE}: the host has only one
        check_name (text): name of the check, as the landing's file says
        peer (text): host at the other end of a link; empty for other components, and if not known
        severity (text of HEALTH_SEVERITIES): worst severity of the span's events
        began_before (flag): whether the span had begun before the day's first event; first_at is then only
            when it was first seen
        is_open (flag): whether no event of the day ends the span; last_at is then only when it was last seen
        """)
}
(_IN_ORDER,) = col.rules("""
    -- no span ends before it begins
    ends_after_it_begins: first_at <= last_at
    """)

HOST_HEALTH: Final = Table(
    "host_health",
    "One row per span in which a check of a host did not pass, from the day's health.jsonl; a check that "
    "fails again within a short time continues its span. Where a check passed, one row with severity "
    f"{HEALTH_OK} for the whole day: the check was watched. A day without such a file has no rows.",
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
        value_min (real? [as stated]): smallest value stated; null: none
        value_max (real? [as stated]): largest value stated; null: none
        unit (text?): unit of the values, as stated
        message (text?): the first message, its first 300 characters
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
    "One row per culprit of a cause that holds and span of host_health on the culprit's host, on a host that "
    "the culprit contains, or at an end of the culprit's slow link, if the span was open when the culprit "
    "became slow, or began with it. Says how often such spans occur on slow hosts, compared with others, "
    "over the days that history looks back on, and whether the span explains the culprit. A span need not "
    "be the reason: lift and chance say how likely a coincidence is. Culprits without times of day, and "
    "stages or replicas, have no rows.",
    grain=(*UNIT_KEY, "cause", "culprit", "host", "component", "device", "check_name", "peer", "first_at"),
    columns=col.declared(
        f"""
        log_date, job_id, run_id
        cause (text of CAUSES): see job_causes
        culprit (integer >= 0): place of the culprit in job_causes.culprits, from 0
        culprit_host (text?): host of the culprit; null: several
        host (text): host of the span
        component, device, check_name, peer, severity
        first_at (instant): when the span began, or was first seen
        last_at (instant): when it ended, or was last seen
        began_before, is_open
        slow_from (instant): when the culprit was first slow, on the first of the days in a row on which its
            run named its hosts for the cause; later if it was slow anew after healthy steps
        lead_s (seconds): by how much the span began earlier; below 0: later by that much, within the
            tolerance
        slow_host_days (count): hosts that were slow, by day, over the days looked back on
        slow_host_days_with (count): slow_host_days with a span of this check
        other_host_days (count): hosts that trained and were not slow, by day
        other_host_days_with (count): other_host_days with a span of this check
        lift (ratio >= 0): how often the check fails on slow hosts against others: (slow_host_days_with +
            1/2) / (slow_host_days + 1) over (other_host_days_with + 1/2) / (other_host_days + 1)
        chance (fraction >= 0 <= 1): how many unrelated spans, of checks that fail as rarely, are this near a
            culprit by chance; 1 at most
        explains (flag): whether chance is at most {EXPLAINS_CHANCE} and lift at least {LEAST_LIFT:g}, and no
            other span of the culprit has a chance {MOST_WORSE:g} times as small
        """,
        own=_OF_SPANS,
    ),
    expectations=(
        _IN_ORDER,
        *col.rules(f"""
            -- hosts with the span are among all
            counts_are_nested: slow_host_days_with <= slow_host_days AND other_host_days_with <=
                other_host_days
            -- what chance explains as well does not explain
            explanations_are_unlikely: NOT explains OR (chance <= {EXPLAINS_CHANCE} AND lift >= {LEAST_LIFT})
            """),
    ),
)
