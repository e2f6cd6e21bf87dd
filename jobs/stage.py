"""Write, audit, publish: a stage's tables become visible only when all of them pass their gates."""

import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from typing import Final, NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from jobs.fingerprints import Fingerprint, record, unsettle
from jobs.gates import (
    ON_TIME_EXPECTATION,
    GateError,
    GateRefusedError,
    GateWork,
    Refusal,
    all_hold,
    audit,
    audit_absence,
    broken_rows,
    differences,
    rows_of,
)
from jobs.landing.files import Unit
from jobs.quality_docs import LATER, Page, Rule, TableChecks, table_checks, write_docs
from jobs.releases import NEVER, released
from jobs.small_frames import few_rows, local
from jobs.warehouse.tables import StagedRows, Warehouse, on_units
from schemas.table import Expectation, Table
from schemas.tables import TABLES
from schemas.vocabulary import (
    FLEET_TABLES,
    INGESTED_TABLES,
    RANK_STEPS,
    RESULT_TABLES,
    STAGE_AGGREGATE,
    STAGE_INGEST,
    STAGE_SIMULATE,
)

_LOG: Final = logging.getLogger(__name__)

_AT_A_TIME: Final = 4
"""Tables written at a time. A small one mostly waits: six written in turn take 8 s, 3.5 s so."""
_ROWS_OF_ONE_FILE: Final = 50_000
"""Up to so many rows are written by one task: a query over months then opens one file per day and table."""


class Violations(NamedTuple):
    """A rule that no single row can show, named by an identifier, and the rows that break it."""

    name: str
    rows: DataFrame
    table: str = "several"
    meaning: str = "no row breaks this rule"


class Published(NamedTuple):
    """Rows of each table that was published, the work of the gates before it, and what they held."""

    rows: dict[str, int]
    gates: GateWork
    checks: list[TableChecks]


_TABLES_OF: Final = {
    STAGE_INGEST: INGESTED_TABLES,
    STAGE_SIMULATE: RESULT_TABLES,
    STAGE_AGGREGATE: FLEET_TABLES,
}
_Refused = dict[str, tuple[DataFrame, tuple[Refusal, ...]]]  # by the name under which the rows are kept


class _Audited(NamedTuple):
    """Rows of every frame, what was refused, and seconds of the gates alone."""

    rows: dict[str, int]
    refused: _Refused
    seconds: float

    @property
    def refusals(self) -> list[Refusal]:
        """All that was refused."""
        return [refusal for _, found in self.refused.values() for refusal in found]


def publish(
    stage: str,
    warehouse: Warehouse,
    tables: Mapping[str, DataFrame | StagedRows],
    log_dates: Sequence[date],
    violations: Sequence[Violations] = (),
    units: Collection[Unit] | None = None,
    fingerprints: Sequence[Fingerprint] = (),
) -> Published:
    """Replace these days in the tables named, if any, once every frame and rule was found good.

    units : replace these alone, not all of the days
    fingerprints : of the units published. While the stage's tables change, only those given as unsettled are
    there, so that whatever ends this early, the units are not taken as done.
    tables : frames, or rows that lie in files beside their table already, by name
    Each frame is computed once. Raises GateRefusedError with all that is refused, and keeps those rows beside
    the tables, unless all of it was released for the days of those rows; raises GateError where an
    expectation could not be evaluated. Nothing is published in either case.
    """
    staged = {name: each for name, each in tables.items() if isinstance(each, StagedRows)}
    frames = {name: each.rows if isinstance(each, StagedRows) else each for name, each in tables.items()}
    with _at_hand(frames, staged) as (at_hand, few, rows):
        audited = _audit_all(at_hand, rows, on_units(log_dates, units), violations)
        page = Page(_page_of(stage, frames, units), log_dates, warehouse.root)
        passed = _passed(warehouse, page, violations, audited)
        if frames:
            unsettle(warehouse, stage, fingerprints, log_dates, units)
            large = {name: frame for name, frame in at_hand.items() if name not in few | staged}
            arranged = {name: _in_few_files(name, frame, rows[name]) for name, frame in large.items()}
            _replace_all(warehouse, arranged | staged | few, log_dates, units)
            if fingerprints:
                record(warehouse, stage, [each.settled() for each in fingerprints], log_dates, units)
    return passed


def _page_of(stage: str, frames: Mapping[str, DataFrame], units: Collection[Unit] | None) -> str:
    """The page of the stage's night; where only some tables or units of it change, one beside that."""
    is_whole = units is None and set(frames).issuperset(_TABLES_OF.get(stage, ()))
    return stage if is_whole else f"{stage}{LATER}"


def _passed(
    warehouse: Warehouse, page: Page, violations: Sequence[Violations], audited: _Audited
) -> Published:
    """Tell on a page what was held; raises GateRefusedError where not all that was refused is released."""
    refusals = audited.refusals
    accepted = _accepted(warehouse, page.log_dates, refusals)
    refusal = _keep(warehouse, page, audited) if refusals else None
    rules = [Rule(rule.table, rule.name, rule.meaning) for rule in violations]
    checks = table_checks(audited.rows, rules, refusals, accepted)
    write_docs(warehouse.spark, replace(page, tables=checks, kept_in=refusal.kept_in if refusal else ""))
    if refusal and len(accepted) < len(refusals):
        raise refusal
    held = sum(len(table.checks) for table in checks)
    return Published(audited.rows, GateWork(audited.seconds, held, len(accepted)), checks)


@contextmanager
def _at_hand(
    frames: Mapping[str, DataFrame], staged: Collection[str]
) -> Iterator[tuple[dict[str, DataFrame], dict[str, pa.Table], dict[str, int]]]:
    """Compute frames once: the driver holds those of few rows, of the others it counts the rows.

    Those are persisted for as long as they are looked at; what the caller keeps already, or has staged, stays
    as it is.
    """
    fit = {name: each for name, each in frames.items() if not differences(TABLES[name], each)}
    tables = few_rows({name: each for name, each in fit.items() if name not in staged})
    large = {name: frame for name, frame in frames.items() if name not in tables}
    ours = [each.persist() for name, each in large.items() if name not in staged and not each.is_cached]
    try:
        rows = rows_of(large) | {name: table.num_rows for name, table in tables.items()}
        small = {name: local(frames[name], table) for name, table in tables.items()}
        in_order = {name: (large | small)[name] for name in frames}
        yield in_order, tables, {name: rows[name] for name in frames}
    finally:
        for frame in ours:
            frame.unpersist()


def _audit_all(
    frames: Mapping[str, DataFrame], rows: dict[str, int], scope: str, violations: Sequence[Violations]
) -> _Audited:
    """Audit every frame and rule; one refusal does not hide the next.

    Raises GateError where what was found together is not found again: that is never a pass.
    """
    on_time = Expectation(ON_TIME_EXPECTATION, scope, "rows are of the days, or the units, computed")
    started = time.monotonic()
    tables = [(TABLES[name], frame) for name, frame in frames.items()]
    refused: _Refused = {}
    if not all_hold(tables, [on_time], [rule.rows for rule in violations]):
        refused = _look_at_each(tables, on_time, violations)
        if not refused:
            named = ", ".join(frames) or "rules across tables"
            raise GateError(f"{named}: broken together, and none where each is looked at alone")
    return _Audited(rows, refused, time.monotonic() - started)


def _look_at_each(
    tables: Sequence[tuple[Table, DataFrame]], on_time: Expectation, violations: Sequence[Violations]
) -> _Refused:
    """Look at every frame and rule alone."""
    refused: _Refused = {}
    for table, frame in tables:
        try:
            audit(table, frame, [on_time])
        except GateRefusedError as error:
            refused[table.name] = broken_rows(table, frame, [on_time]), error.refusals
    for rule in violations:
        try:
            audit_absence(rule.table, rule.name, rule.rows, rule.meaning)
        except GateRefusedError as error:
            refused[rule.name] = rule.rows, error.refusals
    return refused


def _accepted(warehouse: Warehouse, log_dates: Sequence[date], refusals: Sequence[Refusal]) -> set[str]:
    """Names of refusals that somebody released for all days of their rows."""
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
            _LOG.warning("released by hand, published all the same: %s", refusal)
    return accepted


def _keep(warehouse: Warehouse, page: Page, audited: _Audited) -> GateRefusedError:
    """Keep refused rows for inspection, by the name of their page; return the error that tells about them."""
    for name, (rows, _) in audited.refused.items():
        try:
            warehouse.keep_refused(page.stage, page.log_dates, name, rows)
        except (PySparkException, Py4JError) as error:  # the refusal matters more than its evidence
            _LOG.warning("refused rows of %s could not be kept: %s", name, error)
    return GateRefusedError(audited.refusals, warehouse.refused_path(page.stage, page.log_dates))


def _in_few_files(name: str, frame: DataFrame, rows: int) -> DataFrame:
    """Arrange rows as they are to be written: of a small table sorted by its key, in one file a day.

    A row of rank_steps carries a whole step: those are written by as many tasks as read them.
    """
    if name == RANK_STEPS or rows > _ROWS_OF_ONE_FILE:
        return frame
    return frame.coalesce(1).sortWithinPartitions(*TABLES[name].grain)


def _replace_all(
    warehouse: Warehouse,
    tables: Mapping[str, DataFrame | StagedRows | pa.Table],
    log_dates: Sequence[date],
    units: Collection[Unit] | None,
) -> None:
    with ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="publish") as writers:
        each = [(TABLES[name], rows, log_dates, units) for name, rows in tables.items()]
        writes = [writers.submit(warehouse.replace, *arguments) for arguments in each]
    for write in writes:
        write.result()  # raises what a writer raised, after all have ended
