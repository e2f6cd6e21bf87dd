"""Write, audit, publish: a phase's tables become visible together, once all of them pass their gates."""

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from typing import Final, NamedTuple

import pyarrow as pa

from jobs.gates.audit import MOST_KEPT, audit, broken_rows
from jobs.gates.checks import (
    OF_EVERY_TABLE,
    ON_TIME_EXPECTATION,
    Check,
    GateRefusedError,
    GateWork,
    Rule,
)
from jobs.gates.quality_docs import LATER, REFUSED, Page, table_checks, write_docs
from jobs.history.fingerprints import Fingerprint, record
from jobs.warehouse.publication import publication
from jobs.warehouse.reader import on_units
from jobs.warehouse.rows import Rows
from jobs.warehouse.stored import STORE_ERRORS, keep
from jobs.warehouse.tables import Warehouse
from schemas.table import Expectation, Table
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import PIPELINE_RUNS, UNIT_FINGERPRINTS, UNIT_KEY

_LOG: Final = logging.getLogger(__name__)

_AT_A_TIME: Final = 4
"""Number of tables written concurrently, because writing a small table is mostly waiting: six take 8 s one
after another, 3.5 s concurrently."""


class Published(NamedTuple):
    """Result of a publication: rows per table, work of the gates, and the page about them."""

    rows: dict[str, int]
    gates: GateWork
    page: Page


class _Broken(NamedTuple):
    """Rows that break the checks of one table, or one rule that compares tables."""

    name: str
    rows: pa.Table
    checks: Sequence[Check]


def publish(
    phase: str,
    warehouse: Warehouse,
    tables: Mapping[str, Rows],
    log_dates: Sequence[date],
    rules: Sequence[Rule] = (),
    units: Collection[Unit] | None = None,
    fingerprints: Sequence[Fingerprint] = (),
) -> Published:
    """Replace the rows of these days in the named tables once all rows and rules pass.

    units : replace the rows of these units only; None: of whole days
    fingerprints : of the published units; they replace all fingerprints of the phase for these days or units
    tables : rows by table, in the driver, or already in files beside their table
    Raises GateRefusedError with all refusals, after saving the refused rows beside the tables, unless each
    refusal was released for all days of its rows. Raises GateError if an expectation could not be evaluated.
    Nothing is published in either case.
    """
    started = time.monotonic()
    broken = _broken(tables, log_dates, units, rules)
    seconds = time.monotonic() - started
    counts = {name: rows.num_rows for name, rows in tables.items()}
    checks = table_checks(counts, rules, [check for each in broken for check in each.checks])
    page = Page(phase if units is None else f"{phase}{LATER}", log_dates, warehouse.root, checks)
    page = _passed(warehouse, page, broken)
    if tables or fingerprints:
        with publication(warehouse, phase, log_dates, [*tables, UNIT_FINGERPRINTS]):
            with ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="publish") as writers:
                writes = [
                    writers.submit(warehouse.replace, table, rows, *_scope(table, log_dates, units))
                    for table, rows in ((TABLES[name], rows) for name, rows in tables.items())
                ]
            for write in writes:
                write.result()  # raises a writer's error after all have ended
            record(warehouse, phase, fingerprints, log_dates, units)
    expectations = sum(len(table.checks) for table in checks)
    return Published(counts, GateWork(seconds, expectations, len(page.released)), page)


def check_rows(tables: Mapping[str, Rows], units: Collection[Unit]) -> None:
    """Raise GateRefusedError if rows break expectations of their tables, or are not of these units.

    Live tables are checked in this way: they are in no publication, and get no page of checks.
    """
    broken = _broken(tables, sorted({unit.log_date for unit in units}), units, ())
    refusals = [check for each in broken for check in each.checks if check.refuses]
    if refusals:
        raise GateRefusedError(refusals, published="nothing of this round was written")


def _broken(
    tables: Mapping[str, Rows],
    log_dates: Sequence[date],
    units: Collection[Unit] | None,
    rules: Sequence[Rule],
) -> list[_Broken]:
    """Audit every table and every rule; return all failures, not only the first."""
    found = []
    for table, rows in ((TABLES[name], rows) for name, rows in tables.items() if rows.num_rows):
        of_run = on_units(*_scope(table, log_dates, units))
        on_time = [Expectation(ON_TIME_EXPECTATION, of_run, OF_EVERY_TABLE[ON_TIME_EXPECTATION])]
        if checks := audit(table, rows, on_time):
            found.append(_Broken(table.name, broken_rows(table, rows, on_time), checks))
    return found + [_Broken(rule.name, rule.rows, [rule.check]) for rule in rules if rule.rows.num_rows]


def _scope(
    table: Table, log_dates: Sequence[date], units: Collection[Unit] | None
) -> tuple[Sequence[date], Collection[Unit] | None]:
    """Return the days and units whose rows are replaced; units is None for a table without a unit's key."""
    if units is None or set(UNIT_KEY) <= set(table.column_names):
        return log_dates, units
    return sorted({unit.log_date for unit in units if unit.is_of_day}), None


def _passed(warehouse: Warehouse, page: Page, broken: Sequence[_Broken]) -> Page:
    """Write the page of checks; raise GateRefusedError unless all refusals are released for all their days.

    Refused rows are saved in the folder that `refused_path` returns.
    """
    for check in (check for each in broken for check in each.checks if check.warns):
        _LOG.warning("published, because this rule only warns: %s", check)
    if page.refusals:
        runs = warehouse.rows(TABLES[PIPELINE_RUNS]).select(["log_date", "accepted"]).to_pylist()
        by_hand = {(run["log_date"], name) for run in runs for name in run["accepted"] or ()}
        released = set()
        for refusal in page.refusals:
            days = refusal.log_dates or page.log_dates
            if refusal.can_be_released and all((day, refusal.name) in by_hand for day in days):
                _LOG.warning("published, because it was released by hand: %s", refusal)
                released.add(refusal.name)
        kept_in = refused_path(page.root, page.phase, page.log_dates)
        page = replace(page, kept_in=kept_in, released=released)
        for each in broken:
            if any(check.refuses for check in each.checks):
                _keep(each, kept_in)
    write_docs(warehouse, page)
    if page.outcome == REFUSED:
        raise GateRefusedError(page.refusals, page.kept_in)
    return page


def refused_path(root: str, phase: str, log_dates: Sequence[date]) -> str:
    """Return the folder for rows that a phase's gate refused on these days, with a subfolder per table.

    For several days, the folder's name has the first and the last day.
    """
    days = [day.isoformat() for day in sorted({min(log_dates), max(log_dates)})]
    return f"{root}/_refused/{phase}/{'..'.join(days)}"


def _keep(broken: _Broken, folder: str) -> None:
    """Save refused rows, replacing rows that were saved before for the same days."""
    try:
        keep(f"{folder}/{broken.name}", broken.rows.slice(0, MOST_KEPT))
    except (*STORE_ERRORS, pa.ArrowException) as error:  # the refusal matters more
        _LOG.warning("refused rows of %s could not be saved: %s", broken.name, error)
