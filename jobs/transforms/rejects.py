"""Rejects with the number and the text of their line, and the accounting of lines, file by file."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from schemas.rejects import TABLE as REJECTS
from schemas.source_files import TABLE as SOURCE_FILES
from schemas.vocabulary import UNIT_KEY
from udfs.landed_rows import LONGEST_TEXT, PLACE, STATE_BLANK


def numbered(rejected: DataFrame, landed: DataFrame) -> DataFrame:
    """Add `line`, 1-based, blank lines counted; null for whole files.

    rejected : the unit's key, PLACE and more
    landed : all lines of their files, blank ones too
    """
    places = landed.where(F.col("position").isNotNull()).select(*PLACE)
    concerned = places.join(
        F.broadcast(rejected.select("source_file").distinct()), "source_file", "left_semi"
    )
    return rejected.join(concerned.select(*PLACE, _line_number("source_file")), [*PLACE], "left")


def with_texts(rejected: DataFrame, lines: DataFrame, files: DataFrame) -> DataFrame:
    """Give rejects without a text that of their line.

    rejected : source_file, line, text and more
    lines : value, path, block_start, position; all lines of the files concerned, read again
    files : path and source_file
    """
    texts = lines.select("path", "value", _line_number("path"))
    told = texts.join(F.broadcast(files.select("path", "source_file")), "path").select(
        "source_file", "line", F.left("value", F.lit(LONGEST_TEXT)).alias("again")
    )
    found = rejected.join(told, ["source_file", "line"], "left")
    return found.withColumn("text", F.coalesce("text", "again")).drop("again")


def _line_number(file: str) -> Column:
    """Lines are counted in the order in which they stand, over all parts in which Spark reads a file."""
    order = Window.partitionBy(file).orderBy("block_start", "position")
    return F.row_number().over(order).cast("bigint").alias("line")


def rejects_table(rejected: DataFrame) -> DataFrame:
    """Return rejects as their table has them."""
    return rejected.select(*REJECTS.column_names)


def source_files_table(
    files: DataFrame, landed: DataFrame, rank_steps: DataFrame, rejects: DataFrame
) -> DataFrame:
    """Count, for every file that holds ops, lines, rows and rejects, each from where it lies.

    files : as landed_files.LOG_FILES_SCHEMA, of which unreadable ones have has_lines false
    landed : every line that was read, whatever the parser made of it
    """
    lines = landed.where(F.col("state") != STATE_BLANK)
    counts = [
        frame.groupBy("source_file").agg(F.count("*").alias(name))
        for name, frame in (("read", lines), ("rows", rank_steps), ("rejects", rejects))
    ]
    counted = files.select(*UNIT_KEY, "source_file", "bytes", "has_lines")
    for each in counts:
        counted = counted.join(each, "source_file", "left")
    zeros = counted.fillna(0, ["read", "rows", "rejects"])
    return zeros.withColumn("lines", F.when(F.col("has_lines"), F.col("read"))).select(
        *SOURCE_FILES.column_names
    )
