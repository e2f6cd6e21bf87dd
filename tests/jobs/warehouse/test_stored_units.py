"""Test how stored units are distributed over the tasks of a simulation."""

from datetime import date

import pytest

from jobs.warehouse.stored_units import Facts, StoredUnit, packed
from schemas.unit import Unit
from schemas.vocabulary import JOBS, RUN_EVENTS
from tests.support.examples import table_rows


def units(*sizes: int) -> list[StoredUnit]:
    keys = (Unit(date(2026, 1, 5), f"job-{number}", "r1") for number in range(len(sizes)))
    return [StoredUnit(key, [], size) for key, size in zip(keys, sizes, strict=True)]


@pytest.mark.parametrize(
    ("sizes", "tasks"),
    [
        ((), []),
        ((0,), [[0]]),
        ((0, 0, 9), [[0, 0, 9]]),
        ((5, 5, 5, 5), [[5, 5], [5, 5]]),
        ((50, 1, 1, 50), [[50, 1, 1], [50]]),
    ],
)
def test_every_unit_is_in_one_task_also_one_without_rows(
    sizes: tuple[int, ...], tasks: list[list[int]]
) -> None:
    made = packed(units(*sizes), partitions=2)
    assert [unit for task in made for unit in task] == units(*sizes)
    assert [[unit.bytes for unit in task] for task in made] == tasks


def test_facts_of_a_unit_are_its_row_of_jobs_and_its_events_in_order() -> None:
    labels = {"labels": {"a": "b"}, "gpu_types": {"node-1": "H100"}}
    jobs = table_rows(JOBS, [{"job_id": "a", **labels}, {"job_id": "b"}])
    events = table_rows(RUN_EVENTS, [{"job_id": "a", "line": 1}, {"job_id": "a", "line": 2}])
    facts = Facts(jobs, events)
    rows = jobs.to_pylist(maps_as_pydicts="strict")
    read = {unit.job_id: facts.of(unit).read() for unit in facts.units}
    assert read == {"a": rows[0] | {"events": events.to_pylist()}, "b": rows[1]}
    both = facts.of(*reversed(list(facts.units)))
    assert {unit.job_id: both.of(unit).read() for unit in facts.units} == read, (
        "facts of a task's units equal those of all units"
    )
    assert facts.of(Unit(date(2026, 1, 5), "c", "r1")).read() == {}
