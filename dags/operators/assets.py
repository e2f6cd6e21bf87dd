"""Airflow assets by which other DAGs can be scheduled: one per published table, and one for a whole night."""

from typing import Final

from airflow.sdk import Asset

from dags.operators.lineage import SCHEME
from schemas.vocabulary import FLEET_TABLES, INGESTED_TABLES, JOB_CAUSES, RESULT_TABLES


def _asset(name: str) -> Asset:
    return Asset(name=f"what_if_{name}", uri=f"{SCHEME}warehouse/{name}", group="what-if")


LANDING: Final = Asset(name="what_if_landing", uri=f"{SCHEME}landing", group="what-if")
"""A finished day of the landing, as a partition whose key is the log date: producers make the event."""

INGESTED: Final = tuple(map(_asset, INGESTED_TABLES))
RESULTS: Final = tuple(_asset(name) for name in RESULT_TABLES if name != JOB_CAUSES)
REVISED: Final = (_asset(JOB_CAUSES),)
FLEET: Final = tuple(map(_asset, FLEET_TABLES))
"""Tables by the task after which they are complete; an event's extra has the log date."""

NIGHT: Final = _asset("night")
"""A night that is complete and checked across its tables; an event's extra has its whole summary."""

NIGHT_BY_DATE: Final = _asset("night_by_date")
"""The same night as a partition whose key is the log date, for DAGs with a PartitionedAssetTimetable.

It is a separate asset: an event with a partition starts no DAG that is scheduled on the asset as a whole.
If a partition of the landing starts the night, Airflow gives that partition to the events of all its assets.
"""

HISTORY: Final = _asset("history")
"""Past days that were done again; an event's extra says which days, if any, and how many rows.

A dry run, and a backfill beside the current results, make no event.
"""
