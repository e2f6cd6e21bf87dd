"""Types for the rows that jobs.report.read reads and that pages show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa

from schemas.unit import Unit

Row = Mapping[str, Any]


@dataclass(frozen=True)
class FleetTables:
    """Sorted rows of the fleet's period; jobs.report.read defines each table.

    totals has one row, weeks up to two; drain, news, changes and outcomes are as of the last day;
    host_units : of the hosts that have a page.
    """

    totals: pa.Table
    weeks: pa.Table
    days: pa.Table
    fixes: pa.Table
    units: pa.Table
    slower: pa.Table
    parts: pa.Table
    runs: pa.Table
    coverage: pa.Table
    distribution: pa.Table
    op_types: pa.Table
    hosts: pa.Table
    drain: pa.Table
    news: pa.Table
    changes: pa.Table
    outcomes: pa.Table
    waterfall: pa.Table
    host_units: pa.Table


@dataclass(frozen=True)
class Publication:
    """One night's report, and the targets of its links.

    day, first_day : of its period, both included.
    pages     : job pages from the report's root, those of earlier publications too.
    hosts     : host pages from the publication's folder, by host.
    warehouse : how a command names the warehouse; empty where it need not.
    quality   : where the data docs of its day lie, from the publication's folder; empty where nowhere.
    """

    day: date
    first_day: date
    pages: frozenset[str] = frozenset()
    hosts: Mapping[str, str] = field(default_factory=dict)
    warehouse: str = ""
    quality: str = ""

    @property
    def period(self) -> str:
        """Return the days of the period, as text."""
        return f"{self.first_day} to {self.day}" if self.first_day < self.day else str(self.day)

    def page_of(self, path: str) -> str | None:
        """Return a job page's path relative to the publication's folder; None if the page does not exist."""
        if path not in self.pages:
            return None
        return path.removeprefix(f"{self.day}/") if path.startswith(f"{self.day}/") else f"../{path}"


@dataclass(frozen=True)
class UnitTables:
    """All rows of one unit.

    job      : of job_days. workers, steps, op_types, causes : of worker_slowdown, step_slowdown,
               op_type_slowdown and job_causes, ordered by their keys.
    hosts    : host -> row of the named query hosts, of those that were slow.
    further  : of each of FURTHER_TABLES, job_megawatts and cause_evidence, ordered by its key; none where the
               logs do not answer it.
    roles    : of role_effect, all roles of the whole that it is part of; none where it is part of none.
    history  : of culprit_history, of its day: culprits with the first of the days in a row that named them.
    rejects  : of its lines and files by reason, the most first: reason, count, detail of one.
    waterfall : of the view, ordered by place; none where it is not known what the unit lost.
    changes : of job_changes, of its job and day.
    crop : of rank_steps, the lines that jobs.report.crop draws; none once recorded ops have expired.
    """

    job: Row
    workers: Sequence[Row] = ()
    steps: Sequence[Row] = ()
    op_types: Sequence[Row] = ()
    causes: Sequence[Row] = ()
    further: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    roles: Sequence[Row] = ()
    hosts: Mapping[str, Row] = field(default_factory=dict)
    history: Sequence[Row] = ()
    rejects: Sequence[Row] = ()
    waterfall: Sequence[Row] = ()
    changes: Sequence[Row] = ()
    crop: Sequence[Row] = ()

    @property
    def key(self) -> Unit:
        """Return the key of the unit."""
        return Unit(self.job["log_date"], self.job["job_id"], self.job["run_id"])
