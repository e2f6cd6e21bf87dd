"""The unit of analysis: one run of one job on one log date."""

from datetime import date
from typing import NamedTuple


class Unit(NamedTuple):
    """One run of one job on one log date: values of UNIT_KEY."""

    log_date: date
    job_id: str
    run_id: str
