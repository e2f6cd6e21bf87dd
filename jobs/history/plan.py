"""Plan of a backfill: the units and days that are due, the batches of days, and the expected time."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import chain
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from jobs.history.fingerprints import Fingerprint, Wanted, wanted
from jobs.history.phases import OF_DAYS, PHASES, days_reached
from jobs.history.records import LandingChanges, Records, changed_in_landing, days_after
from jobs.landing.read_landing import Digests, digests
from jobs.runtime.plural import plural
from jobs.runtime.settings import Settings
from jobs.runtime.settings_sections import HistorySettings
from jobs.warehouse.reader import TableReader
from schemas.tables import TABLES
from schemas.unit import Unit, runs_among
from schemas.vocabulary import PHASE_NAMES, PIPELINE_RUNS, RUN_OUTCOMES, Phase

BYTES_PER_OP: Final = 30.0
"""Bytes per op of a rank log, assumed as long as no rank log was ingested."""

_RUNS_LOOKED_AT: Final = 50
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Work:
    """Amount of work: number of runs, bytes and ops; ops of units that are not yet ingested are estimated."""

    units: int = 0
    bytes: int = 0
    ops: int = 0

    def __add__(self, other: "Work") -> "Work":
        return Work(self.units + other.units, self.bytes + other.bytes, self.ops + other.ops)


@dataclass(frozen=True)
class Batch:
    """Days that share a commit, and the units to do in each phase, for some phases all units of a day."""

    log_dates: tuple[date, ...]
    units: Mapping[str, frozenset[Unit]]
    sizes: Mapping[Unit, Work] = field(repr=False)

    def __str__(self) -> str:
        return ", ".join(map(str, self.log_dates))

    @property
    def range(self) -> str:
        """Return the first and last day, as text."""
        return f"{self.log_dates[0]} .. {self.log_dates[-1]}"

    def of(self, phase: str) -> frozenset[Unit]:
        """Return the units to do in a phase."""
        return self.units.get(phase, frozenset())

    def work(self, phase: str) -> Work:
        """Return the total work of a phase."""
        return sum((self.sizes[unit] for unit in self.of(phase)), Work())

    def on(self, log_dates: Collection[date]) -> "Batch":
        """Return the batch restricted to some of its days."""
        days = tuple(day for day in self.log_dates if day in log_dates)
        return replace(
            self, log_dates=days, units={phase: _on(units, days) for phase, units in self.units.items()}
        )


class Plan(NamedTuple):
    """Planned backfill: its batches, the wanted settings and versions, and new fingerprints to record.

    retouched : fingerprints of units whose files have new times and the same contents
    """

    batches: list[Batch]
    wants: dict[str, Wanted]
    retouched: list[Fingerprint]

    @property
    def log_dates(self) -> list[date]:
        """Return all days with work."""
        return [day for batch in self.batches for day in batch.log_dates]


def plan(
    tables: TableReader,
    settings: Settings,
    log_dates: Sequence[date],
    phases: Sequence[str] = PHASE_NAMES,
    job_ids: Collection[str] = (),
    *,
    data_only: bool = False,
    digest: Digests = digests,
) -> Plan:
    """Plan these phases on these days and on later days that depend on them, without changing anything.

    Reads the records of at most `history.block_days` days at a time.

    job_ids : only these jobs; all if empty
    data_only : whether only changed data make a unit due; results of other settings or versions are then kept
    digest : computes the SHA-256 of files of which only the times have changed
    """
    todo = Plan([], {phase: None if data_only else wanted(settings, phase) for phase in phases}, [])

    def add(
        before: Records, wants: Mapping[str, Wanted], landing: LandingChanges | None, jobs: Collection[str]
    ) -> None:
        changed = [day for batch in todo.batches if batch.of(Phase.SIMULATE) for day in batch.log_dates]
        todo.batches.extend(batches_of(before, landing, wants, settings.history, jobs, changed))

    for some in in_batches(log_dates, settings):
        before, landing = Records(tables, settings, some), None
        if Phase.INGEST in phases:
            known, want = before.done[Phase.INGEST], todo.wants[Phase.INGEST]
            landing = changed_in_landing(settings.paths.landing, known, some, want, digest)
            todo.retouched.extend(
                each for each in landing.retouched if not job_ids or each.unit[1] in job_ids
            )
        elif Phase.SIMULATE in phases:
            _warn_of_unknown(before)
        add(before, todo.wants, landing, job_ids)
    after: dict[str, Wanted] = {phase: None for phase in OF_DAYS if phase in phases}
    if after:
        later = days_after(log_dates, days_reached(PHASE_NAMES[-1], settings.revision.days))
        add(Records(tables, settings, later), after, None, ())
    return todo


def in_batches(log_dates: Collection[date], settings: Settings) -> Iterator[list[date]]:
    """Split days, in order, into lists of at most history.block_days."""
    days, size = sorted(set(log_dates)), settings.history.block_days
    return (days[first : first + size] for first in range(0, len(days), size))


def _warn_of_unknown(before: Records) -> None:
    """Warn of units that cannot be simulated, because no record says that they were ingested completely."""
    if unknown := runs_among(before.jobs - before.done[Phase.INGEST].keys()):
        _LOG.warning(
            "skipped: %s without a record of complete ingestion (--phases ingest,... makes it)",
            plural(unknown, "unit"),
        )


def batches_of(
    before: Records,
    landing: LandingChanges | None,
    wants: Mapping[str, Wanted],
    limits: HistorySettings,
    job_ids: Collection[str] = (),
    changed: Collection[date] = (),
) -> list[Batch]:
    """Plan batches of days on which the wanted phases have work.

    landing : what has changed in the landing; None if ingest is not wanted
    job_ids : only these jobs, and the whole-day phases of their days; all jobs if empty
    changed : earlier days whose results will change, so that whole-day phases of the days after them are due
    """
    known = {unit: each for phase in reversed(PHASE_NAMES) for unit, each in before.done[phase].items()}
    ops, size = (sum(getattr(each, name) for each in known.values()) for name in ("ops", "bytes"))
    per_byte = ops / size if ops and size else 1 / BYTES_PER_OP
    sizes = {unit: Work(runs_among([unit]), each.bytes, each.ops) for unit, each in known.items()}
    for unit, files in landing.landed.items() if landing else ():
        landed = sum(file.size for file in files)
        its_ops = sizes[unit].ops if unit in sizes else round(landed * per_byte)
        sizes[unit] = Work(runs_among([unit]), landed, its_ops)
    todo: dict[str, Collection[Unit]] = {}
    if landing is not None:
        todo[Phase.INGEST] = landing.changed | landing.gone
    if Phase.SIMULATE in wants:
        todo[Phase.SIMULATE] = before.results_due(wants[Phase.SIMULATE]) | set(todo.get(Phase.INGEST, ()))
    if job_ids:
        todo = {phase: {unit for unit in units if unit[1] in job_ids} for phase, units in todo.items()}
    changed = {*changed, *(unit[0] for units in todo.values() for unit in units)}
    of_jobs = {unit[0] for unit in sizes if not job_ids or unit[1] in job_ids}
    days = {*changed}
    for phase in filter(wants.__contains__, OF_DAYS):
        days |= {*days_after(changed, days_reached(phase, before.settings.revision.days))}
        days |= before.due(phase, wants[phase]) & of_jobs
        todo[phase] = _on(sizes, days)
    return [
        Batch(some, {phase: _on(units, some) for phase, units in todo.items()}, sizes)
        for some in _together(todo, sizes, limits)
    ]


def _on(units: Collection[Unit], days: Collection[date]) -> frozenset[Unit]:
    return frozenset(unit for unit in units if unit[0] in days)


def _together(
    todo: Mapping[str, Collection[Unit]], sizes: Mapping[Unit, Work], limits: HistorySettings
) -> list[tuple[date, ...]]:
    """Group days with work into batches, within the limits of days and bytes."""
    by_day: dict[date, set[Unit]] = {}
    for unit in sorted(chain.from_iterable(todo.values())):
        by_day.setdefault(unit[0], set()).add(unit)
    found: list[list[date]] = []
    filled = 0
    for day, units in by_day.items():
        size = sum(sizes[unit].bytes for unit in units)
        if not found or len(found[-1]) == limits.block_days or filled + size > limits.block_bytes:
            found.append([])
            filled = 0
        found[-1].append(day)
        filled += size
    return [tuple(days) for days in found]


def rates(tables: TableReader) -> dict[str, float]:
    """Return the rate that recent runs of each phase reached, in bytes, ops or units per second. [1/s]"""
    runs = tables.ingested.rows(TABLES[PIPELINE_RUNS])
    is_done = pc.and_(pc.equal(runs["outcome"], RUN_OUTCOMES[0]), pc.is_valid(runs["stages"]))
    late = runs.filter(is_done).sort_by([("started_at", "descending")]).slice(0, _RUNS_LOOKED_AT)
    done = pa.Table.from_struct_array(pc.list_flatten(late["stages"]))
    sums = done.group_by("stage").aggregate([(name, "sum") for name in ("seconds", "units", "bytes", "ops")])
    rows = {row["stage"]: row for row in sums.to_pylist() if row["seconds_sum"]}
    seen = {name: row[f"{PHASES[name].measure}_sum"] / row["seconds_sum"] for name, row in rows.items()}
    return {name: rate for name, rate in seen.items() if rate}


def seconds_for(work: Work, phase: str, rate: Mapping[str, float]) -> float | None:
    """Return the estimated time of a phase for this work; None if no run has measured the phase. [s]"""
    return float(getattr(work, PHASES[phase].measure)) / rate[phase] if phase in rate else None
