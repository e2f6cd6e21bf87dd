"""One unit of the landing, read once: its manifest, then every log; rows and rejects staged, files accounted."""

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobs.landing.content import Content, refusal_of
from jobs.landing.files import MANIFEST, META, PACKED_RANK_LOG, TRACE, LandedFile, Unit
from jobs.landing.formats.manifest import ManifestError, no_manifest, parse_manifest, parse_published_meta
from jobs.landing.formats.published_trace import read_trace
from jobs.landing.formats.rank_log import RankLogReader
from jobs.landing.formats.rows import LIMITS, LINE, Bounds, FileError, Reject, text_of
from jobs.landing.staging import Staging
from jobs.landing.stores import Store
from schemas.vocabulary import (
    RANK_STEPS,
    REASON_DUPLICATE_RANK_STEP,
    REASON_TOO_MANY_FILES,
    REASON_UNREADABLE_FILE,
    REJECTS,
)
from schemas.tables import TABLES

_HELD: Final = 192 << 20
"""Bytes of rows that a task holds; a unit with more leaves in several sorted runs."""

_ORDER: Final = ("rank", "tp_rank", "cp_rank", "dp_rank", "step", "pp_rank")
"""Rows of a unit are stored by the last of these first: the simulation reads a stage as dense arrays."""

_REJECTED: Final = pa.schema(
    [each for each in TABLES[REJECTS].arrow_schema if each.name in Reject._fields]
)
Keys = dict[tuple[int, int], str]
"""(rank, step) of every row of a unit, and the file that it came from."""


class FileAccount(NamedTuple):
    """What became of a file.

    digest : SHA-256 of what was read; None where it was not read to its end
    lines : that are not blank; None for a file that is not made of lines, or not readable
    """

    file: LandedFile
    digest: str | None
    lines: int | None = None
    rows: int = 0
    rejects: int = 0


@dataclass
class UnitPart:
    """The files of a unit that one task reads.

    manifests : job.json first, then the meta-*.yaml
    surplus : files beyond those that a unit may have
    is_first : whether the row of jobs, and what befalls the manifests, comes from this part
    taken : rows that other parts have already
    """

    unit: Unit
    manifests: Sequence[LandedFile]
    logs: Sequence[LandedFile]
    surplus: Sequence[LandedFile] = ()
    is_first: bool = True
    is_only: bool = True
    taken: Keys = field(default_factory=dict)


@dataclass
class UnitAccount:
    """What was found in a part of a unit: `job` is its row of jobs, without the key."""

    unit: Unit
    job: dict[str, Any] | None
    files: list[FileAccount] = field(default_factory=list)
    ops: int = 0
    keys: Keys = field(default_factory=dict)


def read_unit(store: Store, part: UnitPart, bounds: Bounds, staging: Staging) -> UnitAccount:
    """Read a part of a unit; its rows and rejects go to `staging`."""
    return _UnitReader(store, part, bounds, staging).read()


class _Held:
    """Rows and rejects on their way to staging, sorted there; more than a task can hold leave early."""

    def __init__(self, unit: Unit, staging: Staging) -> None:
        self._unit, self._staging = unit, staging
        self._tables: dict[str, list[pa.Table]] = {RANK_STEPS: [], REJECTS: []}
        self.bytes, self.ops = 0, 0

    def add(self, table: str, rows: pa.Table, source_file: str) -> None:
        if not rows.num_rows:
            return
        _, job_id, run_id = self._unit
        for name, value in (("job_id", job_id), ("run_id", run_id), ("source_file", source_file)):
            rows = rows.append_column(name, pa.repeat(pa.scalar(value, pa.string()), rows.num_rows))
        self._put(table, rows)

    def _put(self, table: str, rows: pa.Table) -> None:
        self._tables[table].append(rows)
        self.bytes += rows.nbytes
        if self.bytes > _HELD:
            self.flush()

    def take(self, other: "_Held") -> None:
        """Add what another held, and what of it has left already."""
        if other._staging is not self._staging:
            self._staging.take(other._staging)
        self.ops += other.ops
        for table, found in other._tables.items():
            for rows in found:
                self._put(table, rows)

    def drop(self) -> None:
        """Forget all of it, what has left already too."""
        self._staging.drop()

    def flush(self) -> None:
        for table, found in self._tables.items():
            if found:
                rows = pa.concat_tables(found).combine_chunks()
                found.clear()
                ops = 0
                if table == RANK_STEPS:
                    rows = rows.take(_order(rows))
                    ops = len(rows.column("op").chunk(0).values)
                    self.ops += ops
                self._staging.write(table, self._unit[0], rows, ops)
        self.bytes = 0


class _UnitReader:
    def __init__(self, store: Store, part: UnitPart, bounds: Bounds, staging: Staging) -> None:
        self._store, self._part, self._bounds, self._staging = store, part, bounds, staging
        self._held = _Held(part.unit, staging)
        self._keys: Keys = {}
        self._account = UnitAccount(part.unit, None)

    def read(self) -> UnitAccount:
        manifest = self._manifest()
        limits = manifest if manifest["manifest_status"] is None else {}
        _, job_id, run_id = self._part.unit
        known = {"job_id": job_id, "run_id": run_id, **{name: limits.get(name) for name in LIMITS}}
        lines = RankLogReader(known, self._bounds)
        for file in self._part.logs:
            self._account.files.append(self._log(file, known, lines))
        for file in self._part.surplus:
            detail = f"the unit has more than {self._bounds.unit_files} files"
            self._account.files.append(self._refused(file, Reject(REASON_TOO_MANY_FILES, detail)))
        self._held.flush()
        account = self._account
        account.ops = self._held.ops
        if self._part.is_first:
            account.job = manifest
        if not self._part.is_only:
            account.keys = self._keys
        return account

    def _manifest(self) -> dict[str, Any]:
        """Read the manifest: job.json, else the first meta-*.yaml by name; digest them all."""
        chosen: dict[str, Any] | None = None
        for file in self._part.manifests:
            digest, reject = None, None
            try:
                content, digest = self._whole(file)
                if chosen is None:
                    chosen = self._parsed(file, content)
            except (FileError, ManifestError) as error:
                reject = error.reject if isinstance(error, FileError) else _unreadable(str(error))
                if chosen is None:
                    chosen = no_manifest(reject.detail)
                else:
                    reject = None  # nobody asks what it says
            if self._part.is_first:
                account = FileAccount(file, digest) if reject is None else self._refused(file, reject, digest)
                self._account.files.append(account)
        return chosen or no_manifest(f"no {MANIFEST} in the folder")

    def _whole(self, file: LandedFile) -> tuple[bytes, str]:
        if file.defect:
            raise FileError(REASON_UNREADABLE_FILE, file.defect)
        try:
            with self._store.open(file.path) as opened:
                content = Content(opened, self._bounds)
                return content.whole(self._bounds.manifest_bytes), content.digest
        except OSError as error:
            raise refusal_of(error) from None

    def _parsed(self, file: LandedFile, content: bytes) -> dict[str, Any]:
        if not content:
            raise ManifestError("the file is empty")
        if file.is_one_of(MANIFEST):
            return parse_manifest(content, file.job_id, file.run_id, self._bounds.nesting)
        return parse_published_meta(content, self._bounds.nesting)

    def _log(self, file: LandedFile, known: Mapping[str, Any], lines: RankLogReader) -> FileAccount:
        """Read a log; until its end is reached, nobody knows whether its rows count."""
        held = _Held(self._part.unit, self._staging.another())
        keys: Keys = {}
        try:
            account = self._counted(file, known, lines, held, keys)
        except FileError as error:
            held.drop()
            return self._refused(file, error.reject)
        self._held.take(held)
        self._keys |= keys
        return account

    def _counted(
        self, file: LandedFile, known: Mapping[str, Any], lines: RankLogReader, held: _Held, keys: Keys
    ) -> FileAccount:
        if file.defect:
            raise FileError(REASON_UNREADABLE_FILE, file.defect)
        is_trace = file.is_one_of(TRACE)
        counted = rows_kept = rejected = 0
        try:
            with self._store.open(file.path) as opened:
                content = Content(opened, self._bounds)
                for block in _trace(content, known) if is_trace else _lines(content, lines, file):
                    rows, rejects = self._once(block, file, keys)
                    held.add(RANK_STEPS, rows, file.source_file)
                    held.add(REJECTS, rejects, file.source_file)
                    counted += sum(not line.isspace() for line in block.lines if line)
                    rows_kept += rows.num_rows
                    rejected += rejects.num_rows
        except OSError as error:
            raise refusal_of(error) from None
        return FileAccount(file, content.digest, None if is_trace else counted, rows_kept, rejected)

    def _once(self, block: "_Block", file: LandedFile, keys: Keys) -> tuple[pa.Table, pa.Table]:
        """Rows that say of a (rank, step) what no line before has said; all others are rejects."""
        rows, rejects = block.rows, block.rejects
        found = dict.fromkeys(_keys(rows), file.source_file)
        before = (self._part.taken, self._keys, keys)
        if len(found) < rows.num_rows or not all(found.keys().isdisjoint(each) for each in before):
            rows, again = _repeated(block, ChainMap(keys, self._keys, self._part.taken), file.source_file)
            rejects = [*rejects, *again]
        keys |= found
        return rows, pa.Table.from_pylist([each._asdict() for each in rejects], _REJECTED)

    def _refused(self, file: LandedFile, reject: Reject, digest: str | None = None) -> FileAccount:
        self._held.add(REJECTS, pa.Table.from_pylist([reject._asdict()], _REJECTED), file.source_file)
        return FileAccount(file, digest, rejects=1)


class _Block(NamedTuple):
    """Some lines of a file, number `first` and on, and what they are; a trace has no lines."""

    first: int
    lines: Sequence[bytes]
    rows: pa.Table
    rejects: Sequence[Reject]


def _lines(content: Content, reader: RankLogReader, file: LandedFile) -> Iterator[_Block]:
    first = 1
    for lines in content.lines(is_packed=file.is_one_of(PACKED_RANK_LOG)):
        yield _Block(first, lines, *reader.read(lines, first))
        first += len(lines)


def _trace(content: Content, known: Mapping[str, Any]) -> Iterator[_Block]:
    """Read a trace from its footer on; its digest needs all of it once more."""
    yield _Block(1, (), *content.at_any_place(lambda file, bounds: read_trace(file, known, bounds)))
    for _ in content.pieces():
        pass


def _keys(rows: pa.Table) -> Iterator[tuple[int, int]]:
    return zip(rows.column("rank").to_pylist(), rows.column("step").to_pylist(), strict=True)


def _repeated(block: _Block, seen: Mapping[tuple[int, int], str], source_file: str) -> tuple[pa.Table, list[Reject]]:
    """Take out of a block's rows those of a (rank, step) that was there before; return both."""
    own: dict[tuple[int, int], str] = {}
    is_new, again = [], []
    lines = block.rows.column(LINE).to_pylist()
    for (rank, step), line in zip(_keys(block.rows), lines, strict=True):
        known = own.get((rank, step)) or seen.get((rank, step))
        is_new.append(known is None)
        if known is None:
            own[rank, step] = source_file
            continue
        text = text_of(block.lines[line - block.first]) if block.lines else None
        detail = f"rank {rank}, step {step} is already in {known}"
        again.append(Reject(REASON_DUPLICATE_RANK_STEP, detail, line, text))
    return block.rows.filter(pa.array(is_new, pa.bool_())), again


def _unreadable(detail: str) -> Reject:
    return Reject(REASON_UNREADABLE_FILE, detail)


def _order(rows: pa.Table) -> npt.NDArray[np.intp]:
    return np.lexsort([rows.column(name).fill_null(-1).to_numpy() for name in _ORDER])
