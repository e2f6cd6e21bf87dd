"""How units are packed into tasks of the simulation."""

from datetime import date

import pytest

from jobs.warehouse.stored_units import StoredUnit, packed
from schemas.unit import Unit


def units(*sizes: int) -> list[StoredUnit]:
    keys = (Unit(date(2026, 1, 5), f"job-{number}", "r1") for number in range(len(sizes)))
    return [StoredUnit(key, {}, [], size) for key, size in zip(keys, sizes, strict=True)]


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
    """Also one without rows, which comes first in the order of names as often as any other."""
    made = packed(units(*sizes), partitions=2)
    assert [unit for task in made for unit in task] == units(*sizes)
    assert [[unit.bytes for unit in task] for task in made] == tasks
