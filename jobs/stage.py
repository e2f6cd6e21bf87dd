"""Write, audit, publish: a stage's tables become visible together, and only when all of them pass their gates."""

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import date
from typing import Final, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from jobs.gates import GateRefusedError, Refusal, audit, audit_absence
from jobs.warehouse import Warehouse, on_days
from schemas.table import Expectation
from schemas.tables import TABLES

_LOG: Final = logging.getLogger(__name__)
_WRITERS: Final = 4
"""Tables written at a time: a small Delta write mostly waits; on two cores six take 8 s in turn, 3.5 s so."""


class Violations(NamedTuple):
    """A rule across tables, and the rows that break it: none, where all is well."""

    name: str
    rows: DataFrame


def publish(
    stage: str,
    warehouse: Warehouse,
    frames: Mapping[str, DataFrame],
    log_dates: Sequence[date],
    violations: Sequence[Violations] = (),
) -> dict[str, int]:
    """Replace these days in the tables named, after all frames and rules were found good; rows per table.

    Frames are computed once. Raises GateRefusedError, with all that was refused, and keeps the refused rows
    under the warehouse's _refused; raises GateError where an expectation could not be evaluated. Nothing is
    published in either case.
    """
    on_time = Expectation("log_date_of_this_run", on_days(log_dates), "rows are of the days that were computed")
    with ExitStack() as kept:
        for frame in frames.values():
            if not frame.is_cached:
                kept.callback(frame.persist().unpersist)
        rows: dict[str, int] = {}
        refused: dict[str, tuple[DataFrame, tuple[Refusal, ...]]] = {}
        for name, frame in frames.items():
            try:
                rows[name] = audit(TABLES[name], frame, [on_time]).rows
            except GateRefusedError as error:
                refused[name] = frame, error.refusals
        for rule in violations:
            try:
                audit_absence(rule.name, rule.rows)
            except GateRefusedError as error:
                refused[rule.name] = rule.rows, error.refusals
        if refused:
            raise _refusal(stage, warehouse, refused)
        _all_at_once(
            [lambda n=name, f=frame: warehouse.replace(TABLES[n], f, log_dates) for name, frame in frames.items()]
        )
        return rows
