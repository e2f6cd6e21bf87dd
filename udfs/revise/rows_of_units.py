"""Rows of a table by unit; only a few units at a time become Python objects, to limit memory."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import numpy as np
import pyarrow as pa

from schemas.unit import Unit
from schemas.vocabulary import UNIT_KEY

_PLACE: Final = "place"
_AT: Final = "at"
_UNITS_AT_A_TIME: Final = 256

Row = dict[str, Any]


class RowsOfUnits:
    """Rows of a table, grouped by unit.

    order : columns by which the rows of a unit are sorted; rows that are equal in these stay in table order
    """

    def __init__(self, table: pa.Table, *order: str) -> None:
        placed = table.append_column(_PLACE, pa.array(np.arange(table.num_rows)))
        by = [(name, "ascending") for name in (*UNIT_KEY, *order, _PLACE)]
        self._rows = placed.sort_by(by).combine_chunks()
        numbered = self._rows.select(UNIT_KEY).append_column(_AT, pa.array(np.arange(table.num_rows)))
        # group_by returns groups in any order.
        found = numbered.group_by(UNIT_KEY).aggregate([(_AT, "min"), (_AT, "count")]).sort_by(f"{_AT}_min")
        self._found = {Unit.of(row): (row[f"{_AT}_min"], row[f"{_AT}_count"]) for row in found.to_pylist()}

    def __iter__(self) -> Iterator[tuple[Unit, list[Row], list[int]]]:
        """Yield every unit, in order, with its rows and the rows' positions in the table."""
        units = [*self._found.items()]
        for first in range(0, len(units), _UNITS_AT_A_TIME):
            some = units[first : first + _UNITS_AT_A_TIME]
            rows = iter(self._read(self._rows, some[0][1][0], sum(count for _, (_, count) in some)))
            for unit, (_, count) in some:
                own = [*islice(rows, count)]
                places = [row.pop(_PLACE) for row in own]
                yield unit, own, places

    def of(self, unit: Unit) -> list[Row]:
        """Return the rows of a unit; none if the table has no rows of the unit."""
        return self._read(self._rows.drop_columns([_PLACE]), *self._found.get(unit, (0, 0)))

    @staticmethod
    def _read(rows: pa.Table, start: int, count: int) -> list[Row]:
        return list(rows.slice(start, count).to_pylist(maps_as_pydicts="strict"))
