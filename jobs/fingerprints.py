"""Fingerprints: what a stage made its rows of a unit from, so that unchanged work is not done again.

What has no fingerprint is done again; nothing is ever taken as done because its rows exist.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import Any, Final, NamedTuple

import pyarrow as pa

from jobs.landing.accounts import UnitAccount
from jobs.landing.files import Unit
from jobs.settings import Settings
from jobs.warehouse.tables import Warehouse
from schemas.unit_fingerprints import TABLE
from schemas.vocabulary import STAGE_AGGREGATE, STAGE_INGEST, STAGE_SIMULATE, UNIT_KEY
from udfs.result_tables import SIMULATOR_VERSION
from udfs.what_if import SimulationSettings

STAGE_VERSIONS: Final = {STAGE_INGEST: "3", STAGE_SIMULATE: SIMULATOR_VERSION, STAGE_AGGREGATE: "1"}
"""Raised whenever a stage makes other rows of the same input."""

_UNSETTLED: Final = "unsettled:"


class File(NamedTuple):
    """A file as it was read. digest : None where it could not be read to its end."""

    name: str
    bytes: int
    modified_us: int
    digest: str | None

    @property
    def content(self) -> tuple[str, int, str | int]:
        """What a stage can see of it; without a digest its time stands for what is in it."""
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
        """What the next stage knows of this one's rows."""
        return _hash([self.inputs, self.settings, self.version])

    @property
    def is_unsettled(self) -> bool:
        """Whether rows of the unit are being revised: nothing has such inputs, so it counts as changed."""
        return self.inputs.startswith(_UNSETTLED)

    def unsettled(self) -> "Fingerprint":
        """The same while rows of the unit are being revised.

        Unlike one that is gone it tells that the stage's other rows are whole, and can be revised again.
        """
        return self._replace(inputs=_UNSETTLED + self.settled().inputs)

    def settled(self) -> "Fingerprint":
        """The same once its rows are revised."""
        return self._replace(inputs=self.inputs.removeprefix(_UNSETTLED))


Recorded = dict[Unit, Fingerprint]


def settings_text(settings: Settings, stage: str) -> str:
    """Settings that matter to a stage, as JSON; where its tables and logs lie never does."""
    if stage != STAGE_SIMULATE:
        return "{}"
    return f'{{"simulation": {simulation(settings).text}, "revision": {settings.revision.model_dump_json()}}}'


def simulation(settings: Settings) -> SimulationSettings:
    """Return the settings of the simulation as it takes them."""
    return SimulationSettings(**settings.simulation.model_dump())


def of_units(accounts: Iterable[UnitAccount]) -> list[Fingerprint]:
    """Fingerprints of ingested units, of which some were read in several parts."""
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
        row = unit, STAGE_INGEST, contents_of(read), "{}", STAGE_VERSIONS[STAGE_INGEST], size
        found.append(Fingerprint(*row, ops[unit], tuple(sorted(read, key=lambda file: file.name))))
    return found


def contents_of(files: Iterable[File]) -> str:
    """Hash of what a unit's files are, whenever they were written."""
    return _hash([file.content for file in sorted(files, key=lambda file: file.name)])


def built_on(before: Recorded, stage: str, settings: Settings) -> list[Fingerprint]:
    """Fingerprints of a stage that reads what `before` tells of, as it was recorded before that was read.

    A unit of which the stage before has no record gets none, and is done again next time.
    """
    facts = settings_text(settings, stage), STAGE_VERSIONS[stage]
    return [
        Fingerprint(each.unit, stage, each.identity, *facts, each.bytes, each.ops) for each in before.values()
    ]


def recorded(
    warehouse: Warehouse, stage: str, log_dates: Sequence[date], units: Collection[Unit] | None = None
) -> Recorded:
    """Read the fingerprints of a stage, those of ingest from where the ingested tables lie."""
    home = warehouse.silver if stage == STAGE_INGEST else warehouse
    rows = home.rows(TABLE, log_dates, units).to_pylist()
    return {each.unit: each for each in map(_of_row, rows) if each.stage == stage}


def unsettle(
    warehouse: Warehouse,
    stage: str,
    fingerprints: Collection[Fingerprint],
    log_dates: Sequence[date],
    units: Collection[Unit] | None,
) -> None:
    """Before the first table changes: leave only those of these fingerprints that are unsettled.

    The others are taken away: a kill then leads to work, never to a skip.
    """
    unsettled = [each for each in fingerprints if each.is_unsettled]
    if unsettled or recorded(warehouse, stage, log_dates, units):
        record(warehouse, stage, unsettled, log_dates, units)


def record(
    warehouse: Warehouse,
    stage: str,
    fingerprints: Sequence[Fingerprint],
    log_dates: Sequence[date],
    units: Collection[Unit] | None,
) -> None:
    """Make these the fingerprints of a stage for these days, or for these units of theirs."""
    if not warehouse.exists(TABLE.name) and not fingerprints:
        return
    rows = pa.Table.from_pylist([_row(each) for each in fingerprints], schema=TABLE.arrow_schema)
    warehouse.replace(TABLE, rows, log_dates, units, also={"stage": stage})


def _row(fingerprint: Fingerprint) -> dict[str, object]:
    key = dict(zip(UNIT_KEY, fingerprint.unit, strict=True))
    files = [file._asdict() for file in fingerprint.files]
    return {**key, **fingerprint._asdict(), "files": files}


def _of_row(row: Mapping[str, Any]) -> Fingerprint:
    known = {name: row[name] for name in Fingerprint._fields if name in row}
    files = tuple(File(**file) for file in row["files"])
    return Fingerprint(**known | {"unit": tuple(row[name] for name in UNIT_KEY), "files": files})


def _hash(facts: object) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
