"""Search of tables' Delta logs for the files that hold the rows of given days."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Any, Final, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable

from jobs.warehouse.stored import opened
from schemas.table import Table

_LOG_DATE: Final = "log_date"

Filters = Mapping[str, Collection[str]]
"""Allowed values of partition columns, by column; a column that is not a key may have any value."""


def on_days(table: Table, log_dates: Sequence[date] | None, also: Mapping[str, str] | None = None) -> Filters:
    """Return a partition filter for rows of these days (None: of all days).

    also : required values of other partition columns, by column
    """
    found = {name: {value} for name, value in (also or {}).items()}
    if log_dates is not None and _LOG_DATE in table.partition_by:
        found[_LOG_DATE] = {day.isoformat() for day in log_dates}
    return found


def has_rows_of(path: str, day: date) -> bool:
    """Return whether a table's newest version, published or not, has rows of a day."""
    log = opened(path)
    return _LOG_DATE in log.metadata().partition_columns and bool(logged(log, {_LOG_DATE: [day.isoformat()]}))


class Logged(NamedTuple):
    """A file as listed in a Delta log: name below the table, bytes, rows, partition.

    rows : None if another tool committed the file without a number of rows; `rows_in` then finds it
    least, greatest : minimum and maximum of those columns for which the log has them, by column
    """

    name: str
    size: int
    rows: int | None
    partition: Mapping[str, str]
    least: Mapping[str, Any]
    greatest: Mapping[str, Any]

    def may_have(self, column: str, value: object) -> bool:
        """Return whether the file may contain this value, by its column statistics."""
        least, greatest = self.least.get(column), self.greatest.get(column)
        return least is None or greatest is None or least <= value <= greatest


def logged(log: DeltaTable, partitions: Filters | None = None) -> list[Logged]:
    """Return the files of some partitions, or of all partitions, sorted by name."""
    files = [
        Logged(
            file["path"],
            file["size_bytes"],
            file["num_records"],
            {key: str(value) for key, value in (file.get("partition") or {}).items()},
            file.get("min") or {},
            file.get("max") or {},
        )
        for file in pa.table(log.get_add_actions()).to_pylist()
    ]
    wanted = (partitions or {}).items()
    found = (file for file in files if all(file.partition[name] in values for name, values in wanted))
    return sorted(found, key=lambda file: file.name)
