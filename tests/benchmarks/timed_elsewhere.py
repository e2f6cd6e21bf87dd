"""Simulate jobs by the checkout that is on PYTHONPATH, as tests.benchmarks.against asks.

Reads lines "NAME 0" or "NAME 1", with diagnosis, and answers each with the CPU time that simulate_job took.
Imports nothing of the tests: another checkout may have other ones.
"""

import json
import sys
import time
from pathlib import Path

import pyarrow as pa

from udfs.what_if import SimulationSettings, simulate_job


def answer(folder: Path) -> None:
    """Read names of jobs from standard input; simulate each job, and print its CPU time. [s]"""
    jobs = {}
    for path in folder.glob("*.arrow"):
        with pa.ipc.open_file(path) as file:
            jobs[path.stem] = file.read_all(), json.loads(path.with_suffix(".json").read_text())
    for line in sys.stdin:
        name, diagnosed = line.split()
        rank_steps, manifest = jobs[name]
        settings = SimulationSettings(diagnosed=diagnosed == "1")
        started_s = time.process_time()
        simulate_job(rank_steps, manifest, settings)
        print(time.process_time() - started_s, flush=True)


if __name__ == "__main__":
    answer(Path(sys.argv[1]))
