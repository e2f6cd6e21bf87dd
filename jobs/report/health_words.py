"""Health of hosts in words: which checks failed before a culprit was slow, how often they fail elsewhere."""

from datetime import UTC
from typing import Final

from jobs.report.rows import Row, UnitTables
from schemas.health_tables import NO_DEVICE
from schemas.vocabulary import CAUSE_EVIDENCE

_SHOWN: Final = 3
"""Checks that are listed of a culprit, the least by chance first."""
_DAY: Final = "%Y-%m-%d %H:%M UTC"


def explanations(tables: UnitTables, cause: str, number: int) -> list[str]:
    """Return what explains a culprit of a unit, a sentence each.

    number : its place among the culprits of the cause
    """
    rows = [
        row
        for row in tables.further.get(CAUSE_EVIDENCE, ())
        if row["explains"] and (row["cause"], row["culprit"]) == (cause, number)
    ]
    return [_sentence(row) for row in sorted(rows, key=lambda row: row["chance"])[:_SHOWN]]


def _sentence(row: Row) -> str:
    device = "" if row["device"] == NO_DEVICE else f" {row['device']}"
    begin = f"{row['first_at'].astimezone(UTC):{_DAY}}"
    since = f"since before {begin}" if row["began_before"] else f"since {begin}"
    slow, other = (
        f"{row[f'{name}_host_days_with']} of {row[f'{name}_host_days']}" for name in ("slow", "other")
    )
    return (
        f"{row['host']}, {row['component']}{device}: {row['check_name']} ({row['severity']}) {since}; fails "
        f"on {slow} host-days that are slow and {other} that are not"
    )
