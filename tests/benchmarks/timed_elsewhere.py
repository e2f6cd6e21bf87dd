"""Simulate jobs by the checkout that is on PYTHONPATH, for tests.benchmarks.against.

The script reads lines "NAME 0" and, for a simulation with diagnosis, "NAME 1"; it answers each with the CPU
time of simulate_job. It imports no module of tests, because those of the other checkout may differ.
"""

import json
import sys
import time
from pathlib import Path

import pyarrow as pa

from udfs.what_if import SimulationSettings, simulate_job


def answer(folder: Path) -> None:
    """Simulate the jobs whose names arrive on standard input, one a line; print each one's CPU time. [s]

    folder : for each job NAME.arrow, the rows of rank_steps, and NAME.json, the manifest
    """
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
