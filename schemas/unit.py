"""The unit of analysis: one run of one job on one log date."""

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any, NamedTuple


class Unit(NamedTuple):
    """Key of a unit (one run of one job on one log date), or of a day's host health; fields as UNIT_KEY."""

    log_date: date
    job_id: str
    run_id: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Unit":
        """Return the key of a row with the columns of UNIT_KEY, and perhaps others."""
        return cls(row["log_date"], row["job_id"], row["run_id"])

    @classmethod
    def of_day(cls, log_date: date) -> "Unit":
        """Return the key of a day's host health, with empty job_id and run_id, which no run has."""
        return cls(log_date, "", "")

    @property
    def is_of_day(self) -> bool:
        """Whether the key stands for the host health of a day, and not for a run."""
        return not self.job_id and not self.run_id

    @property
    def words(self) -> str:
        """Name of the unit for people, such as `gpt-175b, run r1, 2026-01-05`."""
        of = "health of hosts" if self.is_of_day else f"{self.job_id}, run {self.run_id}"
        return f"{of}, {self.log_date}"


def runs_among(units: Iterable[Unit]) -> int:
    """Return the number of keys that are runs, and not the host health of a day."""
    return sum(not unit.is_of_day for unit in units)
