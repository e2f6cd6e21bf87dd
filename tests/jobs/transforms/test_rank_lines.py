"""What Spark's own parser is trusted with, and what goes to the strict reading."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import date
from io import StringIO
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.landing.files import LOG_FILES_SCHEMA
from jobs.transforms.rank_lines import landed_lines
from tests.line_cases import BAD_LINES, JOB, ODD_LINES, PLAIN_LINES, RUN, SIZES

JAVA_COMPILES = 8000
"""Bytes of code in a method, at most; a longer one is interpreted for ever."""

TEXTS = {name: text for name, (text, *_) in (BAD_LINES | PLAIN_LINES | ODD_LINES).items()}
FILE = {
    "path": "f",
    "log_date": date(2026, 1, 5),
    "job_id": JOB,
    "run_id": RUN,
    "source_file": "f",
    "bucket": 0,
}


def landed(spark: SparkSession, texts: list[bytes], **file: object) -> DataFrame:
    lines = pa.table(
        {"value": pa.array(texts, pa.binary()), "position": pa.array(range(len(texts)), pa.int64())}
    )
    files = pa.Table.from_pylist([FILE | SIZES | file], schema=LOG_FILES_SCHEMA)
    return landed_lines(
        spark.createDataFrame(lines).select(
            F.col("value").cast("string"), F.lit("f").alias("path"), F.lit(0).alias("block_start"), "position"
        ),
        spark.createDataFrame(files),
    )


@pytest.fixture(scope="module")
def settled(spark: SparkSession) -> dict[str, dict[str, Any]]:
    rows = landed(spark, [*TEXTS.values(), b"", b" \t\r"]).orderBy("position").collect()
    return dict(zip([*TEXTS, "empty", "white"], [row.asDict(recursive=True) for row in rows], strict=True))


@pytest.mark.parametrize("case", PLAIN_LINES)
def test_a_plain_line_is_settled_without_python(settled: dict[str, dict[str, Any]], case: str) -> None:
    found = settled[case]
    assert (found["state"], found["suspect"]) == ("row", None)
    wanted = PLAIN_LINES[case].row
    assert {name: found[name] for name in wanted} == wanted


@pytest.mark.parametrize("defect", BAD_LINES)
def test_a_line_with_a_defect_is_suspect(settled: dict[str, dict[str, Any]], defect: str) -> None:
    assert (settled[defect]["state"], bytes(settled[defect]["suspect"])) == (
        "suspect",
        BAD_LINES[defect].text,
    )


@pytest.mark.parametrize("case", ODD_LINES)
def test_an_odd_line_is_suspect_or_right(settled: dict[str, dict[str, Any]], case: str) -> None:
    found, wanted = settled[case], ODD_LINES[case].row
    assert found["state"] == "suspect" or {name: found[name] for name in wanted} == wanted


def test_blank_lines_are_neither(settled: dict[str, dict[str, Any]]) -> None:
    assert [settled[name]["state"] for name in ("empty", "white")] == ["blank", "blank"]


def test_without_sizes_any_rank_is_plain(spark: SparkSession) -> None:
    texts = [PLAIN_LINES["as Python writes it"].text.replace(b'"rank": 1', b'"rank": 1000000')]
    assert [row["state"] for row in landed(spark, texts).collect()] == ["suspect"]
    assert [row["state"] for row in landed(spark, texts, **dict.fromkeys(SIZES)).collect()] == ["row"]


@contextmanager
def with_code_to_be_seen(spark: SparkSession) -> Iterator[None]:
    """Adaptive plans show no code before they run, and tests do without generated code."""
    wanted = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "true",
        "spark.sql.codegen.factoryMode": "FALLBACK",
    }
    before = {name: str(spark.conf.get(name)) for name in wanted}
    try:
        for name, value in wanted.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def test_lines_are_parsed_once_and_java_compiles_the_code(spark: SparkSession) -> None:
    told = StringIO()
    with with_code_to_be_seen(spark), redirect_stdout(told):
        landed(spark, [*TEXTS.values()]).explain("codegen")
    sizes = [int(size) for size in re.findall(r"maxMethodCodeSize:(\d+)", told.getvalue())]
    assert sizes
    assert max(sizes) < JAVA_COMPILES
    with redirect_stdout(told := StringIO()):
        landed(spark, [*TEXTS.values()]).explain()
    assert told.getvalue().count("from_json(") == 1
