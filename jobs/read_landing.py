"""Reads the landing once: the rows of some days, and which files could not be read."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from jobs.landing import FAILED_READS, Landing
from jobs.transforms.landed import arranged, landed_traces
from jobs.transforms.landed_files import (
    MANIFEST,
    META,
    PACKED_RANK_LOG,
    RANK_LOG,
    TRACE,
    LandedFile,
    by_unit,
    log_files,
)
from jobs.transforms.manifests import read_manifests
from jobs.transforms.rank_lines import landed_lines
from schemas.vocabulary import REASON_UNREADABLE_FILE, UNIT_KEY
from udfs.landed_rows import LANDED_SCHEMA, batch_of, reject

_LOG: Final = logging.getLogger(__name__)


class LandedDays(NamedTuple):
    """What lies in the landing.

    digests : SHA-256 of files by path, never newer than what was read: a file that changes now is read again
    landed : persisted; landed_rows.LANDED_SCHEMA and `bucket`, arranged by unit
    states : how many of the landed rows are in each state
    buckets : how many partitions they are arranged in
    files : landed_files.LOG_FILES_SCHEMA, has_lines false where lines cannot be read
    jobs : rows of the table jobs
    whole_files : rejects of whole files, as LANDED_SCHEMA
    """

    digests: Mapping[str, str]
    landed: DataFrame
    states: Mapping[str, int]
    buckets: int
    files: DataFrame
    jobs: list[dict[str, Any]]
    whole_files: DataFrame


@contextmanager
def landed_days(spark: SparkSession, landing: Landing) -> Iterator[LandedDays]:
    """Read the landing; the frames can be used until the block ends."""
    units = by_unit(landing.files)
    digests, manifests = landing.digests_and_contents((MANIFEST, META))
    jobs, rejects = read_manifests(units, manifests)
    table = log_files(landing.files, jobs, int(spark.conf.get("spark.sql.shuffle.partitions") or 1))
    buckets = 1 + max(table.column("bucket").to_pylist(), default=0)
    files = spark.createDataFrame(table)
    empty = [file for file in landing.files if file.is_one_of(TRACE) and file.size == 0]
    unreadable = {file.path: "the file is empty" for file in empty}  # Spark does not read it at all
    landed, states = _read(landing, files, buckets, unreadable)
    rejects += [_reject(file, unreadable[file.path]) for file in landing.files if file.path in unreadable]
    whole_files = spark.createDataFrame(pa.Table.from_batches([batch_of(rejects)]))
    has_lines = F.col("has_lines") & ~F.col("path").isin([*unreadable])
    files = files.withColumn("has_lines", has_lines)
    try:
        yield LandedDays(digests, landed, states, buckets, files, jobs, whole_files)
    finally:
        landed.unpersist()


def _read(
    landing: Landing, files: DataFrame, buckets: int, unreadable: dict[str, str]
) -> tuple[DataFrame, dict[str, int]]:
    """Read all rows and keep them; files that prove unreadable are added to `unreadable` and left out."""
    is_first = True
    while True:
        landed = arranged(_landed(landing, files, unreadable), buckets).persist()
        try:
            counts = landed.groupBy("state").count().collect()
        except FAILED_READS as error:
            landed.unpersist()
            _learn(error, landing, unreadable, is_first=is_first)
            is_first = False
        else:
            return landed, {row["state"]: row["count"] for row in counts}


def _landed(landing: Landing, files: DataFrame, unreadable: Mapping[str, str]) -> DataFrame:
    """Rows of rank logs and of published traces; of kinds that nobody left, none is read."""
    parts = []
    if any(file.is_one_of(RANK_LOG, PACKED_RANK_LOG) for file in landing.files):
        parts.append(landed_lines(landing.lines(unreadable), files))
    if any(file.is_one_of(TRACE) for file in landing.files):
        parts.append(landed_traces(landing.contents(TRACE, unreadable), files))
    if not parts:
        empty = files.sparkSession.createDataFrame([], from_arrow_schema(LANDED_SCHEMA))
        return empty.withColumn("bucket", F.lit(0))
    return parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])


def _learn(error: Exception, landing: Landing, unreadable: dict[str, str], *, is_first: bool) -> None:
    """Add to `unreadable` the file that a read failed on.

    The first time all packed files are read to their end, lest many broken ones cost as many reads of all.
    Raises `error` where no file was its cause, or one that is not read any more.
    """
    file = landing.failed_file(error)
    if file is None or file.path in unreadable:
        raise error
    if is_first:
        unreadable.update(landing.broken_gzip_files())
    unreadable.setdefault(file.path, "not readable to its end")
    _LOG.warning("%d files cannot be read, the last of them %s", len(unreadable), file.source_file)


def _reject(file: LandedFile, detail: str) -> dict[str, Any]:
    place = {"source_file": file.source_file, "block_start": None, "position": None}
    return reject(dict(zip(UNIT_KEY, file.unit, strict=True)) | place, REASON_UNREADABLE_FILE, detail)
