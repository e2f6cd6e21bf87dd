"""A section of a job's page, as a template draws it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from jobs.report.rows import UnitTables


class Section(NamedTuple):
    """A section: a title, a sentence or two, and a table, left out where it has no rows.

    name    : of its anchor, unique on the page
    columns : heads of the table's columns; the first names the row, the others are numbers
    rows    : texts, as a person reads them
    chart   : id of the chart above the table, one of job_charts.charts; empty without one
    """

    name: str
    title: str
    says: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    chart: str = ""


SectionOf = Callable[[UnitTables], Section | None]
