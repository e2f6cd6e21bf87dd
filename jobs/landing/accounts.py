"""What of a unit one task reads, and what it says that it found."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jobs.landing.files import LOGS, MANIFEST, META, LandedFile, Unit
from jobs.landing.formats.rows import Bounds

Keys = dict[tuple[int, int], str]
"""(rank, step) of every row of a unit, and the file that it came from."""


class FileAccount(NamedTuple):
    """What became of a file.

    digest : SHA-256 of what was read; None where it was not read to its end
    lines : that are not blank; None for a file that is not made of lines, or not readable
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
    evidence : beside the logs, of who came last to collectives
    surplus : files beyond those that a unit may have
    is_first : whether the row of jobs, and what befalls the manifests, comes from this part
    taken : rows that other parts have already
    """

    unit: Unit
    manifests: Sequence[LandedFile]
    logs: Sequence[LandedFile]
    evidence: Sequence[LandedFile] = ()
    surplus: Sequence[LandedFile] = ()
    is_first: bool = True
    is_only: bool = True
    taken: Keys = field(default_factory=dict)

    @property
    def is_foreign(self) -> bool:
        """Whether another tool wrote the logs, which are then read together."""
        return any(file.is_log_of_other_tool for file in self.logs)


@dataclass
class UnitAccount:
    """What was found in a part of a unit: `job` is its row of jobs, without the key."""

    unit: Unit
    job: dict[str, Any] | None
    files: list[FileAccount] = field(default_factory=list)
    ops: int = 0
    keys: Keys = field(default_factory=dict)


def whole_unit(unit: Unit, files: Sequence[LandedFile], bounds: Bounds) -> UnitPart:
    """Return all of a unit as one part: manifests, logs, evidence, and what is beyond `bounds.unit_files`."""
    manifests = [file for kind in (MANIFEST, META) for file in files if file.is_one_of(kind)]
    own = [file for file in files if file.is_one_of(*LOGS)]
    others = [file for file in files if file.is_log_of_other_tool]
    logs, evidence = (own, others) if own else (others, [])
    most, left = bounds.unit_files, max(bounds.unit_files - len(logs), 0)
    return UnitPart(unit, manifests, logs[:most], evidence[:left], logs[most:] + evidence[left:])
