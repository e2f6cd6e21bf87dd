"""Written logs are valid rank-log/1 and equal the recorded values, even if the writing process dies."""

import errno
import gzip
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from datetime import date
from pathlib import Path

import pytest

from jobs.emitter.rank_log_writer import Rank, RankLogWriter, Run, Step, finish_day, write_manifest
from jobs.landing.formats.rank_log_line import read_line
from jobs.landing.formats.rows import Bounds
from jobs.runtime.project import PROJECT
from schemas.vocabulary import OP_TYPES

DAY = date(2026, 1, 5)
T0_US = 1_767_600_000_000_000  # 08:00 on that day, UTC
RUN = Run("gpt-175b", "r3", dp_size=8, pp_size=4, fields={"team": "speech", "labels": {"a": "b"}})
SIZES = {"dp_size": 8, "pp_size": 4, "tp_size": 1, "cp_size": 1, "vpp_size": 1, "world_size": 32}
RANK = Rank(17, dp_rank=4, pp_rank=1, host="node-0123", gpu=3)


def _lines(log: RankLogWriter) -> list[bytes]:
    data = log.path(DAY).read_bytes()
    return (gzip.decompress(data) if log.compress else data).splitlines(keepends=True)


def _write(landing: Path, *steps: int, compress: bool = False) -> RankLogWriter:
    with RankLogWriter(landing, RUN, RANK, compress=compress) as log:
        for number in steps:
            with log.step(number, T0_US + number) as step:
                step.record("forward-compute", 0.1 + number, 1e-7, microbatch=2, model_chunk=1)
    return log


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("rank", [RANK, Rank(0, dp_rank=0, host=None), Rank(1, 0, gpu_type="H100")])
def test_the_strict_reader_reads_what_was_written(tmp_path: Path, rank: Rank, *, compress: bool) -> None:
    ops = [
        (name, 15480.5 + 0.1 * place, 1 / (3 + place), place, -place) for place, name in enumerate(OP_TYPES)
    ]
    with RankLogWriter(tmp_path, RUN, rank, compress=compress) as log:
        with log.step(1200, T0_US) as step:
            for name, start_us, duration_us, microbatch, chunk in ops:
                step.record(name, start_us, duration_us, microbatch=microbatch, model_chunk=chunk)
        with log.step(1201, T0_US + 5):
            pass
    unit = {"job_id": "gpt-175b", "run_id": "r3", **SIZES}
    first, second = (read_line(line, unit, Bounds(nesting=2)) for line in _lines(log))
    assert first.pop("op") == list(range(len(OP_TYPES)))
    columns = list(zip(*ops, strict=True))[1:]
    lists = ("start_us", "duration_us", "microbatch", "model_chunk")
    assert [first.pop(name) for name in lists] == [list(values) for values in columns]
    stated = {name: value for name, value in asdict(rank).items() if name != "gpu_type" or value}
    assert first == {**stated, "step": 1200, "t0_us": T0_US}
    assert (second["step"], second["op"]) == (1201, [])


def test_lies_where_the_contract_says(tmp_path: Path) -> None:
    _write(tmp_path, 1)
    assert finish_day(tmp_path, DAY) == finish_day(tmp_path, str(DAY))
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    folder = "log_date=2026-01-05/job_id=gpt-175b/run_id=r3"
    assert found == ["log_date=2026-01-05/_SUCCESS", f"{folder}/job.json", f"{folder}/rank-00017.jsonl"]
    manifest = {"job_id": "gpt-175b", "run_id": "r3", **SIZES, "team": "speech", "labels": {"a": "b"}}
    assert json.loads((tmp_path / folder / "job.json").read_text()) == manifest


def test_an_existing_manifest_stays(tmp_path: Path) -> None:
    """A restarted rank does not overwrite job.json, because GPU-hours may have been added to it."""
    path = write_manifest(tmp_path, Run("gpt-175b", "r3", dp_size=8, fields={"gpu_hours": 12.0}), DAY)
    _write(tmp_path, 1)
    assert json.loads(path.read_text())["gpu_hours"] == 12.0


@pytest.mark.parametrize("torn_bytes", [0, 1, 2, 100])
@pytest.mark.parametrize("compress", [False, True])
def test_a_second_writer_goes_on_and_a_torn_last_line_costs_itself(
    tmp_path: Path, torn_bytes: int, *, compress: bool
) -> None:
    path = _write(tmp_path, 1, 2, compress=compress).path(DAY)
    path.write_bytes(path.read_bytes()[: path.stat().st_size - torn_bytes])
    log = _write(tmp_path, 3, 4, compress=compress)
    steps = []
    for line in _lines(log):
        try:
            steps.append(json.loads(line)["step"])
        except json.JSONDecodeError:
            assert not compress  # the torn line stays visible in plain text
    is_whole = torn_bytes == 0 or (torn_bytes == 1 and not compress)
    assert steps == ([1, 2, 3, 4] if is_whole else [1, 3, 4])


def test_a_killed_process_loses_no_finished_step(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from jobs.emitter.rank_log_writer import *\n"
        f"log = RankLogWriter(sys.argv[1], Run('j', 'r', dp_size=1), Rank(0, 0, host=None))\n"
        "for number in range(50):\n"
        f"    with log.step(number, {T0_US}) as step:\n"
        "        step.record('gc', 0, 0)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=PROJECT, check=False)
    assert done.returncode < 0
    log = next(tmp_path.rglob("rank-00000.jsonl"))
    assert [json.loads(line)["step"] for line in log.read_text().splitlines()] == list(range(50))
    assert "host" not in json.loads(log.read_text().splitlines()[0])


@pytest.mark.parametrize("how", ["removed", "rotated"])
def test_a_log_that_is_gone_from_its_place_is_begun_again_there(tmp_path: Path, how: str) -> None:
    with RankLogWriter(tmp_path, RUN, RANK) as log:
        path = log.path(DAY)
        for number in range(2):
            with log.step(number, T0_US + number):
                pass
            if number == 0 and how == "removed":
                shutil.rmtree(path.parent)
            elif number == 0:
                path.rename(path.with_name("kept"))
    assert [json.loads(line)["step"] for line in _lines(log)] == [1]
    assert (path.parent / "job.json").exists()


def test_a_new_day_is_a_new_file_unless_the_day_is_fixed(tmp_path: Path) -> None:
    last_us = T0_US + 16 * 3600 * 1_000_000 - 1  # the last moment of that day
    for fixed in (None, DAY):
        with RankLogWriter(tmp_path, RUN, RANK, log_date=fixed) as log:
            for number, t0_us in enumerate([T0_US, last_us, last_us + 1]):
                log.write(Step(number, t0_us))
        assert len(_lines(log)) == (2 if fixed is None else 5)
        assert len(log.path(date(2026, 1, 6)).read_text().splitlines()) == 1
        assert (log.path(date(2026, 1, 6)).parent / "job.json").exists()


def test_a_step_that_fails_leaves_no_line(tmp_path: Path) -> None:
    with RankLogWriter(tmp_path, RUN, RANK) as log:
        with pytest.raises(RuntimeError), log.step(1, T0_US):
            raise RuntimeError("out of memory")
        with log.step(2, T0_US):
            pass
    assert [json.loads(line)["step"] for line in _lines(log)] == [2]


def test_the_host_clock_times_ops(tmp_path: Path) -> None:
    started = time.perf_counter_ns()
    with RankLogWriter(tmp_path, RUN, RANK, log_date=DAY) as log, log.step(1) as step:
        with step.op("gc"):
            pass
        with step.op("forward-compute", microbatch=3, model_chunk=1):
            time.sleep(0.002)
        elapsed_us = (time.perf_counter_ns() - started) / 1000
    record = json.loads(_lines(log)[0])
    assert record["op"] == ["gc", "forward-compute"]
    assert record["microbatch"] == [-1, 3]
    (first_start, second_start), (first_us, second_us) = record["start_us"], record["duration_us"]
    assert (
        0 <= first_start <= first_start + first_us <= second_start <= second_start + second_us <= elapsed_us
    )
    assert second_us >= 2000


@pytest.mark.parametrize(
    ("op", "start_us", "duration_us", "complaint"),
    [
        ("forward", 0, 1, "unknown op 'forward'"),
        ("gc", -0.1, 1, "start_us of gc is -0.1"),
        ("gc", 0, float("nan"), "duration_us of gc is nan"),
        ("gc", float("inf"), 1, "start_us of gc is inf"),
    ],
)
def test_what_ingest_would_reject_is_refused_at_once(
    op: str, start_us: float, duration_us: float, complaint: str
) -> None:
    step = Step(1, T0_US)
    with pytest.raises(ValueError, match=complaint):
        step.record(op, start_us, duration_us)
    assert all(column == [] for column in step.columns.values())


@pytest.mark.parametrize("name", ["", "a/b", "a b", "gpt:175b", "größe"])
def test_ids_that_folders_cannot_hold_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a job or run"):
        Run(name, "r1", dp_size=1)


@pytest.mark.parametrize("compress", [False, True])
def test_a_line_that_does_not_fit_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, compress: bool
) -> None:
    def fills_the_disk(descriptor: int, data: bytes) -> None:
        os.write(descriptor, data[:20])
        raise OSError(errno.ENOSPC, "no space")

    log = _write(tmp_path, 1, compress=compress)
    with monkeypatch.context() as full:
        full.setattr("jobs.emitter.rank_log_writer.write_whole", fills_the_disk)
        with pytest.raises(OSError, match="no space"):
            log.write(Step(2, T0_US))
    log.write(Step(3, T0_US))
    log.close()
    assert [json.loads(each)["step"] for each in _lines(log)] == [1, 3]
