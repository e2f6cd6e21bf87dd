"""Fingerprints: what a phase made its rows of a unit from, so that unchanged work is not done again.

A unit without a fingerprint is done again; existing rows alone never count as done.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa

from jobs.landing.accounts import UnitAccount
from jobs.reading.reader import TableReader
from jobs.runtime.settings import Settings
from jobs.warehouse.tables import Warehouse
from schemas.log_tables import UNIT_FINGERPRINTS as TABLE
from schemas.unit import Unit
from schemas.vocabulary import (
    PHASE_AGGREGATE,
    PHASE_INGEST,
    PHASE_NAMES,
    PHASE_PUBLISH,
    PHASE_REVISE,
    PHASE_SIMULATE,
    UNIT_KEY,
)
from udfs.revise import REVISION_VERSION
from udfs.simulate.result_tables import SIMULATOR_VERSION
from udfs.what_if import SimulationSettings

PHASE_VERSIONS: Final = {
    PHASE_INGEST: "3",
    PHASE_SIMULATE: SIMULATOR_VERSION,
    PHASE_REVISE: REVISION_VERSION,
    PHASE_AGGREGATE: "1",
    PHASE_PUBLISH: "1",
}
"""Version of each phase: raised whenever it makes other rows of the same input."""


class File(NamedTuple):
    """A file as it was read. digest : None if it could not be read to its end."""

    name: str
    bytes: int
    modified_us: int
    digest: str | None

    @property
    def content(self) -> tuple[str, int, str | int]:
        """What a phase sees of it; without a digest, its time stands for its contents."""
        return self.name, self.bytes, self.digest or self.modified_us


class Fingerprint(NamedTuple):
    """One row of unit_fingerprints."""

    unit: Unit
    stage: str
    inputs: str
    settings: str
    version: str
    bytes: int
    ops: int
    files: tuple[File, ...] = ()

    @property
    def identity(self) -> str:
        """What the next phase records of this one's rows."""
        return _hash([self.inputs, self.settings, self.version])


Recorded = dict[Unit, Fingerprint]


def settings_text(settings: Settings, phase: str) -> str:
    """Settings that matter to a phase, as JSON; the places of tables and logs never do."""
    if phase == PHASE_SIMULATE:
        return simulation(settings).text
    return settings.revision.model_dump_json() if phase == PHASE_REVISE else "{}"


def simulation(settings: Settings) -> SimulationSettings:
    """Return the settings of the simulation."""
    return SimulationSettings(**settings.simulation.model_dump())


def of_units(accounts: Iterable[UnitAccount]) -> list[Fingerprint]:
    """Fingerprints of ingested units; some were read in several parts."""
    files: dict[Unit, list[File]] = {}
    ops: dict[Unit, int] = {}
    for account in accounts:
        ops[account.unit] = ops.get(account.unit, 0) + account.ops
        files.setdefault(account.unit, []).extend(
            File(each.file.name, each.file.size, each.file.modified_us, each.digest) for each in account.files
        )
    found = []
    for unit, read in files.items():
        size = sum(file.bytes for file in read)
        row = unit, PHASE_INGEST, contents_of(read), "{}", PHASE_VERSIONS[PHASE_INGEST], size
        found.append(Fingerprint(*row, ops[unit], tuple(sorted(read, key=lambda file: file.name))))
    return found


def contents_of(files: Iterable[File]) -> str:
    """Hash of a unit's files, whenever they were written."""
    return _hash([file.content for file in sorted(files, key=lambda file: file.name)])


def built_on(
    before: Recorded, phase: str, settings: Settings, context: Mapping[date, str] | None = None
) -> list[Fingerprint]:
    """Fingerprints of a phase that read the units of `before`, as recorded before it read them.

    context : for each day, what else the phase reads, as looked_back_on returns it
    A unit without a record of the phase before gets none, and is done again next time.
    """
    facts = settings_text(settings, phase), PHASE_VERSIONS[phase]
    return [
        Fingerprint(each.unit, phase, inputs_of(each, context), *facts, each.bytes, each.ops)
        for each in before.values()
    ]


def inputs_of(before: Fingerprint, context: Mapping[date, str] | None = None) -> str:
    """Return what a phase read of a unit: the rows of the phase before, and their context."""
    return before.identity if context is None else _hash([before.identity, context[before.unit[0]]])


def looked_back_on(simulated: Recorded, log_dates: Iterable[date], days: int) -> dict[date, str]:
    """For each day, a hash of the results of the earlier days that revise its causes.

    simulated : fingerprints of those days too
    """
    by_day: dict[date, list[str]] = {}
    for unit in sorted(simulated):
        by_day.setdefault(unit[0], []).append(simulated[unit].identity)
    return {
        day: _hash([by_day.get(day - timedelta(days=age), []) for age in range(1, days + 1)])
        for day in set(log_dates)
    }


def recorded(
    tables: TableReader,
    log_dates: Sequence[date],
    units: Collection[Unit] | None = None,
    phase: str | None = None,
) -> dict[str, Recorded]:
    """Read fingerprints by phase; those of ingest from the warehouse with the ingested tables.

    phase : only those of this phase; all if left out
    """
    also = None if phase is None else {"stage": phase}
    found: dict[str, Recorded] = {phase: {} for phase in PHASE_NAMES}
    for home in {tables, tables.ingested}:
        for each in map(_of_row, home.rows(TABLE, log_dates, units, also).to_pylist()):
            if home is (tables.ingested if each.stage == PHASE_INGEST else tables):
                found[each.stage][each.unit] = each
    return found


def record(
    warehouse: Warehouse,
    phase: str,
    fingerprints: Sequence[Fingerprint],
    log_dates: Sequence[date],
    units: Collection[Unit] | None,
) -> None:
    """Make these the fingerprints of a phase for these days, or for these units alone."""
    rows = pa.Table.from_pylist([_row(each) for each in fingerprints], schema=TABLE.arrow_schema)
    warehouse.replace(TABLE, rows, log_dates, units, also={"stage": phase})


def _row(fingerprint: Fingerprint) -> dict[str, object]:
    key = dict(zip(UNIT_KEY, fingerprint.unit, strict=True))
    files = [file._asdict() for file in fingerprint.files]
    return {**key, **fingerprint._asdict(), "files": files}


def _of_row(row: Mapping[str, Any]) -> Fingerprint:
    known = {name: row[name] for name in Fingerprint._fields if name in row}
    files = tuple(File(**file) for file in row["files"])
    return Fingerprint(**known | {"unit": Unit(*(row[name] for name in UNIT_KEY)), "files": files})


def _hash(facts: object) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
