"""What the view and the command drain assume: days ahead, cost of draining a host, and the prior."""

from dataclasses import dataclass
from typing import Final

HISTORY_DAYS: Final = 60
"""The last day on which a host is judged lies at most this many days back."""
PRIOR_HOSTS: Final = 4
"""How many hosts the prior counts as, beside those of the fleet's own history."""
AGAIN_ONCE: Final = 0.018
AGAIN_OFTEN: Final = 0.025
"""Daily chance that a host falls back after one spell, and after several: of hosts back from repair for a
day, over the next seven, in a public log of faults. `python -m tests.evaluation.faults` derives them."""
MOST_ENDED: Final = 0.9
"""A host whose slowness ended within a day is healthy if it was slow in at most this share of the steps."""

NO_VERDICT: Final = ("no", "unknown")
"""Verdicts of the view drain that leave a host in service."""


@dataclass(frozen=True)
class DrainTerms:
    """Assumptions about draining a host, by the settings.

    days            : over which a drain has to pay
    restart_minutes : for which all GPUs of a job stand still
    redone_minutes  : of steps that the job does again
    spare_hours     : for which the GPUs of the host serve nothing, or a spare stands in for them
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
