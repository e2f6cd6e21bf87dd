"""Jobs of several roles above the limits are refused, and jobs at the limits need little memory and time."""

import tracemalloc
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from schemas.tables import TABLES
from schemas.vocabulary import ROLE_EFFECT, ROLE_STEP
from tests.udfs.roles.test_wholes import answered, one_after_the_other, step
from udfs.kernel.arrays import Ints, Mask
from udfs.roles import role_tables as wholes
from udfs.roles.role_tables import role_tables
from udfs.roles.whole import Whole, waits_of


@pytest.mark.parametrize(("name", "most"), [("MOST_ROLES", 3), ("MOST_ITERATIONS", 2)])
def test_a_whole_beyond_a_bound_is_counted_and_nothing_is_said(
    name: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wholes, name, most + 1)
    assert answered(one_after_the_other())[1]["actor"]["whole_s"] is not None
    monkeypatch.setattr(wholes, name, most)
    rows, effects = answered(one_after_the_other())
    assert rows == []
    assert {(row["whole_s"], row["runs"], row["iterations"]) for row in effects.values()} == {(None, 1, 3)}


def test_wholes_of_a_day_are_apart_whatever_the_order_of_rows() -> None:
    rows = [row | {"part_of": part_of} for row in one_after_the_other() for part_of in ("b", "a")]
    parts = [{name: row[name] for name in ("log_date", "job_id", "run_id", "part_of", "role")}
             | {"gpu_hours": 10.0, "lost_fraction": 0.1} for row in rows[:8]]  # fmt: skip
    found = role_tables(
        pa.Table.from_pylist(rows, TABLES[ROLE_STEP].arrow_schema), pa.Table.from_pylist(parts)
    )[ROLE_EFFECT].to_pylist()
    alone = answered(one_after_the_other())[1]
    assert found == [alone[role] | {"part_of": part_of} for part_of in ("a", "b") for role in sorted(alone)]


def test_no_array_has_two_axes_of_roles_and_one_of_iterations() -> None:
    """At the limits, no array has two axes of roles and one of iterations, which would take 80 MB."""
    roles, iterations = 32, 2000
    start_s = np.arange(iterations) + np.arange(roles)[:, None] / roles
    none = np.empty(0, dtype=np.int64)
    whole = Whole(
        np.arange(iterations), start_s, start_s + 1 / roles, start_s, np.ones_like(start_s, dtype=np.int64),
        none, none, *[np.empty(0)] * 5,
    )  # fmt: skip
    tracemalloc.start()
    try:
        waits = waits_of(whole)
        assert tracemalloc.get_traced_memory()[1] < 12 * start_s.nbytes
    finally:
        tracemalloc.stop()
    assert waits.within.sum() == roles * (roles - 1) // 2


def test_stretches_are_found_without_a_pass_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretches of consecutive iterations are found in one pass, even if every iteration is a stretch."""
    passes, find = Counter[str](), np.flatnonzero

    def counted(mask: Mask) -> Ints:
        passes["flatnonzero"] += 1
        return find(mask)

    monkeypatch.setattr(np, "flatnonzero", counted)
    rows = [step("actor", 2 * number, 10.0 * number, 10.0 * number + 4) for number in range(200)]
    assert answered(rows)[1]["actor"]["whole_s"] == pytest.approx(800)
    assert passes.total() < 100
