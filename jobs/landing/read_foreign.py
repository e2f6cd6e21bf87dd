"""Files of a run of another tool: chooses their reader, and opens them for it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, BinaryIO, Final, NamedTuple, TypeVar

from jobs.landing.content import Content, refusal_of
from jobs.landing.files import RANK_LOG, LandedFile
from jobs.landing.formats import nccl_inspector, refused
from jobs.landing.formats.foreign import ForeignRun, Format, RefusalError, SourceFile
from jobs.landing.formats.known import HEAD_BYTES, format_of
from jobs.landing.formats.manifest import manifest_row
from jobs.landing.formats.rows import LONGEST_TEXT, Bounds, FileError, Reject
from jobs.landing.stores import Store
from schemas.vocabulary import RANK_LOG_FORMAT, REASON_UNKNOWN_FORMAT, REASON_UNREADABLE_FILE

_Found = TypeVar("_Found")
_PRODUCT: Final = ("dp_size", "pp_size", "tp_size", "cp_size")


class Recognised(NamedTuple):
    """Files of the run's one format, logs of NCCL Inspector, and why others are not read."""

    format: Format | None
    files: Sequence[LandedFile]
    evidence: Sequence[LandedFile]
    others: Sequence[tuple[LandedFile, Reject]]


class ForeignFiles:
    """Opens the files of one run for the reader of their format.

    digests : SHA-256 of each file that was read to its end
    opened_last : the file that is read, or was last
    """

    def __init__(self, store: Store, bounds: Bounds) -> None:
        self._store, self._bounds = store, bounds
        self.opened_last: LandedFile | None = None
        self.digests: dict[LandedFile, str] = {}

    def recognise(self, files: Sequence[LandedFile]) -> Recognised:
        """Return the files of the first format recognised; formats that are only refused come last."""
        formats: dict[LandedFile, Format | None] = {}
        unknown: dict[LandedFile, str] = {}
        evidence, others = [], []
        for file in files:
            try:
                with self.opened(file) as content:
                    head = content.read(HEAD_BYTES)
            except FileError as error:
                others.append((file, error.reject))
                continue
            if nccl_inspector.recognises(head):
                evidence.append(file)
            else:
                formats[file] = format_of(head)
                unknown[file] = _unknown(head)
        found = [each for each in formats.values() if each is not None]
        chosen = next((each for each in found if each is not refused), next(iter(found), None))
        for file, own in formats.items():
            if own is None or own is not chosen:
                detail = unknown[file] if own is None else "another tool's than other files"
                others.append((file, Reject(REASON_UNKNOWN_FORMAT, detail)))
        own_files = [file for file, own in formats.items() if own is not None and own is chosen]
        return Recognised(chosen, own_files, evidence, others)

    def sources(self, files: Sequence[LandedFile]) -> list[SourceFile]:
        """Return them as a format takes them."""
        return [SourceFile(file.name, partial(self.opened, file)) for file in files]

    def read(self, chosen: Format, files: Sequence[LandedFile], given: Mapping[str, Any]) -> ForeignRun:
        """Read the run. Raises FileError for the file that was opened last, RefusalError for the run."""
        with no_surprise():
            return chosen.read(self.sources(files), given, self._bounds)

    def guarded(self, found: Iterable[_Found]) -> Iterator[_Found]:
        """Pass on what a reader yields. Raises FileError for the file that was opened last."""
        with no_surprise():
            yield from found

    def digest(self, file: LandedFile) -> str:
        """SHA-256 of a file; reads it again if no reader reached its end."""
        if file not in self.digests:
            with self._content(file) as content:
                for _ in content.pieces():
                    pass
        return self.digests[file]

    @contextmanager
    def opened(self, file: LandedFile) -> Iterator[BinaryIO]:
        """Open a file's unpacked bytes. Raises FileError if it cannot be read."""
        with self._content(file) as content:
            yield content.unpacked()

    @contextmanager
    def _content(self, file: LandedFile) -> Iterator[Content]:
        if file.defect:
            raise FileError(REASON_UNREADABLE_FILE, file.defect)
        self.opened_last = file
        try:
            with self._store.open(file.path) as opened:
                content = Content(opened, self._bounds)
                yield content
                if content.is_whole:
                    self.digests[file] = content.digest
        except OSError as error:
            raise refusal_of(error) from None


def _unknown(head: bytes) -> str:
    """Why a file that begins like this is of no format; a rank log under another name is one for all that."""
    is_rank_log = f'"{RANK_LOG_FORMAT}"'.encode() in head
    return f"lines of {RANK_LOG_FORMAT}: name it {RANK_LOG}" if is_rank_log else "no format that is read"


@contextmanager
def no_surprise() -> Iterator[None]:
    """Any error of a reader of another tool's logs costs the file it reads, never the night."""
    try:
        yield
    except (FileError, RefusalError):
        raise
    except Exception as error:
        raise FileError(REASON_UNREADABLE_FILE, f"{type(error).__name__}: {plain(str(error))}") from error


def plain(text: str) -> str:
    """Text of a file for tables and consoles: its beginning, without halves of surrogate pairs."""
    return text[:LONGEST_TEXT].encode("utf-8", "backslashreplace").decode()


def job_of(run: ForeignRun, given: Mapping[str, Any], job_id: str, run_id: str) -> dict[str, Any]:
    """Return the row of jobs of a run: the user's manifest wins over the files.

    Only chunks come from the files: theirs need not be chunks of a virtual pipeline.
    """
    chunks = {name: run.manifest[name] for name in ("vpp_size",) if name in run.manifest}
    fields = {"job_id": job_id, "run_id": run_id, **run.manifest, **given, **chunks}
    sizes = [fields.get(name) for name in _PRODUCT]
    if "world_size" not in fields and all(type(size) is int for size in sizes):
        fields["world_size"] = 1
        for size in sizes:
            fields["world_size"] *= size
    return manifest_row(fields, job_id, run_id)
