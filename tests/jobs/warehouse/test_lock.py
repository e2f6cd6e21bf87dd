"""A warehouse's lock admits one writer, names that writer to others, and is released when it ends."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import psutil
import pytest

from jobs.reading.database import Database
from jobs.runtime.places import not_writable
from jobs.runtime.project import PROJECT
from jobs.warehouse.lock import (
    LOCK_NAME,
    LockedError,
    NotWritableError,
    check_writable,
    locked_folder,
    this_process,
)
from jobs.warehouse.reader import QuestionError
from schemas.vocabulary import Exit

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
    """Start another process that holds the lock.

    more : ids of further processes that are named as holders
    """
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


WITH_A_JVM = """
import sys, time
from pyspark.java_gateway import launch_gateway
from jobs.warehouse.lock import locked_by_jvm, locked_folder, this_process
with locked_folder(sys.argv[1], this_process("run_nightly"), wait=True) as say:
    jvm = launch_gateway().jvm
    with locked_by_jvm(sys.argv[1], jvm):
        print(jvm.java.lang.ProcessHandle.current().pid(), flush=True)
        time.sleep(600)
"""


def test_the_jvm_of_a_killed_writer_is_waited_for_in_whichever_container_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer waits for the JVM of a killed writer, which may still commit, even in another container."""
    command = [sys.executable, "-c", WITH_A_JVM, str(tmp_path)]
    python = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert python.stdout is not None
    jvm = psutil.Process(int(python.stdout.readline()))
    jvm.suspend()  # otherwise the JVM ends soon after its Python
    python.kill()
    python.wait()
    monkeypatch.setattr("socket.gethostname", lambda: "another-container")
    try:
        with pytest.raises(LockedError), locked_folder(str(tmp_path), this_process("backfill"), wait=False):
            pass
    finally:
        jvm.kill()
    python.communicate()  # waits for the JVM too, which shares this output
    with locked_folder(str(tmp_path), this_process("backfill"), wait=False):
        pass


COMMITS_LATE = """
import subprocess, sys, threading, time
from pathlib import Path
from jobs.runtime.settings import load_settings
from jobs.entry_points.writing import writing
root = sys.argv[1]
settings = load_settings(None, warehouse=root)
with writing(settings, root, "run_nightly", wait=False) as spark:
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    open_input = spark.sparkContext._gateway.proc.stdin.fileno()  # the JVM ends when no process holds it
    child = subprocess.Popen(["sleep", "600"], pass_fds=[open_input])  # without Python's lock
    nap = "java_method('java.lang.Thread', 'sleep', cast(6000 as bigint))"
    rows = spark.range(1).selectExpr("id", f"cast({nap} as string) AS nap")
    save = rows.write.format("delta").save
    threading.Thread(target=save, args=(f"{root}/late",), daemon=True).start()
    while not spark.sparkContext.statusTracker().getActiveStageIds():
        time.sleep(0.01)
    print(jvm, child.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_a_jvm_that_commits_after_its_python_was_killed_keeps_writers_of_any_container_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-c", COMMITS_LATE, str(tmp_path)]
    python = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT)
    assert python.stdout is not None
    jvm, child = (psutil.Process(int(number)) for number in python.stdout.readline().split())
    python.kill()
    python.wait()
    monkeypatch.setattr("socket.gethostname", lambda: "another-container")
    commit, refused = tmp_path / "late" / "_delta_log" / f"{0:020}.json", 0
    try:
        until_s = time.monotonic() + 300
        while not commit.exists() and time.monotonic() < until_s:
            with (
                pytest.raises(LockedError),
                locked_folder(str(tmp_path), this_process("backfill"), wait=False),
            ):
                pass
            refused += 1
            time.sleep(0.05)
        assert commit.exists(), "the JVM must outlive its Python and commit"
        assert refused, "a writer must be refused before the JVM commits"
    finally:
        child.kill()  # the JVM's input ends with this child, and then the JVM
    with locked_folder(str(tmp_path), this_process("backfill"), wait=True):
        jvm.wait(300)


CONTAINER = ("unshare", "--pid", "--fork", "--kill-child")
"""Command prefix for a process in a new namespace of process ids, as in a container."""

NAMED = "import socket, sys; name = sys.argv.pop(); socket.gethostname = lambda: name\n"

TRY = """
from jobs.warehouse.lock import LockedError, locked_folder, this_process
try:
    with locked_folder(sys.argv[1], this_process("backfill"), wait=False):
        print("taken")
except LockedError as error:
    print(error)
"""


def container() -> tuple[str, ...]:
    """Return the command prefix for a container; empty without the permission to make namespaces."""
    try:
        return CONTAINER if subprocess.run([*CONTAINER, "true"], check=False).returncode == 0 else ()
    except FileNotFoundError:
        return ()


def test_a_new_container_waits_for_one_that_writes_and_not_for_one_that_was_killed(tmp_path: Path) -> None:
    def command(code: str, name: str) -> list[str]:
        return [*container(), sys.executable, "-c", NAMED + code, str(tmp_path), name]

    def tried() -> str:
        return subprocess.run(command(TRY, "second"), stdout=subprocess.PIPE, text=True, check=True).stdout

    first = subprocess.Popen(command(LOCK, "first"), stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    assert first.stdout.readline() == "held\n"
    said = tried()
    assert said.startswith(f"{tmp_path} is being written by run_nightly (process ")
    assert " on first, since " in said
    end(first)
    left = json.loads((tmp_path / LOCK_NAME).read_text())
    assert (left["host"], list(left["processes"])) == ("first", ["1" if container() else str(first.pid)])
    assert tried() == "taken\n"


def test_a_writer_killed_in_another_container_holds_nobody_up(tmp_path: Path) -> None:
    left = replace(this_process("run_nightly"), host="a-container-that-was-killed", process_ids="pid:[1]")
    (tmp_path / LOCK_NAME).write_text(json.dumps(asdict(left)))
    with locked_folder(str(tmp_path), this_process("backfill"), wait=False):
        assert "backfill" in (tmp_path / LOCK_NAME).read_text()


NONSENSE = [b"[]", b"null", b'{"processes": 1}', b"\xff", b"[" * 100_000, b'{"entry_point": "x"}', b"\0" * 99]


@pytest.mark.parametrize("content", NONSENSE)
def test_nonsense_in_a_lock_holds_nobody_up(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LOCK_NAME).write_bytes(content)
    with locked_folder(str(tmp_path), this_process("backfill"), wait=False):
        pass


def test_a_lock_that_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).mkdir()
    lock = locked_folder(str(tmp_path), this_process("backfill"), wait=False)
    with pytest.raises(NotWritableError, match="_lock cannot be opened to lock the warehouse: Is a"), lock:
        pass


def test_numbers_from_another_pid_namespace_say_nothing_and_a_boot_ended_all() -> None:
    here = this_process("run_nightly")
    gone = replace(here, processes={os.getpid(): 1.0})
    assert not gone.may_live
    assert replace(gone, process_ids="pid:[1]").may_live
    assert not replace(here, boot="an earlier one", process_ids="pid:[1]").may_live


def test_a_lock_left_by_a_process_whose_number_another_has_by_now_holds_nobody_up(tmp_path: Path) -> None:
    left = replace(this_process("run_nightly"), processes={os.getpid(): 1.0})
    (tmp_path / LOCK_NAME).write_text(json.dumps(asdict(left)))
    with locked_folder(str(tmp_path), this_process("backfill"), wait=False):
        assert "backfill" in (tmp_path / LOCK_NAME).read_text()


ODD_FOLDERS = ["a%20b", "a\nb", "a[1]", "a\\b", "a:b", "100%", "x?", "{y}", "*", "a^b", "a|b"]


@pytest.mark.parametrize("name", ODD_FOLDERS)
def test_a_warehouse_that_commits_would_not_reach_is_one_line_before_any_work(
    tmp_path: Path, name: str
) -> None:
    """A warehouse path that Delta's libraries would take for another path is refused before any work."""
    root = tmp_path / name
    with pytest.raises(NotWritableError, match="cannot be written: Delta tables cannot be in a folder with"):
        check_writable(str(root))
    assert not root.exists()


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errno.EACCES, Exit.WRONG_SETTINGS),
        (errno.EROFS, Exit.WRONG_SETTINGS),
        (errno.ENOSPC, Exit.FAILED),
    ],
)
def test_a_retry_helps_where_a_disk_is_full_and_not_where_a_folder_is_wrong(
    error: int, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotWritableError, match="file is a file, not a folder") as refused:
        check_writable(str(tmp_path / "file"))
    assert refused.value.exit_status == Exit.WRONG_SETTINGS
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: (_ for _ in ()).throw(OSError(error, "no")))
    with pytest.raises(NotWritableError, match="cannot be written: no") as refused:
        check_writable(str(tmp_path))
    assert refused.value.exit_status == status


@pytest.mark.parametrize("name", ["a%20b", "a\nb", "a\\b"])
def test_a_warehouse_that_questions_would_not_reach_is_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(QuestionError, match="cannot be read: Delta tables cannot be in a folder with"):
        Database(str(tmp_path / name))


@pytest.mark.parametrize("root", ["s3a://bucket/a%20b", "a b", "Zoë", "a'b", "#1"])
def test_other_paths_and_stores_are_taken(root: str) -> None:
    assert not_writable(root) == ""
