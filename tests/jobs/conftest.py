"""Fixtures for tests of jobs: a small history and the demo, each made once, with copies to modify."""

import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from jobs.runtime import objects
from jobs.runtime.settings import REPORT, Settings
from jobs.warehouse.stored import forget
from tests.support.commands import start
from tests.support.history import DAYS, JOB_IDS, History, copy_of, history_in
from tests.support.stores import BUCKET, Server, s3_server, upload


@dataclass(frozen=True)
class Demo:
    """The demo's warehouse, and what the command that made it has printed."""

    warehouse: Path
    printed: str

    @property
    def report(self) -> Path:
        """Folder of the demo's reports."""
        return self.warehouse / REPORT


class Said(NamedTuple):
    """The exit status of a command, and the text that the command printed."""

    status: int
    out: str
    err: str


Ask = Callable[..., Said]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Ask:
    """Function that runs a command with the given arguments and returns its status and output."""

    def run(command: Callable[[list[str]], int], *arguments: object) -> Said:
        status = command([str(each) for each in arguments])
        return Said(status, *capsys.readouterr())

    return run


@pytest.fixture
def ask(call: Ask, monkeypatch: pytest.MonkeyPatch, warehouse: str) -> Ask:
    """Function that runs a command on the test module's `warehouse` and returns its status and output."""
    monkeypatch.setenv("STRAGGLER_WAREHOUSE", warehouse)
    return call


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that use the filled history or the demo as slow, because making either takes minutes."""
    for item in items:
        if {"filled", "demo"}.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def filled(
    spark: SparkSession, test_settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[History]:
    """A landing and warehouse of two jobs on two complete days, backfilled in one batch; read-only."""
    history = history_in(tmp_path_factory.mktemp("history"), spark, test_settings)
    for day in DAYS:
        for job in JOB_IDS:
            history.put(job, day)
    history.finish()
    history.fill()
    before = history.versions()
    yield history
    assert history.versions() == before, "a test has written to the shared history"


@pytest.fixture(scope="session")
def demo(published_traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """The complete demo, made once by its command for all test processes; read-only."""
    assert published_traces.is_dir()
    of_run = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        of_run = of_run.parent
    folder = of_run / "whole-demo"
    folder.mkdir(exist_ok=True)
    printed = folder / "printed.txt"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not printed.exists():
            folders = ["--landing", str(folder / "landing"), "--warehouse", str(folder / "warehouse")]
            done = start([sys.executable, "-m", "jobs.make_demo", *folders])
            assert done.returncode == 0, done.stderr
            printed.write_text(done.stdout)
    return Demo(folder / "warehouse", printed.read_text())


@pytest.fixture
def history(filled: History, tmp_path: Path) -> History:
    """A copy of the filled history that a test may modify."""
    return copy_of(filled, tmp_path)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A local S3 server, to which environment variables direct this process and its children."""
    with s3_server() as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        objects.store_at.cache_clear()
        yield running


@pytest.fixture
def remote(server: Server, filled: History, tmp_path: Path) -> Iterator[History]:
    """A bucket that contains a copy of the filled history's landing, and no warehouse."""
    root = f"s3://{BUCKET}/{tmp_path.name}"
    upload(filled.landing, f"{root}/landing")
    paths = {"landing": f"{root}/landing", "warehouse": f"{root}/warehouse"}
    settings = filled.settings.model_copy(update={"paths": filled.settings.paths.model_copy(update=paths)})
    environment = filled.spark.sparkContext.environment
    before = dict(environment)
    environment.update(server.environment)  # reaches the workers of the running Spark session
    forget()
    yield History(filled.spark, settings)
    environment.clear()
    environment.update(before)
