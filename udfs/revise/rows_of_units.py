"""Rows of many units, of which Python has those of one at a time: as objects they take ten times as much."""

from collections.abc import Collection
from typing import Any, Final

import numpy as np
import pyarrow as pa

from schemas.unit import Unit
from schemas.vocabulary import UNIT_KEY

_PLACE: Final = "place"


class RowsOfUnits:
    """Rows of a table by unit: Python has those of one unit at a time.

    order : columns by which the rows of a unit are sorted; else they are as in the table
    """

    def __init__(self, table: pa.Table, *order: str) -> None:
        placed = table.append_column(_PLACE, pa.array(np.arange(table.num_rows)))
        by = [(name, "ascending") for name in (*UNIT_KEY, *order, _PLACE)]
        self._rows = placed.sort_by(by).combine_chunks()
        counted = self._rows.group_by(UNIT_KEY, use_threads=False).aggregate([([], "count_all")])
        counts = counted["count_all"].to_numpy()
        starts = (np.cumsum(counts) - counts).tolist()
        units = (Unit(*(row[name] for name in UNIT_KEY)) for row in counted.to_pylist())
        ranges = zip(starts, counts.tolist(), strict=True)
        self._found = dict(zip(units, ranges, strict=True))

    @property
    def units(self) -> Collection[Unit]:
        """All units that have rows, in order."""
        return self._found.keys()

    def places(self, unit: Unit) -> list[int]:
        """Positions in the table of a unit's rows."""
        found: list[int] = self._rows[_PLACE].slice(*self._found[unit]).to_pylist()
        return found

    def read(self, unit: Unit) -> list[dict[str, Any]]:
        """Rows of a unit, if it has any."""
        found = self._rows.slice(*self._found.get(unit, (0, 0))).drop_columns(_PLACE)
        return list(found.to_pylist(maps_as_pydicts="strict"))
