"""Sections of a job's page that only some jobs have: what else their logs answer."""

from typing import Final

from jobs.report.communication import exposed_section
from jobs.report.effective_time import effective_time
from jobs.report.gpu_types import gpu_types
from jobs.report.power import power_section
from jobs.report.roles import whole
from jobs.report.section import SectionOf

SECTIONS: Final[tuple[SectionOf, ...]] = (
    effective_time,
    whole,
    gpu_types,
    exposed_section,
)
"""In the order of the page; each gives None where the unit's logs do not answer it."""
LAST_SECTIONS: Final[tuple[SectionOf, ...]] = (power_section,)
"""Of those who run the power and not the job: below how far to trust the rest."""
