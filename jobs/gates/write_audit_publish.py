"""Write, audit, publish: a phase's tables become visible together, when all of them pass their gates."""

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from jobs.gates.audit import (
    ON_TIME_EXPECTATION,
    GateError,
    GateRefusedError,
    GateWork,
    Refusal,
    Rule,
    all_hold,
    audit,
    broken_rows,
)
from jobs.gates.quality_docs import LATER, Page, TableChecks, table_checks, write_docs
from jobs.gates.releases import NEVER, released
from jobs.history.fingerprints import Fingerprint, record
from jobs.reading.reader import on_units
from jobs.warehouse.publication import publication
from jobs.warehouse.staged_rows import StagedRows
from jobs.warehouse.tables import Warehouse
from schemas.table import Expectation, Table
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import UNIT_FINGERPRINTS

_LOG: Final = logging.getLogger(__name__)

_AT_A_TIME: Final = 4
"""Tables written at a time. A small one mostly waits: six take 8 s in turn, 3.5 s together."""


Rows: TypeAlias = pa.Table | StagedRows


class Published(NamedTuple):
    """Rows of each published table, the work of its gates, and their checks."""

    rows: dict[str, int]
    gates: GateWork
    checks: list[TableChecks]


_Refused = dict[str, tuple[DataFrame, Sequence[Refusal]]]  # by the name under which the rows are saved


class _Audited(NamedTuple):
    """Rows of every frame, what was refused, and seconds of the gates alone."""

    rows: dict[str, int]
    refused: _Refused
    seconds: float

    @property
    def broken(self) -> list[Refusal]:
        """All that did not pass."""
        return [refusal for _, found in self.refused.values() for refusal in found]

    @property
    def refusals(self) -> list[Refusal]:
        """What refuses its rows."""
        return [refusal for refusal in self.broken if refusal.severity == "refuses"]


def publish(
    phase: str,
    warehouse: Warehouse,
    tables: Mapping[str, Rows],
    log_dates: Sequence[date],
    rules: Sequence[Rule] = (),
    units: Collection[Unit] | None = None,
    fingerprints: Sequence[Fingerprint] = (),
) -> Published:
    """Replace these days in the tables named, if any, once all rows and rules pass.

    units : replace these alone, not whole days
    fingerprints : of the units published; they replace all others of the phase for these days, or units
    tables : rows by table, in the driver, or already in files beside their table
    Raises GateRefusedError with all refusals, and saves the rows beside the tables, unless all of it
    was released for the days of those rows; raises GateError if an expectation could not be evaluated.
    Nothing is published in either case.
    """
    audited = _audit_all(warehouse, tables, on_units(log_dates, units), rules)
    page = Page(phase if units is None else f"{phase}{LATER}", log_dates, warehouse.root)
    passed = _passed(warehouse, page, rules, audited)
    if tables or fingerprints:
        with publication(warehouse, phase, log_dates, [*tables, UNIT_FINGERPRINTS]):
            _replace_all(warehouse, tables, log_dates, units)
            record(warehouse, phase, fingerprints, log_dates, units)
    return passed


def _passed(warehouse: Warehouse, page: Page, rules: Sequence[Rule], audited: _Audited) -> Published:
    """Write the page of checks; raises GateRefusedError unless all refusals are released."""
    refusals = audited.refusals
    for warning in audited.broken:
        if warning.severity == "warns":
            _LOG.warning("published, as this rule only warns: %s", warning)
    accepted = _accepted(warehouse, page.log_dates, refusals)
    refusal = _keep(warehouse, page, audited) if refusals else None
    checks = table_checks(audited.rows, rules, audited.broken, accepted)
    write_docs(warehouse.spark, replace(page, tables=checks, kept_in=refusal.kept_in if refusal else ""))
    if refusal and len(accepted) < len(refusals):
        raise refusal
    count = sum(len(table.checks) for table in checks)
    return Published(audited.rows, GateWork(audited.seconds, count, len(accepted)), checks)


def _audit_all(
    warehouse: Warehouse, tables: Mapping[str, Rows], scope: str, rules: Sequence[Rule]
) -> _Audited:
    """Audit the rows of every table, and every rule; returns all refusals, not only the first.

    Raises GateError if what was found together is not found again: that is never a pass.
    """
    on_time = Expectation(ON_TIME_EXPECTATION, scope, "rows are of the days, or the units, computed")
    started = time.monotonic()
    frames = [(TABLES[name], warehouse.frame(TABLES[name], rows)) for name, rows in tables.items()]
    sound = {name for name, rows in tables.items() if isinstance(rows, StagedRows) and rows.are_sound}
    refused: _Refused = {}
    if not all_hold(frames, [on_time], sound):
        refused = _look_at_each(frames, on_time)
        if not refused:
            named = ", ".join(tables)
            raise GateError(f"{named}: broken when checked together, but not when each is checked alone")
    for rule in rules:
        if rule.rows.num_rows:
            refused[rule.name] = warehouse.spark.createDataFrame(rule.rows), [rule.refusal]
    counts = {name: rows.num_rows for name, rows in tables.items()}
    return _Audited(counts, refused, time.monotonic() - started)


def _look_at_each(tables: Sequence[tuple[Table, DataFrame]], on_time: Expectation) -> _Refused:
    """Check every frame alone."""
    refused: _Refused = {}
    for table, frame in tables:
        found = audit(table, frame, [on_time])
        if found:
            refused[table.name] = broken_rows(table, frame, [on_time]), found
    return refused


def _accepted(warehouse: Warehouse, log_dates: Sequence[date], refusals: Sequence[Refusal]) -> set[str]:
    """Names of refusals that were released for all days of their rows."""
    if not refusals:
        return set()
    by_day = released(warehouse, log_dates)
    accepted = {
        refusal.name
        for refusal in refusals
        if refusal.expectation not in NEVER
        and all(refusal.name in by_day.get(day, ()) for day in refusal.log_dates or log_dates)
    }
    for refusal in refusals:
        if refusal.name in accepted:
            _LOG.warning("published, as it was released by hand: %s", refusal)
    return accepted


def _keep(warehouse: Warehouse, page: Page, audited: _Audited) -> GateRefusedError:
    """Save refused rows for inspection, by the name of their page; return the error about them."""
    for name, (rows, found) in audited.refused.items():
        if all(each.severity == "warns" for each in found):
            continue
        try:
            warehouse.keep_refused(page.phase, page.log_dates, name, rows)
        except (PySparkException, Py4JError) as error:  # the refusal matters more than its evidence
            _LOG.warning("refused rows of %s could not be saved: %s", name, error)
    return GateRefusedError(audited.refusals, warehouse.refused_path(page.phase, page.log_dates))


def _replace_all(
    warehouse: Warehouse,
    tables: Mapping[str, Rows],
    log_dates: Sequence[date],
    units: Collection[Unit] | None,
) -> None:
    with ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="publish") as writers:
        each = [(TABLES[name], rows, log_dates, units) for name, rows in tables.items()]
        writes = [writers.submit(warehouse.replace, *arguments) for arguments in each]
    for write in writes:
        write.result()  # raises a writer's error after all have ended
