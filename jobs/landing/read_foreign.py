"""Files of a run that another tool wrote: which reader is theirs, and what it reads them through."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, BinaryIO, Final, NamedTuple

from jobs.landing.content import Content, refusal_of
from jobs.landing.files import LandedFile
from jobs.landing.formats.foreign import ForeignRun, Format, Part, SourceFile
from jobs.landing.formats.known import HEAD_BYTES, format_of
from jobs.landing.formats.manifest import manifest_row
from jobs.landing.formats.rows import NO_ROWS, Bounds, FileError, Reject
from jobs.landing.stores import Store
from schemas.vocabulary import REASON_UNKNOWN_FORMAT, REASON_UNREADABLE_FILE

_PRODUCT: Final = ("dp_size", "pp_size", "tp_size", "cp_size")


class Recognised(NamedTuple):
    """Files of the one format that a run is in, and why others are not read."""

    format: Format | None
    files: Sequence[LandedFile]
    others: Sequence[tuple[LandedFile, Reject]]


class ForeignFiles:
    """Opens the files of one run for the reader of their format.

    digests : SHA-256 of each file that was read to its end
    failure : what ended the reading early; None where nothing did
    """

    def __init__(self, store: Store, bounds: Bounds) -> None:
        self._store, self._bounds = store, bounds
        self._opened_last: LandedFile | None = None
        self.digests: dict[LandedFile, str] = {}
        self.failure: FileError | None = None

    def recognise(self, files: Sequence[LandedFile]) -> Recognised:
        """Return the files of the format that the first recognised file is in."""
        chosen: Format | None = None
        own, others = [], []
        for file in files:
            try:
                with self.opened(file) as content:
                    found = format_of(content.read(HEAD_BYTES))
            except FileError as error:
                others.append((file, error.reject))
                continue
            chosen = chosen or found
            if found is not None and found is chosen:
                own.append(file)
            else:
                detail = "no format that is read" if found is None else "another tool's than files before it"
                others.append((file, Reject(REASON_UNKNOWN_FORMAT, detail)))
        return Recognised(chosen, own, others)

    def sources(self, files: Sequence[LandedFile]) -> list[SourceFile]:
        """Return them as a format takes them."""
        return [SourceFile(file.name, partial(self.opened, file)) for file in files]

    def parts(self, run: ForeignRun) -> Iterator[Part]:
        """Parts of the run; what ends the reading is the last, a reject of the file that was open."""
        try:
            yield from run.parts
        except FileError as error:
            if self._opened_last is None:
                raise
            self.failure = error
            yield Part(self._opened_last.name, NO_ROWS, [error.reject])

    def digest(self, file: LandedFile) -> str:
        """SHA-256 of a file, which is read once more where no reader reached its end."""
        if file not in self.digests:
            with self._content(file) as content:
                for _ in content.pieces():
                    pass
        return self.digests[file]

    @contextmanager
    def opened(self, file: LandedFile) -> Iterator[BinaryIO]:
        """Open a file's unpacked bytes. Raises FileError where they cannot be had."""
        with self._content(file) as content:
            yield content.unpacked()

    @contextmanager
    def _content(self, file: LandedFile) -> Iterator[Content]:
        if file.defect:
            raise FileError(REASON_UNREADABLE_FILE, file.defect)
        self._opened_last = file
        try:
            with self._store.open(file.path) as opened:
                content = Content(opened, self._bounds)
                yield content
                if content.is_whole:
                    self.digests[file] = content.digest
        except OSError as error:
            raise refusal_of(error) from None


def job_of(run: ForeignRun, given: Mapping[str, Any], job_id: str, run_id: str) -> dict[str, Any]:
    """Return the row of jobs of a run: what its user says goes before what its files do.

    Only the chunks are those of the files: what they call one need not be a stage of a virtual pipeline.
    """
    chunks = {name: run.manifest[name] for name in ("vpp_size",) if name in run.manifest}
    fields = {"job_id": job_id, "run_id": run_id, **run.manifest, **given, **chunks}
    sizes = [fields.get(name) for name in _PRODUCT]
    if "world_size" not in fields and all(type(size) is int for size in sizes):
        fields["world_size"] = 1
        for size in sizes:
            fields["world_size"] *= size
    return manifest_row(fields, job_id, run_id)
