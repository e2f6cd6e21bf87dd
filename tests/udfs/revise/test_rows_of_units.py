"""Rows of many units are returned unit by unit."""

import numpy as np
import pyarrow as pa
import pytest

from schemas.unit import Unit
from schemas.vocabulary import UNIT_KEY
from tests.support.examples import DAY
from udfs.revise.rows_of_units import RowsOfUnits


@pytest.mark.parametrize("units", [1, 3, 700])
def test_each_unit_has_its_own_rows_in_order(units: int) -> None:
    """Each of hundreds of units gets exactly its own rows, in their order."""
    rng = np.random.default_rng(units)
    own = {}
    for number in range(units):
        unit = Unit(DAY, f"nightly-{number:03}-llm", "run")
        key = dict(zip(UNIT_KEY, unit, strict=True))
        own[unit] = [key | {"number": number, "order": at} for at in range(int(rng.integers(1, 12)))]
    named = [row for rows in own.values() for row in rows]
    in_table = [named[at] for at in rng.permutation(len(named))]
    found = RowsOfUnits(pa.Table.from_pylist(in_table), "order")
    assert {unit: found.of(unit) for unit in own} == own
    assert {unit: rows for unit, rows, _ in found} == own
    assert all([in_table[place] for place in places] == rows for _, rows, places in found)
    assert found.of(Unit(DAY, "other", "run")) == []
