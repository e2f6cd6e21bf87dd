"""Test the command timeline: which step it exports, what it writes, and its errors."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.export_timeline import main
from jobs.reading.trace_file import file_name
from schemas.unit import Unit
from schemas.vocabulary import JOBS, RANK_STEPS
from tests.jobs.conftest import Ask, Said
from tests.jobs.reading.warehouses import SIZES, replicas, warehouse_of
from tests.support.examples import DAY, table_rows

Trace = Callable[..., Said]
KEY: dict[str, object] = {"job_id": 'llm "a"/ü', "run_id": "r3", "log_date": DAY}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A job with three recorded steps: step 9 is the slowest, and step 11 lacks a worker."""
    lines = [*replicas(2, 7), *replicas(3, 9), *replicas(9, 11)[:1]]
    rows = [KEY | line for line in lines]
    tables = {JOBS: table_rows(JOBS, [KEY | SIZES]), RANK_STEPS: table_rows(RANK_STEPS, rows)}
    return warehouse_of(tmp_path_factory.mktemp("warehouse"), **tables).root


@pytest.fixture
def trace(ask: Ask) -> Trace:
    """Function that runs the command timeline on the job in `warehouse` with the given arguments."""
    return lambda *arguments: ask(main, "--job-id", KEY["job_id"], *arguments)


def test_a_step_is_written_and_reported(trace: Trace, tmp_path: Path) -> None:
    target = tmp_path / "trace.json"
    first, second, shown, third = trace("--step", "7", "--out", target).out.splitlines()
    assert first == 'llm "a"/ü, run r3, 2026-01-05, step 7: 4 ops of 2 workers'
    assert second.startswith("step time: 3.0 s recorded, 3.0 s replayed, 2.75 s ideal (pooled-mean-median);")
    assert shown == "shown: 2 workers in 8 lanes"
    written = json.loads(target.read_text())
    assert third.startswith(f"{target}: {len(written['traceEvents'])} events, ")
    about = written["otherData"]
    assert (about["job_id"], about["step"], about["recorded_step_s"]) == (KEY["job_id"], 7, 3.0)
    slow = [each for each in written["traceEvents"] if each.get("args", {}).get("host") == "node-1"]
    assert {each["args"]["rank"] for each in slow} == {100}


def test_the_slowest_step_is_packed_the_same_each_time(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert trace().status == 0
    (written,) = tmp_path.iterdir()
    assert written.name == "timeline-llm_a_ü-r3-2026-01-05-step-9.json.gz"
    before = written.read_bytes()
    assert trace().status == 0
    assert written.read_bytes() == before
    assert json.loads(gzip.decompress(before))["otherData"]["step"] == 9


def test_one_worker_is_shown_by_its_rank_and_the_others_are_counted(trace: Trace, tmp_path: Path) -> None:
    target = tmp_path / "trace.json"
    said = trace("--worker", "100", "--out", target).out
    assert "shown: 1 worker in 4 lanes; 1 other left out: --worker DP,PP" in said
    names = [
        each["args"]["name"]
        for each in json.loads(target.read_text())["traceEvents"]
        if each["name"] == "thread_name"
    ]
    assert len(names) == 3 + 4
    assert all(name.startswith("node-1 1,0 ") for name in names[3:])


def test_a_name_of_any_text_is_a_file_name() -> None:
    name = file_name(Unit(DAY, "../../x\n" + "y" * 500, "0"), 3)
    assert "/" not in name
    assert "\n" not in name
    assert len(name) < 255
    assert name.endswith(".json.gz")
