"""What has changed: units whose recorded fingerprints are not those of what is there now.

A stage's fingerprint names the one that it was built on: a change anywhere is seen by all that follows.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from pyspark.sql import SparkSession

from jobs.fingerprints import (
    STAGE_VERSIONS,
    File,
    Fingerprint,
    Recorded,
    contents_of,
    recorded,
    settings_text,
)
from jobs.landing.files import LandedFile, Landing, Unit
from jobs.landing.read_landing import digests
from jobs.settings import Settings
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import JOBS, STAGE_AGGREGATE, STAGE_INGEST, STAGE_SIMULATE

Wanted = tuple[str, str] | None
"""Settings and version that a stage's fingerprint must have; None: whatever they were, only data counts."""


class LandingChanges(NamedTuple):
    """What the landing has for ingest to do.

    landed : files of every unit that is there
    changed : units never ingested, or of other files, contents, settings or version
    gone : units that were ingested and have left a day that still has others
    retouched : fingerprints, with their new times, of units that were sent again as they were
    """

    landed: Mapping[Unit, Sequence[LandedFile]]
    changed: frozenset[Unit]
    gone: frozenset[Unit]
    retouched: tuple[Fingerprint, ...]


def wanted(settings: Settings, stage: str, *, data_only: bool) -> Wanted:
    """What a fingerprint must say of settings and version to be still good."""
    return None if data_only else (settings_text(settings, stage), STAGE_VERSIONS[stage])


def changed_in_landing(
    spark: SparkSession, settings: Settings, ingested: Recorded, log_dates: Sequence[date], want: Wanted
) -> LandingChanges:
    """Hold the files of these days against the fingerprints of their units.

    Path, size and time of change tell; where only times differ, the contents of those files decide. A day
    without any folder has been cleared away whole: its units are not gone, they stay as they are.
    """
    landing = Landing(settings.paths.landing, log_dates)
    landed = landing.units
    changed, doubtful = set(), {}
    for unit, files in landed.items():
        known, now = ingested.get(unit), _files(files, {})
        if known is None or not _is_as_wanted(known, want) or _differ(known.files, now, "bytes"):
            changed.add(unit)
        elif _differ(known.files, now, "modified_us"):
            doubtful[unit] = known
    again = _sent_again(spark, landing, doubtful)
    changed |= doubtful.keys() - {each.unit for each in again}
    days = {unit[0] for unit in landed}
    gone = {unit for unit in ingested if unit not in landed and unit[0] in days}
    return LandingChanges(landed, frozenset(changed), frozenset(gone), tuple(again))


def _sent_again(spark: SparkSession, landing: Landing, ingested: Recorded) -> list[Fingerprint]:
    """Fingerprints, with the files' new times, of those of these units whose contents are what they were."""
    times = {unit: {file.name: file for file in known.files} for unit, known in ingested.items()}
    touched = [
        file
        for unit, known in times.items()
        for file in landing.units[unit]
        if known[file.name].modified_us != file.modified_us
    ]
    read, asked = digests(spark, landing.root, touched), {file.source_file for file in touched}
    found = []
    for unit, known in times.items():
        as_known = {file.source_file: known[file.name].digest for file in landing.units[unit]}
        files = _files(
            landing.units[unit], as_known | {file: read.get(file) for file in asked & as_known.keys()}
        )
        if contents_of(files) == ingested[unit].inputs:
            found.append(ingested[unit]._replace(files=files))
    return found


def changed_results(
    ingested: Recorded, simulated: Recorded, jobs: Collection[Unit], want: Wanted
) -> set[Unit]:
    """Units to simulate: results never made or made of something else, or of a unit that is no more.

    jobs : units of the table jobs. One that is there without a fingerprint of its ingest is left alone: its
    rows may be half written, or cleared away by age.
    """
    changed = {
        unit for unit, before in ingested.items() if not _is_built_on(simulated.get(unit), before, want)
    }
    return changed | {unit for unit in simulated if unit not in ingested and unit not in jobs}


def changed_days(simulated: Recorded, aggregated: Recorded, want: Wanted) -> set[date]:
    """Days whose aggregates are not those of their units as they are now."""
    units = simulated.keys() | aggregated.keys()
    return {
        unit[0]
        for unit in units
        if unit not in simulated or not _is_built_on(aggregated.get(unit), simulated[unit], want)
    }


class Recollection(NamedTuple):
    """All that is recorded of some days."""

    ingested: Recorded
    simulated: Recorded
    aggregated: Recorded
    jobs: set[Unit]


def recollect(warehouse: Warehouse, log_dates: Sequence[date]) -> Recollection:
    """Read the fingerprints of these days, and which units the table jobs has."""
    return Recollection(
        ingested=recorded(warehouse, STAGE_INGEST, log_dates),
        simulated=recorded(warehouse, STAGE_SIMULATE, log_dates),
        aggregated=recorded(warehouse, STAGE_AGGREGATE, log_dates),
        jobs=warehouse.units(TABLES[JOBS], log_dates),
    )


def _is_built_on(done: Fingerprint | None, before: Fingerprint, want: Wanted) -> bool:
    return done is not None and done.inputs == before.identity and _is_as_wanted(done, want)


def _is_as_wanted(fingerprint: Fingerprint, want: Wanted) -> bool:
    return want is None or (fingerprint.settings, fingerprint.version) == want


def _files(files: Sequence[LandedFile], read: Mapping[str, str | None]) -> tuple[File, ...]:
    """Files as a fingerprint has them; digests by source_file."""
    return tuple(
        File(file.name, file.size, file.modified_us, read.get(file.source_file)) for file in sorted(files)
    )


def _differ(files: Sequence[File], others: Sequence[File], fact: str) -> bool:
    """Whether these are other files by their names, or by one of their facts."""
    first, second = ({file.name: getattr(file, fact) for file in each} for each in (files, others))
    return first != second
