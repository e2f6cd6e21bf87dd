"""Logs of other tools as tests read them: without a landing, rows and all that was left out."""

import io
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa

from jobs.landing.formats.foreign import ForeignRun, SourceFile
from jobs.landing.formats.known import HEAD_BYTES, format_of
from jobs.landing.formats.rows import Bounds, Reject, table_of
from jobs.landing.read_foreign import job_of
from jobs.runtime.project import PROJECT

LOGS = PROJECT / "tests" / "data" / "logs"


class Read(NamedTuple):
    """What a run's files hold."""

    run: ForeignRun
    rows: pa.Table
    rejects: list[Reject]
    job: dict[str, Any]


def read(
    files: Mapping[str, bytes], given: Mapping[str, Any] | None = None, bounds: Bounds | None = None
) -> Read:
    """Read files by name. Raises what their format raises."""
    first = next(iter(files.values()))
    found = format_of(first[:HEAD_BYTES])
    assert found is not None, first[:200]
    sources = [SourceFile(name, partial(opened, content)) for name, content in files.items()]
    run = found.read(sources, given or {}, bounds or Bounds())
    parts = list(run.parts)
    tables = [table_of(part.rows) for part in parts]
    rejects = [each for part in parts for each in part.rejects]
    return Read(
        run,
        pa.concat_tables(tables),
        rejects,
        {**job_of(run, given or {}, "j", "r"), "transfers": run.transfers},
    )


def opened(content: bytes) -> AbstractContextManager[BinaryIO]:
    return nullcontext(io.BytesIO(content))


def as_json(events: Sequence[object]) -> bytes:
    return json.dumps(events).encode()


def packed(folder: str, pattern: str) -> list[Path]:
    found = sorted((LOGS / folder).glob(pattern))
    assert found, f"no {pattern} in {LOGS / folder}"
    return found
