"""Who a generated job is and where it runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

GPUS_PER_HOST: Final = 8


@dataclass(frozen=True)
class JobIdentity:
    """Who the job is, where it runs and when.

    first_t0_us : Unix time at which the first recorded step starts [us]
    recorded_s  : time over which the bursts of recorded steps are spread; None: the steps between them take
                  as long as those recorded
    fields      : further fields of the manifest
    """

    job_id: str = "generated"
    run_id: str = "r0"
    first_step: int = 0
    first_t0_us: int = 1_767_600_000_000_000
    hosts: Sequence[str] = ()
    recorded_s: float | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)

    def host_of(self, rank: int) -> str:
        """Host of a global rank; named by its place where the job has no list of hosts."""
        place = rank // GPUS_PER_HOST
        return self.hosts[place % len(self.hosts)] if self.hosts else f"node-{place:04d}"
