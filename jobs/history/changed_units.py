"""What has changed: units whose recorded fingerprints differ from those of the data now.

A phase's fingerprint includes the one it was built on, so later phases see every earlier change.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from jobs.history.fingerprints import (
    PHASE_VERSIONS,
    File,
    Fingerprint,
    Recorded,
    contents_of,
    inputs_of,
    looked_back_on,
    recorded,
    settings_text,
)
from jobs.landing.files import LandedFile, Landing
from jobs.landing.read_landing import Digests
from jobs.reading.reader import TableReader
from jobs.runtime.settings import Settings
from jobs.warehouse.local_tables import keys_of
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import JOBS, PHASE_NAMES, PHASE_REVISE, PHASE_SIMULATE, UNIT_FINGERPRINTS

Wanted = tuple[str, str] | None
"""Settings and version that a phase's fingerprint must have; None: any, only data counts."""


class LandingChanges(NamedTuple):
    """What ingest has to do.

    landed : files of every unit in the landing
    changed : units never ingested, or of other files, contents, settings or version
    gone : ingested units that are no longer in the landing, on days that still have others
    retouched : fingerprints, with new times, of units that were sent again unchanged
    """

    landed: Mapping[Unit, Sequence[LandedFile]]
    changed: frozenset[Unit]
    gone: frozenset[Unit]
    retouched: tuple[Fingerprint, ...]


def wanted(settings: Settings, phase: str, *, data_only: bool) -> Wanted:
    """Settings and version that a valid fingerprint must have."""
    return None if data_only else (settings_text(settings, phase), PHASE_VERSIONS[phase])


def changed_in_landing(
    settings: Settings, ingested: Recorded, log_dates: Sequence[date], want: Wanted, digests: Digests
) -> LandingChanges:
    """Compare the files of these days with the fingerprints of their units.

    Path, size and time of change are compared; where only times differ, the contents decide. A day
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
    again = _sent_again(digests, landing, doubtful)
    changed |= doubtful.keys() - {each.unit for each in again}
    days = {unit[0] for unit in landed}
    gone = {unit for unit in ingested if unit not in landed and unit[0] in days}
    return LandingChanges(landed, frozenset(changed), frozenset(gone), tuple(again))


def _sent_again(digests: Digests, landing: Landing, ingested: Recorded) -> list[Fingerprint]:
    """Fingerprints, with the files' new times, of these units whose contents are unchanged."""
    times = {unit: {file.name: file for file in known.files} for unit, known in ingested.items()}
    touched = [
        file
        for unit, known in times.items()
        for file in landing.units[unit]
        if known[file.name].modified_us != file.modified_us
    ]
    read, asked = digests(landing.root, touched), {file.source_file for file in touched}
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
    """Units to simulate: without results, with results of other input, or removed from `jobs`.

    jobs : units of the table jobs. One without a fingerprint of its ingest is left alone: its
    rows may be half written, or cleared away by age.
    """
    changed = {
        unit for unit, before in ingested.items() if not _is_built_on(simulated.get(unit), before, want)
    }
    return changed | {unit for unit in simulated if unit not in ingested and unit not in jobs}


def days_due(
    before: Recorded, done: Recorded, want: Wanted, context: Mapping[date, str] | None = None
) -> set[date]:
    """Days whose rows of a phase were not made from their units as they are now.

    before : fingerprints of the phase before. done : of this one. context : as fingerprints.built_on takes it
    """
    units = before.keys() | done.keys()
    return {
        unit[0]
        for unit in units
        if unit not in before or not _is_built_on(done.get(unit), before[unit], want, context)
    }


class Recollection(NamedTuple):
    """All records of some days.

    done : fingerprints of their units, by phase
    jobs : units of the table jobs
    context : for each day, a hash of what revises its causes
    look_back_days : how many earlier days revise the causes of a day
    """

    done: Mapping[str, Recorded]
    jobs: set[Unit]
    context: Mapping[date, str]
    look_back_days: int

    def due(self, phase: str, want: Wanted) -> set[date]:
        """Days with work for a phase after simulate."""
        before = PHASE_NAMES[PHASE_NAMES.index(phase) - 1]
        context = self.context if phase == PHASE_REVISE else None
        return days_due(self.done[before], self.done[phase], want, context)


def recollect(tables: TableReader, settings: Settings, log_dates: Sequence[date]) -> Recollection:
    """Read the fingerprints of these days, and which units the table jobs has."""
    done = recorded(tables, log_dates)
    earlier = recorded(tables, days_before(log_dates, settings.revision.days), phase=PHASE_SIMULATE)
    simulated = done[PHASE_SIMULATE] | earlier[PHASE_SIMULATE]
    context = looked_back_on(simulated, log_dates, settings.revision.days)
    jobs = set(keys_of(tables.rows(TABLES[JOBS], log_dates)))
    return Recollection(done, jobs, context, settings.revision.days)


def with_later_days(
    tables: TableReader, settings: Settings, phase: str, log_dates: Sequence[date]
) -> list[date]:
    """These days, and later ones that look back on them and are due again."""
    later = recorded_days(tables, days_after(log_dates, settings.revision.days))
    if not later:
        return sorted(set(log_dates))
    return sorted({*log_dates, *recollect(tables, settings, later).due(phase, None)})


def recorded_days(tables: TableReader, log_dates: Sequence[date]) -> list[date]:
    """These days, without those that have no record."""
    return sorted(set(tables.rows(TABLES[UNIT_FINGERPRINTS], log_dates)["log_date"].to_pylist()))


def days_before(log_dates: Collection[date], days: int) -> list[date]:
    """Days up to `days` before one of these, without these."""
    found = {day - timedelta(days=age) for day in set(log_dates) for age in range(1, days + 1)}
    return sorted(found - set(log_dates))


def days_after(log_dates: Collection[date], days: int) -> list[date]:
    """Days up to `days` after one of these, without these."""
    found = {day + timedelta(days=age) for day in set(log_dates) for age in range(1, days + 1)}
    return sorted(found - set(log_dates))


def _is_built_on(
    done: Fingerprint | None, before: Fingerprint, want: Wanted, context: Mapping[date, str] | None = None
) -> bool:
    return done is not None and done.inputs == inputs_of(before, context) and _is_as_wanted(done, want)


def _is_as_wanted(fingerprint: Fingerprint, want: Wanted) -> bool:
    return want is None or (fingerprint.settings, fingerprint.version) == want


def _files(files: Sequence[LandedFile], read: Mapping[str, str | None]) -> tuple[File, ...]:
    """Files as a fingerprint has them; digests by source_file."""
    return tuple(
        File(file.name, file.size, file.modified_us, read.get(file.source_file)) for file in sorted(files)
    )


def _differ(files: Sequence[File], others: Sequence[File], fact: str) -> bool:
    """Whether these files differ in their names, or in one of their facts."""
    first, second = ({file.name: getattr(file, fact) for file in each} for each in (files, others))
    return first != second
