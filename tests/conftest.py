"""Fixtures that all tests share: one Spark session, and the published traces."""

import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import cast

import pytest
import vl_convert
from py4j.java_gateway import JVMView
from pyspark.sql import SparkSession

from jobs.runtime.project import PROJECT
from jobs.runtime.session import session
from jobs.runtime.settings import Settings, load_settings
from tests.support.commands import SHORT_LIVED

TRACES = PROJECT / "tests" / "data" / "traces"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use the Spark session, because `make quick` leaves them out."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Disable garbage collection while tests are collected, because nearly all objects stay alive then."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.fixture(scope="session")
def test_settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Return the project's settings for two cores, with folders of this test run."""
    root = tmp_path_factory.mktemp("fleet")
    overlay = root / "settings.toml"
    overlay.write_text(
        '[spark]\nmaster = "local[2]"\n[spark.conf]\n"spark.sql.shuffle.partitions" = "2"\n'
        '"spark.driver.memory" = "6g"\n'
        # For a few rows, code generation takes longer than it saves. Commands in tests use it as users'
        # commands do.
        '"spark.sql.codegen.wholeStage" = "false"\n"spark.sql.codegen.factoryMode" = "NO_CODEGEN"\n'
        # Most JVM code of tests runs only a few times, so thorough compilation takes longer than it saves.
        f'"spark.driver.extraJavaOptions" = "{SHORT_LIVED}"\n'
        f'"spark.sql.warehouse.dir" = "{root / "spark-warehouse"}"\n'
    )
    return load_settings(overlay, str(root / "landing"), str(root / "warehouse"))


@pytest.fixture(scope="session")
def spark(test_settings: Settings) -> Iterator[SparkSession]:
    """One Spark session for the whole test run, because starting a session takes longer than most tests."""
    with session(test_settings, "tests") as made:
        yield made


@pytest.fixture(scope="session")
def published_traces() -> Path:
    """Return the folder of the published traces SE and ST, and of the results published for them."""
    return TRACES


@pytest.fixture(autouse=True, scope="session")
def _one_chart_library() -> Iterator[None]:
    """Assemble the chart library once per process, because each assembly takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vl_convert, "javascript_bundle", cache(vl_convert.javascript_bundle))
        yield


@pytest.fixture(autouse=True, scope="module")
def forgotten_tables(request: pytest.FixtureRequest) -> Iterator[None]:
    """Clear Delta's cache of table metadata, which would otherwise fill the memory during the tests."""
    yield
    session_of_tests = SparkSession.getActiveSession()
    of_module = (item for item in request.session.items if item.path == request.path)
    if session_of_tests is not None and any(item.get_closest_marker("spark") for item in of_module):
        gc.collect()  # frames that Python no longer needs would keep query plans alive
        cast(
            "JVMView", session_of_tests._jvm
        ).org.apache.spark.sql.delta.DeltaLog.clearCache()  # has no public method
