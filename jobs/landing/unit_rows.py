"""Rows and rejects of a part of a unit on their way to staging, and the accounts of its files."""

from collections import ChainMap, Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from jobs.landing.accounts import FileAccount, UnitAccount, UnitPart
from jobs.landing.content import UnitFiles
from jobs.landing.files import PACKED_RANK_LOG, RANK_LOG, LandedFile
from jobs.landing.formats.rows import (
    LIMITS,
    NO_ROWS,
    SCALARS,
    FileError,
    Reject,
    Rows,
    joined,
    plain,
    table_of,
    text_of,
)
from jobs.landing.formats.run_events import EVENT_ROWS, Events
from jobs.landing.staging import Staging
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import (
    COLLECTIVE_ARRIVAL,
    RANK_STEPS,
    REASON_DUPLICATE_RANK_STEP,
    REJECTS,
    RUN_EVENTS,
)

_MOST_BUFFERED: Final = 192 << 20
"""Most bytes of rows in a task; a larger unit is written in several sorted runs."""
_REJECT_BYTES: Final = 3000
"""Memory of a reject with its text, about."""
_ORDER: Final = ("rank", "tp_rank", "cp_rank", "dp_rank", "step", "pp_rank")
"""Sort order of a unit's rows, the last first: the simulation reads a stage as dense arrays."""
_REJECTED: Final = pa.schema([each for each in TABLES[REJECTS].arrow_schema if each.name in Reject._fields])
_MOST_LEFT_OUT: Final = 100
"""Most kinds of left-out events that are listed; a trace may name thousands."""
_RANK, _STEP = SCALARS.index("rank"), SCALARS.index("step")


class Block(NamedTuple):
    """Some lines of a file, from number `first` on, with their rows and rejects; a trace has no lines."""

    first: int
    lines: Sequence[bytes]
    rows: Rows
    rejects: Sequence[Reject]


class RowBuffer:
    """Collects rows and rejects, and writes them sorted to staging; early if memory runs out."""

    def __init__(self, unit: Unit, staging: Staging) -> None:
        self._unit, self.staging = unit, staging
        self.rows: list[tuple[str, Rows]] = []
        self.rejects: list[tuple[str, Reject]] = []
        self._bytes, self.ops = 0, 0

    def another(self) -> "RowBuffer":
        """One for rows that may have to be dropped while these stay."""
        return RowBuffer(self._unit, self.staging.another())

    def add(self, source_file: str, rows: Rows, rejects: Sequence[Reject]) -> None:
        """Add what came from a file."""
        if rows.lines:
            self.rows.append((source_file, rows))
        self.rejects += [(source_file, each) for each in rejects]
        self._bytes += rows.nbytes + len(rejects) * _REJECT_BYTES
        if self._bytes > _MOST_BUFFERED:
            self.flush()

    def take(self, other: "RowBuffer") -> None:
        """Add what another buffer has, and what of it is written already."""
        self.staging.take(other.staging)
        self.ops += other.ops
        for source_file, rows in other.rows:
            self.add(source_file, rows, ())
        self.rejects += other.rejects
        self._bytes += len(other.rejects) * _REJECT_BYTES

    def drop(self) -> None:
        """Drop everything, also what is written already."""
        self.staging.drop()

    def flush(self) -> None:
        """Write everything to staging."""
        if self.rows:
            self._write_rows()
        if self.rejects:
            rejects = pa.Table.from_pylist([each._asdict() for _, each in self.rejects], _REJECTED)
            self.write(REJECTS, _with_files(rejects, [name for name, _ in self.rejects]))
        self.rows, self.rejects, self._bytes = [], [], 0

    def write(self, name: str, rows: pa.Table, ops: int = 0) -> None:
        """Write rows of a table, which lack the unit's key, to staging."""
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
        self.write(RANK_STEPS, _with_files(table.take(order), names.take(files[order])), ops)


def _with_files(rows: pa.Table, files: Sequence[str]) -> pa.Table:
    return rows.append_column("source_file", pa.array(files, pa.string()))


class UnitRows:
    """Rows and rejects of a part of a unit, and the account of it.

    keys : (rank, step) of the rows so far, with their files; those of a file come to the others at its end
    """

    def __init__(self, part: UnitPart, files: UnitFiles, staging: Staging) -> None:
        self.part, self.files, self.bounds = part, files, files.bounds
        self._buffer = RowBuffer(part.unit, staging)
        self._keys: ChainMap[tuple[int, int], str] = ChainMap()
        self.account = UnitAccount(part.unit, None)

    def known(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """What rows are checked against: the unit's ids, and sizes and types of GPU of a valid manifest."""
        limits = manifest if manifest["manifest_status"] is None else {}
        _, job_id, run_id = self.part.unit
        checked = (*LIMITS, "gpu_types")
        return {"job_id": job_id, "run_id": run_id, **{name: limits.get(name) for name in checked}}

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """What is added in the block counts unless the block ends in an error."""
        buffer, keys, accounts = self._buffer, self._keys, len(self.account.files)
        self._buffer, self._keys = buffer.another(), keys.new_child()
        try:
            yield
        except BaseException:
            self._buffer.drop()
            del self.account.files[accounts:]
            raise
        else:
            buffer.take(self._buffer)
            keys.maps[0].update(self._keys.maps[0])
        finally:
            self._buffer, self._keys = buffer, keys

    def take(self, file: LandedFile, blocks: Iterable[Block]) -> None:
        """Add the rows and rejects of a file, once its end is reached; one that breaks off is one reject."""
        lines = rows_stored = rejected = 0
        try:
            with self.all_or_nothing():
                for block in blocks:
                    rows, rejects = self._once(block, file.source_file)
                    self._buffer.add(file.source_file, rows, rejects)
                    lines += sum(not line.isspace() for line in block.lines if line)
                    rows_stored += len(rows.lines)
                    rejected += len(rejects)
                digest = self.files.digest(file)
        except FileError as error:
            self.refuse(file, error.reject)
            return
        counted = lines if file.is_one_of(RANK_LOG, PACKED_RANK_LOG) else None
        self.account.files.append(FileAccount(file, digest, counted, rows_stored, rejected))

    def refuse(self, file: LandedFile, reject: Reject, digest: str | None = None) -> None:
        """Add a file that is one reject."""
        self._buffer.add(file.source_file, NO_ROWS, [reject])
        self.account.files.append(FileAccount(file, digest, rejects=1))

    def write_arrivals(self, rows: pa.Table) -> None:
        """Write rows of collective_arrival."""
        self._buffer.write(COLLECTIVE_ARRIVAL, rows)

    def take_events(self, file: LandedFile, read: Callable[[], Events]) -> None:
        """Add what `read` finds in a file of events; one that breaks off is one reject."""
        try:
            lines, rows, rejects = read()
        except FileError as error:
            self.refuse(file, error.reject)
            return
        self._buffer.add(file.source_file, NO_ROWS, rejects)
        if rows:
            found = pa.Table.from_pylist(rows, EVENT_ROWS)
            self._buffer.write(RUN_EVENTS, _with_files(found, [file.source_file] * len(rows)))
        account = FileAccount(file, self.files.digest(file), lines, len(rows), len(rejects))
        self.account.files.append(account)

    def end(self, job: dict[str, Any]) -> UnitAccount:
        """Write everything to staging; returns the account."""
        self._buffer.flush()
        self.account.ops = self._buffer.ops
        if self.part.is_first:
            self.account.job = job
        if self.part.is_only:
            self.account.add_gpu_types([])
        else:
            self.account.keys = dict(self._keys)
        return self.account

    def _once(self, block: Block, source_file: str) -> tuple[Rows, list[Reject]]:
        """Rows of each (rank, step) that no earlier line had; all others become rejects."""
        found = dict.fromkeys(_keys_of(block.rows), source_file)
        before = (*self._keys.maps, self.part.taken)
        is_new = len(found) == len(block.rows.lines)
        if is_new and all(found.keys().isdisjoint(each) for each in before):
            rows, rejects = block.rows, list(block.rejects)
        else:
            rows, again = _without_repeats(block, ChainMap(*before), source_file)
            rejects = [*block.rejects, *again]
        self._keys.maps[0].update(found)
        return rows, rejects


def left_out_of(counts: Mapping[str, int]) -> dict[str, int] | None:
    """What is left out of a log, as in the table jobs: the most frequent kinds."""
    plainly: Counter[str] = Counter()
    for what, count in counts.items():
        plainly[plain(what)] += count
    most = dict(plainly.most_common(_MOST_LEFT_OUT))
    others = {"others": plainly.total() - sum(most.values())} if len(plainly) > len(most) else {}
    return most | others or None


def _keys_of(rows: Rows) -> Iterator[tuple[int, int]]:
    return ((scalars[_RANK], scalars[_STEP]) for scalars in rows.scalars)


def _without_repeats(
    block: Block, seen: Mapping[tuple[int, int], str], source_file: str
) -> tuple[Rows, list[Reject]]:
    """Split a block's rows into new ones and repeats of an earlier (rank, step)."""
    own: dict[tuple[int, int], str] = {}
    is_new, again = [], []
    for (rank, step), line in zip(_keys_of(block.rows), block.rows.lines, strict=True):
        known = own.get((rank, step)) or seen.get((rank, step))
        is_new.append(known is None)
        if known is None:
            own[rank, step] = source_file
            continue
        text = text_of(block.lines[line - block.first]) if block.lines else None
        detail = f"rank {rank}, step {step} is already in {known}"
        again.append(Reject(REASON_DUPLICATE_RANK_STEP, detail, line, text))
    return block.rows.where(np.array(is_new, dtype=bool)), again
