"""Reading traces of torch.profiler that are at hand as bytes."""

import io
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from jobs.landing.formats import kineto
from jobs.landing.formats.foreign import ForeignRun, Part, SourceFile
from jobs.landing.formats.rows import Bounds, joined, table_of
from schemas.vocabulary import OP_TYPES
from udfs.what_if import simulate_job


def files_of(texts: Sequence[bytes]) -> list[SourceFile]:
    return [SourceFile(f"rank-{number}.json", partial(io.BytesIO, text)) for number, text in enumerate(texts)]


def read_all(
    texts: Sequence[bytes], manifest: Mapping[str, Any] | None = None
) -> tuple[ForeignRun, list[Part], pa.Table]:
    run = kineto.read(files_of(texts), manifest or {}, Bounds())
    parts = list(run.parts)
    return run, parts, table_of(joined([part.rows for part in parts]))


def outcome(rows: pa.Table, manifest: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = simulate_job(rows, manifest)["job_slowdown"].to_pylist()[0]
    return found


def ops_of(row: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    return [
        (OP_TYPES[op], microbatch, chunk)
        for op, microbatch, chunk in zip(row["op"], row["microbatch"], row["model_chunk"], strict=True)
    ]


def without_collective(text: bytes, number: int) -> bytes:
    trace = json.loads(text)
    trace["traceEvents"] = [each for each in trace["traceEvents"] if each["args"].get("Seq") != number]
    return json.dumps(trace).encode()
