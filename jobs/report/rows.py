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
    """Tables of the fleet's page, sorted; jobs.report.read has the SQL of each.

    All cover the period, except that drain, news, changes and outcomes are as of its last day. totals has one
    row, and weeks has at most two. host_units has the units that ran on the hosts with a page.
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
    """The report of one day: its period, and the targets of its links.

    day, first_day : last and first day of the period.
    pages     : paths of job pages relative to the report's root, also those of earlier publications.
    hosts     : path of a host's page relative to the publication's folder, by host.
    warehouse : the warehouse as commands name it; empty for the default warehouse.
    quality   : path of the day's data docs relative to the publication's folder; empty if there are none.
    """

    day: date
    first_day: date
    pages: frozenset[str] = frozenset()
    hosts: Mapping[str, str] = field(default_factory=dict)
    warehouse: str = ""
    quality: str = ""

    @property
    def period(self) -> str:
        """Return the first and last day of the period as text, or the day if it has only one."""
        return f"{self.first_day} to {self.day}" if self.first_day < self.day else str(self.day)

    def page_of(self, path: str) -> str | None:
        """Return a job page's path relative to the publication's folder; None if the page does not exist."""
        if path not in self.pages:
            return None
        return path.removeprefix(f"{self.day}/") if path.startswith(f"{self.day}/") else f"../{path}"


@dataclass(frozen=True)
class UnitTables:
    """All rows of one unit.

    job       : its row of job_days.
    workers, steps, op_types, causes : its rows of worker_slowdown, step_slowdown, op_type_slowdown and
                job_causes, sorted by their keys.
    further   : its rows of FURTHER_TABLES, job_megawatts and cause_evidence, by table, sorted by their keys;
                a table has no rows if the unit's logs lack what it needs.
    roles     : rows of role_effect for all roles of the whole that the unit is part of, if any.
    hosts     : row of the named query hosts, by host, for the hosts that were slow.
    history   : its rows of culprit_history: each culprit with the first of the consecutive days that named
                it.
    rejects   : reason, count and one detail of its rejects, most frequent reason first.
    waterfall : its rows of the view waterfall, sorted by place; empty if its loss is not known.
    changes   : rows of job_changes for its job and day.
    crop      : the rows of rank_steps that jobs.report.crop draws; empty if recorded ops have expired.
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
        """Return the unit's key: log date, job id and run id."""
        return Unit(self.job["log_date"], self.job["job_id"], self.job["run_id"])
