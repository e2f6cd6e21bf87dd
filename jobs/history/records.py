"""Decide which units and days are due, by comparing what each phase has recorded with its current input."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, timedelta
from functools import cached_property
from typing import NamedTuple

from jobs.history.fingerprints import (
    File,
    Fingerprint,
    Recorded,
    Wanted,
    contents_of,
    hashed,
    recorded,
    wanted,
)
from jobs.history.phases import PHASES, phase_before
from jobs.landing.files import LandedFile, Landing
from jobs.landing.read_landing import Digests
from jobs.runtime.settings import Settings
from jobs.warehouse.reader import TableReader, keys_of
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import HOST_HEALTH, JOBS, Phase


class Records:
    """What the phases have recorded about some days; each table is read when it is first needed.

    units, phase : only fingerprints of these units, or of this phase; all by default
    """

    def __init__(
        self,
        tables: TableReader,
        settings: Settings,
        log_dates: Sequence[date],
        units: Collection[Unit] | None = None,
        phase: str | None = None,
    ) -> None:
        self.settings, self.log_dates = settings, sorted(set(log_dates))
        self._tables, self._units, self._phase = tables, units, phase
        self._contexts: dict[str, dict[date, str]] = {}

    @cached_property
    def done(self) -> dict[str, Recorded]:
        """Return the fingerprints of all units, by phase."""
        return recorded(self._tables, self.log_dates, self._units, self._phase)

    @cached_property
    def jobs(self) -> set[Unit]:
        """Return the units in the table jobs, and one unit for each day with rows of host_health."""
        healthy = self._tables.rows(TABLES[HOST_HEALTH], self.log_dates)["log_date"].unique().to_pylist()
        units = set(keys_of(self._tables.rows(TABLES[JOBS], self.log_dates)))
        return units | set(map(Unit.of_day, healthy))

    def context(self, phase: str) -> dict[date, str]:
        """Return, by day, a hash of earlier days' fingerprints; {} for a phase that reads no earlier days."""
        if not PHASES[phase].looks_back:
            return {}
        if phase not in self._contexts:
            days, before = self.settings.revision.days, phase_before(phase)
            earlier = recorded(self._tables, days_before(self.log_dates, days), phase=before)
            self._contexts[phase] = looked_back_on(self.done[before] | earlier[before], self.log_dates, days)
        return self._contexts[phase]

    def due(self, phase: str, want: Wanted) -> set[date]:
        """Return days with a unit whose rows in a whole-day phase are missing, outdated or without input."""
        before, done = self.done[phase_before(phase)], self.done[phase]
        units = before.keys() | done.keys()
        context = self.context(phase) if units else {}
        return {
            unit[0]
            for unit in units
            if unit not in before
            or unit not in done
            or not done[unit].is_built_on(before[unit], want, context)
        }

    def results_due(self, want: Wanted) -> set[Unit]:
        """Return the units whose results are missing, were made from other input, or have no row of `jobs`.

        A unit of `jobs` without a fingerprint of its ingest is not due: its rows may be incomplete, because
        an ingest was killed or because old rows were removed.
        """
        ingested, simulated = self.done[Phase.INGEST], self.done[Phase.SIMULATE]
        changed = {
            unit
            for unit, before in ingested.items()
            if unit not in simulated or not simulated[unit].is_built_on(before, want, {})
        }
        return changed | {unit for unit in simulated if unit not in ingested and unit not in self.jobs}

    def built_on(self, phase: str) -> list[Fingerprint]:
        """Return the fingerprints to record for a phase: one for each fingerprint of the preceding phase.

        A unit without a fingerprint of the preceding phase gets none, and so is due again in the next run.
        """
        facts, context = wanted(self.settings, phase), self.context(phase)
        return [
            Fingerprint(each.unit, phase, each.as_input(context), *facts, each.bytes, each.ops)
            for each in self.done[phase_before(phase)].values()
        ]


def looked_back_on(done: Recorded, log_dates: Iterable[date], days: int) -> dict[date, str]:
    """Return, for each day, a hash of a phase's fingerprints of the `days` days before that day.

    done : fingerprints of the phase, including those of the earlier days
    """
    by_day: dict[date, list[str]] = {}
    for unit in sorted(done):
        by_day.setdefault(unit[0], []).append(done[unit].identity)
    return {
        day: hashed([by_day.get(day - timedelta(days=age), []) for age in range(1, days + 1)])
        for day in set(log_dates)
    }


def days_before(log_dates: Collection[date], days: int) -> list[date]:
    """Return all days up to `days` days before any of these days, without these days themselves."""
    return _days_beside(log_dates, range(-days, 0))


def days_after(log_dates: Collection[date], days: int) -> list[date]:
    """Return all days up to `days` days after any of these days, without these days themselves."""
    return _days_beside(log_dates, range(1, days + 1))


def _days_beside(log_dates: Collection[date], apart: range) -> list[date]:
    found = {day + timedelta(days=age) for day in set(log_dates) for age in apart}
    return sorted(found - set(log_dates))


class LandingChanges(NamedTuple):
    """Changes in the landing that ingest has to process.

    landed : files of every unit in the landing
    changed : units that were never ingested, or whose files, contents, settings or version have changed
    gone : ingested units without files in the landing, while other units of their day still have files
    retouched : fingerprints, with new times, of units that were sent again unchanged
    """

    landed: Mapping[Unit, Sequence[LandedFile]]
    changed: frozenset[Unit]
    gone: frozenset[Unit]
    retouched: tuple[Fingerprint, ...]


def changed_in_landing(
    root: str, ingested: Recorded, log_dates: Sequence[date], want: Wanted, digests: Digests
) -> LandingChanges:
    """Compare the landing's files with fingerprints; return the units that ingest has to read or to remove.

    Files are compared by name, size and time of change; if only times differ, by contents. If a whole day is
    missing in the landing, its units are not `gone`: their rows are kept.

    want : settings and version of a valid fingerprint
    digests : computes the SHA-256 of files
    """
    landing = Landing(root, log_dates)
    landed = landing.units
    changed, doubtful = set(), []
    for unit, files in landed.items():
        known = ingested.get(unit)
        sizes = {file.name: file.size for file in files}
        if known is None or not known.is_as(want) or {each.name: each.bytes for each in known.files} != sizes:
            changed.add(unit)
        elif _touched(known, files):
            doubtful.append(unit)
    touched = [file for unit in doubtful for file in _touched(ingested[unit], landed[unit])]
    read = digests(landing.root, touched)
    same = []
    for unit in doubtful:
        known, retouched = ingested[unit], list(ingested[unit].files)
        places = {each.name: place for place, each in enumerate(retouched)}
        for file in _touched(known, landed[unit]):
            now = File(file.name, file.size, file.modified_us, read.get(file.source_file))
            retouched[places[file.name]] = now
        if contents_of(retouched) == known.inputs:
            same.append(known._replace(files=tuple(retouched)))
        else:
            changed.add(unit)
    days = {unit[0] for unit in landed}
    gone = {unit for unit in ingested if unit not in landed and unit[0] in days}
    return LandingChanges(landed, frozenset(changed), frozenset(gone), tuple(same))


def _touched(known: Fingerprint, files: Sequence[LandedFile]) -> list[LandedFile]:
    times = {each.name: each.modified_us for each in known.files}
    return [file for file in files if file.modified_us != times[file.name]]
