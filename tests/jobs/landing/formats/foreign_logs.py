"""Read logs of other tools for tests, without a landing: rows, rejects, and counts of events left out."""

import io
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa

from jobs.landing.formats.foreign import ForeignRun, Part, SourceFile
from jobs.landing.formats.known import HEAD_BYTES, format_of
from jobs.landing.formats.rows import Bounds, Reject, joined, table_of
from jobs.landing.read_foreign import job_of
from jobs.runtime.project import PROJECT
from udfs.what_if import simulate_job

LOGS = PROJECT / "tests" / "data" / "logs"


class Read(NamedTuple):
    """What a format's reader returns for a run, with all its rows and rejects, and its row of jobs."""

    run: ForeignRun
    parts: list[Part]
    rows: pa.Table
    rejects: list[Reject]
    job: dict[str, Any]

    def outcome(self) -> dict[str, Any]:
        """Return the row of job_slowdown that the simulation of this run gives."""
        return outcome(self.rows, self.job)


def sources(files: Mapping[str, bytes] | Sequence[bytes]) -> list[SourceFile]:
    """Return files with the given contents; files without names are called rank-0.json, rank-1.json, ..."""
    named = files.items() if isinstance(files, Mapping) else enumerate(files)
    return [
        SourceFile(name if isinstance(name, str) else f"rank-{name}.json", partial(opened, content))
        for name, content in named
    ]


def read(
    files: Mapping[str, bytes] | Sequence[bytes],
    given: Mapping[str, Any] | None = None,
    bounds: Bounds | None = None,
) -> Read:
    """Read a run's files by the reader of the first file's format; raises that reader's errors.

    given : fields of the manifest
    """
    first = next(iter(files.values())) if isinstance(files, Mapping) else files[0]
    found = format_of(first[:HEAD_BYTES])
    assert found is not None, first[:200]
    run = found.read(sources(files), given or {}, bounds or Bounds())
    parts = list(run.parts)
    job = {**job_of(run, given or {}, "j", "r"), "transfers": run.transfers}
    rejects = [each for part in parts for each in part.rejects]
    return Read(run, parts, table_of(joined([part.rows for part in parts])), rejects, job)


def outcome(rows: pa.Table, manifest: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = simulate_job(rows, manifest)["job_slowdown"].to_pylist()[0]
    return found


def opened(content: bytes) -> AbstractContextManager[BinaryIO]:
    return nullcontext(io.BytesIO(content))


def as_json(events: Sequence[object]) -> bytes:
    return json.dumps(events).encode()


def packed(folder: str, pattern: str) -> list[Path]:
    found = sorted((LOGS / folder).glob(pattern))
    assert found, f"no {pattern} in {LOGS / folder}"
    return found
