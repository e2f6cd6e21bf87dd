"""Reader of one unit of the landing: the manifest, then every log, once; stages rows and rejects."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from jobs.landing.accounts import FileAccount, UnitAccount, UnitPart
from jobs.landing.claims import without_refused
from jobs.landing.content import UnitFiles
from jobs.landing.files import EVENTS, MANIFEST, PACKED_RANK_LOG, TRACE, LandedFile
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
from jobs.landing.formats.run_events import read_events
from jobs.landing.health.read_day import read_health
from jobs.landing.rank_steps import merged
from jobs.landing.read_foreign import Evidence, ForeignUnit
from jobs.landing.stores import Store
from jobs.landing.unit_rows import Block, UnitRows, left_out_of
from jobs.warehouse.staging import Staging
from schemas.vocabulary import PUBLISHED_TRACE_FORMAT, RANK_LOG_FORMAT, Reason, Transfers

Fields = Mapping[str, Any]


def read_unit(store: Store, part: UnitPart, bounds: Bounds, staging: Staging) -> UnitAccount:
    """Read a part of a unit and stage its rows and rejects; return the part's account.

    If several files have the same (rank, step), the part is read a second time: the first reading shows which
    rows of earlier files later files contradict, and the second rejects both.
    """
    rows = UnitRows(part, UnitFiles(store, bounds), staging)
    if part.unit.is_of_day:
        read_health(rows)
        return rows.end({})
    job = _read(rows)
    if rows.repeats:
        rows.drop()
        part = replace(part, suspected=merged(rows.repeats, part.suspected))
        rows = UnitRows(part, UnitFiles(store, bounds), staging)
        job = _read(rows)
    return rows.end(without_refused(job))


def _read(rows: UnitRows) -> dict[str, Any]:
    part = rows.part
    manifest, given = _manifest(rows)
    if part.is_foreign:
        manifest = ForeignUnit(rows, given).read(manifest)
    else:
        known = rows.known(manifest)
        reader = RankLogReader(known, rows.bounds)
        for file in part.logs:
            is_trace = file.is_one_of(TRACE)
            found = _trace(rows.files, file, known) if is_trace else _lines(rows.files, file, reader)
            reader.end_file(is_taken=rows.take(file, found))
        rows.account.gpu_types = reader.gpu_types
        if part.logs:
            own_format = PUBLISHED_TRACE_FORMAT if part.logs[0].is_one_of(TRACE) else RANK_LOG_FORMAT
            facts = {"source_format": own_format, "transfers": Transfers.MEASURED}
            manifest |= {name: manifest[name] or value for name, value in facts.items()}
        evidence = Evidence(rows)
        evidence.read(part.evidence)
        manifest["left_out"] = left_out_of(evidence.arrivals.left_out)
    _read_events(rows)
    for file in part.surplus:
        detail = f"the unit has more than {rows.bounds.unit_files} files"
        rows.refuse(file, Reject(Reason.TOO_MANY_FILES, detail))
    return manifest


def unread_unit(store: Store, part: UnitPart, bounds: Bounds, staging: Staging, why: str) -> UnitAccount:
    """Return the account of a part whose reader was killed; each file but a manifest becomes a reject."""
    rows = UnitRows(part, UnitFiles(store, bounds), staging)
    if part.is_first:
        rows.account.files += [FileAccount(file, None) for file in part.manifests]
    for file in (*part.logs, *part.evidence, *part.events, *part.surplus):
        rows.refuse(file, Reject(Reason.UNREADABLE_FILE, why))
    rows.account.failure = why
    return rows.end(no_manifest(why))


def _manifest(rows: UnitRows) -> tuple[dict[str, Any], Fields | None]:
    """Read job.json, or else the first meta-*.yaml by name, and digest all manifests.

    returns : a row of jobs, and the manifest's fields; None instead of fields if it has none
    """
    chosen: dict[str, Any] | None = None
    given: Fields | None = None
    for file in rows.part.manifests:
        reject = None
        try:
            with rows.files.content(file) as opened:
                content = opened.whole(rows.bounds.manifest_bytes)
            if chosen is None:
                chosen, given = _parsed(file, content, rows.bounds)
        except FileError as error:
            if chosen is None:  # else its contents are not used
                reject, chosen = error.reject, no_manifest(error.reject.detail)
        digest = rows.files.digests.get(file)
        if rows.part.is_first and reject is not None:
            rows.refuse(file, reject, digest)
        elif rows.part.is_first:
            rows.account.files.append(FileAccount(file, digest))
    return chosen or no_manifest(f"the folder has no {MANIFEST}"), given


def _parsed(file: LandedFile, content: bytes, bounds: Bounds) -> tuple[dict[str, Any], Fields | None]:
    if not content:
        raise ManifestError("the file is empty")
    if file.is_one_of(MANIFEST):
        fields = manifest_fields(content, bounds.nesting)
        row = manifest_row(fields, file.job_id, file.run_id, bounds.workers)
        return row, fields if isinstance(fields, dict) else None
    row = parse_published_meta(content, bounds.nesting, bounds.workers)
    return row, {name: row[name] for name in SIZES if row[name] is not None} or None


def _lines(files: UnitFiles, file: LandedFile, reader: RankLogReader) -> Iterator[Block]:
    first = 1
    with files.content(file) as content:
        for lines in content.lines(is_packed=file.is_one_of(PACKED_RANK_LOG)):
            yield Block(first, lines, *reader.read(lines, first))
            first += len(lines)


def _read_events(rows: UnitRows) -> None:
    """Read the files of events; refuse one that repeats events of an earlier file, as a packed copy does."""
    known: set[tuple[Any, ...]] = set()
    for file in rows.part.events:
        try:
            with rows.files.content(file) as content:
                lines = content.lines(is_packed=not file.is_one_of(EVENTS[0]))
                found = read_events(lines, rows.part.unit._asdict(), rows.bounds)
        except FileError as error:
            rows.refuse(file, error.reject)
            continue
        own = {tuple(value for name, value in row.items() if name != "line") for row in found.rows}
        if again := len(known & own):
            detail = f"{again} of its events stand in {EVENTS[0]} too"
            rows.refuse(file, Reject(Reason.TOO_MANY_FILES, detail))
            continue
        known |= own
        rows.take_events(file, found)


def _trace(files: UnitFiles, file: LandedFile, known: Fields) -> Iterator[Block]:
    """Read a Parquet trace by its footer; then read the whole file again for the digest."""
    with files.content(file) as content:
        yield Block(1, (), *content.at_any_place(lambda opened, bounds: read_trace(opened, known, bounds)))
        for _ in content.pieces():
            pass
