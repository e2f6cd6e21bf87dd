"""Sections of a job's page that only some jobs have: what else their logs answer."""

from typing import Final

from jobs.report.roles import whole
from jobs.report.section import SectionOf

SECTIONS: Final[tuple[SectionOf, ...]] = (whole,)
"""In the order of the page; each gives None where the unit's logs do not answer it."""
