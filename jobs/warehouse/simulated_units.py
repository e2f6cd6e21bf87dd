"""Simulation of units in Spark tasks; if Spark's Python worker has died, each unit gets its own process."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from jobs.runtime.memory import go_first
from jobs.runtime.one_by_one import Ended, is_again, one_by_one
from jobs.warehouse.file_frames import tasks_in
from jobs.warehouse.stored_units import Facts, StoredUnit, rows_of_units
from schemas.unit import Unit
from udfs.simulate.unit_batches import Results, UnitRows, UsualTransfers, ended_unit, simulate_unit
from udfs.what_if import SimulationSettings


def simulated_units(
    settings: SimulationSettings, before_s: UsualTransfers, batches: Iterable[pa.RecordBatch]
) -> Iterator[tuple[Unit, Results]]:
    """Read and simulate the units of a batch of tasks; yield each unit with its results.

    before_s : usual durations of transfers on earlier days, by unit [s]
    batches : rows of `units_frame`
    """
    go_first()
    for units, facts in tasks_in(batches):
        if not is_again():
            for each in rows_of_units(units, facts):
                yield each.key, simulate_unit(each, settings, before_s.get(each.key))
            continue
        pieces = [(unit, facts.of(unit.key)) for unit in units]
        results = one_by_one(partial(_alone, settings, before_s), pieces)
        for (unit, own), found in zip(pieces, results, strict=True):
            yield unit.key, _results(found, own.read, settings)


def simulated_rows(settings: SimulationSettings, before_s: UsualTransfers, unit: UnitRows) -> Results:
    """Simulate a unit whose rows a shuffle has brought together; see simulated_units."""
    go_first()
    if not is_again():
        return simulate_unit(unit, settings, before_s.get(unit.key))
    alone = partial(simulate_unit, settings=settings, before_s=before_s.get(unit.key))
    (found,) = one_by_one(alone, [unit])
    return _results(found, lambda: unit.manifest, settings)


def _alone(
    settings: SimulationSettings, before_s: UsualTransfers, piece: tuple[StoredUnit, Facts]
) -> Results:
    unit, facts = piece
    (found,) = rows_of_units([unit], facts)
    return simulate_unit(found, settings, before_s.get(unit.key))


def _results(
    found: Results | Ended, facts: Callable[[], Mapping[str, Any]], settings: SimulationSettings
) -> Results:
    return ended_unit(facts(), settings, found.why) if isinstance(found, Ended) else found
