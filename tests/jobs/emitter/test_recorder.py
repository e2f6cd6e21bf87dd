"""The recorder records the requested steps, and an error in it never stops the training."""

import json
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.emitter import Rank, RankLogWriter, Recorder, Run, Step, line_thread
from jobs.emitter import recorder as module
from jobs.emitter.step_clocks import CudaClock, HostClock
from jobs.runtime.project import PROJECT

WARNINGS = "straggler_emitter"


def writer(landing: Path) -> RankLogWriter:
    return RankLogWriter(landing, Run("j", "r", dp_size=1), Rank(0, 0))


def lines(landing: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for log in landing.rglob("rank-*.jsonl") for line in log.read_text().splitlines()
    ]


def train(recorder: Recorder, steps: range) -> int:
    trained = 0
    for number in steps:
        with recorder.step(number), recorder.op("forward-compute", microbatch=0):
            trained += 1
    return trained


def test_steps_are_recorded_in_bursts(tmp_path: Path) -> None:
    with Recorder(writer(tmp_path), every=10, burst=2) as recorder:
        assert train(recorder, range(25)) == 25
    assert [line["step"] for line in lines(tmp_path)] == [0, 1, 10, 11, 20, 21]


class Random(HostClock):
    """A clock that advances by random times, so that log lines with its times compress badly."""

    def __init__(self) -> None:
        self.draw, self.now_ns = random.Random(1), 0  # noqa: S311  # nothing is secret here

    def mark(self) -> int:
        self.now_ns += self.draw.randrange(50_000_000)
        return self.now_ns


def test_a_packed_step_of_160_ops_takes_2_kb(tmp_path: Path) -> None:
    packed = RankLogWriter(tmp_path, Run("gpt-175b", "r3", dp_size=1), Rank(17, 0), compress=True)
    with Recorder(packed, clock=Random()) as recorder, recorder.step(1200):
        for place in range(160):
            with recorder.op(
                ("forward-compute", "forward-send", "backward-compute")[place % 3], microbatch=place
            ):
                pass
    (log,) = tmp_path.rglob("rank-*.jsonl.gz")
    assert 1000 < log.stat().st_size < 2000


def test_an_op_that_raises_is_none_and_one_of_a_step_that_is_not_recorded_costs_nothing(
    tmp_path: Path,
) -> None:
    with Recorder(writer(tmp_path), every=2) as recorder:
        with recorder.step(0):
            with pytest.raises(RuntimeError), recorder.op("forward-send"):
                raise RuntimeError
            with recorder.op("forward-compute"):
                pass
        with recorder.step(1):
            assert recorder.op("forward-compute") is recorder.op("forward-send")
    assert [line["op"] for line in lines(tmp_path)] == [["forward-compute"]]


def test_a_step_that_raises_leaves_no_line(tmp_path: Path) -> None:
    with Recorder(writer(tmp_path)) as recorder:
        with pytest.raises(RuntimeError, match="out of memory"), recorder.step(1):
            raise RuntimeError("out of memory")
        train(recorder, range(2, 3))
    assert [line["step"] for line in lines(tmp_path)] == [2]


@pytest.mark.parametrize(
    "broken", ["full disk", "unwritable landing", "clock", "op", SystemExit(1), KeyboardInterrupt()]
)
def test_what_breaks_costs_no_training_and_is_one_warning(
    tmp_path: Path,
    broken: str | BaseException,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorder = Recorder(writer(tmp_path))
    if isinstance(broken, BaseException):
        monkeypatch.setattr(recorder.writer, "write", raises(broken))
    elif broken == "full disk":
        monkeypatch.setattr(os, "write", raises(OSError(28, "No space left on device")))
    elif broken == "unwritable landing":
        (tmp_path / "file").touch()
        recorder.writer.landing = tmp_path / "file"
    elif broken == "clock":
        monkeypatch.setattr(module, "HostClock", raises(ValueError("no clock")))
    else:
        monkeypatch.setattr(Step, "record", raises(ValueError("unknown op")))
    with caplog.at_level(logging.WARNING, WARNINGS), recorder:
        assert train(recorder, range(3)) == 3
        wait_until(lambda: bool(caplog.records))
        assert train(recorder, range(3, 50)) == 47
    first, *last = (record.getMessage() for record in caplog.records)
    assert "training continues" in first
    may_pass = broken in {"full disk", "unwritable landing"}
    assert last == ["rank 0: the last 50 steps were not written"] * may_pass
    assert lines(tmp_path) == []


def test_a_store_that_never_answers_slows_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hangs = threading.Event()
    recorder = Recorder(writer(tmp_path))
    monkeypatch.setattr(recorder.writer, "write", lambda _: hangs.wait(60))
    with caplog.at_level(logging.WARNING, WARNINGS):
        assert train(recorder, range(3 * line_thread.MOST_WAITING)) == 3 * line_thread.MOST_WAITING
        recorder.close(timeout_s=0.01)
    assert not hangs.is_set(), "the training did not wait for the store"
    behind, lost = (record.getMessage() for record in caplog.records)
    assert behind.endswith("steps behind")
    assert lost == f"rank 0: the last {3 * line_thread.MOST_WAITING - 1} steps were not written"
    hangs.set()


def test_the_end_of_a_training_waits_once_for_a_full_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `close` waits for room in the queue, it no longer waits for the thread."""
    hangs = threading.Event()
    waited_s: list[float | None] = []

    def write(*_: object) -> None:
        hangs.wait(60)

    lines_of = line_thread.LineThread("rank 0", "steps", write, lambda _: None)
    for number in range(2 * line_thread.MOST_WAITING):
        lines_of.put(number)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "join", lambda _, timeout=None: waited_s.append(timeout))
        lines_of.close(timeout_s=0.1)
    hangs.set()
    assert waited_s[0] == 0.0


def test_a_store_that_stalls_costs_the_steps_it_did_not_take_and_the_log_counts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recorder, goes_on = Recorder(writer(tmp_path)), threading.Event()
    write = recorder.writer.write

    def stalls(step: Step) -> None:
        goes_on.wait(60)
        write(step)

    monkeypatch.setattr(recorder.writer, "write", stalls)
    with caplog.at_level(logging.WARNING, WARNINGS), recorder:
        train(recorder, range(100))
        goes_on.set()
        wait_until(lambda: len(lines(tmp_path)) >= line_thread.MOST_WAITING)
        train(recorder, range(100, 105))
    found = lines(tmp_path)
    assert len(found) + sum(line.get("left_out", 0) for line in found) == 105
    assert found[-1]["step"] == 104
    assert len(caplog.records) == 1


def test_a_disk_that_was_full_is_written_again_when_it_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, WARNINGS), Recorder(writer(tmp_path)) as recorder:
        with monkeypatch.context() as full:
            full.setattr(os, "write", raises(OSError(28, "No space left on device")))
            train(recorder, range(3))
            wait_until(lambda: recorder._lines._not_written == 3)
        train(recorder, range(3, 5))
    assert [(line["step"], line.get("left_out")) for line in lines(tmp_path)] == [(3, 3), (4, None)]
    assert len(caplog.records) == 1


def test_steps_after_a_close_and_in_a_fork_are_written_too(tmp_path: Path) -> None:
    recorder = Recorder(writer(tmp_path))
    train(recorder, range(1))
    recorder.close()
    train(recorder, range(1, 2))
    child = os.fork()
    if child == 0:
        train(recorder, range(2, 3))
        recorder.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    recorder.close()
    assert sorted(line["step"] for line in lines(tmp_path)) == [0, 1, 2]


def test_a_handler_that_hangs_holds_no_exit_up(tmp_path: Path) -> None:
    code = (
        "import logging, sys, threading\n"
        "from jobs.emitter import line_thread\n"
        "class Hangs(logging.Handler):\n"
        "    def emit(self, record): threading.Event().wait()\n"
        "logging.getLogger().addHandler(Hangs())\n"
        "line_thread.LONGEST_WARNING_S = 0.1\n"
        "line_thread.warn('full')\n"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=PROJECT, timeout=60, check=False).returncode == 0


TERMINATED = """
import signal, sys, threading, time
from jobs.emitter.rank_log_writer import *
from jobs.emitter.recorder import Recorder
handler, slow_s = sys.argv[2], float(sys.argv[3])
if handler == "exits":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
recorder = Recorder(RankLogWriter(sys.argv[1], Run("j", "r", dp_size=1), Rank(0, 0)))
write = recorder.writer.write
recorder.writer.write = lambda step: (time.sleep(slow_s), write(step))
number = 0
while True:
    with recorder.step(number), recorder.op("forward-compute", microbatch=0):
        time.sleep(0.01)
    print(number, flush=True)
    number += 1
    if slow_s and number == 12:
        time.sleep(60)
"""


def terminated(landing: Path, handler: str, slow_s: float, steps: int) -> tuple[int, int, float]:
    """Run a training that gets SIGTERM; return how it ended.

    Returns its exit status, the number of logged steps, and the time from the signal to its end [s].
    """
    command = [sys.executable, "-c", TERMINATED, str(landing), handler, str(slow_s)]
    process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(steps):
        process.stdout.readline()
    process.terminate()
    begun_s = time.monotonic()
    rest = process.communicate(timeout=60)[0]
    return process.returncode, steps + len(rest.splitlines()), time.monotonic() - begun_s


def test_sigterm_costs_no_step_that_had_ended(tmp_path: Path) -> None:
    """After SIGTERM, all completed steps are in the log, even without a Python handler for the signal."""
    status, steps, _ = terminated(tmp_path, "none", 0, 30)
    assert status == -signal.SIGTERM
    assert len(lines(tmp_path)) >= steps - 1  # the last step may not have reached the writer's thread


def test_lines_that_a_slow_store_is_behind_are_written_when_a_handler_of_sigterm_exits(
    tmp_path: Path,
) -> None:
    status, steps, took_s = terminated(tmp_path, "exits", 0.1, 12)
    assert (status, steps) == (7, 12)
    assert [line["step"] for line in lines(tmp_path)] == list(range(12))
    assert took_s < line_thread.LONGEST_EXIT_S + 1


def test_a_dead_store_holds_the_exit_up_no_longer_than_that(tmp_path: Path) -> None:
    status, _, took_s = terminated(tmp_path, "exits", 60, 12)
    assert status == 7
    assert took_s < 2 + line_thread.LONGEST_WARNING_S + 2
    assert lines(tmp_path) == []


class FakeEvent:
    """A substitute for a CUDA event, with a counter as its clock."""

    now_ms = 0.0

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing
        self.at_ms = 0.0

    def record(self) -> None:
        FakeEvent.now_ms += 1
        self.at_ms = FakeEvent.now_ms

    def elapsed_time(self, end: "FakeEvent") -> float:
        return end.at_ms - self.at_ms


def test_a_gpu_is_waited_for_between_steps_alone(tmp_path: Path) -> None:
    calls: list[str] = []
    cuda = SimpleNamespace(Event=FakeEvent, synchronize=lambda: calls.append("wait"))
    with Recorder(writer(tmp_path), every=2, clock=CudaClock(cuda)) as recorder:
        for number in range(4):
            with recorder.step(number):
                calls.append("step")
                with recorder.op("forward-compute"), recorder.op("gc"):
                    pass
                calls.append("end")
    assert calls == ["wait", "step", "end", "wait", "step", "end"] * 2
    first = lines(tmp_path)[0]
    assert (first["op"], first["start_us"], first["duration_us"]) == (
        ["gc", "forward-compute"],
        [2000.0, 1000.0],
        [1000.0, 3000.0],
    )


@pytest.mark.parametrize(("given", "logged"), [(None, "NVIDIA H100"), ("mine", "mine")])
def test_lines_name_the_gpu_that_torch_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None, logged: str
) -> None:
    cuda = SimpleNamespace(
        Event=FakeEvent,
        synchronize=lambda: None,
        is_available=lambda: True,
        get_device_name=lambda: "NVIDIA H100",
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    log = writer(tmp_path)
    log.rank = replace(log.rank, gpu_type=given)
    with Recorder(log) as recorder, recorder.step(0), recorder.op("forward-compute"):
        pass
    assert [each["gpu_type"] for each in lines(tmp_path)] == [logged]


@pytest.mark.parametrize("does", [ValueError("no place for logs"), SystemExit(1), "hangs"])
def test_a_handler_of_the_job_that_fails_on_the_warning_ends_no_training(
    tmp_path: Path, does: BaseException | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, goes_on = Recorder(writer(tmp_path)), threading.Event()
    called, returned = [], []

    def emit(record: logging.LogRecord) -> None:
        called.append(record)
        if isinstance(does, BaseException):
            raise does
        goes_on.wait(5)
        returned.append(record)

    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", emit)
    monkeypatch.setattr(logging.getLogger(WARNINGS), "handlers", [handler])
    monkeypatch.setattr(line_thread, "LONGEST_WARNING_S", 0.01)
    monkeypatch.setattr(module, "HostClock", raises(ValueError("no clock")))
    assert train(recorder, range(20)) == 20
    recorder.close()
    assert (len(called), returned) == (1, []), "the handler ran once, and the recorder did not wait"
    goes_on.set()


def raises(error: BaseException) -> Callable[..., None]:
    def call(*_: object, **__: object) -> None:
        raise error

    return call


def wait_until(holds: Callable[[], bool]) -> None:
    for _ in range(1000):
        if holds():
            return
        time.sleep(0.01)


def test_every_next_of_a_loader_is_a_load_of_the_step_s_next_microbatch(tmp_path: Path) -> None:
    def slow() -> Iterator[int]:
        for number in range(6):
            time.sleep(0.005 * (number == 4))
            yield number

    with Recorder(writer(tmp_path), every=2) as recorder:
        batches = recorder.loads(slow())
        for number in range(3):
            with recorder.step(number):
                for microbatch in range(2):
                    assert next(batches) == 2 * number + microbatch
                    with recorder.op("forward-compute", microbatch=microbatch):
                        pass
        with pytest.raises(StopIteration):
            next(batches)
    first, second = lines(tmp_path)
    for line in (first, second):
        ops = list(zip(line["op"], line["microbatch"], strict=True))
        assert ops == [(name, each) for name in ("forward-compute", "data-load") for each in range(2)]
    long_us = dict(zip(second["microbatch"][2:], second["duration_us"][2:], strict=True))
    assert long_us[0] > 5000
    starts_us, ends_us = ([line["start_us"][place] for line in (first, second)] for place in (2, 3))
    assert all(start < end for start, end in zip(starts_us, ends_us, strict=True))


def test_what_a_loader_is_besides_stays_and_its_errors_too(tmp_path: Path) -> None:
    class Broken:
        sampler = "all of them"

        def __next__(self) -> int:
            raise OSError("no such file")

    with Recorder(writer(tmp_path)) as recorder:
        batches = recorder.loads(Broken())
        assert batches.sampler == "all of them"
        with pytest.raises(OSError, match="no such file"):
            next(batches)
        assert list(recorder.loads([1, 2])) == [1, 2], "data loads outside of steps are passed on"


def test_loads_are_timed_by_the_host_beside_a_gpu(tmp_path: Path) -> None:
    """Data loads are timed on the host, without CUDA events, even if ops are timed on a GPU."""
    cuda = SimpleNamespace(Event=FakeEvent, synchronize=lambda: None)
    with Recorder(writer(tmp_path), clock=CudaClock(cuda)) as recorder, recorder.step(0):
        next(recorder.loads([0]))
        with recorder.op("forward-compute"):
            pass
    (line,) = lines(tmp_path)
    assert line["op"] == ["forward-compute", "data-load"]
    assert (line["start_us"][0], line["duration_us"][0]) == (1000.0, 1000.0), "the load used no CUDA event"
