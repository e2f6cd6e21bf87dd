"""Assumptions of the view drain and its command: days ahead, cost of a drain, and prior for slow hosts."""

from dataclasses import dataclass
from typing import Final

HISTORY_DAYS: Final = 60
"""Hosts are judged by this many days up to the last day with results."""
PRIOR_HOSTS: Final = 4
"""Number of hosts of the fleet's history that have as much weight as the prior."""
AGAIN_ONCE: Final = 0.018
AGAIN_OFTEN: Final = 0.025
"""Daily probability that a host that was slow once, or several times, becomes slow again. In a public log of
faults, this was the rate of new faults of repaired hosts, from one to eight days after the repair;
`python -m tests.evaluation.faults` computes it."""
MOST_ENDED: Final = 0.9
"""A host whose slowness ended within a day counts as healthy if it was slow in at most this share of the
day's steps."""

NO_VERDICT: Final = ("no", "unknown")
"""Verdicts of the view drain that leave a host in service."""


@dataclass(frozen=True)
class DrainTerms:
    """Assumptions about draining a host, which the section [drain] of the settings states.

    days            : number of days within which a drain has to pay off
    restart_minutes : time for which all GPUs of a job stand still
    redone_minutes  : time of the steps that the job does again
    spare_hours     : time for which the host's GPUs serve no job, or a spare host replaces them
    """

    days: int = 7
    restart_minutes: float = 15.0
    redone_minutes: float = 15.0
    spare_hours: float = 24.0

    @property
    def words(self) -> dict[str, str]:
        """Values for the placeholders in views/drain.sql."""
        return {
            "history_days": str(HISTORY_DAYS),
            "drain_days": str(self.days),
            "restart_minutes": repr(float(self.restart_minutes)),
            "redone_minutes": repr(float(self.redone_minutes)),
            "spare_hours": repr(float(self.spare_hours)),
            "prior_hosts": repr(float(PRIOR_HOSTS)),
            "most_ended": repr(MOST_ENDED),
            "again_once": repr(AGAIN_ONCE),
            "again_often": repr(AGAIN_OFTEN),
        }
