"""Notes on units that an answer leaves out, because the view fix_first has only analysed units."""

from datetime import date
from typing import Final

from sqlglot import exp

from jobs.reading.question import question
from jobs.runtime.plural import plural
from jobs.warehouse.reader import Reader
from schemas.vocabulary import JOB_SLOWDOWN, Status

FIX_FIRST: Final = "fix_first"
"""Name of a view, and of the named query that answers the same question over a period."""


def reads_fix_first(sql: str) -> bool:
    """Return whether a question asks for rows of fix_first, not for its columns."""
    asked = question(sql)
    return isinstance(asked.tree, exp.Query) and FIX_FIRST in asked.reads


def not_in_fix_first(reader: Reader, first: date | None = None, last: date | None = None) -> str:
    """Count the units that were not analysed, with the SQL that lists them; empty if all were analysed.

    first, last : days of the period, both included; None leaves an end open
    """
    wanted = [f"status <> '{Status.ANALYSED}'"]
    wanted += [f"log_date >= DATE'{first}'"] if first else []
    wanted += [f"log_date <= DATE'{last}'"] if last else []
    rows = f"FROM {JOB_SLOWDOWN} WHERE {' AND '.join(wanted)}"
    ((units, jobs),) = reader.ask(f"SELECT count(*), count(DISTINCT job_id) {rows}").rows
    if not units:
        return ""
    which = "was not analysed and is" if units == 1 else f"of {plural(jobs, 'job')} were not analysed and are"
    listed = f"SELECT log_date, job_id, run_id, status, status_detail {rows}"
    return f"{plural(units, 'unit')} {which} missing in {FIX_FIRST}: {listed}"
