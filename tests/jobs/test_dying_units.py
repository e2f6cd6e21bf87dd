"""If reading or simulating a unit kills the worker process, that unit fails and all others are done."""

from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from jobs.reading.database import Database
from jobs.reading.duckdb_reader import DuckDbReader
from jobs.runtime.project import PROJECT
from tests.support.commands import start
from tests.support.line_cases import line
from tests.support.night import DAY, Landing

pytestmark = pytest.mark.slow

KILLERS: Final = """
import os, signal
import jobs.landing.content as content, udfs.simulate.unit_batches as batches
opened, simulated = content.UnitFiles.content, batches.simulate_job
def kill_at(job_id, name):
    if job_id == name:
        os.kill(os.getpid(), signal.SIGKILL)
def killing(files, file):
    kill_at(file.job_id, "kills-ingest")
    return opened(files, file)
def simulate(rows, facts, *more, **named):
    kill_at(facts["job_id"], "kills-simulate")
    return simulated(rows, facts, *more, **named)
content.UnitFiles.content, batches.simulate_job = killing, simulate
"""
"""A sitecustomize module, which each Python worker of Spark imports first; it kills at two job ids."""

JOBS: Final = ("good-1", "good-2", "good-3", "kills-ingest", "kills-simulate")
KILLED: Final = "it ended its process: killed by SIGKILL, with"


def test_a_unit_that_kills_its_worker_costs_itself(tmp_path: Path) -> None:
    made = Landing(tmp_path / "landing")
    ops = {"op": ["forward-compute", "backward-compute"], "start_us": [0, 900], "duration_us": [900, 900]}
    ops |= {"microbatch": [0, 0], "model_chunk": [0, 0]}
    for job_id in JOBS:
        made.manifest(job_id, pp_size=1, world_size=2)
        for rank in range(2):
            place = {"job_id": job_id, "rank": rank, "dp_rank": rank, "pp_rank": 0}
            lines = [line(step=step, **place, **ops) for step in range(12)]
            made.log(job_id, f"rank-{rank:05d}.jsonl", lines)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "sitecustomize.py").write_text(KILLERS)
    settings = tmp_path / "settings.toml"
    settings.write_text(
        '[spark]\nmaster = "local[2]"\n[spark.conf]\n'
        f'"spark.executorEnv.PYTHONPATH" = "{tmp_path / "code"}:{PROJECT}"\n'
    )
    places = ["--landing", str(made.root), "--warehouse", str(tmp_path / "w"), "--settings", str(settings)]
    done = start([str(PROJECT / ".venv/bin/straggler"), "night", "--log-date", str(DAY), *places])
    assert done.returncode == 0, done.stderr
    last = done.stderr + done.stdout
    for job_id in JOBS[3:]:
        assert f"WARNING jobs.night.publish: {DAY}: job {job_id}, run r3 failed: {KILLED}" in last
    reader = DuckDbReader(Database(str(tmp_path / "w")))
    found = reader.ask("SELECT job_id, status, status_detail FROM job_slowdown ORDER BY job_id").rows
    assert [row[:2] for row in found] == [(name, "failed" if name[0] == "k" else "analysed") for name in JOBS]
    assert all(str(row[2]).startswith(KILLED) for row in found[3:])
    files = reader.ask("SELECT job_id, lines, rows, rejects FROM source_files").rows
    wanted = [(name, None, 0, 1) if name == "kills-ingest" else (name, 12, 12, 0) for name in JOBS]
    assert Counter(files) == Counter([*wanted, *wanted])
    rejects = reader.ask("SELECT job_id, reason, count(*) FROM rejects GROUP BY ALL").rows
    assert rejects == [("kills-ingest", "unreadable_file", 2)]
    reader.close()
