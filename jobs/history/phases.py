"""Declarations of the daily run's phases: entry point, version, relevant settings, affected days.

vocabulary.Phase has the names of the phases, in their order.
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
    version : changes whenever the phase makes other rows from the same input
    measure : what its time grows with (bytes, ops, units)
    settings : returns the settings on which its rows depend, as JSON, without the paths of tables and logs
    of_days : whether it does whole days, and later days that depend on a changed day; if not, single units
    looks_back : whether it also reads results of the `revision.days` days before a day
    """

    entry_point: str
    version: str
    measure: str
    settings: Callable[[Settings], str] = lambda _: "{}"
    of_days: bool = True
    looks_back: bool = False


def simulation(settings: Settings) -> SimulationSettings:
    """Return the section `simulation` of the settings in the type that the simulation takes."""
    return SimulationSettings(**settings.simulation.model_dump())


PHASES: Final[dict[str, Declared]] = {
    Phase.INGEST: Declared(
        "ingest_rank_logs",
        "6",
        "bytes",
        lambda all_: all_.landing.model_dump_json(exclude={"packing"}),
        of_days=False,
    ),
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
    Phase.AGGREGATE: Declared(
        "aggregate_fleet",
        "3",
        "units",
        # Without watts "{}", as in versions that did not have these settings.
        lambda all_: all_.power.model_dump_json() if all_.power.watts else "{}",
        looks_back=True,
    ),
    Phase.PUBLISH: Declared("publish_night", "1", "units"),
}
"""Phases by name, in the order in which they depend on each other."""

OF_DAYS: Final = tuple(name for name, phase in PHASES.items() if phase.of_days)
"""Phases that process whole days."""


def days_reached(phase: str, days: int) -> int:
    """Return the number of days after a changed day on which a phase's rows depend on that day.

    days : number of earlier days that a phase with `looks_back` reads
    """
    return days * sum(PHASES[name].looks_back for name in PHASE_NAMES[: PHASE_NAMES.index(phase) + 1])


def phase_before(phase: str) -> str:
    """Return the name of the preceding phase, whose rows this phase reads."""
    return PHASE_NAMES[PHASE_NAMES.index(phase) - 1]
