"""Sections of a job's page that only some jobs have: what else their logs answer."""

from collections.abc import Callable
from typing import Final

from jobs.report.effective_time import effective_time
from jobs.report.power import power_section
from jobs.report.rows import UnitTables
from jobs.report.section import Section

SectionOf = Callable[[UnitTables], Section | None]

SECTIONS: Final[tuple[SectionOf, ...]] = (effective_time, power_section)
"""In the order of the page; each gives None where the unit's logs do not answer it."""
