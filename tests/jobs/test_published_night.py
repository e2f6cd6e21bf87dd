"""A night gives the published results for the published traces, also if they are written as rank logs."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.night import whole_night
from jobs.runtime.settings import Settings
from jobs.synthetic.job import GeneratedJob
from jobs.synthetic.log_files import write_rank_logs
from schemas.vocabulary import HOST_CLOCK, JOB_CAUSES, JOB_POWER, REPLAY_TABLES, RESULT_TABLES, UNIT_KEY
from tests.jobs.test_night import DAY, Night, read_tables
from tests.support import published
from tests.udfs.test_published import assert_published

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def published_night(
    spark: SparkSession,
    test_settings: Settings,
    published_traces: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Night:
    """A night of the published traces SE and ST, and of ST written as rank logs."""
    root = tmp_path_factory.mktemp("published")
    landing = root / "landing"
    for name in published.NAMES:
        folder = landing / f"log_date={DAY}" / f"job_id={name}" / "run_id=0"
        folder.mkdir(parents=True)
        for file in (f"trace-{name}.parquet", f"meta-{name}.yaml"):
            shutil.copyfile(published_traces / name / file, folder / file)
    facts = published.manifest(published_traces, "ST") | {"job_id": "ST-as-rank-log", "run_id": "0"}
    rows = published.rank_steps(published_traces, "ST")
    zeros = rows.column("t0_us").fill_null(1_767_600_000_000_000)
    rows = rows.set_column(rows.column_names.index("t0_us"), "t0_us", zeros)
    write_rank_logs(landing, DAY, GeneratedJob(rows, facts))
    paths = test_settings.paths.model_copy(
        update={"landing": str(landing), "warehouse": str(root / "warehouse")}
    )
    settings = test_settings.model_copy(update={"paths": paths})
    whole_night.run(spark, settings, [DAY])
    return Night(settings, read_tables(spark, settings))


@pytest.mark.parametrize("name", published.NAMES)
def test_published_traces_through_landing_delta_and_spark(
    name: str, published_night: Night, published_traces: Path
) -> None:
    assert_published(published_night.of(name), published.results(published_traces, name))


def assert_same_culprits(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> None:
    """Fail unless culprits are equal except for times of day, which a published trace lacks."""
    for one, other in zip(left, right, strict=True):
        for key in one.keys() - {"first_time", "last_time"}:
            is_number = isinstance(one[key], float)
            assert one[key] == (pytest.approx(other[key], rel=1e-9) if is_number else other[key]), key


def test_same_trace_as_parquet_and_as_rank_log(published_night: Night) -> None:
    as_parquet, as_log = published_night.of("ST"), published_night.of("ST-as-rank-log")
    for name in RESULT_TABLES:
        left, right = sorted(as_parquet[name], key=repr), sorted(as_log[name], key=repr)
        assert len(left) == len(right), name
        assert left or name not in REPLAY_TABLES, name
        for one, other in zip(left, right, strict=True):
            assert {key: one[key] for key in UNIT_KEY} | {"job_id": "ST-as-rank-log"} == {
                key: other[key] for key in UNIT_KEY
            }
            # Columns about clocks and power are not compared: they need times of day, which the trace lacks.
            clocks = {key for key in one if key.startswith("clock_") or name == HOST_CLOCK}
            clocks |= {key for key in one if name == JOB_POWER and one[key] is None}
            if name == JOB_CAUSES:
                assert_same_culprits(one.pop("culprits"), other.pop("culprits"))
            for key in one.keys() - set(UNIT_KEY) - clocks:
                is_number = isinstance(one[key], float)
                assert one[key] == (pytest.approx(other[key], rel=1e-9) if is_number else other[key]), key
