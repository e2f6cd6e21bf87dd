"""One unit of the landing, read once: its manifest, then every log; rows and rejects are staged."""

from collections import ChainMap, Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

import numpy as np

from jobs.landing.accounts import FileAccount, Keys, UnitAccount, UnitPart
from jobs.landing.content import Content, refusal_of
from jobs.landing.files import MANIFEST, PACKED_RANK_LOG, TRACE, LandedFile
from jobs.landing.formats.foreign import ForeignRun, Format, Part, RefusalError
from jobs.landing.formats.manifest import (
    SIZES,
    ManifestError,
    manifest_fields,
    manifest_row,
    no_manifest,
    parse_published_meta,
)
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
    text_of,
)
from jobs.landing.formats.sound import sound
from jobs.landing.held import Held
from jobs.landing.read_foreign import ForeignFiles, job_of, plain
from jobs.landing.staging import Staging
from jobs.landing.stores import Store
from schemas.vocabulary import (
    FILE_REASONS,
    PUBLISHED_TRACE_FORMAT,
    RANK_LOG_FORMAT,
    REASON_DUPLICATE_RANK_STEP,
    REASON_TOO_MANY_FILES,
    REASON_UNREADABLE_FILE,
    REASON_UNUSABLE_LOG,
    STATUS_UNUSABLE_LOG,
    TRANSFERS_MEASURED,
)

_MOST_BROKEN: Final = 20
"""Files of another tool that may break off: the others are read again without each."""

_MOST_LEFT_OUT: Final = 100
"""Kinds of what is left out of a log; a trace may name thousands."""

_RANK, _STEP = SCALARS.index("rank"), SCALARS.index("step")


def read_unit(store: Store, part: UnitPart, bounds: Bounds, staging: Staging) -> UnitAccount:
    """Read a part of a unit; its rows and rejects go to `staging`."""
    return _UnitReader(store, part, bounds, staging).read()


class _UnitReader:
    def __init__(self, store: Store, part: UnitPart, bounds: Bounds, staging: Staging) -> None:
        self._store, self._part, self._bounds, self._staging = store, part, bounds, staging
        self._held = Held(part.unit, staging)
        self._keys: Keys = {}
        self._account = UnitAccount(part.unit, None)
        self._given: Mapping[str, Any] = {}

    def read(self) -> UnitAccount:
        manifest = self._manifest()
        if self._part.is_foreign:
            manifest = self._foreign(manifest)
        else:
            self._own(manifest)
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

    def _own(self, manifest: dict[str, Any]) -> None:
        """Read rank logs and published traces; the row of jobs says which it was."""
        known = self._known(manifest)
        lines = RankLogReader(known, self._bounds)
        for file in self._part.logs:
            self._account.files.append(self._log(file, known, lines))
        if self._part.logs:
            is_trace = self._part.logs[0].is_one_of(TRACE)
            manifest["source_format"] = manifest["source_format"] or (
                PUBLISHED_TRACE_FORMAT if is_trace else RANK_LOG_FORMAT
            )
            manifest["transfers"] = manifest["transfers"] or TRANSFERS_MEASURED

    def _known(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """What rows are held against: the unit's ids, and the sizes of a good manifest."""
        limits = manifest if manifest["manifest_status"] is None else {}
        _, job_id, run_id = self._part.unit
        return {"job_id": job_id, "run_id": run_id, **{name: limits.get(name) for name in LIMITS}}

    def _foreign(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Read the logs of another tool, all together; returns the row of jobs."""
        opener = ForeignFiles(self._store, self._bounds)
        found = opener.recognise(self._part.logs)
        self._account.files += [self._refused(file, reject) for file, reject in found.others]
        if found.format is None:
            detail = f"{len(self._part.logs)} files, none in a format that is read"
            return manifest | {"manifest_status": STATUS_UNUSABLE_LOG, "manifest_detail": detail}
        files = list(found.files)
        while True:
            try:
                return self._foreign_run(manifest, found.format, files, opener)
            except FileError as error:
                # Without the file that breaks off: it costs no other file.
                broken, reject = opener.opened_last, error.reject
                may_go_on = 1 < len(files) > len(found.files) - _MOST_BROKEN
                if may_go_on and broken is not None and broken in files:
                    files.remove(broken)
                    self._account.files.append(self._refused(broken, reject))
                    continue
            except RefusalError as error:
                reject = Reject(REASON_UNUSABLE_LOG, plain(str(error)))
            self._account.files += [self._refused(file, reject) for file in files]
            return manifest | {"manifest_status": STATUS_UNUSABLE_LOG, "manifest_detail": reject.detail}

    def _foreign_run(
        self, manifest: dict[str, Any], chosen: Format, files: Sequence[LandedFile], opener: ForeignFiles
    ) -> dict[str, Any]:
        """Read these files; returns the row of jobs. What fails leaves nothing behind."""
        held, before = self._held, self._keys
        self._held = Held(self._part.unit, self._staging.another())
        try:
            run = opener.read(chosen, files, self._given)
            if self._given or not self._part.manifests:
                manifest = job_of(run, self._given, *self._part.unit[1:])
            accounts = self._foreign_files(run, files, manifest, opener)
        except (RefusalError, FileError):
            self._held.drop()
            self._held, self._keys = held, before
            raise
        held.take(self._held)
        self._held = held
        self._account.files += accounts
        left_out = Counter({plain(what): count for what, count in run.left_out.items()})
        most = dict(left_out.most_common(_MOST_LEFT_OUT))
        others = {"others": left_out.total() - sum(most.values())} if len(left_out) > len(most) else {}
        facts = {"source_format": run.source_format, "transfers": run.transfers}
        return manifest | facts | {"left_out": most | others or None}

    def _foreign_files(
        self, run: ForeignRun, files: Sequence[LandedFile], manifest: Mapping[str, Any], opener: ForeignFiles
    ) -> list[FileAccount]:
        rest = {file.name: file for file in files}
        known, accounts = self._known(manifest), []
        for name, parts in groupby(opener.parts(run), key=lambda part: part.name):
            accounts.append(self._foreign_file(rest.pop(name), parts, known, opener))
        return accounts + [self._foreign_file(file, iter(()), known, opener) for file in rest.values()]

    def _foreign_file(
        self, file: LandedFile, parts: Iterator[Part], known: Mapping[str, Any], opener: ForeignFiles
    ) -> FileAccount:
        """Take the rows of a file, unless one of its parts says that it broke off."""
        held, keys = Held(self._part.unit, self._staging.another()), Keys()
        lines = rows_kept = rejected = 0
        try:
            for part in parts:
                _refuse_broken(part)
                good, bad = sound(part.rows, known, lines + 1)
                lines += len(part.rows.lines)
                bad += [
                    each._replace(line=lines + place, detail=plain(each.detail))
                    for place, each in enumerate(part.rejects, start=1)
                ]
                lines += len(part.rejects)
                rows, rejects = self._once(_Block(1, (), good, bad), file, keys)
                held.add(file.source_file, rows, rejects)
                rows_kept += len(rows.lines)
                rejected += len(rejects)
            digest = opener.digest(file)
        except FileError as error:
            held.drop()
            return self._refused(file, error.reject)
        self._held.take(held)
        self._keys = self._keys | keys
        return FileAccount(file, digest, None, rows_kept, rejected)

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
            fields = manifest_fields(content, self._bounds.nesting)
            self._given = fields if isinstance(fields, dict) else {}
            return manifest_row(fields, file.job_id, file.run_id)
        row = parse_published_meta(content, self._bounds.nesting)
        self._given = {name: row[name] for name in SIZES if row[name] is not None}
        return row

    def _log(self, file: LandedFile, known: Mapping[str, Any], lines: RankLogReader) -> FileAccount:
        """Read a log; until its end is reached, nobody knows whether its rows count."""
        held = Held(self._part.unit, self._staging.another())
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
        self, file: LandedFile, known: Mapping[str, Any], lines: RankLogReader, held: Held, keys: Keys
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


def _refuse_broken(part: Part) -> None:
    """Raise FileError where a part says that its whole file is of no use."""
    for each in part.rejects:
        if each.reason in FILE_REASONS:
            raise FileError(each.reason, each.detail)


def _unreadable(detail: str) -> Reject:
    return Reject(REASON_UNREADABLE_FILE, detail)
