"""A unit whose logs another tool wrote; and evidence of who came last to collectives, beside any logs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, Final

from jobs.landing.accounts import FileAccount, Keys
from jobs.landing.files import LandedFile
from jobs.landing.formats import kineto, kineto_arrivals, nccl_inspector
from jobs.landing.formats.arrivals import Arrivals
from jobs.landing.formats.foreign import ForeignRun, Format, Part, RefusalError
from jobs.landing.formats.manifest import SIZES
from jobs.landing.formats.rows import NO_ROWS, FileError, Reject
from jobs.landing.formats.sound import sound
from jobs.landing.read_foreign import ForeignFiles, job_of, no_surprise, plain
from jobs.landing.unit_rows import Block, UnitRows, left_out_of
from schemas.vocabulary import FILE_REASONS, REASON_UNUSABLE_LOG, STATUS_UNUSABLE_LOG

_MOST_BROKEN: Final = 20
"""Files of another tool that may break off: the others are read again without each."""


class Evidence:
    """Who came last to the collectives of a unit; never a replay.

    left_out : complete once it was read
    """

    def __init__(self, rows: UnitRows, opener: ForeignFiles) -> None:
        self._rows, self.opener = rows, opener
        self.arrivals = Arrivals(rows.bounds.trace_ops)

    @property
    def left_out(self) -> Counter[str]:
        """What of collectives says nothing, and how often."""
        return self.arrivals.left_out

    def read(self, files: Sequence[LandedFile]) -> None:
        """Read what lies beside the unit's logs and is called like a log of NCCL Inspector."""
        found = self.opener.recognise(files)
        for file, reject in found.others:
            self._rows.refuse(file, reject)
        self.take(found.evidence)

    def take(self, files: Sequence[LandedFile]) -> None:
        """Read logs of NCCL Inspector, and let all rows leave."""
        for file in files:
            self._rows.account.files.append(self._file(file))
        if len(self.arrivals):
            self._rows.buffer.write_arrivals(self.arrivals.table())

    def despite(self, files: Sequence[LandedFile]) -> None:
        """Read traces of torch.profiler of which no replay can be made."""
        for source in self.opener.sources(files):
            with suppress(FileError), no_surprise():
                kineto_arrivals.read_arrivals(source, self.arrivals)

    def _file(self, file: LandedFile) -> FileAccount:
        buffer, rejected = self._rows.another(), 0
        (source,) = self.opener.sources([file])
        try:
            found = nccl_inspector.read_arrivals(source, self.arrivals, self._rows.bounds)
            for reject in self.opener.guarded(found):
                buffer.add(file.source_file, NO_ROWS, [reject])
                rejected += 1
            digest = self.opener.digest(file)
        except FileError as error:
            buffer.drop()
            return self._rows.refused(file, error.reject)
        self._rows.buffer.take(buffer)
        return FileAccount(file, digest, None, 0, rejected)


class ForeignUnit:
    """Logs of another tool, read all together.

    given : fields of a manifest that a user gave; None where there is no good one
    """

    def __init__(self, rows: UnitRows, evidence: Evidence, given: Mapping[str, Any] | None) -> None:
        self._rows, self._evidence, self._given = rows, evidence, given
        self._opener = evidence.opener

    def read(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Read them; returns the row of jobs."""
        found = self._opener.recognise(self._rows.part.logs)
        for file, reject in found.others:
            self._rows.refuse(file, reject)
        if found.format is not None:
            manifest = self._run(manifest, found.format, list(found.files))
        elif found.evidence:
            manifest = _unusable(manifest, nccl_inspector.NO_REPLAY)
        else:
            manifest = _unusable(manifest, f"{len(found.others)} files, none in a format that is read")
        self._evidence.take(found.evidence)
        left_out = Counter(manifest["left_out"]) + self._evidence.left_out
        return manifest | {"left_out": left_out_of(left_out)}

    def _run(self, manifest: dict[str, Any], chosen: Format, files: list[LandedFile]) -> dict[str, Any]:
        """Read these files; whichever break off cost no other file."""
        most = len(files)
        while True:
            try:
                return self._attempt(manifest, chosen, files)
            except FileError as error:
                broken, reject = self._opener.opened_last, error.reject
                if 1 < len(files) > most - _MOST_BROKEN and broken is not None and broken in files:
                    files.remove(broken)
                    self._rows.refuse(broken, reject)
                    continue
            except RefusalError as error:
                reject = Reject(REASON_UNUSABLE_LOG, plain(str(error)))
                if chosen is kineto:
                    self._evidence.despite(files)
            for file in files:
                self._rows.refuse(file, reject)
            return _unusable(manifest, reject.detail)

    def _attempt(
        self, manifest: dict[str, Any], chosen: Format, files: Sequence[LandedFile]
    ) -> dict[str, Any]:
        """Read these files; returns the row of jobs. What fails leaves nothing behind."""
        rows = self._rows
        buffer, before = rows.buffer, rows.keys
        rows.buffer = rows.another()
        try:
            run = self._opener.read(chosen, files, self._given or {})
            if self._given is not None or not rows.part.manifests:
                manifest = job_of(run, self._given or {}, *rows.part.unit[1:])
            accounts = self._files(self._opener.guarded(run.parts), files, rows.known(manifest))
        except (RefusalError, FileError):
            rows.buffer.drop()
            rows.buffer, rows.keys = buffer, before
            raise
        buffer.take(rows.buffer)
        rows.buffer = buffer
        rows.account.files += accounts
        self._evidence.arrivals = run.arrivals or self._evidence.arrivals
        facts = {"source_format": run.source_format, "transfers": run.transfers}
        return manifest | facts | {"left_out": run.left_out | self._filled(run)}

    def _filled(self, run: ForeignRun) -> Counter[str]:
        """Fields that a user's manifest lacks and the log tells."""
        if self._given is None:
            return Counter()
        lacking = [name for name in SIZES if name in run.manifest and name not in self._given]
        return Counter(
            {f"fields that job.json lacks, taken from the log: {', '.join(lacking)}": len(lacking)}
        )

    def _files(
        self, parts: Iterator[Part], files: Sequence[LandedFile], known: Mapping[str, Any]
    ) -> list[FileAccount]:
        rest, accounts = {file.name: file for file in files}, []
        for name, own in groupby(parts, key=lambda part: part.name):
            accounts.append(self._file(rest.pop(name), own, known))
        return accounts + [self._file(file, iter(()), known) for file in rest.values()]

    def _file(self, file: LandedFile, parts: Iterator[Part], known: Mapping[str, Any]) -> FileAccount:
        """Take the rows of a file, unless one of its parts says that it broke off."""
        buffer, keys = self._rows.another(), Keys()
        lines = rows_stored = rejected = 0
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
                rows, rejects = self._rows.once(Block(1, (), good, bad), file, keys)
                buffer.add(file.source_file, rows, rejects)
                rows_stored += len(rows.lines)
                rejected += len(rejects)
            digest = self._opener.digest(file)
        except FileError as error:
            buffer.drop()
            return self._rows.refused(file, error.reject)
        self._rows.buffer.take(buffer)
        self._rows.keys = self._rows.keys | keys
        return FileAccount(file, digest, None, rows_stored, rejected)


def _unusable(manifest: dict[str, Any], detail: str) -> dict[str, Any]:
    return manifest | {"manifest_status": STATUS_UNUSABLE_LOG, "manifest_detail": detail}


def _refuse_broken(part: Part) -> None:
    """Raise FileError where a part says that its whole file is of no use."""
    for each in part.rejects:
        if each.reason in FILE_REASONS:
            raise FileError(each.reason, each.detail)
