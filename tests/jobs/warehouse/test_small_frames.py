"""Several small data frames are collected by one query, and each keeps its columns and rows."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.warehouse.frames import collected
from schemas.vocabulary import FLEET_DAY, JOB_CAUSES, STAGE_SLOWDOWN
from tests.support.examples import frame


def test_frames_of_other_columns_come_back_each_with_its_own(spark: SparkSession) -> None:
    frames = {
        STAGE_SLOWDOWN: frame(spark, STAGE_SLOWDOWN, [{}, {"pp_rank": 1, "slowdown": None}]),
        JOB_CAUSES: frame(spark, JOB_CAUSES),
        FLEET_DAY: frame(spark, FLEET_DAY, []),
        "numbers": spark.range(2).select("id", F.lit(1).alias("one")),  # its columns are not nullable
    }
    found = collected(frames)
    assert {name: table.num_rows for name, table in found.items()} == {
        STAGE_SLOWDOWN: 2,
        JOB_CAUSES: 1,
        FLEET_DAY: 0,
        "numbers": 2,
    }
    for name, table in found.items():
        assert table.column_names == frames[name].columns
        expected = frames[name].toArrow().to_pylist(maps_as_pydicts="strict")
        assert sorted(map(repr, table.to_pylist(maps_as_pydicts="strict"))) == sorted(map(repr, expected))


def test_no_frames_are_no_query() -> None:
    assert collected({}) == {}
