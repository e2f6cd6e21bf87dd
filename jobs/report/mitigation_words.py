"""Describe what mitigations save in words, from rows of the table mitigations."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final

from jobs.report import loss
from jobs.report.links import mitigate_command
from schemas.unit import Unit
from schemas.vocabulary import MITIGATIONS

MOST_MITIGATIONS: Final = 3
"""Units whose best mitigation a night's summary names."""
ANCHOR: Final = "mitigations"
"""Of the section of a job's page that has all of them."""


def mitigations_of(log_date: date) -> str:
    """Return the query for the best mitigation of each unit of a day, those of most GPU-hours first."""
    return f"""
        SELECT * FROM (
            SELECT *, row_number() OVER (
                PARTITION BY job_id, run_id ORDER BY time_saved_fraction DESC, mitigation
            ) AS place
            FROM {MITIGATIONS} WHERE log_date = DATE'{log_date}' AND time_saved_fraction > 0
        ) AS placed
        WHERE place = 1
        ORDER BY gpu_hours_saved DESC NULLS LAST, time_saved_fraction DESC, job_id, run_id
        LIMIT {MOST_MITIGATIONS}"""


def mitigation_texts(rows: Sequence[Mapping[str, Any]], warehouse: str) -> list[str]:
    """Return sentences on the best mitigation of units, each with the command that tells more."""
    return [
        f"mitigate {row['job_id']}: {best_text(row)}: "
        + mitigate_command(Unit(row["log_date"], row["job_id"], row["run_id"]), warehouse)
        for row in rows
    ]


def best(rows: Sequence[Mapping[str, Any]], cause: str) -> Mapping[str, Any] | None:
    """Return the mitigation of a cause that saves most of the time; None where none saves any."""
    of_cause = [row for row in rows if row["cause"] == cause and row["time_saved_fraction"] > 0]
    return max(of_cause, key=lambda row: float(row["time_saved_fraction"]), default=None)


def best_text(row: Mapping[str, Any]) -> str:
    """Return what to do, and what it saves, as one clause."""
    saved = loss.of_unit(row["time_saved_fraction"], row["gpu_hours_saved"])
    return f"{row['mitigation']} ({row['plan']}) saves {saved}"
