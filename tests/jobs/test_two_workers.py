"""A standalone cluster gives the tables of a single machine, even if two of its three workers are killed.

Driver and workers share no folder: landing and warehouse are in a store.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.runtime.package import write_zip
from tests.support.cluster import Cluster, cluster, overlay
from tests.support.commands import spark_submit, start
from tests.support.history import DAYS, History, assert_same_tables
from tests.support.stores import Server

pytestmark = pytest.mark.slow

KILLER = '''
"""Runs a backfill; while tasks of ingest run, and again while those of simulate do, a worker is killed."""
import os, signal, sys, threading, time

from jobs import backfill
from jobs.night import do_batches
from schemas.vocabulary import Phase

victims = dict(zip((Phase.INGEST, Phase.SIMULATE), map(int, sys.argv[1:3])))


def kill_when_busy(tracker, phase):
    while True:
        infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        if any(info and info.numActiveTasks > 1 for info in infos):
            os.kill(victims[phase], signal.SIGKILL)
            running = [info.numActiveTasks for info in infos if info]
            print("killed a worker in", phase, "while", running, "tasks ran", flush=True)
            return
        time.sleep(0.005)


def killing(phase):
    work = do_batches._OF_UNITS[phase]

    def run(spark, *rest):
        watch = [spark.sparkContext.statusTracker(), phase]
        threading.Thread(target=kill_when_busy, args=watch, daemon=True).start()
        return work(spark, *rest)

    return run


do_batches._OF_UNITS.update({phase: killing(phase) for phase in victims})
sys.exit(backfill.main(sys.argv[3:]))
'''


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of a master and three workers, each with one core and a folder of its own."""
    with cluster(tmp_path, workers=3, cores=1) as started:
        yield started


def submit(
    cluster: Cluster, where: History, server: Server, folder: Path
) -> "subprocess.CompletedProcess[str]":
    """Backfill a history on the cluster, by a program that also kills two of the workers.

    Executors get the project's code only from the zip.
    """
    archive = write_zip(folder / "straggler-fleet.zip")
    killer = folder / "killer.py"
    killer.write_text(KILLER)
    victims = [str(worker) for worker in cluster.workers[:2]]
    program = spark_submit("--master", cluster.url, "--py-files", str(archive), str(killer), *victims)
    paths = ["--landing", where.settings.paths.landing, "--warehouse", where.settings.paths.warehouse]
    days = ["--from", DAYS[0].isoformat(), "--to", DAYS[-1].isoformat()]
    settings = ["--settings", str(overlay(folder))]
    return start([*program, *paths, *settings, *days], folder, server.environment)


def test_workers_that_die_in_the_middle_of_phases_change_nothing(
    workers: Cluster, server: Server, remote: History, filled: History, tmp_path: Path
) -> None:
    done = submit(workers, remote, server, tmp_path)
    assert done.returncode == 0, done.stderr
    assert [f"killed a worker in {phase}" in done.stdout for phase in ("ingest", "simulate")] == [True, True]
    assert done.stderr.count("Lost executor") >= 2
    assert_same_tables(remote.told_by_a_store(), filled.told_by_a_store())
