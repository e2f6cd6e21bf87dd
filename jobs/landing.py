"""The landing: what producers left on some days, listed and read through Spark's own readers.

Nothing here opens a file by itself, so that every store is a landing that Spark can read. Ids are text, taken
from the folders' names: Spark's own discovery of partitions would make numbers of some and overwrite others.
"""

import hashlib
import logging
import re
from collections.abc import Collection, Sequence
from datetime import date
from functools import cached_property, reduce
from operator import or_
from typing import Final
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, DataFrameReader, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from jobs.store import matching
from jobs.transforms.landed_files import PACKED_RANK_LOG, RANK_LOG, LandedFile, Unit
from udfs.gzip_files import CHECKED_SCHEMA, broken_files

FAILED_READS: Final = (PySparkException, Py4JError)
"""What Spark raises where a file cannot be read, and elsewhere; failed_path() tells whether it was a file."""

_PLACE: Final = re.compile(r"log_date=([^/]+)/job_id=([^/]+)/run_id=([^/]+)/([^/]+)$")
_FAILED: Final = re.compile(r"\[FAILED_READ_FILE\.\w+\][^\n]*? file (\S+)\.\s")
_GLOB_CHARACTERS: Final = re.compile(r"([\\{}\[\]*?])")
_BRACE_CHARACTERS: Final = re.compile(r"([\\{},])")
_LARGEST_CHECKED: Final = 64 << 20
_SMALL: Final = 16 << 20
_LARGEST_DIGESTED: Final = 256 << 20
"""Spark holds a file whole to hash it, so that one task takes about twice as much memory."""
_OF_NOTHING: Final = hashlib.sha256(b"").hexdigest()
_MARKER: Final = "_SUCCESS"
_NAME: Final = "_metadata.file_name"
_PATH: Final = "_metadata.file_path"
_SIZE: Final = "_metadata.file_size"
_MODIFIED: Final = "_metadata.file_modification_time"
_LOG: Final = logging.getLogger(__name__)


class Landing:
    """The folders of some days under a root, or those of some units."""

    def __init__(
        self,
        spark: SparkSession,
        root: str,
        log_dates: Sequence[date],
        units: Collection[Unit] | None = None,
    ) -> None:
        days = [f"log_date={day.isoformat()}" for day in sorted(set(log_dates))]
        runs = [f"log_date={day}/job_id={job}/run_id={run}" for day, job, run in sorted(units or ())]
        self._days = _alternatives(root, days)
        self._folders = self._days if units is None else _alternatives(root, runs)
        self._spark = spark
        self._misplaced: list[str] = []

    @cached_property
    def files(self) -> list[LandedFile]:
        """The files of all run folders, by name; days without a folder have none.

        Spark hides names that begin with an underscore or a dot, and lists empty files but never reads them.
        """
        try:
            frame = self._whole_files
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return []
        modified = F.unix_micros(_MODIFIED).alias("modified_us")
        facts = frame.select(F.col(_PATH).alias("path"), F.col(_SIZE).alias("size"), modified).collect()
        read = {_tail(row["path"]): (row["path"], row["size"], row["modified_us"]) for row in facts}
        found = []
        for path in frame.inputFiles():
            place = _PLACE.search(path)
            if place is None:
                self._misplaced.append(read.get(path, (path,))[0])
                continue
            log_date, job_id, run_id, name = map(unquote, place.groups())
            source_file = f"log_date={log_date}/job_id={job_id}/run_id={run_id}/{name}"
            unit = date.fromisoformat(log_date), job_id, run_id
            found.append(LandedFile(*unit, source_file, *read.get(place.group(), (path, 0, 0))))
        if self._misplaced:
            _LOG.warning(
                "%d files outside of run folders, not read: %s", len(self._misplaced), self._misplaced[0]
            )
        return sorted(found)

    @cached_property
    def _whole_files(self) -> DataFrame:
        """All files, listed once: to list them again takes about as long as to look at their sizes."""
        reader = self._reader().format("binaryFile").option("ignoreCorruptFiles", value=True)
        return reader.load(self._folders)

    def finished_days(self) -> set[date]:
        """Days of which the producers have said, by the marker that they write last, that all is there."""
        found = [path.getParent().getName() for path in matching(self._spark, f"{self._days}/{_MARKER}")]
        return {date.fromisoformat(name.removeprefix("log_date=")) for name in found}

    def digests(self, only: Collection[str] | None = None) -> dict[str, str]:
        """SHA-256 of files' contents, by path; of what cannot be read, or is very large, there is none.

        only : paths; without, all files
        """
        return self.digests_and_contents((), only)[0]

    def digests_and_contents(
        self, names: Collection[str], only: Collection[str] | None = None
    ) -> tuple[dict[str, str], dict[str, bytes]]:
        """Digests, and the contents of small files with such names, by path; each file is read once.

        names : patterns with `*`; what cannot be read, is empty or not small has no contents
        """
        if not self.files:
            return {}, {}
        found = self._whole(names, only)
        contents = {row["path"]: bytes(row["content"]) for row in found if row["content"] is not None}
        wanted = [file for file in self.files if file.is_one_of(*names) and 0 < file.size <= _SMALL]
        lost = [file.path for file in wanted if file.path not in contents and (not only or file.path in only)]
        if lost:  # a store may fail once: without its manifest a unit would not be analysed
            again = self._whole(names, lost)
            contents |= {row["path"]: bytes(row["content"]) for row in again}
            found += again
        empty = {file.path: _OF_NOTHING for file in self.files if file.size == 0}
        return empty | {row["path"]: row["digest"] for row in found}, contents

    def _whole(self, names: Collection[str], only: Collection[str] | None) -> list[Row]:
        """Digests of all files that can be read, and the contents of small ones with such names."""
        is_asked_for = reduce(
            or_, (F.col(_NAME).like(name.replace("*", "%")) for name in names), F.lit(col=False)
        )
        hashed = self._chosen(self._whole_files, (), only).where(F.col(_SIZE) <= _LARGEST_DIGESTED)
        return hashed.select(
            F.col(_PATH).alias("path"),
            F.sha2("content", 256).alias("digest"),
            F.when(is_asked_for & (F.col(_SIZE) <= _SMALL), F.col("content")).alias("content"),
        ).collect()

    def lines(self, without: Collection[str] = (), only: Collection[str] | None = None) -> DataFrame:
        """Read rank logs as text: value, path, block_start and position; the last two order a file's lines.

        The frame fails on a file that cannot be read to its end, unless its path is in `without`.
        """
        reader = self._reader(f"{{{RANK_LOG},{PACKED_RANK_LOG}}}").format("text").option("lineSep", "\n")
        return self._chosen(reader.load(self._folders), without, only).select(
            "value",
            F.col(_PATH).alias("path"),
            F.col("_metadata.file_block_start").alias("block_start"),
            F.monotonically_increasing_id().alias("position"),
        )

    def contents(
        self,
        pattern: str,
        without: Collection[str] = (),
        *,
        is_strict: bool = True,
        only: Collection[str] | None = None,
    ) -> DataFrame:
        """Read files of such names whole: path, size and content.

        is_strict : the frame fails on a file that cannot be read; otherwise such a file is not there
        """
        reader = self._reader(pattern).format("binaryFile").option("ignoreCorruptFiles", not is_strict)
        columns = F.col(_PATH).alias("path"), F.col(_SIZE).alias("size"), "content"
        return self._chosen(reader.load(self._folders), without, only).select(*columns)

    def broken_gzip_files(self) -> dict[str, str]:
        """Find rank logs whose gzip is broken, by path, with what is wrong; the largest are not looked at."""
        packed = self.contents(PACKED_RANK_LOG, is_strict=False).where(F.col("size") <= _LARGEST_CHECKED)
        checked = packed.select("path", "content").mapInArrow(broken_files, from_arrow_schema(CHECKED_SCHEMA))
        return {row["path"]: row["detail"] for row in checked.collect()}

    def failed_file(self, error: Exception) -> LandedFile | None:
        """Tell the file that Spark could not read, where that is what an error says."""
        found = _FAILED.search(str(error))
        tail = _tail(found.group(1)) if found else None
        return next((file for file in self.files if _tail(file.path) == tail), None)

    def _reader(self, pattern: str = "*") -> DataFrameReader:
        reader = self._spark.read.option("recursiveFileLookup", value=True)
        return reader.option("pathGlobFilter", pattern)

    def _chosen(self, frame: DataFrame, without: Collection[str], only: Collection[str] | None) -> DataFrame:
        """Leave files out by a filter on their path: Spark then does not even open them."""
        excluded = [*self._misplaced, *without]
        if excluded:
            frame = frame.where(~F.col(_PATH).isin(excluded))
        return frame if only is None else frame.where(F.col(_PATH).isin(list(only)))


def _alternatives(root: str, folders: Sequence[str]) -> str:
    """One glob for all of these folders: one that is not there is no error if another is.

    Hadoop takes alternatives apart first, and one backslash of each with it.
    """
    names = ",".join(_BRACE_CHARACTERS.sub(r"\\\1", _escaped(name)) for name in folders)
    return f"{_escaped(root.rstrip('/'))}/{{{names}}}"


def _escaped(path: str) -> str:
    return _GLOB_CHARACTERS.sub(r"\\\1", path)


def _tail(path: str) -> str:
    """Return the part of a path that is the same however Spark spells the rest (file:/ and file:///)."""
    place = _PLACE.search(path)
    return place.group() if place else path
