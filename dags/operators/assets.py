"""Airflow assets by which other DAGs can be scheduled: one per published table, and one for a whole night."""

from typing import Final

from airflow.sdk import Asset

from dags.operators.lineage import SCHEME
from schemas.vocabulary import FLEET_TABLES, INGESTED_TABLES, JOB_CAUSES, RESULT_TABLES


def _asset(name: str) -> Asset:
    return Asset(name=f"what_if_{name}", uri=f"{SCHEME}warehouse/{name}", group="what-if")


LANDING: Final = Asset(name="what_if_landing", uri=f"{SCHEME}landing", group="what-if")
"""Producers create its event for each finished day of the landing, as a partition keyed by the log date."""

INGESTED: Final = tuple(map(_asset, INGESTED_TABLES))
RESULTS: Final = tuple(_asset(name) for name in RESULT_TABLES if name != JOB_CAUSES)
REVISED: Final = (_asset(JOB_CAUSES),)
FLEET: Final = tuple(map(_asset, FLEET_TABLES))
"""Assets of tables, grouped by the task that completes the tables; an event's extra has the log date."""

NIGHT: Final = _asset("night")
"""A night whose tables are complete and agree with each other; an event's extra has its summary."""

NIGHT_BY_DATE: Final = _asset("night_by_date")
"""The same night as a partition whose key is the log date, for DAGs with a PartitionedAssetTimetable.

It is a separate asset: an event with a partition starts no DAG that is scheduled on the asset as a whole.
If a partition of the landing starts the night, Airflow gives that partition to the events of all its assets.
"""

HISTORY: Final = _asset("history")
"""Days that a backfill or a refresh has computed; an event's extra has these days, if any, and their rows.

A dry run, or a backfill into a new warehouse, makes no event.
"""
