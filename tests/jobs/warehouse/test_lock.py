"""The lock of a warehouse: one writer, named to those who wait, and gone with it."""

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import asdict, replace
from pathlib import Path

import psutil
import pytest

from jobs.warehouse.lock import LOCK_NAME, LockedError, locked_folder, locked_store, this_process
from jobs.warehouse.small_files import LocalFiles

LOCK = """
import sys, time
from jobs.warehouse.lock import locked_folder, this_process
with locked_folder(sys.argv[1], this_process("run_nightly"), wait=True) as say:
    say(this_process("run_nightly", *map(int, sys.argv[2:])))
    print("held", flush=True)
    time.sleep(60)
"""


SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def holder_of(root: Path, *more: int) -> subprocess.Popen[str]:
    """Another process that holds the lock, with other processes that belong to it."""
    arguments = [sys.executable, "-c", LOCK, str(root), *map(str, more)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_a_paused_writer_keeps_the_lock_and_is_named_and_a_killed_one_does_not(tmp_path: Path) -> None:
    other = holder_of(tmp_path)
    other.send_signal(signal.SIGSTOP)
    with (
        pytest.raises(LockedError) as raised,
        locked_folder(str(tmp_path), this_process("backfill"), wait=False),
    ):
        pass
    end(other)
    message = f"{tmp_path} is being written by run_nightly (process {other.pid} of "
    assert str(raised.value).startswith(message)
    assert str(raised.value).endswith("): wait for its end, or end that process")
    with locked_folder(str(tmp_path), this_process("backfill"), wait=False):
        assert str(os.getpid()) in (tmp_path / LOCK_NAME).read_text()
    assert (tmp_path / LOCK_NAME).read_bytes() == b""


def test_who_waits_goes_on_when_the_other_has_ended(tmp_path: Path) -> None:
    other = holder_of(tmp_path)
    threading.Timer(0.5, other.kill).start()
    with locked_folder(str(tmp_path), this_process("backfill"), wait=True):
        assert other.wait() == -signal.SIGKILL
    other.communicate()


def test_what_a_killed_writer_has_started_is_waited_for(tmp_path: Path) -> None:
    """Its JVM may still commit."""
    jvm = subprocess.Popen(SLEEP)
    end(holder_of(tmp_path, jvm.pid))
    with pytest.raises(LockedError), locked_folder(str(tmp_path), this_process("backfill"), wait=False):
        pass
    jvm.kill()
    jvm.wait()
    with locked_folder(str(tmp_path), this_process("backfill"), wait=False):
        pass


def test_a_lock_left_by_a_process_whose_number_another_has_by_now_holds_nobody_up(tmp_path: Path) -> None:
    left = replace(this_process("run_nightly"), processes={os.getpid(): 1.0})
    (tmp_path / LOCK_NAME).write_text(json.dumps(asdict(left)))
    with locked_folder(str(tmp_path), this_process("backfill"), wait=False):
        assert "backfill" in (tmp_path / LOCK_NAME).read_text()


def test_in_a_store_one_writer_makes_the_file(tmp_path: Path) -> None:
    files, root = LocalFiles(str(tmp_path)), "s3a://bucket/warehouse"
    with locked_store(files, root, this_process("run_nightly"), wait=False):
        with (
            pytest.raises(LockedError, match=f"if it has ended, remove {root}/{LOCK_NAME}"),
            locked_store(files, root, this_process("backfill"), wait=False),
        ):
            pass
        assert files.read(LOCK_NAME) is not None
    assert files.read(LOCK_NAME) is None


def test_the_file_of_a_process_that_has_ended_here_is_removed(tmp_path: Path) -> None:
    other = subprocess.Popen(SLEEP)
    started = psutil.Process(other.pid).create_time()
    left = replace(this_process("run_nightly"), processes={other.pid: started})
    files = LocalFiles(str(tmp_path))
    files.write(LOCK_NAME, json.dumps(asdict(left)).encode())
    threading.Timer(0.5, end, [other]).start()
    with locked_store(files, "s3a://bucket", this_process("backfill"), wait=True):
        assert not psutil.pid_exists(other.pid)
