"""Views: each is an .sql template of this folder; the comment at its top is its meaning."""

import re
from datetime import date
from typing import Final

from schemas.drain import HISTORY_DAYS, DrainTerms
from schemas.sql_files import ALL_DAYS, OF_PERIOD, VIEW_NAMES, SqlFile, load, runs_include, within
from schemas.vocabulary import TABLE_NAMES

_RUNS: Final = runs_include("trunc(log_date, 'MONTH') AS month, job_id, run_id", ALL_DAYS)

_TIME_SUMS: Final = load("schemas", "effective_time_sums").sql

VIEWS: Final[dict[str, SqlFile]] = {
    name: load(__name__, name, **within(ALL_DAYS), runs_of_months=_RUNS, effective_time_sums=_TIME_SUMS)
    for name in VIEW_NAMES
}


def drain_by(terms: DrainTerms, as_of: date | None = None) -> str:
    """Return SQL of the view drain with other assumptions, and without days after `as_of` if given."""
    first_day = None if as_of is None else date.fromordinal(max(as_of.toordinal() - HISTORY_DAYS + 1, 1))
    return load(__name__, "drain", **within(OF_PERIOD), **terms.words).over(first_day, as_of)


def mentioned(sql: str) -> set[str]:
    """Return the tables and views that a query names, and all tables and views that these read.

    Returns all names for a query that names none.
    """
    words = set(re.findall(r"\w+", sql.lower()))
    found = words.intersection((*TABLE_NAMES, *VIEW_NAMES))
    for view in reversed(VIEWS.values()):
        if view.name in found:
            found.update(view.sources)
    return found or {*TABLE_NAMES, *VIEW_NAMES}
