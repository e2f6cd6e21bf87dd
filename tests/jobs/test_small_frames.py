"""Small frames: collected together, as they were; large ones stay what they are."""

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs import small_frames
from jobs.small_frames import collected, few_rows, held, kept, local
from schemas.vocabulary import FLEET_DAY, JOB_CAUSES, STAGE_SLOWDOWN
from tests.examples import frame

FEW = 3


@pytest.fixture
def few_are_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_frames, "MOST_ROWS", FEW)


def rows_of(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))


def test_frames_of_other_columns_come_back_each_with_its_own(spark: SparkSession) -> None:
    frames = {
        STAGE_SLOWDOWN: frame(spark, STAGE_SLOWDOWN, [{}, {"pp_rank": 1, "slowdown": None}]),
        JOB_CAUSES: frame(spark, JOB_CAUSES),
        FLEET_DAY: frame(spark, FLEET_DAY, []),
        "numbers": spark.range(2).select("id", F.lit(1).alias("one")),  # columns that are never null
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
    again = {name: local(frames[name], table) for name, table in found.items()}
    assert {name: rows_of(each) for name, each in again.items()} == {
        name: rows_of(each) for name, each in frames.items()
    }
    assert {name: each.schema for name, each in again.items()} == {
        name: each.schema for name, each in frames.items()
    }


@pytest.mark.usefixtures("few_are_three")
def test_a_frame_with_one_row_too_many_is_left_as_it_is(spark: SparkSession) -> None:
    frames = {"few": spark.range(FEW), "many": spark.range(FEW + 1)}
    assert list(few_rows(frames)) == ["few"]


def test_no_frames_are_no_query(spark: SparkSession) -> None:
    assert few_rows({}) == {}


@pytest.mark.usefixtures("few_are_three")
@pytest.mark.parametrize(("size", "is_large"), [(FEW, False), (FEW + 1, True)])
def test_what_is_kept_is_held_where_it_stands_for_few_rows(
    spark: SparkSession, size: int, is_large: bool
) -> None:
    nested = spark.range(1).select(F.sequence(F.lit(1), F.lit(size)).alias("rows"))
    found = kept(nested, F.size("rows"))
    assert found.is_cached == is_large
    assert found.collect() == nested.collect()
    found.unpersist()


def test_what_is_held_lies_in_one_partition(spark: SparkSession) -> None:
    assert held(spark.range(100).repartition(4)).rdd.getNumPartitions() == 1
