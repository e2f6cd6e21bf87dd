"""One unit of the landing, read once: its manifest, then every log; rows and rejects are staged."""

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from jobs.landing.content import Content, refusal_of
from jobs.landing.files import MANIFEST, PACKED_RANK_LOG, TRACE, LandedFile, Unit
from jobs.landing.formats.manifest import ManifestError, no_manifest, parse_manifest, parse_published_meta
from jobs.landing.formats.published_trace import read_trace
from jobs.landing.formats.rank_log import RankLogReader
from jobs.landing.formats.rows import (
    LIMITS,
    NO_ROWS,
    SCALARS,
    Bounds,
    FileError,
    Reject,
    Rows,
    joined,
    table_of,
    text_of,
)
from jobs.landing.staging import Staging
from jobs.landing.stores import Store
from schemas.tables import TABLES
from schemas.vocabulary import (
    RANK_STEPS,
    REASON_DUPLICATE_RANK_STEP,
    REASON_TOO_MANY_FILES,
    REASON_UNREADABLE_FILE,
    REJECTS,
)

_MOST_HELD: Final = 192 << 20
"""Bytes of rows that a task holds; a unit with more leaves in several sorted runs."""

_ORDER: Final = ("rank", "tp_rank", "cp_rank", "dp_rank", "step", "pp_rank")
"""Rows of a unit are stored by the last of these first: the simulation reads a stage as dense arrays."""

_REJECTED: Final = pa.schema([each for each in TABLES[REJECTS].arrow_schema if each.name in Reject._fields])
_REJECT_BYTES: Final = 3000
"""What a reject takes with its text, about."""

_RANK, _STEP = SCALARS.index("rank"), SCALARS.index("step")

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
        self._unit, self.staging = unit, staging
        self.rows: list[tuple[str, Rows]] = []
        self.rejects: list[tuple[str, Reject]] = []
        self._bytes, self.ops = 0, 0

    def add(self, source_file: str, rows: Rows, rejects: Sequence[Reject]) -> None:
        """Add what came from a file."""
        if rows.lines:
            self.rows.append((source_file, rows))
        self.rejects += [(source_file, each) for each in rejects]
        self._bytes += rows.nbytes + len(rejects) * _REJECT_BYTES
        if self._bytes > _MOST_HELD:
            self.flush()

    def take(self, other: "_Held") -> None:
        """Add what another held, and what of it has left already."""
        self.staging.take(other.staging)
        self.ops += other.ops
        for source_file, rows in other.rows:
            self.add(source_file, rows, ())
        self.rejects += other.rejects
        self._bytes += len(other.rejects) * _REJECT_BYTES

    def drop(self) -> None:
        """Forget all of it, what has left already too."""
        self.staging.drop()

    def flush(self) -> None:
        """Let everything leave."""
        if self.rows:
            self._write_rows()
        if self.rejects:
            columns = [each._asdict() for _, each in self.rejects]
            rejects = pa.Table.from_pylist(columns, _REJECTED)
            self._write(REJECTS, rejects, [name for name, _ in self.rejects])
        self.rows, self.rejects, self._bytes = [], [], 0

    def _write_rows(self) -> None:
        rows = joined([each for _, each in self.rows])
        files = np.repeat(np.arange(len(self.rows)), [len(each.lines) for _, each in self.rows])
        names = [name for name, _ in self.rows]
        self.rows = []
        table = table_of(rows)
        order = np.lexsort([table.column(name).fill_null(-1).to_numpy() for name in _ORDER])
        self.ops += len(rows.lists[0])
        self._write(RANK_STEPS, table.take(order), pa.array(names).take(files[order]), len(rows.lists[0]))

    def _write(self, name: str, rows: pa.Table, files: Sequence[str], ops: int = 0) -> None:
        day, job_id, run_id = self._unit
        for column, value in (("job_id", job_id), ("run_id", run_id)):
            rows = rows.append_column(column, pa.repeat(pa.scalar(value, pa.string()), rows.num_rows))
        self.staging.write(
            name,
            (("log_date", day.isoformat()),),
            rows.append_column("source_file", pa.array(files, pa.string())),
            ops,
        )


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
                    held.add(file.source_file, rows, rejects)
                    counted += sum(not line.isspace() for line in block.lines if line)
                    rows_kept += len(rows.lines)
                    rejected += len(rejects)
        except OSError as error:
            raise refusal_of(error) from None
        return FileAccount(file, content.digest, None if is_trace else counted, rows_kept, rejected)

    def _once(self, block: "_Block", file: LandedFile, keys: Keys) -> tuple[Rows, list[Reject]]:
        """Rows that say of a (rank, step) what no line before has said; all others are rejects."""
        rows, rejects = block.rows, list(block.rejects)
        found = dict.fromkeys(_keys(rows), file.source_file)
        before = (self._part.taken, self._keys, keys)
        if len(found) < len(rows.lines) or not all(found.keys().isdisjoint(each) for each in before):
            rows, again = _repeated(block, ChainMap(keys, self._keys, self._part.taken), file.source_file)
            rejects += again
        keys |= found
        return rows, rejects

    def _refused(self, file: LandedFile, reject: Reject, digest: str | None = None) -> FileAccount:
        self._held.add(file.source_file, NO_ROWS, [reject])
        return FileAccount(file, digest, rejects=1)


class _Block(NamedTuple):
    """Some lines of a file, number `first` and on, and what they are; a trace has no lines."""

    first: int
    lines: Sequence[bytes]
    rows: Rows
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


def _keys(rows: Rows) -> Iterator[tuple[int, int]]:
    return ((scalars[_RANK], scalars[_STEP]) for scalars in rows.scalars)


def _repeated(
    block: _Block, seen: Mapping[tuple[int, int], str], source_file: str
) -> tuple[Rows, list[Reject]]:
    """Take out of a block's rows those of a (rank, step) that was there before; return both."""
    own: dict[tuple[int, int], str] = {}
    is_new, again = [], []
    for (rank, step), line in zip(_keys(block.rows), block.rows.lines, strict=True):
        known = own.get((rank, step)) or seen.get((rank, step))
        is_new.append(known is None)
        if known is None:
            own[rank, step] = source_file
            continue
        text = text_of(block.lines[line - block.first]) if block.lines else None
        detail = f"rank {rank}, step {step} is already in {known}"
        again.append(Reject(REASON_DUPLICATE_RANK_STEP, detail, line, text))
    return block.rows.where(np.array(is_new, dtype=bool)), again


def _unreadable(detail: str) -> Reject:
    return Reject(REASON_UNREADABLE_FILE, detail)
