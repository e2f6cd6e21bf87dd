"""A backfill whose process is killed, for real, at commits of its stages: the next one completes it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobs.project import PROJECT
from schemas.vocabulary import JOB_SLOWDOWN, UNIT_FINGERPRINTS
from tests.jobs.commands import SHORT_LIVED
from tests.jobs.history import DAYS, History, assert_same_tables

pytestmark = pytest.mark.slow

PATIENCE_S = 300.0


@pytest.mark.parametrize(("table", "commit"), [(JOB_SLOWDOWN, 1), (UNIT_FINGERPRINTS, 1)])
def test_a_killed_backfill_is_completed_by_the_next(
    filled: History, tmp_path: Path, table: str, commit: int
) -> None:
    """Killed as soon as this commit of this table is there: beside others of its stage that are not."""
    paths = filled.settings.paths.model_copy(update={"warehouse": str(tmp_path / "warehouse")})
    history = History(filled.spark, filled.settings.model_copy(update={"paths": paths}))
    kill_at(history, tmp_path / "warehouse" / table / "_delta_log" / f"{commit:020d}.json")
    history.fill()
    assert_same_tables(history.tables(), filled.tables())
    assert history.rows(UNIT_FINGERPRINTS) == filled.rows(UNIT_FINGERPRINTS)


def kill_at(history: History, commit: Path) -> None:
    """Backfill in a process of its own, and kill it with all its children when this file appears."""
    days = ["--from", DAYS[0].isoformat(), "--to", DAYS[-1].isoformat()]
    command = [sys.executable, "-m", "jobs.backfill", *history.arguments(), *days]
    backfill = subprocess.Popen(
        command,
        cwd=PROJECT,
        env={**os.environ, "SPARK_SUBMIT_OPTS": SHORT_LIVED},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + PATIENCE_S
    try:
        while not commit.exists():
            assert backfill.poll() is None, "ended by itself"
            assert time.monotonic() < deadline, f"{commit} did not appear"
            time.sleep(0.01)
    finally:
        os.killpg(backfill.pid, signal.SIGKILL)
        backfill.wait()
