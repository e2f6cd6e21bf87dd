"""Landed rows as a whole: published traces beside lines, arranged by unit, suspects read closely."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from schemas.rank_steps import TABLE as RANK_STEPS
from schemas.vocabulary import UNIT_KEY
from udfs.landed_rows import LANDED_SCHEMA, LIMITS, PLACE, STATE_REJECT, STATE_ROW, STATE_SUSPECT
from udfs.published_trace import read_traces
from udfs.rank_log_lines import check_lines

ROW_ORDER: Final = (*UNIT_KEY, "pp_rank", "step", "dp_rank", "cp_rank", "tp_rank", "rank")
"""Order of stored rows; the simulation reads the rows of one stage as dense arrays."""


def landed_traces(contents: DataFrame, files: DataFrame) -> DataFrame:
    """Read published traces; columns of LANDED_SCHEMA and `bucket`.

    contents : path and content
    files : as landed_files.LOG_FILES_SCHEMA
    """
    traces = contents.join(F.broadcast(files), "path").select(*UNIT_KEY, "source_file", "content", *LIMITS)
    rows = traces.mapInArrow(read_traces, from_arrow_schema(LANDED_SCHEMA))
    return rows.join(F.broadcast(files.select("source_file", "bucket")), "source_file")


def checked_suspects(landed: DataFrame, files: DataFrame) -> DataFrame:
    """Read closely what is suspect: a row or a reject for each; columns of LANDED_SCHEMA and `bucket`."""
    known = files.select("source_file", "bucket", *LIMITS)
    suspects = landed.where(F.col("state") == STATE_SUSPECT).select(*UNIT_KEY, *PLACE, "suspect")
    lines = suspects.join(F.broadcast(known), "source_file")
    checked = lines.drop("bucket").mapInArrow(check_lines, from_arrow_schema(LANDED_SCHEMA))
    return checked.join(F.broadcast(files.select("source_file", "bucket")), "source_file")


def arranged(landed: DataFrame, buckets: int) -> DataFrame:
    """Bring the rows of each unit together and in ROW_ORDER; ops within a row stay as they came."""
    return landed.repartitionById(buckets, F.col("bucket")).sortWithinPartitions(*ROW_ORDER)


def rows_of(landed: DataFrame) -> DataFrame:
    """Return those that are rows."""
    return landed.where(F.col("state") == STATE_ROW)


def rejects_of(landed: DataFrame) -> DataFrame:
    """Return those that are rejects: the unit's key, PLACE, reason, detail, text."""
    found = landed.where(F.col("state") == STATE_REJECT)
    return found.select(*UNIT_KEY, *PLACE, "reason", "detail", "text")


def rank_steps_of(rows: DataFrame) -> DataFrame:
    """Return rows as the table rank_steps has them."""
    return rows.select(*RANK_STEPS.column_names)
