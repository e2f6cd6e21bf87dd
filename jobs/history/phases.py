"""Declarations of the daily run's phases: entry point, version, relevant settings, affected days.

The names of the phases and their order are vocabulary.Phase.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from jobs.runtime.settings import Settings
from schemas.vocabulary import PHASE_NAMES, Phase
from udfs.revise import REVISION_VERSION
from udfs.simulate.result_tables import SIMULATOR_VERSION
from udfs.what_if import SimulationSettings


@dataclass(frozen=True)
class Declared:
    """Declaration of one phase of the daily run.

    entry_point : its command, a module at the top of jobs; what it runs is in jobs/night
    version : raised whenever it makes other rows of the same input
    measure : what its time grows with (bytes, ops, units)
    settings : those that matter to it, as JSON; the places of tables and logs never do
    of_days : does whole days, and later ones that depend on a changed day; else single units
    looks_back : also reads results of the `revision.days` before a day
    """

    entry_point: str
    version: str
    measure: str
    settings: Callable[[Settings], str] = lambda _: "{}"
    of_days: bool = True
    looks_back: bool = False


def simulation(settings: Settings) -> SimulationSettings:
    """Return the settings of the simulation."""
    return SimulationSettings(**settings.simulation.model_dump())


def _power(settings: Settings) -> str:
    """Return the settings of power as JSON; without watts "{}", as in versions without these settings."""
    return settings.power.model_dump_json() if settings.power.watts else "{}"


def _bounds(settings: Settings) -> str:
    """Return the settings that decide what is read and what is rejected, as JSON."""
    return settings.landing.model_dump_json(exclude={"packing"})  # how files share tasks changes no row


PHASES: Final[dict[str, Declared]] = {
    Phase.INGEST: Declared("ingest_rank_logs", "6", "bytes", _bounds, of_days=False),
    Phase.SIMULATE: Declared(
        "simulate_what_if", SIMULATOR_VERSION, "ops", lambda all_: simulation(all_).text, of_days=False
    ),
    Phase.REVISE: Declared(
        "revise_causes",
        REVISION_VERSION,
        "units",
        lambda all_: all_.revision.model_dump_json(),
        looks_back=True,
    ),
    Phase.AGGREGATE: Declared("aggregate_fleet", "3", "units", _power, looks_back=True),
    Phase.PUBLISH: Declared("publish_night", "1", "units"),
}
"""Phases by name, in the order in which they depend on each other."""

OF_DAYS: Final = tuple(name for name, phase in PHASES.items() if phase.of_days)
"""Phases that process whole days."""


def days_reached(phase: str, days: int) -> int:
    """Return for how many days after a changed day the rows of a phase depend on the changed day.

    days : how many one phase looks back
    """
    return days * sum(PHASES[name].looks_back for name in PHASE_NAMES[: PHASE_NAMES.index(phase) + 1])


def phase_before(phase: str) -> str:
    """Return the name of the preceding phase, whose rows this phase reads."""
    return PHASE_NAMES[PHASE_NAMES.index(phase) - 1]
