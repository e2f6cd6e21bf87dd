"""Ends of runs: the exit status for each error, and the run's row in pipeline_runs."""

import logging
import re
import shlex
import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException

from jobs.gates.checks import GateRefusedError, GateWork
from jobs.history.fingerprints import Fingerprint
from jobs.runtime.errors import PlainError
from jobs.runtime.interrupts import is_interruption
from jobs.runtime.places import said_by
from jobs.warehouse.run_notes import RunNote, remove_all
from jobs.warehouse.tables import Warehouse
from schemas.log_tables import PIPELINE_RUNS as TABLE
from schemas.log_tables import REFUSAL
from schemas.unit import runs_among
from schemas.vocabulary import (
    PHASE_NAMES,
    RUN_INTERRUPTED,
    RUN_KILLED,
    RUN_OUTCOMES,
    RUN_STARTED,
    TABLE_NAMES,
    Exit,
)

ROWS_IN: Final = "rows_in"
"""Key, in the counts of a run, of the number of rows read; other keys are published tables, and the keys
of phase_work."""

_RAISED: Final = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt): ")
_LONGEST_LINE: Final = 1000
_MICROSECONDS: Final = "us"
logger = logging.getLogger(__name__)


def one_line(error: Exception) -> str:
    """Return the root cause of an error on one line.

    It is not the first line in errors of Java and of Spark's Python workers.
    """
    if isinstance(error, Py4JJavaError):
        java = error.java_exception
        while java.getCause() is not None:
            java = java.getCause()
        text = f"{java.getClass().getSimpleName()}: {java.getMessage()}"
        raised = [line.strip() for line in text.splitlines() if _RAISED.match(line.strip())]
        return (raised[-1] if raised else text)[:_LONGEST_LINE]
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    if isinstance(error, PythonException):
        lines = [line for line in lines if _RAISED.match(line)] or lines
        return lines[-1][:_LONGEST_LINE]
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"[:_LONGEST_LINE]


def refused_by(error: BaseException) -> list[dict[str, Any]] | None:
    """Return an error's refusals as the column `refusals` of pipeline_runs; None for other errors."""
    refusal = _refusal_in(error)
    if refusal is None:
        return None
    return [{name: getattr(each, name) for name in REFUSAL.names} for each in refusal.refusals]


def _refusal_in(error: BaseException) -> GateRefusedError | None:
    """Return the refusal behind an error: the error itself, or its cause."""
    return next((each for each in (error, error.__cause__) if isinstance(each, GateRefusedError)), None)


def phase_work(phase: str, done: Collection[Fingerprint], seconds: float, gates: GateWork) -> dict[str, int]:
    """Return the work of a phase, as counts that can be added over batches of days."""
    return {
        f"{phase}.{_MICROSECONDS}": round(seconds * 1e6),
        f"{phase}.units": runs_among(each.unit for each in done),
        f"{phase}.bytes": sum(each.bytes for each in done),
        f"{phase}.ops": sum(each.ops for each in done),
        f"{phase}.gate_{_MICROSECONDS}": round(gates.seconds * 1e6),
        f"{phase}.expectations": gates.expectations,
        f"{phase}.released": gates.released,
    }


def added(counts: dict[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Add the counts of `more` to `counts`, in place."""
    for name, count in more.items():
        counts[name] = counts.get(name, 0) + count
    return counts


def work_of_phases(counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the work counted by phase_work, as in the columns `phases` and `stages` of pipeline_runs."""
    found: list[dict[str, Any]] = []
    for phase in PHASE_NAMES:
        mine = {
            name.partition(".")[2]: count for name, count in counts.items() if name.startswith(f"{phase}.")
        }
        if mine:
            of_gates_s = mine.pop(f"gate_{_MICROSECONDS}") / 1e6
            seconds = mine.pop(_MICROSECONDS) / 1e6
            found.append(
                {"phase": phase, "stage": phase, "seconds": seconds, **mine, "gate_seconds": of_gates_s}
            )
    return found


def new_run(entry_point: str, arguments: str, log_date: date | None) -> dict[str, object]:
    """Return the columns of pipeline_runs that are known when a run starts."""
    return {
        "pipeline_run_id": str(uuid.uuid4()),
        "entry_point": entry_point,
        "arguments": arguments,
        "log_date": log_date,
        "started_at": datetime.now(UTC),
    }


@contextmanager
def recorded_run(
    warehouse: Warehouse, entry_point: str, arguments: Sequence[str], log_date: date | None = None
) -> Iterator[dict[str, int]]:
    """Write a row to pipeline_runs when the block starts, and complete the row however the block ends.

    Yields a dictionary for what the run counts: rows per published table, and under ROWS_IN the rows read.
    """
    counts: dict[str, int] = {}
    start = time.monotonic()
    facts = new_run(entry_point, shlex.join(arguments), log_date) | {"outcome": RUN_STARTED}
    note = RunNote(warehouse.root, str(facts["pipeline_run_id"]))
    note.begin()
    warehouse.append(TABLE, _rows_of(facts))
    try:
        yield counts
    except BaseException as error:
        seconds = time.monotonic() - start
        status = error.exit_status if isinstance(error, PlainError) else Exit.FAILED
        outcome = RUN_INTERRUPTED if is_interruption(error) else RUN_OUTCOMES[status]
        try:
            note.say(outcome)
            refusal = _refusal_in(error)
            ended = _ended(facts, seconds, refusal.counts if refusal else {}, outcome)
            ended |= {"refusals": refused_by(error)}
            warehouse.rewrite(TABLE, _rows_of(ended), "pipeline_run_id")
            note.remove()
        except Exception as unwritten:  # noqa: BLE001  # the caller must get the error of the run itself
            logger.warning(
                "the end of this run is not in pipeline_runs: %s; %s", said_by(unwritten), note.later
            )
        raise
    done = RUN_OUTCOMES[Exit.DONE]
    note.say(done)  # its tables are published even if its row cannot be completed
    ended = _ended(facts, time.monotonic() - start, counts, done)
    warehouse.rewrite(TABLE, _rows_of(ended), "pipeline_run_id")
    note.remove()


def say_killed(warehouse: Warehouse) -> int:
    """Fill missing outcomes in pipeline_runs, from run notes or as `killed`; return how many were killed.

    The caller must hold the warehouse's lock, so that no other writer is running.
    """
    rows = warehouse.rows(TABLE)
    left = rows.filter(pc.equal(rows["outcome"], RUN_STARTED))
    runs = left["pipeline_run_id"].to_pylist()
    outcomes = [RunNote(warehouse.root, run_id).said() or RUN_KILLED for run_id in runs]
    if runs:
        closed = left.set_column(left.schema.get_field_index("outcome"), "outcome", pa.array(outcomes))
        warehouse.rewrite(TABLE, closed, "pipeline_run_id")
    remove_all(warehouse.root)
    return outcomes.count(RUN_KILLED)


def _ended(
    facts: Mapping[str, object], seconds: float, counts: Mapping[str, int], outcome: str
) -> dict[str, object]:
    phases = work_of_phases(counts)
    published = [rows for name, rows in counts.items() if name in TABLE_NAMES]
    return {
        **facts,
        "seconds": seconds,
        "rows_in": counts.get(ROWS_IN),
        "rows_out": sum(published) if published else None,
        "outcome": outcome,
        "phases": phases or None,
        "stages": phases or None,
    }


def _rows_of(row: Mapping[str, object]) -> pa.Table:
    return pa.Table.from_pylist([row], schema=TABLE.arrow_schema)
