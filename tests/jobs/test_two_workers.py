"""Two worker processes of a standalone cluster give the tables of one machine, also where one is killed."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.runtime.package import write_zip
from tests.support.cluster import Cluster, cluster, overlay
from tests.support.commands import spark_submit, start
from tests.support.history import DAYS, History, assert_same_tables, history_in

pytestmark = pytest.mark.slow

RANGE = ("--from", DAYS[0].isoformat(), "--to", DAYS[-1].isoformat())

KILLER = '''
"""Runs a backfill; while tasks of the named Spark stage run in both executors, one worker is killed."""
import os, signal, sys, threading, time

from pyspark.sql import SparkSession

from jobs import backfill
from jobs.night import do_batches
from schemas.vocabulary import Phase

victim, *arguments = sys.argv[1:]
simulate = do_batches._OF_UNITS[Phase.SIMULATE]


def kill_when_busy(tracker):
    while True:
        infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        if any(info and info.numActiveTasks > 1 for info in infos):
            os.kill(int(victim), signal.SIGKILL)
            print("killed the worker while", [info.numActiveTasks for info in infos], "tasks ran", flush=True)
            return
        time.sleep(0.005)


def run(spark, *rest):
    threading.Thread(target=kill_when_busy, args=[spark.sparkContext.statusTracker()], daemon=True).start()
    return simulate(spark, *rest)


do_batches._OF_UNITS[Phase.SIMULATE] = run
sys.exit(backfill.main(arguments))
'''


@pytest.fixture
def two_workers(tmp_path: Path) -> Iterator[Cluster]:
    """A master and two workers of one core."""
    with cluster(tmp_path, workers=2, cores=1) as started:
        yield started


def submit(
    two_workers: Cluster, history: History, folder: Path, *program: str
) -> "subprocess.CompletedProcess[str]":
    """Backfill a history by a program on the cluster; executors have our code from the zip alone."""
    archive = write_zip(folder / "straggler-fleet.zip")
    command = spark_submit("--master", two_workers.url, "--py-files", str(archive), *program)
    settings = ["--settings", str(overlay(folder))]
    return start([*command, *history.arguments(), *settings, *RANGE], folder)


def beside(filled: History, folder: Path) -> History:
    """The same landing, and a warehouse with nothing in it."""
    found = history_in(folder, filled.spark, filled.settings)
    found.landing.symlink_to(filled.landing)
    return found


def test_a_worker_that_dies_in_the_middle_of_a_phase_changes_nothing(
    two_workers: Cluster, filled: History, tmp_path: Path
) -> None:
    history = beside(filled, tmp_path)
    killer = tmp_path / "killer.py"
    killer.write_text(KILLER)
    done = submit(two_workers, history, tmp_path, str(killer), str(two_workers.workers[0]))
    assert done.returncode == 0, done.stderr
    assert "killed the worker while" in done.stdout
    assert "Lost executor" in done.stderr
    assert_same_tables(history.tables(), filled.tables())
