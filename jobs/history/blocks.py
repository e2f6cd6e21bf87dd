"""What a backfill has to do, in batches of days that share gates and commits, and how long that may take."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import chain
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from jobs.history.changed_units import LandingChanges, Recollection, Wanted, changed_results, days_after
from jobs.reading.reader import TableReader
from jobs.runtime.settings_sections import HistorySettings
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import (
    PHASE_AGGREGATE,
    PHASE_INGEST,
    PHASE_NAMES,
    PHASE_PUBLISH,
    PHASE_REVISE,
    PHASE_SIMULATE,
    PIPELINE_RUNS,
    RUN_OUTCOMES,
)

BYTES_PER_OP: Final = 30.0
"""Bytes per op of a rank log, assumed until some are ingested."""

AFTER_SIMULATE: Final = (PHASE_REVISE, PHASE_AGGREGATE, PHASE_PUBLISH)
"""Phases that do whole days."""

_RATES: Final[Mapping[str, tuple[str, float]]] = {
    PHASE_INGEST: ("bytes", 70e6),
    PHASE_SIMULATE: ("ops", 2e6),
    PHASE_REVISE: ("units", 500.0),
    PHASE_AGGREGATE: ("units", 200.0),
    PHASE_PUBLISH: ("units", 200.0),
}
"""The measure that the time of each phase grows with, and its rate on two cores until a history exists.
[1/s]"""

_RUNS_LOOKED_AT: Final = 50


@dataclass(frozen=True)
class Work:
    """An amount of work; ops of units never ingested are estimated."""

    units: int = 0
    bytes: int = 0
    ops: int = 0

    def __add__(self, other: "Work") -> "Work":
        return Work(self.units + other.units, self.bytes + other.bytes, self.ops + other.ops)


@dataclass(frozen=True)
class Block:
    """Days done together, and for each phase the units to do; for aggregate, all units of its days."""

    log_dates: tuple[date, ...]
    units: Mapping[str, frozenset[Unit]]
    sizes: Mapping[Unit, Work] = field(repr=False)

    def work(self, phase: str) -> Work:
        """The work of a phase."""
        return sum((self.sizes[unit] for unit in self.units.get(phase, ())), Work())

    def on(self, log_dates: Collection[date]) -> "Block":
        """Return the work on some of its days."""
        days = tuple(day for day in self.log_dates if day in log_dates)
        return replace(
            self, log_dates=days, units={phase: _on(units, days) for phase, units in self.units.items()}
        )

    @property
    def jobs(self) -> set[str]:
        """Jobs with work."""
        return {unit[1] for unit in chain.from_iterable(self.units.values())}


def blocks_of(
    before: Recollection,
    landing: LandingChanges | None,
    wants: Mapping[str, Wanted],
    limits: HistorySettings,
    job_ids: Collection[str] = (),
    changed: Collection[date] = (),
) -> list[Block]:
    """Batches of days on which the phases of `wants` have work.

    landing : None without ingest
    job_ids : only these jobs, and the later phases of their days; all where empty
    changed : earlier days whose results change; the later phases of days that look back on them are due
    """
    sizes = _sizes(before, landing)
    todo = {phase: set(units) for phase, units in _units_due(before, landing, wants).items()}
    if job_ids:
        todo = {phase: {unit for unit in units if unit[1] in job_ids} for phase, units in todo.items()}
    changed = {*changed, *(unit[0] for units in todo.values() for unit in units)}
    days = {*changed, *days_after(changed, before.look_back_days)}
    for phase in AFTER_SIMULATE:
        if phase in wants:
            days |= _of_jobs(before.due(phase, wants[phase]), sizes, job_ids)
            todo[phase] = {unit for unit in sizes if unit[0] in days}
    return [
        Block(some, {phase: _on(units, some) for phase, units in todo.items()}, sizes)
        for some in _together(todo, sizes, limits)
    ]


def _units_due(
    before: Recollection, landing: LandingChanges | None, wants: Mapping[str, Wanted]
) -> dict[str, frozenset[Unit]]:
    """Units to ingest and to simulate, if `wants` names these phases."""
    found: dict[str, frozenset[Unit]] = {}
    if landing is not None:
        found[PHASE_INGEST] = landing.changed | landing.gone
    if PHASE_SIMULATE in wants:
        ingested, simulated = before.done[PHASE_INGEST], before.done[PHASE_SIMULATE]
        changed = changed_results(ingested, simulated, before.jobs, wants[PHASE_SIMULATE])
        found[PHASE_SIMULATE] = frozenset(changed | found.get(PHASE_INGEST, frozenset()))
    return found


def _of_jobs(days: set[date], units: Collection[Unit], job_ids: Collection[str]) -> set[date]:
    """Days of some jobs; all days if no job is named."""
    return days & {unit[0] for unit in units if unit[1] in job_ids} if job_ids else days


def _sizes(before: Recollection, landing: LandingChanges | None) -> dict[Unit, Work]:
    """The work of every known unit."""
    known = {unit: each for phase in reversed(PHASE_NAMES) for unit, each in before.done[phase].items()}
    ops, size = (sum(getattr(each, name) for each in known.values()) for name in ("ops", "bytes"))
    per_byte = ops / size if ops and size else 1 / BYTES_PER_OP
    sizes = {unit: Work(1, each.bytes, each.ops) for unit, each in known.items()}
    for unit, files in landing.landed.items() if landing else ():
        landed = sum(file.size for file in files)
        sizes[unit] = Work(1, landed, sizes[unit].ops if unit in sizes else round(landed * per_byte))
    return sizes


def _on(units: Collection[Unit], days: Collection[date]) -> frozenset[Unit]:
    return frozenset(unit for unit in units if unit[0] in days)


def _together(
    todo: Mapping[str, Collection[Unit]], sizes: Mapping[Unit, Work], limits: HistorySettings
) -> list[tuple[date, ...]]:
    """Days with work, in batches within the limits of days and bytes."""
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
    """Rate of each phase in recent runs, in its measure (bytes, ops, units). [1/s]"""
    runs = tables.ingested.rows(TABLES[PIPELINE_RUNS])
    is_done = pc.and_(pc.equal(runs["outcome"], RUN_OUTCOMES[0]), pc.is_valid(runs["stages"]))
    late = runs.filter(is_done).sort_by([("started_at", "descending")]).slice(0, _RUNS_LOOKED_AT)
    done = pa.Table.from_struct_array(pc.list_flatten(late["stages"]))
    sums = done.group_by("stage").aggregate([(name, "sum") for name in ("seconds", "units", "bytes", "ops")])
    by_phase = {row["stage"]: row for row in sums.to_pylist() if row["seconds_sum"]}
    found = {}
    for phase, (measure, usual) in _RATES.items():
        row = by_phase.get(phase)
        found[phase] = (row[f"{measure}_sum"] / row["seconds_sum"] if row else 0.0) or usual
    return found


def seconds_for(work: Work, phase: str, rate: Mapping[str, float]) -> float:
    """Estimate the time of a phase for this work. [s]"""
    measure, _ = _RATES[phase]
    return float(getattr(work, measure)) / rate[phase]
