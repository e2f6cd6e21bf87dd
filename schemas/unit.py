"""The unit of analysis: one run of one job on one log date."""

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any, NamedTuple


class Unit(NamedTuple):
    """One run of one job on one log date: values of UNIT_KEY."""

    log_date: date
    job_id: str
    run_id: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Unit":
        """Key of a row, which may have further columns."""
        return cls(row["log_date"], row["job_id"], row["run_id"])

    @classmethod
    def of_day(cls, log_date: date) -> "Unit":
        """Key of the health of hosts, beside the runs in a day's folder; no folder has an empty name."""
        return cls(log_date, "", "")

    @property
    def is_of_day(self) -> bool:
        """Whether this is the folder's health, beside the runs of a day."""
        return not self.job_id and not self.run_id

    @property
    def words(self) -> str:
        """Its name for people, such as `gpt-175b, run r1, 2026-01-05`."""
        of = "health of hosts" if self.is_of_day else f"{self.job_id}, run {self.run_id}"
        return f"{of}, {self.log_date}"


def runs_among(units: Iterable[Unit]) -> int:
    """Count the runs among units, of which the health of a day's hosts is another kind."""
    return sum(not unit.is_of_day for unit in units)
