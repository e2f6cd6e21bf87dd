"""What tests share: one Spark session for all of them, and the published traces."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.project import PROJECT
from jobs.session import session
from jobs.settings import Settings, load_settings

TRACES = PROJECT.parent / "shared" / "traces"


@pytest.fixture(scope="session")
def test_settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The project's own settings, in folders of this run, small enough for two cores."""
    root = tmp_path_factory.mktemp("fleet")
    overlay = root / "settings.toml"
    overlay.write_text(
        '[spark]\nmaster = "local[2]"\n[spark.conf]\n"spark.sql.shuffle.partitions" = "2"\n'
        f'"spark.sql.warehouse.dir" = "{root / "spark-warehouse"}"\n'
    )
    return load_settings(overlay, str(root / "landing"), str(root / "warehouse"))


@pytest.fixture(scope="session")
def spark(test_settings: Settings) -> Iterator[SparkSession]:
    """One session for the whole run: a start takes longer than most tests."""
    with session(test_settings, "tests") as made:
        yield made


@pytest.fixture(scope="session")
def published_traces() -> Path:
    """Folder of the published traces SE and ST; without it tests are skipped, but with CI=true they fail."""
    if not TRACES.is_dir():
        reason = f"no published traces in {TRACES}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return TRACES
