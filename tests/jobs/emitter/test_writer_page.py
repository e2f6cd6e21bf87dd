"""The code on the emitter's page runs as printed and writes valid lines."""

import json
import re
import time
from pathlib import Path
from typing import Any

from jobs.runtime.project import PROJECT

PAGE = PROJECT / "jobs" / "emitter" / "README.md"
SLEPT_US = 1000.0


def _printed_code(landing: Path) -> list[str]:
    _, page = PAGE.read_text().split("\n## Writing rank logs\n")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    here = {"/data/landing": str(landing), "straggler_emitter": "jobs.emitter"}
    for printed, meant in here.items():
        blocks = [block.replace(printed, meant) for block in blocks]
    return blocks


def test_the_printed_code_writes_what_was_run(tmp_path: Path) -> None:
    loop, end_of_day = _printed_code(tmp_path)
    assert len(loop.split("\n\n", 1)[1].splitlines()) <= 10, "at most ten lines to add"
    names: dict[str, Any] = {"first_step": 98, "last_step": 103}

    def train_step() -> None:
        for microbatch in range(2):
            with names["recorder"].op("forward-compute", microbatch=microbatch, model_chunk=1):
                time.sleep(0.001)

    names["train_step"] = train_step
    begun_s = time.monotonic()
    exec(loop, names)  # noqa: S102  # our own page
    most_us = 1e6 * (time.monotonic() - begun_s)
    path = next(tmp_path.rglob("rank-00017.jsonl"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["step"] for line in lines] == [100, 101, 102]
    for line in lines:
        assert (line["op"], line["microbatch"], line["model_chunk"]) == (
            ["forward-compute"] * 2,
            [0, 1],
            [1, 1],
        )
        assert all(SLEPT_US <= duration < most_us for duration in line["duration_us"])
        assert line["start_us"][1] >= line["start_us"][0] + line["duration_us"][0]
    log_date = path.parts[-4].removeprefix("log_date=")
    assert "2026-01-05" in end_of_day
    exec(end_of_day.replace("2026-01-05", log_date), {**names})  # noqa: S102  # our own page
    manifest = json.loads((path.parent / "job.json").read_text())
    assert (manifest["gpu_hours"], manifest["team"], manifest["world_size"]) == (3072.0, "speech", 128)
    assert (tmp_path / f"log_date={log_date}" / "_SUCCESS").exists()


def test_the_printed_line_is_what_the_writer_writes() -> None:
    printed = re.search(r"```json\n(\{.*?\})\n```", PAGE.read_text(), re.DOTALL)
    assert printed is not None
    record = json.loads(printed.group(1))
    assert record["format"] == "rank-log/1"
    assert {len(record[name]) for name in ("op", "start_us", "duration_us", "microbatch", "model_chunk")} == {
        2
    }
