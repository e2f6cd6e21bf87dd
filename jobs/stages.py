"""The stages of a night, in order; a night runs all of them, a backfill those it is asked for."""

from collections.abc import Callable, Sequence
from datetime import date
from typing import Final

from pyspark.sql import SparkSession

from jobs import aggregate_fleet, ingest_rank_logs, simulate_what_if
from jobs.settings import Settings

Stage = Callable[[SparkSession, Settings, Sequence[date]], dict[str, int]]

STAGES: Final[dict[str, Stage]] = {
    "ingest": ingest_rank_logs.run,
    "simulate": simulate_what_if.run,
    "aggregate": aggregate_fleet.run,
}
"""Each stage gates and publishes its own tables; what earlier ones published stays where one fails."""
