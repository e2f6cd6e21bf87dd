"""What the pages are made of: rows of the warehouse, read by somebody else."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa

from schemas.unit import Unit

Row = Mapping[str, Any]


@dataclass(frozen=True)
class FleetTables:
    """What the page is made of: rows of the period, ordered.

    units    : of job_days. parts: of fix_parts. op_types: of op_type_day.
    hosts    : of the named query hosts, those that were slow at least once.
    """

    units: pa.Table
    parts: pa.Table
    op_types: pa.Table
    hosts: pa.Table


@dataclass(frozen=True)
class Publication:
    """One night's report.

    day          : the log date it was written for, and its last day.
    first_day    : first day of the period.
    pages        : paths of job pages that there are, from the report's root.
    warehouse    : how a command names the warehouse; empty where it need not.
    """

    day: date
    first_day: date
    pages: Collection[str]
    warehouse: str = ""


@dataclass(frozen=True)
class UnitTables:
    """All rows of one unit.

    job      : of job_days. workers, steps, op_types, causes : of worker_slowdown, step_slowdown,
               op_type_slowdown and job_causes, ordered by their keys.
    hosts    : host -> row of the named query hosts, of those that were slow.
    """

    job: Row
    workers: Sequence[Row] = ()
    steps: Sequence[Row] = ()
    op_types: Sequence[Row] = ()
    causes: Sequence[Row] = ()
    hosts: Mapping[str, Row] = field(default_factory=dict)

    @property
    def key(self) -> Unit:
        """Which unit this is."""
        return Unit(self.job["log_date"], self.job["job_id"], self.job["run_id"])
