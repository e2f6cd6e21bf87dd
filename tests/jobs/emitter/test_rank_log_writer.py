"""What is written is rank-log/1 and equals what went in, whatever happens to the writing process."""

import errno
import gzip
import json
import os
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from jobs.emitter.rank_log_writer import Rank, RankLogWriter, Run, Step, finish_day, write_manifest
from jobs.landing.formats.rank_log_line import read_line
from jobs.runtime.project import PROJECT
from schemas.vocabulary import OP_TYPES

DAY = date(2026, 1, 5)
T0_US = 1_767_600_000_000_000  # 08:00 on that day, UTC
RUN = Run("gpt-175b", "r3", dp_size=8, pp_size=4, fields={"team": "speech", "labels": {"a": "b"}})
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
def test_round_trip(tmp_path: Path, *, compress: bool) -> None:
    """Every op type and floats that need all their digits come back bit by bit."""
    ops = [
        (name, 15480.5 + 0.1 * place, 1 / (3 + place), place, -place) for place, name in enumerate(OP_TYPES)
    ]
    with RankLogWriter(tmp_path, RUN, RANK, compress=compress) as log:
        with log.step(1200, T0_US) as step:
            for name, start_us, duration_us, microbatch, chunk in ops:
                step.record(name, start_us, duration_us, microbatch=microbatch, model_chunk=chunk)
        with log.step(1201, T0_US + 5):
            pass
    first, second = (json.loads(line) for line in _lines(log))
    columns = list(zip(*ops, strict=True))
    assert first == {
        "format": "rank-log/1",
        "job_id": "gpt-175b",
        "run_id": "r3",
        "rank": 17,
        "dp_rank": 4,
        "pp_rank": 1,
        "tp_rank": 0,
        "cp_rank": 0,
        "host": "node-0123",
        "gpu": 3,
        "step": 1200,
        "t0_us": T0_US,
        "op": list(columns[0]),
        "start_us": list(columns[1]),
        "duration_us": list(columns[2]),
        "microbatch": list(columns[3]),
        "model_chunk": list(columns[4]),
    }
    assert (second["step"], second["op"]) == (1201, [])


def test_the_strict_reader_accepts_every_line(tmp_path: Path) -> None:
    """Ingest reads back what went in, from a line with all fields and from one with only those required."""
    sizes = {name: size for name, size in RUN.manifest().items() if name.endswith("_size")}
    unit = {"job_id": "gpt-175b", "run_id": "r3", **sizes}
    for rank in (RANK, Rank(0, dp_rank=0, host=None)):
        with RankLogWriter(tmp_path, RUN, rank) as log, log.step(7, T0_US) as step:
            step.record("forward-recv", 0, 5.5)
            step.record("forward-compute", 5.5, 1 / 3, microbatch=1)
        row = read_line(_lines(log)[0], unit, nesting=2)
        assert (row["step"], row["t0_us"], row["rank"], row["host"]) == (7, T0_US, rank.rank, rank.host)
        assert [OP_TYPES[code] for code in row["op"]] == ["forward-recv", "forward-compute"]
        assert (row["start_us"], row["duration_us"]) == ([0.0, 5.5], [5.5, 1 / 3])
        assert (row["microbatch"], row["model_chunk"]) == ([-1, 1], [0, 0])


def test_lies_where_the_contract_says(tmp_path: Path) -> None:
    _write(tmp_path, 1)
    finish_day(tmp_path, DAY)
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    folder = "log_date=2026-01-05/job_id=gpt-175b/run_id=r3"
    assert found == ["log_date=2026-01-05/_SUCCESS", f"{folder}/job.json", f"{folder}/rank-00017.jsonl"]


def test_manifest(tmp_path: Path) -> None:
    sizes = {"dp_size": 8, "pp_size": 4, "tp_size": 1, "cp_size": 1, "vpp_size": 1, "world_size": 32}
    ids = {"job_id": "gpt-175b", "run_id": "r3"}
    path = write_manifest(tmp_path, RUN, DAY)
    assert json.loads(path.read_text()) == {**ids, **sizes, "team": "speech", "labels": {"a": "b"}}
    assert [found.name for found in path.parent.iterdir()] == ["job.json"]


def test_an_existing_manifest_stays(tmp_path: Path) -> None:
    """A rank that starts again does not take back the GPU-hours stated since."""
    path = write_manifest(tmp_path, Run("gpt-175b", "r3", dp_size=8, fields={"gpu_hours": 12.0}), DAY)
    _write(tmp_path, 1)
    assert json.loads(path.read_text())["gpu_hours"] == 12.0


@pytest.mark.parametrize("compress", [False, True])
def test_a_second_writer_continues_the_log(tmp_path: Path, *, compress: bool) -> None:
    _write(tmp_path, 1, 2, compress=compress)
    log = _write(tmp_path, 3, compress=compress)
    assert [json.loads(line)["step"] for line in _lines(log)] == [1, 2, 3]


@pytest.mark.parametrize("torn_bytes", [1, 2, 100])
@pytest.mark.parametrize("compress", [False, True])
def test_a_torn_last_line_costs_only_itself(tmp_path: Path, torn_bytes: int, *, compress: bool) -> None:
    log = _write(tmp_path, 1, 2, compress=compress)
    path = log.path(DAY)
    path.write_bytes(path.read_bytes()[:-torn_bytes])
    _write(tmp_path, 3, 4, compress=compress)
    good: list[dict[str, Any]] = []
    for line in _lines(log):
        try:
            good.append(json.loads(line))
        except json.JSONDecodeError:
            assert not compress  # the torn line stays visible in plain text
    expected = [1, 2, 3, 4] if torn_bytes == 1 and not compress else [1, 3, 4]
    assert [record["step"] for record in good] == expected


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


def test_a_new_day_is_a_new_file(tmp_path: Path) -> None:
    with RankLogWriter(tmp_path, RUN, RANK) as log:
        for number, t0_us in enumerate(
            [T0_US, T0_US + 16 * 3600 * 1_000_000 - 1, T0_US + 16 * 3600 * 1_000_000]
        ):
            with log.step(number, t0_us):
                pass
    assert len(_lines(log)) == 2
    assert len(log.path(date(2026, 1, 6)).read_text().splitlines()) == 1
    assert (log.path(date(2026, 1, 6)).parent / "job.json").exists()


def test_a_fixed_date_holds_for_all_steps(tmp_path: Path) -> None:
    with RankLogWriter(tmp_path, RUN, RANK, log_date=DAY) as log:
        log.write(Step(1, T0_US + 10**12))
    assert len(_lines(log)) == 1


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
        full.setattr("jobs.emitter.rank_log_writer._write_whole", fills_the_disk)
        with pytest.raises(OSError, match="no space"):
            log.write(Step(2, T0_US))
    log.write(Step(3, T0_US))
    log.close()
    assert [json.loads(each)["step"] for each in _lines(log)] == [1, 3]
