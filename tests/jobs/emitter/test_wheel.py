"""The emitter's wheel works in an environment without this project and its dependencies."""

import os
import subprocess
import sys
import venv
from pathlib import Path

from jobs.emitter.rank_log_writer import OP_NAMES, RANK_LOG_FORMAT, RUN_EVENTS_FORMAT
from jobs.landing.formats.rank_log_line import read_line
from jobs.landing.formats.rows import Bounds
from jobs.runtime.package import write_wheel
from schemas import vocabulary

PROGRAM = """
import sys
from straggler_emitter import Rank, RankLogWriter, Recorder, Run
with Recorder(RankLogWriter(sys.argv[1], Run("j", "r", dp_size=1), Rank(0, 0))) as recorder:
    for number in range(3):
        with recorder.step(number), recorder.op("forward-compute", microbatch=1):
            pass
import straggler_emitter.megatron
print(straggler_emitter.__file__)
"""


def test_it_installs_without_anything_else_and_writes_a_log(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path / "dist")
    venv.create(tmp_path / "image", with_pip=False)
    python = tmp_path / "image" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index"]
    subprocess.run([*pip, str(wheel)], check=True)
    command = [str(python), "-I", "-c", PROGRAM, str(tmp_path / "landing")]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=tmp_path, env={"PATH": os.defpath}
    )
    assert str(tmp_path / "image") in done.stdout
    (log,) = (tmp_path / "landing").rglob("rank-00000.jsonl")
    sizes = dict.fromkeys(("dp_size", "pp_size", "tp_size", "cp_size", "vpp_size", "world_size"), 1)
    unit = {"job_id": "j", "run_id": "r", **sizes}
    rows = [read_line(line, unit, Bounds(nesting=2)) for line in log.read_bytes().splitlines()]
    assert [(row["step"], row["op"], row["microbatch"]) for row in rows] == [(n, [0], [1]) for n in range(3)]


def test_the_same_code_gives_the_same_bytes(tmp_path: Path) -> None:
    assert write_wheel(tmp_path / "a").read_bytes() == write_wheel(tmp_path / "b").read_bytes()


def test_its_words_are_those_of_the_warehouse() -> None:
    """The emitter's op types equal the warehouse's, in the same order, because their positions are stored."""
    assert (RANK_LOG_FORMAT, OP_NAMES) == (vocabulary.RANK_LOG_FORMAT, vocabulary.OP_TYPES)
    assert RUN_EVENTS_FORMAT == vocabulary.RUN_EVENTS_FORMAT
