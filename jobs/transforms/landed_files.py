"""Files of the landing: whose they are, what they are, and the table of those that hold ops."""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from fnmatch import fnmatch
from typing import Any, Final, NamedTuple

import pyarrow as pa

from schemas.rank_steps import TABLE as RANK_STEPS
from schemas.vocabulary import UNIT_KEY
from udfs.landed_rows import LIMITS

RANK_LOG: Final = "rank-*.jsonl"
PACKED_RANK_LOG: Final = "rank-*.jsonl.gz"
TRACE: Final = "trace-*.parquet"
MANIFEST: Final = "job.json"
META: Final = "meta-*.yaml"

Unit = tuple[date, str, str]
"""Values of UNIT_KEY."""

LOG_FILES_SCHEMA: Final = pa.schema(
    [
        pa.field("path", pa.string()),
        *(RANK_STEPS.arrow_schema.field(name) for name in (*UNIT_KEY, "source_file")),
        pa.field("bytes", pa.int64()),
        pa.field("has_lines", pa.bool_()),  # a rank log, not a trace
        pa.field("bucket", pa.int32()),  # partition in which the rows of the unit are sorted and written
        *(pa.field(name, pa.int32()) for name in LIMITS),  # null without a good manifest
    ]
)

_PACKED: Final = 6
"""Bytes of JSON in a byte of gzip, about."""

_BUCKET_BYTES: Final = 256 << 20
"""JSON that makes one file of rank_steps: some 5 million ops, 80 MB of Parquet."""


class LandedFile(NamedTuple):
    """One file of a run folder: `path` as Spark's _metadata.file_path spells it, `source_file` as we do.

    size : [B]
    modified_us : Unix time of its last change, as the store tells it; 0 where Spark lists no such file
    """

    log_date: date
    job_id: str
    run_id: str
    source_file: str
    path: str
    size: int
    modified_us: int = 0

    @property
    def unit(self) -> Unit:
        """The key of the unit that it belongs to."""
        return self.log_date, self.job_id, self.run_id

    def is_one_of(self, *patterns: str) -> bool:
        """Tell whether the file's name is like one of these."""
        name = self.source_file.rsplit("/", 1)[1]
        return any(fnmatch(name, pattern) for pattern in patterns)


def by_unit(files: Iterable[LandedFile]) -> dict[Unit, list[LandedFile]]:
    """Gather files by unit; a folder with any file is a unit."""
    found: dict[Unit, list[LandedFile]] = {}
    for file in files:
        found.setdefault(file.unit, []).append(file)
    return found


def log_files(files: Sequence[LandedFile], jobs: Iterable[Mapping[str, Any]], partitions: int) -> pa.Table:
    """Return the files that hold ops, as LOG_FILES_SCHEMA.

    jobs : rows of the table jobs; the sizes of good manifests bound the ranks of their unit
    partitions : how many buckets the units are spread over, at least; never more than there are units
    """
    logs = [file for file in files if file.is_one_of(RANK_LOG, PACKED_RANK_LOG, TRACE)]
    limits = {tuple(job[name] for name in UNIT_KEY): job for job in jobs if job["manifest_status"] is None}
    buckets = _buckets(by_unit(logs), partitions)
    rows = [
        {
            **dict(zip(UNIT_KEY, file.unit, strict=True)),
            **{name: limits.get(file.unit, {}).get(name) for name in LIMITS},
            "path": file.path,
            "source_file": file.source_file,
            "bytes": file.size,
            "has_lines": not file.is_one_of(TRACE),
            "bucket": buckets[file.unit],
        }
        for file in logs
    ]
    return pa.Table.from_pylist(rows, schema=LOG_FILES_SCHEMA)


def _buckets(units: Mapping[Unit, Sequence[LandedFile]], partitions: int) -> dict[Unit, int]:
    """Give each unit its bucket: neighbours together, about as many bytes in each."""
    sizes = {unit: sum(map(_json_bytes, units[unit])) for unit in sorted(units)}
    total = max(1, sum(sizes.values()))
    count = max(1, min(len(sizes), max(partitions, math.ceil(total / _BUCKET_BYTES))))
    found, before = {}, 0.0
    for unit, size in sizes.items():
        found[unit] = min(count - 1, int((before + size / 2) * count / total))
        before += size
    return found


def _json_bytes(file: LandedFile) -> int:
    return file.size if file.is_one_of(RANK_LOG) else file.size * _PACKED
