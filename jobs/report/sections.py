"""Sections of a job's page that only some jobs have: what else their logs answer."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from jobs.report.rows import UnitTables


class Section(NamedTuple):
    """A section: a title, a sentence or two, and a table.

    name    : of its anchor, unique on the page
    columns : heads of the table's columns; the first names the row, the others are numbers
    rows    : texts, as a person reads them
    """

    name: str
    title: str
    says: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


SectionOf = Callable[[UnitTables], Section | None]

SECTIONS: Final[tuple[SectionOf, ...]] = ()
"""In the order of the page; each gives None where the unit's logs do not answer it."""
