"""A landing that is made to fill the memory is read by a process with little memory, without an error."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from jobs.runtime.project import PROJECT
from tests.support.line_cases import GOOD, line
from tests.support.night import DAY, Landing

pytestmark = pytest.mark.slow

MB: Final = 1 << 20
MOST_MB: Final = 1300
"""Limit of the address space; libraries and stacks take half. Files that are read whole would exceed it."""
MANIFESTS: Final = 50
"""Number of manifests of each kind. With all its hosts, iterations or defects, a row of jobs takes 3 MB."""
MOST_OF_MANIFESTS_MB: Final = 350
"""Limit of resident memory [MB]: 160 are used now; 200 rows of jobs took 600 before they were shortened."""

LAND: Final = """
import json, re, sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast
from jobs.landing.files import Landing
from jobs.landing.formats.rows import Bounds
from jobs.landing.read_landing import Where, read_landing
from tests.jobs.landing.land import OneWorker
from tests.support.night import DAY
with TemporaryDirectory() as staging:
    landing = Landing(sys.argv[1], [DAY])
    landed = read_landing(OneWorker(), landing, Where(sys.argv[1], staging, "run", Bounds()))
    jobs = landed.jobs.select(["job_id", "manifest_status"]).to_pylist()
    found = {row["job_id"]: [row["manifest_status"], 0, 0, 0] for row in jobs}
for each in landed.accounts:
    for file in each.files:
        counted = file.lines or 0, file.rows, file.rejects
        found[each.unit.job_id][1:] = map(sum, zip(found[each.unit.job_id][1:], counted))
# Not ru_maxrss, which also counts the memory of the process that this one was forked from.
peak_mb = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024
print(json.dumps([found, landing.misplaced_count, peak_mb]))
"""


def landed(landing: Landing) -> tuple[dict[str, list[object]], int, int]:
    """Read a landing in a process with little memory; return counts by job, misplaced entries, peak memory.

    Returns the status and the counts of lines, stored rows and rejects of each job, the number of misplaced
    entries, and the peak memory [MB].
    """

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MB * MB, MOST_MB * MB))

    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "ARROW_IO_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-c", LAND, str(landing.root)],
        check=True,
        stdout=subprocess.PIPE,
        cwd=PROJECT,
        env=os.environ | threads | {"MALLOC_ARENA_MAX": "2", "ARROW_DEFAULT_MEMORY_POOL": "system"},
        preexec_fn=limit,
    )
    found, misplaced, peak_mb = json.loads(done.stdout)
    return found, misplaced, peak_mb


def write(landing: Landing, job_id: str, lines: Iterator[bytes]) -> None:
    with (landing.root / landing.put(job_id, "rank-00000.jsonl", b"")).open("wb") as file:
        file.writelines(each + b"\n" for each in lines)


def test_ever_long_names_and_short_lines_take_a_batch_at_a_time(tmp_path: Path) -> None:
    made = Landing(tmp_path)
    for job_id in ("hosts", "names", "short", "plain"):
        made.manifest(job_id)
    write(made, "hosts", (line(job_id="hosts", rank=0, step=step, host="h" * 10 * MB) for step in range(60)))
    names = (line(job_id="names", rank=0, step=step, host=f"{step:0900}") for step in range(50_000))
    write(made, "names", names)
    write(made, "short", (b"{}" for _ in range(100_000)))
    many = {"op": ["gc"] * 2000, "microbatch": [0] * 2000, "model_chunk": [0] * 2000}
    many |= {"start_us": list(range(2000)), "duration_us": [1] * 2000}
    body = json.dumps(GOOD | many | {"job_id": "plain", "rank": 0, "step": -1}).encode()
    write(made, "plain", (body.replace(b'"step": -1', b'"step": %d' % step) for step in range(4000)))
    found, _, peak_mb = landed(made)
    assert found == {
        "hosts": [None, 60, 0, 60],
        "names": [None, 50_000, 50_000, 0],
        "plain": [None, 4000, 4000, 0],
        "short": [None, 100_000, 0, 100_000],
    }
    print(f"peak {peak_mb} MB")


def test_sizes_labels_and_links_take_what_is_there(tmp_path: Path) -> None:
    made = Landing(tmp_path)
    made.manifest("good")
    made.log("good", "rank-00000.jsonl", [line(job_id="good", rank=0)])
    made.manifest("vast", dp_size=400_000_000, pp_size=1, world_size=400_000_000)
    made.log("vast", "rank-00000.jsonl", [line(job_id="vast", rank=0, pp_rank=0)])
    for number in range(MANIFESTS):
        labels = {f"{number} {place}": "x" for place in range(50_000)}
        made.manifest(f"labels{number}", labels=labels)
        hosts = {f"node-{number}-{place}": "H100" for place in range(30_000)}
        made.manifest(f"hosts{number}", gpu_types=hosts)
        steps = {str(step): step for step in range(50_000)}
        made.manifest(f"steps{number}", part_of="whole", role="actor", iterations=steps)
        made.manifest(f"wrong{number}", iterations={f"x{step}": "y" for step in range(50_000)})
    day = made.root / f"log_date={DAY}"
    for number in range(300):
        (day / f"l{number}").symlink_to(".")
    found, misplaced, peak_mb = landed(made)
    assert found["good"] == [None, 1, 1, 0]
    assert found["vast"][0] == "bad_layout"
    for kind, status in (("labels", "bad_layout"), ("wrong", "bad_layout"), ("hosts", None), ("steps", None)):
        assert [each[0] for name, each in found.items() if kind in name] == [status] * MANIFESTS
    assert misplaced == 300
    assert peak_mb < MOST_OF_MANIFESTS_MB
    print(f"peak {peak_mb} MB")
