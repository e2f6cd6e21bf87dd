"""A landing to write defects into, file by file, and what ingest made of it."""

import gzip
import json
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from jobs.runtime.settings import Settings
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import INGESTED_TABLES, UNIT_KEY
from tests.support.line_cases import RUN, SIZES

DAY = date(2026, 1, 5)
NEXT_DAY = date(2026, 1, 6)
EMPTY_DAY = date(2026, 1, 7)

Rows = list[dict[str, Any]]


class Landing:
    """Writes run folders."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, job_id: str, name: str, content: bytes, run_id: str = RUN, day: date = DAY) -> str:
        """Write a file of a run folder; returns what source_file must be."""
        source_file = f"log_date={day}/job_id={job_id}/run_id={run_id}/{name}"
        path = self.root / source_file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return source_file

    def log(self, job_id: str, name: str, lines: Iterable[bytes], run_id: str = RUN, day: date = DAY) -> str:
        """Write a rank log, packed if its name says so."""
        content = b"".join(line + b"\n" for line in lines)
        return self.put(
            job_id, name, gzip.compress(content) if name.endswith(".gz") else content, run_id, day
        )

    def manifest(self, folder: str, run: str = RUN, day: date = DAY, **changes: object) -> str:
        """Write a good manifest, or one with some fields changed."""
        manifest = {"job_id": folder, "run_id": run, **SIZES} | changes
        return self.put(folder, "job.json", json.dumps(manifest).encode(), run, day)


class Tables:
    """The ingested tables, read after a run."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        warehouse = Warehouse(spark, settings.paths.warehouse)
        self.rows: dict[str, Rows] = {
            name: warehouse.read(TABLES[name]).toArrow().to_pylist(maps_as_pydicts="strict")
            for name in INGESTED_TABLES
        }

    def of(self, table: str, job_id: str) -> Rows:
        """Rows of one job without its unit's key, in a fixed order."""
        found = [row for row in self.rows[table] if row["job_id"] == job_id]
        bare = [{name: value for name, value in row.items() if name not in UNIT_KEY} for row in found]
        return sorted(bare, key=repr)

    def steps(self, job_id: str) -> list[tuple[int, int]]:
        """(rank, step) of all rows of one job."""
        return sorted((row["rank"], row["step"]) for row in self.of("rank_steps", job_id))

    def rejected(self, job_id: str) -> list[tuple[str, int | None, str]]:
        """(file name, line, reason) of all rejects of one job."""
        rejects = self.of("rejects", job_id)
        found = [(row["source_file"].rsplit("/", 1)[1], row["line"], row["reason"]) for row in rejects]
        return sorted(found, key=lambda each: (each[0], each[1] or 0))

    def job(self, job_id: str) -> dict[str, Any]:
        """The one row of jobs."""
        (row,) = self.of("jobs", job_id)
        return row

    def sets(self) -> dict[str, list[str]]:
        """All rows of all tables, comparable as sets."""
        return {name: sorted(map(repr, rows)) for name, rows in self.rows.items()}
