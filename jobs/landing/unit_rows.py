"""Rows and rejects of a unit part before they reach staging, and the accounts of its files."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import pyarrow as pa

from jobs.landing.accounts import FileAccount, Outside, Repeats, UnitAccount, UnitPart
from jobs.landing.content import UnitFiles
from jobs.landing.files import PACKED_RANK_LOG, RANK_LOG, LandedFile
from jobs.landing.formats.rows import LIMITS, NO_ROWS, FileError, Reject, Rows, plain, text_of
from jobs.landing.formats.run_events import EVENT_ROWS, Events
from jobs.landing.rank_steps import RankSteps
from jobs.landing.row_buffer import RowBuffer, with_files
from jobs.landing.usable import Used
from jobs.warehouse.staging import Staging
from schemas.vocabulary import COLLECTIVE_ARRIVAL, RUN_EVENTS, Reason

_MOST_LEFT_OUT: Final = 100
"""Most kinds of left-out events that are listed; a trace may name thousands."""
_LARGEST_COUNT: Final = 2**63 - 1
"""Counts in a file may be arbitrarily large: one above a column's maximum is stored as the maximum."""


class Block(NamedTuple):
    """Lines of a file from number `first` on, with their rows and rejects; a trace has no lines."""

    first: int
    lines: Sequence[bytes]
    rows: Rows
    rejects: Sequence[Reject]

    def text(self, line: int) -> str | None:
        """Return the beginning of the line with this number."""
        return text_of(self.lines[line - self.first]) if self.lines else None


class UnitRows:
    """Rows, rejects and the account of a unit part; most rows are written at the end of the part."""

    def __init__(self, part: UnitPart, files: UnitFiles, staging: Staging) -> None:
        self.part, self.files, self.bounds = part, files, files.bounds
        self._staging = staging
        self._buffer = RowBuffer(part.unit, staging.another())  # its files alone can be dropped
        self._further: list[tuple[str, pa.Table]] = []
        self._steps = RankSteps(part)
        self._manifest: Mapping[str, Any] = {}
        self.account = UnitAccount(part.unit, None)
        self._rejects = 0

    def known(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values to check rows against: ids, and the sizes and GPU types of a valid manifest."""
        self._manifest = manifest
        limits = manifest if manifest["manifest_status"] is None else {}
        _, job_id, run_id = self.part.unit
        checked = (*LIMITS, "gpu_types")
        return {"job_id": job_id, "run_id": run_id, **{name: limits.get(name) for name in checked}}

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Roll back everything that the block added if the block raises an error."""
        buffer, steps, accounts = self._buffer, self._steps, len(self.account.files)
        rejects, outside = self._rejects, self.account.outside
        self._buffer, self._steps = buffer.another(), steps.another()
        try:
            yield
        except BaseException:
            self._buffer.staging.drop()
            del self.account.files[accounts:]
            self._rejects, self.account.outside = rejects, outside
            raise
        else:
            buffer.take(self._buffer)
            steps.take(self._steps)
        finally:
            self._buffer, self._steps = buffer, steps

    def take(self, file: LandedFile, blocks: Iterable[Block]) -> bool:
        """Add the rows and rejects of a file that is read to its end; a truncated file becomes one reject.

        returns : whether the file was stored; if not, the caller drops what it has learned from the file
        """
        lines = rows_stored = rejected = 0
        outside: list[Reject] = []
        used = Used()
        try:
            with self.all_or_nothing():
                for block in blocks:
                    rows, refused = self._steps.believed(block.rows, file, block.text)
                    rejects = [*block.rejects, *refused]
                    self._buffer.add(file.source_file, rows, rejects)
                    used.add(rows, self._manifest)
                    lines += sum(not line.isspace() for line in block.lines if line)
                    rows_stored += len(rows.lines)
                    rejected += len(rejects)
                    outside += [each for each in rejects if each.reason == Reason.RANK_OUT_OF_RANGE]
                    self._check_rejects(rejected, rows_stored)
                digest = self.files.digest(file)
        except FileError as error:
            self.refuse(file, error.reject)
            return False
        self._rejects += rejected
        self.account.used.update(used)
        if outside:
            before, first = self.account.outside
            self.account.outside = Outside(before + len(outside), first or outside[0].detail)
        counted = lines if file.is_one_of(RANK_LOG, PACKED_RANK_LOG) else None
        self.account.files.append(FileAccount(file, digest, counted, rows_stored, rejected))
        return True

    def _check_rejects(self, rejected: int, rows: int) -> None:
        """Raise FileError if a file has too many rejects: 60 kB of gzip may hold 20 million empty objects."""
        most = self.bounds.rejects
        if self._rejects + rejected > most and rejected > rows:
            detail = f"{rejected} rejects and {rows} rows so far, in a run with more than {most} rejects"
            raise FileError(Reason.TOO_MANY_REJECTS, detail)

    def refuse(self, file: LandedFile, reject: Reject, digest: str | None = None) -> None:
        """Add a whole file as one reject."""
        self._buffer.add(file.source_file, NO_ROWS, [reject])
        self.account.files.append(FileAccount(file, digest, rejects=1))

    def write_arrivals(self, rows: pa.Table) -> None:
        """Write rows of collective_arrival."""
        self._further.append((COLLECTIVE_ARRIVAL, rows))

    def take_events(self, file: LandedFile, events: Events) -> None:
        """Add the contents of a file of events."""
        rows, rejects = events
        if rows:
            found = pa.Table.from_pylist(rows, EVENT_ROWS)
            self._further.append((RUN_EVENTS, with_files(found, [file.source_file] * len(rows))))
        self.add_file(file, len(rows), rejects)

    def add_file(self, file: LandedFile, rows: int, rejects: Sequence[Reject]) -> None:
        """Add the account of a file without ops, whose lines are each a row or a reject, and its rejects."""
        self._buffer.add(file.source_file, NO_ROWS, rejects)
        lines, digest = rows + len(rejects), self.files.digest(file)
        self.account.files.append(FileAccount(file, digest, lines, rows, len(rejects)))

    @property
    def repeats(self) -> Repeats:
        """Return digests of rows whose (rank, step) is also in an earlier file, by (rank, step) and file."""
        return self._steps.repeats

    def drop(self) -> None:
        """Drop all rows and rejects, including those that are already staged."""
        self._buffer.staging.drop()

    def end(self, job: dict[str, Any]) -> UnitAccount:
        """Write everything to staging; return the account."""
        self._staging.take(self._buffer.staging)
        self._buffer.staging = self._staging  # the last rows of all units of a task go into one file
        self._buffer.flush()
        for name, rows in self._further:
            self._buffer.write(name, rows)
        self.account.ops = self._buffer.ops
        self.account.repeats = self._steps.repeats
        if self._steps.contested:
            owners = {
                file: "" if file.owner is None else f" (of user {file.owner})" for file in self.part.logs
            }
            names = {file.source_file: file.name + owner for file, owner in owners.items()}
            for (first, second), count in self._steps.contested.items():
                pair = (names.get(first, first), names.get(second, second))
                self.account.contested[pair] += count
        if self.part.is_first:
            self.account.job = job
        if self.part.is_only:
            self.account.complete([])
        else:
            self.account.keys = dict(self._steps.keys)
        return self.account


def left_out_of(counts: Mapping[str, int]) -> dict[str, int] | None:
    """Return what was left out of a log most often, with counts, as stored in the table jobs."""
    plainly: Counter[str] = Counter()
    for what, count in counts.items():
        plainly[plain(what)] += count
    most = dict(plainly.most_common(_MOST_LEFT_OUT))
    others = {"others": plainly.total() - sum(most.values())} if len(plainly) > len(most) else {}
    return {what: min(count, _LARGEST_COUNT) for what, count in (most | others).items()} or None
