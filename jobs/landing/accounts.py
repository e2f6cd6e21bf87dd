"""The part of a unit that one task reads, and its account of what it found."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from jobs.landing.files import EVENTS, LOGS, MANIFEST, META, LandedFile
from jobs.landing.formats.rows import MOST_TYPE_TEXT, Bounds
from schemas.unit import Unit

CONTRADICTORY: Final = "hosts whose lines state several gpu_types"
"""In `left_out` of the table jobs."""

LEFT_OUT_TYPES: Final = "hosts with a gpu_type: more than a run can have"
"""In `left_out` likewise."""

Keys = dict[tuple[int, int], str]
"""(rank, step) of every row of a unit, and the file that it came from."""


class FileAccount(NamedTuple):
    """The account of a file.

    digest : SHA-256 of its contents; None if it was not read to its end
    lines : number of lines that are not blank; None for a file without lines, or not readable
    """

    file: LandedFile
    digest: str | None
    lines: int | None = None
    rows: int = 0
    rejects: int = 0


@dataclass
class UnitPart:
    """The files of a unit that one task reads.

    manifests : job.json first, then the meta-*.yaml
    evidence : files beside the logs about the last ranks of collectives
    events : what happened to the run: a file at most of each name
    surplus : files beyond the limit of a unit
    is_first : whether this part gives the row of jobs, and the accounts of the manifests
    taken : rows that other parts already have
    """

    unit: Unit
    manifests: Sequence[LandedFile]
    logs: Sequence[LandedFile]
    evidence: Sequence[LandedFile] = ()
    events: Sequence[LandedFile] = ()
    surplus: Sequence[LandedFile] = ()
    is_first: bool = True
    is_only: bool = True
    taken: Keys = field(default_factory=dict)

    @property
    def is_foreign(self) -> bool:
        """Whether another tool wrote the logs, so that they are read together."""
        return any(file.is_log_of_other_tool for file in self.logs)


@dataclass
class UnitAccount:
    """The account of a part of a unit: `job` is its row of jobs, without the key.

    gpu_types : host -> types that good lines state
    """

    unit: Unit
    job: dict[str, Any] | None
    files: list[FileAccount] = field(default_factory=list)
    ops: int = 0
    keys: Keys = field(default_factory=dict)
    gpu_types: dict[str, set[str]] = field(default_factory=dict)

    def add_gpu_types(self, others: Iterable["UnitAccount"]) -> None:
        """Add types of hosts that the manifest does not name to the row of jobs, from lines of all parts.

        A host of which they state several is left out, and counted; so are all where they are too many.
        """
        if self.job is None:
            return
        stated: dict[str, set[str]] = {}
        for part in (self, *others):
            for host, names in part.gpu_types.items():
                stated.setdefault(host, set()).update(names)
        given = self.job.get("gpu_types") or {}
        found = {host: names for host, names in stated.items() if host not in given}
        if sum(len(host) + len(name) for host, names in stated.items() for name in names) > MOST_TYPE_TEXT:
            self.job["left_out"] = (self.job.get("left_out") or {}) | {LEFT_OUT_TYPES: len(stated)}
            return
        known = {host: min(names) for host, names in sorted(found.items()) if len(names) == 1}
        if known:
            self.job["gpu_types"] = given | known
        if len(found) > len(known):
            counted = {CONTRADICTORY: len(found) - len(known)}
            self.job["left_out"] = (self.job.get("left_out") or {}) | counted


def join_gpu_types(parts: Iterable[UnitAccount]) -> None:
    """Add to each unit's row of jobs what all of its parts state; the first part of a unit has the row."""
    by_unit: dict[Unit, list[UnitAccount]] = {}
    for part in parts:
        by_unit.setdefault(part.unit, []).append(part)
    for first, *others in by_unit.values():
        first.add_gpu_types(others)


def whole_unit(unit: Unit, files: Sequence[LandedFile], bounds: Bounds) -> UnitPart:
    """Return all of a unit as one part: manifests, logs, evidence, events, files beyond `unit_files`."""
    manifests = [file for kind in (MANIFEST, META) for file in files if file.is_one_of(kind)]
    own = [file for file in files if file.is_one_of(*LOGS)]
    others = [file for file in files if file.is_log_of_other_tool]
    logs, evidence = (own, others) if own else (others, [])
    most, left = bounds.unit_files, max(bounds.unit_files - len(logs), 0)
    events = [file for file in files if file.is_one_of(*EVENTS)]
    surplus = logs[most:] + evidence[left:]
    return UnitPart(unit, manifests, logs[:most], evidence[:left], events, surplus)
