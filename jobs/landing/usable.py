"""Reduction of a manifest to hosts and steps that occur in rows: GPU types of hosts, iterations of steps.

A manifest of 1 MB may name 30,000 hosts or steps, and every unit of a day has a manifest. The table jobs
stores only hosts and steps that rows refer to, so that the memory of a night depends on its rows and not on
its manifests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs.landing.formats.rows import SCALARS, Rows
from schemas.gpu_types import MOST_TYPES

_HOST, _STEP = SCALARS.index("host"), SCALARS.index("step")


@dataclass
class Used:
    """Hosts and steps of a manifest to which at least one row refers."""

    hosts: set[str] = field(default_factory=set)
    steps: set[int] = field(default_factory=set)

    def add(self, rows: Rows, manifest: Mapping[str, Any]) -> None:
        """Add the hosts and steps of these rows."""
        if types := manifest.get("gpu_types"):
            self.hosts |= {row[_HOST] for row in rows.scalars} & types.keys()
        if iterations := manifest.get("iterations"):
            self.steps |= {row[_STEP] for row in rows.scalars} & iterations.keys()

    def update(self, other: "Used") -> None:
        """Add the hosts and steps in `other`."""
        self.hosts |= other.hosts
        self.steps |= other.steps


def usable(job: Mapping[str, Any], parts: Sequence[Used]) -> dict[str, Any]:
    """Return columns of jobs, reduced to what the rows of all parts use.

    parts : hosts and steps that rows of each part of the unit refer to
    """
    found: dict[str, Any] = {}
    if types := job.get("gpu_types"):
        hosts = set().union(*(each.hosts for each in parts))
        kept = {host: name for host, name in types.items() if host in hosts}
        known, left = set(kept.values()), MOST_TYPES
        for host, name in types.items():  # one host per other type, so that a mixed job remains mixed
            if left and name not in known:
                known.add(name)
                kept[host] = name
                left -= 1
        found["gpu_types"] = kept
    if iterations := job.get("iterations"):
        steps = sorted(set().union(*(each.steps for each in parts)))
        found["iterations"] = {step: iterations[step] for step in steps} or None
    return found
