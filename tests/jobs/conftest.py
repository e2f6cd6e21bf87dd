"""What tests of jobs share: a small history, done once, with copies to spoil; and the demo, made once."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.runtime.settings import REPORT, Settings
from tests.support.commands import start
from tests.support.history import DAYS, JOB_IDS, History, copy_of, history_in


@dataclass(frozen=True)
class Demo:
    """The demo as its command left it: its warehouse, and what it printed."""

    warehouse: Path
    printed: str

    @property
    def report(self) -> Path:
        """Folder of its reports."""
        return self.warehouse / REPORT


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs the filled history is slow: each of its backfills runs all stages, a minute of planning.

    So is the whole demo.
    """
    for item in items:
        if {"filled", "demo"}.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def filled(
    spark: SparkSession, test_settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[History]:
    """Two jobs on two finished days, backfilled in one batch; to look at, not to write to."""
    history = history_in(tmp_path_factory.mktemp("history"), spark, test_settings)
    for day in DAYS:
        for job in JOB_IDS:
            history.put(job, day)
    history.finish()
    history.fill()
    before = history.versions()
    yield history
    assert history.versions() == before, "a test has written to the history that all share"


@pytest.fixture(scope="session")
def demo(published_traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """The whole demo, made once by its command; to look at, not to write to."""
    assert published_traces.is_dir()
    folder = tmp_path_factory.mktemp("demo")
    folders = ["--landing", str(folder / "landing"), "--warehouse", str(folder / "warehouse")]
    done = start([sys.executable, "-m", "jobs.make_demo", *folders])
    assert done.returncode == 0, done.stderr
    return Demo(folder / "warehouse", done.stdout)


@pytest.fixture
def history(filled: History, tmp_path: Path) -> History:
    """A copy to spoil."""
    return copy_of(filled, tmp_path)
