"""Assets: what others can schedule on. One for each published table, one for a whole night."""

from typing import Final

from airflow.sdk import Asset

from schemas.vocabulary import FLEET_TABLES, INGESTED_TABLES, RESULT_TABLES


def _asset(name: str) -> Asset:
    return Asset(name=f"what_if_{name}", uri=f"x-what-if://warehouse/{name}", group="what-if")


INGESTED: Final = tuple(map(_asset, INGESTED_TABLES))
RESULTS: Final = tuple(map(_asset, RESULT_TABLES))
FLEET: Final = tuple(map(_asset, FLEET_TABLES))
"""Tables by the stage that publishes them; an event's extra has the log date."""

NIGHT: Final = _asset("night")
"""A night that was held against itself and is complete; an event's extra has its whole summary."""

HISTORY: Final = _asset("history")
"""Days of the past that were done again; an event's extra says which, if any had to be, and how many rows.

A dry run, and a backfill beside the current results, has none.
"""
