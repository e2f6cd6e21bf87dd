"""One unit of the landing, read once: its manifest, then every log; rows and rejects are staged."""

from collections.abc import Iterator, Mapping
from typing import Any

from jobs.landing.accounts import FileAccount, Keys, UnitAccount, UnitPart
from jobs.landing.content import Content, refusal_of
from jobs.landing.files import MANIFEST, PACKED_RANK_LOG, TRACE, LandedFile
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
from jobs.landing.formats.rows import Bounds, FileError, Reject
from jobs.landing.read_foreign import ForeignFiles
from jobs.landing.read_foreign_unit import Evidence, ForeignUnit
from jobs.landing.row_buffer import RowBuffer
from jobs.landing.staging import Staging
from jobs.landing.stores import Store
from jobs.landing.unit_rows import Block, UnitRows, left_out_of
from schemas.vocabulary import (
    PUBLISHED_TRACE_FORMAT,
    RANK_LOG_FORMAT,
    REASON_TOO_MANY_FILES,
    REASON_UNREADABLE_FILE,
    TRANSFERS_MEASURED,
)


def read_unit(store: Store, part: UnitPart, bounds: Bounds, staging: Staging) -> UnitAccount:
    """Read a part of a unit; its rows and rejects go to `staging`."""
    return _UnitReader(store, part, bounds, staging).read()


class _UnitReader:
    def __init__(self, store: Store, part: UnitPart, bounds: Bounds, staging: Staging) -> None:
        self._store, self._part, self._bounds = store, part, bounds
        self._rows = UnitRows(part, bounds, staging)
        self._given: Mapping[str, Any] | None = None

    def read(self) -> UnitAccount:
        rows, account = self._rows, self._rows.account
        manifest = self._manifest()
        evidence = Evidence(rows, ForeignFiles(self._store, self._bounds))
        if self._part.is_foreign:
            manifest = ForeignUnit(rows, evidence, self._given).read(manifest)
        else:
            self._own(manifest)
            evidence.read(self._part.evidence)
            manifest["left_out"] = left_out_of(evidence.left_out)
        for file in self._part.surplus:
            detail = f"the unit has more than {self._bounds.unit_files} files"
            rows.refuse(file, Reject(REASON_TOO_MANY_FILES, detail))
        rows.buffer.flush()
        account.ops = rows.buffer.ops
        if self._part.is_first:
            account.job = manifest
        if not self._part.is_only:
            account.keys = rows.keys
        return account

    def _own(self, manifest: dict[str, Any]) -> None:
        """Read rank logs and published traces; the row of jobs says which it was."""
        known = self._rows.known(manifest)
        lines = RankLogReader(known, self._bounds)
        for file in self._part.logs:
            self._rows.account.files.append(self._log(file, known, lines))
        if self._part.logs:
            is_trace = self._part.logs[0].is_one_of(TRACE)
            manifest["source_format"] = manifest["source_format"] or (
                PUBLISHED_TRACE_FORMAT if is_trace else RANK_LOG_FORMAT
            )
            manifest["transfers"] = manifest["transfers"] or TRANSFERS_MEASURED

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
            if self._part.is_first and reject is None:
                self._rows.account.files.append(FileAccount(file, digest))
            elif self._part.is_first and reject is not None:
                self._rows.refuse(file, reject, digest)
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
            self._given = fields if isinstance(fields, dict) else None
            return manifest_row(fields, file.job_id, file.run_id)
        row = parse_published_meta(content, self._bounds.nesting)
        self._given = {name: row[name] for name in SIZES if row[name] is not None} or None
        return row

    def _log(self, file: LandedFile, known: Mapping[str, Any], lines: RankLogReader) -> FileAccount:
        """Read a log; until its end is reached, nobody knows whether its rows count."""
        buffer, keys = self._rows.another(), Keys()
        try:
            account = self._counted(file, known, lines, buffer, keys)
        except FileError as error:
            buffer.drop()
            return self._rows.refused(file, error.reject)
        self._rows.buffer.take(buffer)
        self._rows.keys |= keys
        return account

    def _counted(
        self, file: LandedFile, known: Mapping[str, Any], lines: RankLogReader, buffer: RowBuffer, keys: Keys
    ) -> FileAccount:
        if file.defect:
            raise FileError(REASON_UNREADABLE_FILE, file.defect)
        is_trace = file.is_one_of(TRACE)
        counted = rows_stored = rejected = 0
        try:
            with self._store.open(file.path) as opened:
                content = Content(opened, self._bounds)
                for block in _trace(content, known) if is_trace else _lines(content, lines, file):
                    rows, rejects = self._rows.once(block, file, keys)
                    buffer.add(file.source_file, rows, rejects)
                    counted += sum(not line.isspace() for line in block.lines if line)
                    rows_stored += len(rows.lines)
                    rejected += len(rejects)
        except OSError as error:
            raise refusal_of(error) from None
        return FileAccount(file, content.digest, None if is_trace else counted, rows_stored, rejected)


def _lines(content: Content, reader: RankLogReader, file: LandedFile) -> Iterator[Block]:
    first = 1
    for lines in content.lines(is_packed=file.is_one_of(PACKED_RANK_LOG)):
        yield Block(first, lines, *reader.read(lines, first))
        first += len(lines)


def _trace(content: Content, known: Mapping[str, Any]) -> Iterator[Block]:
    """Read a trace from its footer on; its digest needs all of it once more."""
    yield Block(1, (), *content.at_any_place(lambda file, bounds: read_trace(file, known, bounds)))
    for _ in content.pieces():
        pass


def _unreadable(detail: str) -> Reject:
    return Reject(REASON_UNREADABLE_FILE, detail)
