"""Write, audit, publish: a stage's tables become visible only when all of them pass their gates."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date
from typing import Final, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from jobs.fingerprints import Fingerprint, forget, record
from jobs.gates import GateRefusedError, Refusal, audit, audit_absence
from jobs.transforms.landed_files import Unit
from jobs.warehouse import Warehouse, on_units
from schemas.table import Expectation
from schemas.tables import TABLES
from schemas.vocabulary import RANK_STEPS

_LOG: Final = logging.getLogger(__name__)

_WRITERS: Final = 4
"""Tables written at a time. A small write mostly waits: six take 8 s in turn, 3.5 s so (2 cores)."""

_ROWS_OF_ONE_FILE: Final = 50_000
"""Up to so many rows are written by one task: a query over months then opens one file per day and table."""


class Violations(NamedTuple):
    """A rule that no single row can show, named by an identifier, and the rows that break it."""

    name: str
    rows: DataFrame
    table: str = "several"
    meaning: str = "no row breaks this rule"


_Refused = dict[str, tuple[DataFrame, tuple[Refusal, ...]]]  # by the name under which the rows are kept


def publish(
    stage: str,
    warehouse: Warehouse,
    frames: Mapping[str, DataFrame],
    log_dates: Sequence[date],
    violations: Sequence[Violations] = (),
    units: Collection[Unit] | None = None,
    fingerprints: Sequence[Fingerprint] = (),
) -> dict[str, int]:
    """Replace these days in the tables named, once every frame and rule was found good; rows per table.

    units : replace these alone, not all of the days
    fingerprints : of the units published. The stage's own are gone while its tables change, so that whatever
    ends this early, the units are not taken as done.
    Each frame is computed once. Raises GateRefusedError with all that is refused, and keeps those rows in
    `<warehouse>/_refused/<stage>`; raises GateError where an expectation could not be evaluated. Nothing is
    published in either case.
    """
    with _persisted(frames):
        rows, refused = _audit_all(frames, on_units(log_dates, units), violations)
        if refused:
            raise _keep(stage, warehouse, refused)
        forget(warehouse, stage, log_dates, units)
        arranged = {name: _in_few_files(name, frame, rows[name]) for name, frame in frames.items()}
        _replace_all(warehouse, arranged, log_dates, units)
        record(warehouse, stage, fingerprints, log_dates, units)
    return rows


@contextmanager
def _persisted(frames: Mapping[str, DataFrame]) -> Iterator[None]:
    """Keep frames for as long as they are looked at; what the caller keeps already stays its own."""
    ours = [frame.persist() for frame in frames.values() if not frame.is_cached]
    try:
        yield
    finally:
        for frame in ours:
            frame.unpersist()


def _audit_all(
    frames: Mapping[str, DataFrame], scope: str, violations: Sequence[Violations]
) -> tuple[dict[str, int], _Refused]:
    """Rows of every frame that passed, and what was refused; one refusal does not hide the next."""
    on_time = Expectation("log_date_of_this_run", scope, "rows are of the days, or the units, computed")
    rows: dict[str, int] = {}
    refused: _Refused = {}
    for name, frame in frames.items():
        try:
            rows[name] = audit(TABLES[name], frame, [on_time]).rows
        except GateRefusedError as error:
            refused[name] = frame, error.refusals
    for rule in violations:
        try:
            audit_absence(rule.table, rule.name, rule.rows, rule.meaning)
        except GateRefusedError as error:
            refused[rule.name] = rule.rows, error.refusals
    return rows, refused


def _keep(stage: str, warehouse: Warehouse, refused: _Refused) -> GateRefusedError:
    """Keep refused rows for inspection and return the error that tells about them."""
    for name, (frame, _) in refused.items():
        try:
            warehouse.keep_refused(stage, name, frame)
        except PySparkException as error:  # the refusal matters more than its evidence
            _LOG.warning("refused rows of %s could not be kept: %s", name, error)
    refusals = [refusal for _, found in refused.values() for refusal in found]
    return GateRefusedError(refusals, warehouse.refused_path(stage))


def _in_few_files(name: str, frame: DataFrame, rows: int) -> DataFrame:
    """Arrange rows as they are to be written: of a small table sorted by its key, in one file a day.

    A row of rank_steps carries a whole step: those are written by as many tasks as read them.
    """
    if name == RANK_STEPS or rows > _ROWS_OF_ONE_FILE:
        return frame
    return frame.coalesce(1).sortWithinPartitions(*TABLES[name].grain)


def _replace_all(
    warehouse: Warehouse,
    frames: Mapping[str, DataFrame],
    log_dates: Sequence[date],
    units: Collection[Unit] | None,
) -> None:
    def replace(name: str) -> None:
        warehouse.replace(TABLES[name], frames[name], log_dates, units)

    with ThreadPoolExecutor(_WRITERS, thread_name_prefix="publish") as writers:
        writes = [writers.submit(replace, name) for name in frames]
    for write in writes:
        write.result()  # raises what a writer raised, after all have ended
