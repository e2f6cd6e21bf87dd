"""Buffer of a unit's rows and rejects in memory, which are then written to staging, sorted."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from jobs.landing.formats.rows import Reject, Rows, joined, table_of
from jobs.warehouse.staging import Staging
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import RANK_STEPS, REJECTS

_MOST_BUFFERED: Final = 96 << 20
"""Most bytes of rows and rejects that are buffered; a larger unit is written in several runs, each sorted."""
_ORDER: Final = ("rank", "tp_rank", "cp_rank", "dp_rank", "step", "pp_rank")
"""Keys of a unit's sort order, the primary one last as in np.lexsort: the simulation reads a stage as dense
arrays."""
_REJECTED: Final = pa.schema([each for each in TABLES[REJECTS].arrow_schema if each.name in Reject._fields])


class RowBuffer:
    """Buffer that writes rows, sorted, and rejects to staging when it is flushed, or when it is full."""

    def __init__(self, unit: Unit, staging: Staging) -> None:
        self._unit, self.staging = unit, staging
        self.rows: list[tuple[str, Rows]] = []
        self.rejects: list[tuple[str, Reject]] = []
        self._bytes, self.ops = 0, 0

    def another(self) -> "RowBuffer":
        """Return a second buffer for rows that may be dropped independently."""
        return RowBuffer(self._unit, self.staging.another())

    def add(self, source_file: str, rows: Rows, rejects: Sequence[Reject]) -> None:
        """Add the rows and rejects of a file."""
        if rows.lines:
            self.rows.append((source_file, rows))
        self.rejects += [(source_file, each) for each in rejects]
        self._bytes += rows.nbytes + sum(each.nbytes for each in rejects)
        if self._bytes > _MOST_BUFFERED:
            self.flush()

    def take(self, other: "RowBuffer") -> None:
        """Take over the contents of another buffer, including what that buffer has written."""
        self.staging.take(other.staging)
        self.ops += other.ops
        for source_file, rows in other.rows:
            self.add(source_file, rows, ())
        self.rejects += other.rejects
        self._bytes += sum(each.nbytes for _, each in other.rejects)

    def flush(self) -> None:
        """Write all buffered rows and rejects to staging."""
        if self.rows:
            self._write_rows()
        if self.rejects:
            rejects = pa.Table.from_pylist([each._asdict() for _, each in self.rejects], _REJECTED)
            self.write(REJECTS, with_files(rejects, [name for name, _ in self.rejects]))
        self.rows, self.rejects, self._bytes = [], [], 0

    def write(self, name: str, rows: pa.Table, ops: int = 0) -> None:
        """Write rows of a table, without the unit's key, to staging."""
        day, *ids = self._unit
        for column, value in zip(("job_id", "run_id"), ids, strict=True):
            rows = rows.append_column(column, pa.repeat(pa.scalar(value, pa.string()), rows.num_rows))
        self.staging.write(name, (("log_date", day.isoformat()),), rows, ops)

    def _write_rows(self) -> None:
        rows = joined([each for _, each in self.rows])
        files = np.repeat(np.arange(len(self.rows)), [len(each.lines) for _, each in self.rows])
        names = pa.array([name for name, _ in self.rows])
        self.rows = []
        table, ops = table_of(rows), len(rows.lists[0])
        order = np.lexsort([table.column(name).fill_null(-1).to_numpy() for name in _ORDER])
        self.ops += ops
        self.write(RANK_STEPS, with_files(table.take(order), names.take(files[order])), ops)


def with_files(rows: pa.Table, files: Sequence[str]) -> pa.Table:
    """Add the column source_file, given the file of each row."""
    return rows.append_column("source_file", pa.array(files, pa.string()))
