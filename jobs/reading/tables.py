"""Whole tables by a reader, for plans: what is recorded of days, units and runs."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date

import pyarrow as pa

from jobs.reading.conditions import on_units
from jobs.reading.reader import Reader
from schemas.table import Table, sql_strings
from schemas.unit import Unit


class Tables:
    """A reader.TableReader over one warehouse.

    ingested : reader of the warehouse that the ingested tables are read from, where not from this one
    """

    def __init__(self, reader: Reader, ingested: Reader | None = None) -> None:
        self._reader = reader
        self.ingested: Tables = self if ingested is None else Tables(ingested)

    def rows(
        self,
        table: Table,
        log_dates: Sequence[date] | None = None,
        units: Collection[Unit] | None = None,
        also: Mapping[str, str] | None = None,
    ) -> pa.Table:
        """Rows of a table; see TableReader."""
        wanted = ["true"] if log_dates is None else [on_units(log_dates, units)]
        wanted += [f"{name} = {sql_strings([value])}" for name, value in (also or {}).items()]
        return self._reader.rows(f"SELECT * FROM {table.name} WHERE {' AND '.join(wanted)}")
