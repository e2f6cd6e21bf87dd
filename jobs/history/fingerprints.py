"""Fingerprints: hashes of what a phase made a unit's rows from, so that unchanged work is not repeated.

A phase does a unit again if its fingerprint of the unit is missing; rows without a fingerprint never count as
done. The fingerprint of a phase includes that of the phase before, so that every change reaches later phases.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import NamedTuple

import pyarrow as pa

from jobs.history.phases import PHASES
from jobs.landing.accounts import UnitAccount
from jobs.runtime.settings import Settings
from jobs.warehouse.reader import TableReader
from jobs.warehouse.tables import Warehouse
from schemas.log_tables import UNIT_FINGERPRINTS as TABLE
from schemas.unit import Unit
from schemas.vocabulary import PHASE_NAMES, Phase

Wanted = tuple[str, str] | None
"""Settings and version that a valid fingerprint has; None if only changed data make a fingerprint invalid."""


class File(NamedTuple):
    """An input file as it was read. digest : None if the file could not be read to its end."""

    name: str
    bytes: int
    modified_us: int
    digest: str | None


class Fingerprint(NamedTuple):
    """One row of the table unit_fingerprints: what a phase has made a unit's rows from."""

    unit: Unit
    phase: str
    inputs: str
    settings: str
    version: str
    bytes: int
    ops: int
    files: tuple[File, ...] = ()

    @property
    def identity(self) -> str:
        """Return the hash of this fingerprint, which the next phase records as its input."""
        return hashed([self.inputs, self.settings, self.version])

    def as_input(self, context: Mapping[date, str]) -> str:
        """Return a hash of all that the next phase reads: this fingerprint, and the context of its day.

        context : by day, a hash of the rows of earlier days that the next phase also reads; {} if none
        """
        return hashed([self.identity, context[self.unit[0]]]) if context else self.identity

    def is_as(self, want: Wanted) -> bool:
        """Return whether settings and version are those in `want`; True if `want` is None."""
        return want is None or (self.settings, self.version) == want

    def is_built_on(self, before: "Fingerprint", want: Wanted, context: Mapping[date, str]) -> bool:
        """Return whether the rows were made as wanted, from the current rows of the preceding phase."""
        return self.inputs == before.as_input(context) and self.is_as(want)


Recorded = dict[Unit, Fingerprint]


def wanted(settings: Settings, phase: str) -> tuple[str, str]:
    """Return the settings on which a phase's rows depend, as JSON, and the phase's version."""
    return PHASES[phase].settings(settings), PHASES[phase].version


def of_units(accounts: Iterable[UnitAccount], settings: Settings) -> list[Fingerprint]:
    """Return the fingerprints of ingested units, merging the parts that were read separately."""
    files: dict[Unit, list[File]] = {}
    ops: dict[Unit, int] = {}
    for account in accounts:
        ops[account.unit] = ops.get(account.unit, 0) + account.ops
        files.setdefault(account.unit, []).extend(
            File(each.file.name, each.file.size, each.file.modified_us, each.digest) for each in account.files
        )
    facts, found = wanted(settings, Phase.INGEST), []
    for unit, read in files.items():
        read.sort(key=lambda file: file.name)
        size = sum(file.bytes for file in read)
        row = unit, Phase.INGEST, contents_of(read), *facts, size, ops[unit], tuple(read)
        found.append(Fingerprint(*row))
    return found


def contents_of(files: Iterable[File]) -> str:
    """Return a hash of the contents of a unit's files; times count only for files that could not be read."""
    in_order = sorted(files, key=lambda file: file.name)
    return hashed([(each.name, each.bytes, each.digest or each.modified_us) for each in in_order])


def recorded(
    tables: TableReader,
    log_dates: Sequence[date],
    units: Collection[Unit] | None = None,
    phase: str | None = None,
) -> dict[str, Recorded]:
    """Read fingerprints by phase; those of ingest are in the warehouse that has the ingested tables.

    phase : only those of this phase; all if left out
    """
    also = None if phase is None else {"stage": phase}
    found: dict[str, Recorded] = {phase: {} for phase in PHASE_NAMES}
    for home in {tables, tables.ingested}:
        for row in home.rows(TABLE, log_dates, units, also).to_pylist():
            known = {name: row[name] for name in Fingerprint._fields if name in row}
            known["phase"] = row["stage"]  # the only name of it in rows of 0.3.0
            files = tuple(File(**file) for file in row["files"])
            each = Fingerprint(**known | {"unit": Unit.of(row), "files": files})
            if home is (tables.ingested if each.phase == Phase.INGEST else tables):
                found[each.phase][each.unit] = each
    return found


def record(
    warehouse: Warehouse,
    phase: str,
    fingerprints: Sequence[Fingerprint],
    log_dates: Sequence[date],
    units: Collection[Unit] | None,
) -> None:
    """Replace the fingerprints of a phase for these days, or only for these units."""
    rows = [
        {
            **each.unit._asdict(),
            **each._asdict(),
            "stage": each.phase,
            "files": [file._asdict() for file in each.files],
        }
        for each in fingerprints
    ]
    table = pa.Table.from_pylist(rows, schema=TABLE.arrow_schema)
    warehouse.replace(TABLE, table, log_dates, units, also={"stage": phase})


def hashed(facts: object) -> str:
    """Return the SHA-256 of facts that are serialized as JSON."""
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
