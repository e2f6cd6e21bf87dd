"""The views: one .sql file each, filled in from the vocabulary; the comment at its top is its meaning."""

import re
from dataclasses import dataclass
from importlib.resources import files
from itertools import takewhile
from string import Template
from typing import Final

from schemas.table import sql_strings
from schemas.vocabulary import (
    CAUSE_UNEXPLAINED,
    OP_TYPES,
    REPLAYED_STATUSES,
    STATUS_ANALYSED,
    STRAGGLING_SLOWDOWN,
    TABLE_NAMES,
)

VIEW_NAMES: Final = (
    "ops",
    "fleet_month",
    "cause_month",
    "fix_first",
    "straggling_jobs",
    "job_history",
    "host_recurrence",
)
"""In an order in which they can be made: a view may only use those before it."""

_WORDS: Final = {
    "op_names": sql_strings(OP_TYPES),
    "replayed_statuses": sql_strings(REPLAYED_STATUSES),
    "analysed": sql_strings([STATUS_ANALYSED]),
    "unexplained": sql_strings([CAUSE_UNEXPLAINED]),
    "straggling_slowdown": repr(STRAGGLING_SLOWDOWN),
}
"""What $placeholders in a view stand for."""


@dataclass(frozen=True)
class View:
    """A view: its query and the tables and views that the query reads."""

    name: str
    meaning: str
    sql: str

    @property
    def sources(self) -> tuple[str, ...]:
        """Tables and views that the query reads, directly."""
        words = set(re.findall(r"\b(?:FROM|JOIN)\s+(\w+)", self.sql))
        return tuple(name for name in (*TABLE_NAMES, *VIEW_NAMES) if name in words)


def _load(name: str) -> View:
    """Read a view from its file, wherever the package lies: a folder or a zip."""
    text = Template(files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")).substitute(_WORDS)
    comment = list(takewhile(lambda line: line.startswith("--"), text.splitlines()))
    meaning = " ".join(line.removeprefix("--").strip() for line in comment)
    return View(name, meaning, "\n".join(text.splitlines()[len(comment) :]))


VIEWS: Final[dict[str, View]] = {name: _load(name) for name in VIEW_NAMES}


def mentioned(sql: str) -> set[str]:
    """Return the tables and views that a query names, with all that those read; everything if none."""
    words = set(re.findall(r"\w+", sql.lower()))
    found = words.intersection((*TABLE_NAMES, *VIEW_NAMES))
    for view in reversed(VIEWS.values()):
        if view.name in found:
            found.update(view.sources)
    return found or {*TABLE_NAMES, *VIEW_NAMES}
