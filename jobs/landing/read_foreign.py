"""Reader of other tools' runs: recognise their files, read them together, and make their row of jobs.

Logs that only show which rank came last to collectives are read too, also beside rank logs.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import groupby
from math import prod
from typing import Any, Final, NamedTuple, TypeVar

from jobs.landing.content import UnitFiles
from jobs.landing.files import RANK_LOG, LandedFile
from jobs.landing.formats import kineto, nccl_inspector
from jobs.landing.formats.arrivals import Arrivals
from jobs.landing.formats.foreign import ForeignRun, Format, Part, RefusalError, SourceFile, sound
from jobs.landing.formats.known import HEAD_BYTES, LAST, format_of
from jobs.landing.formats.manifest import PRODUCT, SIZES, Row, manifest_row
from jobs.landing.formats.rows import NO_ROWS, Bounds, FileError, Reject, plain
from jobs.landing.unit_rows import Block, UnitRows, left_out_of
from schemas.vocabulary import FILE_REASONS, RANK_LOG_FORMAT, Reason, Status

_Found = TypeVar("_Found")
NOT_KNOWN: Final = "not a known format"
EMPTY: Final = "it is empty"
_MOST_BROKEN: Final = 20
"""Most truncated files of a run that are left out; for each of them all other files are read again."""


class _PartsError(Exception):
    """Raised if reading a run's parts fails; `reject` describes the file that was opened last."""

    def __init__(self, reject: Reject) -> None:
        super().__init__(reject.detail)
        self.reject = reject


class Recognised(NamedTuple):
    """Files of the run's format, NCCL Inspector logs, and the reasons why other files are not read."""

    format: Format | None
    files: Sequence[LandedFile]
    evidence: Sequence[LandedFile]
    others: Sequence[tuple[LandedFile, Reject]]


def recognise(opener: UnitFiles, files: Sequence[LandedFile]) -> Recognised:
    """Recognise files by their first bytes, and choose the run's format, preferably one not in LAST."""
    formats: dict[LandedFile, Format | None] = {}
    unknown: dict[LandedFile, str] = {}
    evidence, others = [], []
    for file in files:
        try:
            with opener.unpacked(file) as content:
                head = content.read(HEAD_BYTES)
        except FileError as error:
            others.append((file, error.reject))
            continue
        if nccl_inspector.recognises(head):
            evidence.append(file)
        else:
            formats[file] = format_of(head)
            is_rank_log = f'"{RANK_LOG_FORMAT}"'.encode() in head
            unknown[file] = f"lines of {RANK_LOG_FORMAT}: name it {RANK_LOG}" if is_rank_log else NOT_KNOWN
            if not head:
                unknown[file] = EMPTY
    found = [each for each in formats.values() if each is not None]
    chosen = min(found, key=lambda each: 1 + LAST.index(each) if each in LAST else 0, default=None)
    for file, own in formats.items():
        if own is None or own is not chosen:
            detail = unknown[file] if own is None else "another tool's than other files"
            others.append((file, Reject(Reason.UNKNOWN_FORMAT, detail)))
    own_files = [file for file, own in formats.items() if own is not None and own is chosen]
    return Recognised(chosen, own_files, evidence, others)


class Evidence:
    """Logs that show which rank came last to a unit's collectives, but that cannot be replayed."""

    def __init__(self, rows: UnitRows) -> None:
        self._rows = rows
        self.arrivals = Arrivals(rows.bounds.trace_ops)

    def read(self, files: Sequence[LandedFile]) -> None:
        """Read files beside the unit's logs that are named like NCCL Inspector logs."""
        found = recognise(self._rows.files, files)
        for file, reject in found.others:
            self._rows.refuse(file, reject)
        self.take(found.evidence)

    def take(self, files: Sequence[LandedFile]) -> None:
        """Read NCCL Inspector logs and write the resulting rows."""
        for file, source in zip(files, _sources(self._rows.files, files), strict=True):
            rejects = _guarded(nccl_inspector.read_arrivals(source, self.arrivals, self._rows.bounds))
            before, left_out = len(self.arrivals), self.arrivals.left_out.copy()
            if not self._rows.take(file, (Block(1, (), NO_ROWS, [reject]) for reject in rejects)):
                self.arrivals.forget(before, left_out)
        if len(self.arrivals):
            self._rows.write_arrivals(self.arrivals.table())

    def despite(self, files: Sequence[LandedFile]) -> None:
        """Read which rank came last to collectives from torch.profiler traces that cannot be replayed."""
        for source in _sources(self._rows.files, files):
            with suppress(FileError), _no_surprise():
                kineto.read_arrivals(source, self.arrivals)


class ForeignUnit:
    """Logs of a unit from another tool, which have to be read together.

    given : fields of the user's manifest; None without a valid one
    found : the unit's logs by kind; known once `read` was called
    """

    found: Recognised

    def __init__(self, rows: UnitRows, given: Mapping[str, Any] | None) -> None:
        self._rows, self._evidence, self._given = rows, Evidence(rows), given

    def read(self, manifest: Row) -> Row:
        """Read the logs; return the row of jobs."""
        found = self.found = recognise(self._rows.files, self._rows.part.logs)
        for file, reject in found.others:
            self._rows.refuse(file, reject)
        if found.format is not None:
            manifest = self._run(manifest, found.format, list(found.files))
        elif found.evidence:
            manifest = _unusable(manifest, nccl_inspector.NO_REPLAY)
        else:
            manifest = _unusable(manifest, f"none of {len(found.others)} files has a known format")
        self._evidence.take(found.evidence)
        left_out = Counter(manifest["left_out"]) + self._evidence.arrivals.left_out
        return manifest | {"left_out": left_out_of(left_out)}

    def _run(self, manifest: Row, chosen: Format, files: list[LandedFile]) -> Row:
        """Read the run, and again without any file that turns out to be truncated; return its row of jobs."""
        most, named = len(files), ""
        while True:
            try:
                with self._rows.all_or_nothing():
                    return self._attempt(manifest, chosen, files)
            except (FileError, _PartsError) as error:
                broken, reject = self._rows.files.opened_last, error.reject
                named = f"{broken.name}: " if broken is not None else ""
                if 1 < len(files) > most - _MOST_BROKEN and broken is not None and broken in files:
                    files.remove(broken)
                    self._rows.refuse(broken, reject)
                    continue
            except RefusalError as error:
                named, reject = "", Reject(Reason.UNUSABLE_LOG, plain(str(error)))
                if chosen is kineto:
                    self._evidence.despite(files)
            for file in files:
                self._rows.refuse(file, reject)
            return _unusable(manifest, named + reject.detail)

    def _attempt(self, manifest: Row, chosen: Format, files: Sequence[LandedFile]) -> Row:
        rows = self._rows
        with _no_surprise():
            run = chosen.read(_sources(rows.files, files), self._given or {}, rows.bounds)
        if self._given is not None or not rows.part.manifests:
            manifest = job_of(run, self._given or {}, *rows.part.unit[1:], rows.bounds.workers)
        known, rest = rows.known(manifest), {file.name: file for file in files}
        for name, parts in groupby(_parts_of(run), key=lambda part: part.name):
            rows.take(rest.pop(name), _blocks(parts, known))
        for file in rest.values():
            rows.take(file, ())
        if run.arrivals is not None:  # even without attendances it counts what was left out
            self._evidence.arrivals = run.arrivals
        facts: Row = {"source_format": run.source_format, "transfers": run.transfers}
        if run.step_times is not None:
            facts |= {
                "manifest_status": Status.STEP_TIMES_ONLY,
                "manifest_detail": "the log has step times and no ops",
                "step_times": run.step_times,
            }
        left_out = run.left_out
        if self._given is not None and rows.part.manifests:
            lacking = [name for name in SIZES if name in run.manifest and name not in self._given]
            what = f"fields that job.json lacks, taken from the log: {', '.join(lacking)}"
            left_out = left_out | Counter({what: len(lacking)})
        return manifest | facts | {"left_out": left_out}


def _parts_of(run: ForeignRun) -> Iterator[Part]:
    """Yield the parts of a run. Raises _PartsError for any error of the run's reader except RefusalError."""
    try:
        yield from _guarded(run.parts)
    except FileError as error:
        raise _PartsError(error.reject) from error


def _blocks(parts: Iterable[Part], known: Mapping[str, Any]) -> Iterator[Block]:
    """Yield parts of one file with numbered rows and rejects. Raises FileError if the file is truncated."""
    lines = 0
    for part in parts:
        for each in part.rejects:
            if each.reason in FILE_REASONS:
                raise FileError(each.reason, each.detail)
        good, bad = sound(part.rows, known, lines + 1)
        lines += len(part.rows.lines)
        numbered = enumerate(part.rejects, start=lines + 1)
        bad += [each._replace(line=line, detail=plain(each.detail)) for line, each in numbered]
        lines += len(part.rejects)
        yield Block(1, (), good, bad)


def _unusable(manifest: Row, detail: str) -> Row:
    return manifest | {"manifest_status": Status.UNUSABLE_LOG, "manifest_detail": detail}


def _sources(opener: UnitFiles, files: Sequence[LandedFile]) -> list[SourceFile]:
    return [SourceFile(file.name, partial(opener.unpacked, file)) for file in files]


def _guarded(found: Iterable[_Found]) -> Iterator[_Found]:
    with _no_surprise():
        yield from found


@contextmanager
def _no_surprise() -> Iterator[None]:
    """Turn any error of a reader into FileError, so that it costs one file and not the daily run."""
    try:
        yield
    except (FileError, RefusalError):
        raise
    except Exception as error:
        raise FileError(Reason.UNREADABLE_FILE, f"{type(error).__name__}: {plain(str(error))}") from error


def job_of(
    run: ForeignRun, given: Mapping[str, Any], job_id: str, run_id: str, workers: int = Bounds().workers
) -> Row:
    """Return a run's row of jobs from the user's manifest, and from the files for fields missing there.

    vpp_size is always that of the files, because their chunks need not be those of a virtual pipeline.
    """
    chunks = {name: run.manifest[name] for name in ("vpp_size",) if name in run.manifest}
    fields = {"job_id": job_id, "run_id": run_id, **run.manifest, **given, **chunks}
    sizes = [fields.get(name) for name in PRODUCT]
    if "world_size" not in fields and all(type(size) is int for size in sizes):
        fields["world_size"] = prod(sizes)
    return manifest_row(fields, job_id, run_id, workers)
