"""The views: one .sql file each, filled in from the vocabulary; the comment at its top is its meaning."""

import re
from dataclasses import dataclass
from typing import Final

from schemas.sql_files import ALL_DAYS, load, read_from
from schemas.vocabulary import TABLE_NAMES

VIEW_NAMES: Final = (
    "ops",
    "job_days",
    "fleet_month",
    "cause_month",
    "fix_parts",
    "fix_first",
    "straggling_jobs",
    "job_history",
    "host_record",
    "host_recurrence",
    "host_clocks",
)
"""In an order in which they can be made: a view may only use those before it."""


@dataclass(frozen=True)
class View:
    """A view: its query and the tables and views that the query reads."""

    name: str
    meaning: str
    sql: str

    @property
    def sources(self) -> tuple[str, ...]:
        """Tables and views that the query reads, directly."""
        words = read_from(self.sql)
        return tuple(name for name in (*TABLE_NAMES, *VIEW_NAMES) if name in words)


VIEWS: Final[dict[str, View]] = {
    name: View(name, *load(__name__, name, {"in_period": ALL_DAYS})) for name in VIEW_NAMES
}


def mentioned(sql: str) -> set[str]:
    """Return the tables and views that a query names, with all that those read; everything if none."""
    words = set(re.findall(r"\w+", sql.lower()))
    found = words.intersection((*TABLE_NAMES, *VIEW_NAMES))
    for view in reversed(VIEWS.values()):
        if view.name in found:
            found.update(view.sources)
    return found or {*TABLE_NAMES, *VIEW_NAMES}
