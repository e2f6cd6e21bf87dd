"""A writer that was paused by SIGSTOP until another writer took over its lock can change nothing later."""

import os
import signal
import subprocess
import sys

import pytest
from deltalake import DeltaTable

from jobs.runtime.places import storage_options
from jobs.runtime.project import PROJECT
from jobs.warehouse import lease
from jobs.warehouse.lease import leased
from jobs.warehouse.lock import this_process
from jobs.warehouse.publication import recover
from jobs.warehouse.stored import newest_version
from jobs.warehouse.tables import Warehouse
from schemas.vocabulary import STAGE_SLOWDOWN
from tests.jobs.warehouse.test_lease import publish, slowdowns
from tests.jobs.warehouse.test_publication import NO_SPARK
from tests.support.examples import NEXT_DAY
from tests.support.stores import BUCKET, Server

pytestmark = pytest.mark.slow

LEASE_S = 3.0
STOPPED = """
import os, signal, sys

from jobs.warehouse import delta_files, lease
from jobs.warehouse.lock import this_process
from tests.jobs.warehouse.test_lease import publish

lease.LEASE_S, lease.RENEWED_S = 3.0, 0.5
root, table = sys.argv[1:]
commit = delta_files.commit_actions


def stopped_before(path, *rest, **named):
    if path == f"{root}/{table}":
        os.kill(os.getpid(), signal.SIGSTOP)
    commit(path, *rest, **named)


delta_files.commit_actions = stopped_before
with lease.leased(root, this_process("run_nightly"), wait=False):
    publish(root, 2.0)
"""


@pytest.fixture
def root(server: Server, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(lease, "LEASE_S", LEASE_S)
    root = f"s3://{BUCKET}/{request.node.name}"
    with leased(root, this_process("run_nightly"), wait=False):
        publish(root, 1.0)
    return root


@pytest.mark.parametrize("undone_by", ["its successor", "the next run"])
def test_a_commit_of_a_stopped_writer_that_lands_late_is_seen_by_nobody_and_undone(
    root: str, undone_by: str
) -> None:
    command = [sys.executable, "-c", STOPPED, root, STAGE_SLOWDOWN]
    process = subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.PIPE, text=True)
    _, how = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(how)

    with leased(root, this_process("backfill"), wait=True):
        warehouse = Warehouse(NO_SPARK, root)
        recover(warehouse)
        path = warehouse.path(STAGE_SLOWDOWN)
        published = newest_version(path)
        assert published is not None
        process.send_signal(signal.SIGCONT)
        _, said = process.communicate()
        assert process.returncode == 1
        assert "LeaseLostError" in said
        assert DeltaTable(path, storage_options=storage_options(path)).version() == published + 1
        assert slowdowns(root) == [1.0]
        if undone_by == "its successor":
            publish(root, 4.0, NEXT_DAY)
    if undone_by == "the next run":
        with leased(root, this_process("backfill"), wait=False):
            publish(root, 4.0, NEXT_DAY)
    assert sorted(slowdowns(root)) == [1.0, 4.0]
