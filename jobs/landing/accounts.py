"""Parts of a unit, each read by one task, and the account of the lines and rows found in each part."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa

from jobs.landing.claims import contradictions
from jobs.landing.files import EVENTS, LOGS, MANIFEST, META, LandedFile
from jobs.landing.formats.rows import MOST_TYPE_TEXT, Bounds
from jobs.landing.usable import Used, usable
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import JOBS, UNIT_KEY, Status

CONTRADICTORY: Final = "hosts whose lines state several gpu_types"
"""Key of `left_out` in the table jobs."""

LEFT_OUT_TYPES: Final = "hosts with a gpu_type: more than a run can have"
"""Another key of `left_out`."""

MOST_OUTSIDE: Final = 0.1
LEAST_OUTSIDE: Final = 2
"""A manifest is refused if at least this share, and this number, of a run's lines contradict it."""

Keys = dict[tuple[int, int], str]
"""(rank, step) of every row of a unit, and the file that it came from."""

Repeats = dict[tuple[int, int], dict[str, str]]
"""(rank, step) that several files have -> for each file but the first, the digest of its row."""


class FileAccount(NamedTuple):
    """Account of one file: its digest, and its numbers of lines, rows and rejects.

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
    evidence : files beside logs of ops, which only show the rank that came last to each collective
    events : files of the run's events, at most one of each name
    surplus : files beyond the limit `unit_files`; each becomes a reject
    is_first : whether this part gives the row of jobs, and the accounts of the manifests
    taken : (rank, step) for which an earlier part stores a row
    suspected : digests of rows of later files; a row of this part is rejected if one of them differs from it
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
    suspected: Repeats = field(default_factory=dict)

    @property
    def is_foreign(self) -> bool:
        """Return whether the logs come from another tool, and therefore have to be read together."""
        return any(file.is_log_of_other_tool for file in self.logs)


class Outside(NamedTuple):
    """Number of lines outside the manifest's layout, and a description of the first such line."""

    lines: int = 0
    detail: str = ""


@dataclass
class UnitAccount:
    """Account of one part of a unit; `job` is the unit's row of jobs without key columns, or None.

    gpu_types : host -> types that good lines state; empty once the row of jobs has them
    used : hosts and steps of the manifest that rows refer to
    repeats : digests of rows whose (rank, step) an earlier file has too
    contested : number of (rank, step) for which two files have different rows, by the names of both files
    outside : lines with a rank or a coordinate for which the manifest has no place
    health : rows of host_health, if this is a day's health and not a run
    failure : why the process that read the part ended before it was done; empty if the part was read
    """

    unit: Unit
    job: dict[str, Any] | None
    files: list[FileAccount] = field(default_factory=list)
    ops: int = 0
    keys: Keys = field(default_factory=dict)
    gpu_types: dict[str, set[str]] = field(default_factory=dict)
    used: Used = field(default_factory=Used)
    repeats: Repeats = field(default_factory=dict)
    contested: Counter[tuple[str, str]] = field(default_factory=Counter)
    outside: Outside = field(default_factory=Outside)
    health: pa.Table | None = None
    failure: str = ""

    def complete(self, others: Sequence["UnitAccount"]) -> None:
        """Complete the row of jobs from the lines of all parts, without hosts and steps that no line has."""
        parts = [self, *others]
        if self.job is not None:
            self.job |= usable(self.job, [each.used for each in parts])
        self.add_gpu_types(others)
        for each in parts:
            each.gpu_types, each.used = {}, Used()
        if self.job is None:
            return
        contested = sum((each.contested for each in others), self.contested)
        claims = [*(self.job.get("refused_claims") or ()), *contradictions(contested)]
        self.job["refused_claims"] = claims or None
        outside = sum(each.outside.lines for each in parts)
        lines = outside + sum(file.rows for each in parts for file in each.files)
        are_many = outside >= LEAST_OUTSIDE and outside >= MOST_OUTSIDE * lines
        if are_many and self.job.get("manifest_status") is None:
            first = next(each.outside.detail for each in parts if each.outside.lines)
            detail = f"{outside} of {lines} lines contradict the layout, as one whose {first}"
            self.job |= {"manifest_status": Status.BAD_LAYOUT, "manifest_detail": detail}

    def add_gpu_types(self, others: Iterable["UnitAccount"]) -> None:
        """Add GPU types that log lines state, for hosts missing in the manifest, to the row of jobs.

        Hosts with several stated types are left out and counted. If hosts and types have more than
        MOST_TYPE_TEXT characters in total, all of them are left out and counted.
        """
        if self.job is None:
            return
        stated: dict[str, set[str]] = {}
        for part in (self, *others):
            for host, names in part.gpu_types.items():
                stated.setdefault(host, set()).update(names)
        given = self.job.get("gpu_types") or {}
        found = {host: names for host, names in stated.items() if host not in given}
        known = {host: min(names) for host, names in sorted(found.items()) if len(names) == 1}
        left_out = {CONTRADICTORY: len(found) - len(known)}
        if sum(len(host) + len(name) for host, names in stated.items() for name in names) > MOST_TYPE_TEXT:
            known, left_out = {}, {LEFT_OUT_TYPES: len(stated)}
        if known:
            self.job["gpu_types"] = given | known
        if any(left_out.values()):
            self.job["left_out"] = (self.job.get("left_out") or {}) | left_out


def jobs_of(accounts: Sequence[UnitAccount]) -> pa.Table:
    """Return rows of the table jobs from all accounts that have a row."""
    rows = [
        dict(zip(UNIT_KEY, each.unit, strict=True)) | each.job for each in accounts if each.job is not None
    ]
    return pa.Table.from_pylist(rows, schema=TABLES[JOBS].arrow_schema)


def spread_failures(parts: Iterable[UnitAccount]) -> None:
    """Mark a whole unit as failed if any of its parts could not be read."""
    accounts = list(parts)
    failures = {part.unit: part.failure for part in accounts if part.failure}
    for part in accounts:
        if part.job is not None and part.unit in failures:
            part.job |= {"manifest_status": Status.FAILED, "manifest_detail": failures[part.unit]}


def join_parts(parts: Iterable[UnitAccount]) -> None:
    """Complete each unit's row of jobs, which the unit's first part holds, from all of its parts."""
    by_unit: dict[Unit, list[UnitAccount]] = {}
    for part in parts:
        by_unit.setdefault(part.unit, []).append(part)
    for first, *others in by_unit.values():
        first.complete(others)


def whole_unit(unit: Unit, files: Sequence[LandedFile], bounds: Bounds) -> UnitPart:
    """Return a unit as one part, with its files by kind; files beyond bounds.unit_files are in `surplus`.

    A day's health is a unit too: its files are in `logs`, and it has no row of jobs.
    """
    if unit.is_of_day:
        return UnitPart(
            unit, [], files[: bounds.unit_files], surplus=files[bounds.unit_files :], is_first=False
        )
    manifests = [file for kind in (MANIFEST, META) for file in files if file.is_one_of(kind)]
    own = [file for file in files if file.is_one_of(*LOGS)]
    others = [file for file in files if file.is_log_of_other_tool]
    logs, evidence = (own, others) if own else (others, [])
    most, left = bounds.unit_files, max(bounds.unit_files - len(logs), 0)
    events = [file for file in files if file.is_one_of(*EVENTS)]
    surplus = logs[most:] + evidence[left:]
    return UnitPart(unit, manifests, logs[:most], evidence[:left], events, surplus)
