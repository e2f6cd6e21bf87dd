"""Trains small models in processes that really wait for each other, and replays what the emitter logged.

Each job runs twice, healthy and with one worker slowed by a known factor. The replay of the slowed run with
its slow worker mended must take as long as the healthy one did. `make real-run` prepares an environment with
torch for it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from jobs.landing.formats.rank_log_line import read_line
from schemas.tables import TABLES
from schemas.vocabulary import RANK_STEPS, STATUS_ANALYSED, UNIT_KEY
from udfs.what_if import simulate_job

FACTOR: Final = 1.5
SLOWED: Final = (1, 0)
"""dp rank and stage of the slowed worker."""
STEP_ERROR: Final = 0.03
FACTOR_ERROR: Final = 0.05
DISCREPANCY: Final = 0.05
JOBS: Final = {
    "megatron-1f1b": ("train_megatron.py",),
    "megatron-interleaved": ("train_megatron.py", "--chunks", "2"),
    "torch-1f1b": ("train_torch.py",),
    "torch-interleaved": ("train_torch.py", "--chunks", "2"),
    "torch-ddp": ("train_torch.py", "--ddp"),
}
HERE: Final = Path(__file__).parent


class Outcome(NamedTuple):
    """What the replay of one pair of runs says; times in seconds."""

    job: str
    healthy_s: float
    mended_s: float
    factor: float
    culprits: tuple[tuple[int, int], ...]
    discrepancy: float

    def failures(self) -> list[str]:
        """What is not as it should be."""
        wrong = {
            "step time": abs(self.mended_s / self.healthy_s - 1) > STEP_ERROR,
            "factor": abs(self.factor / FACTOR - 1) > FACTOR_ERROR,
            "worker": self.culprits != (SLOWED,),
            "discrepancy": self.discrepancy > DISCREPANCY,
        }
        return [name for name, is_wrong in wrong.items() if is_wrong]


def read_run(folder: Path) -> tuple[pa.Table, dict[str, Any]]:
    """Read the rows and the manifest of one run folder."""
    manifest = json.loads((folder / "job.json").read_text())
    rows = [
        read_line(line, manifest, nesting=2)
        for log in sorted(folder.glob("rank-*.jsonl"))
        for line in log.read_bytes().splitlines()
    ]
    fields = [f for f in TABLES[RANK_STEPS].arrow_schema if f.name not in (*UNIT_KEY, "source_file")]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields)), manifest


def computes_once(rank_steps: pa.Table, microbatches: int, chunks: int) -> bool:
    """Whether every rank-step holds each forward and backward of each chunk exactly once."""
    wanted = sorted((op, m, c) for op in (0, 1) for m in range(microbatches) for c in range(chunks))
    columns = [rank_steps[name].to_pylist() for name in ("op", "microbatch", "model_chunk")]
    return all(
        sorted(item for item in zip(*row, strict=True) if item[0] in (0, 1)) == wanted
        for row in zip(*columns, strict=True)
    )


def outcome(job: str, landing: Path) -> Outcome:
    """Replay both runs of a job and compare them."""
    results = {}
    for run in ("healthy", "slowed"):
        (folder,) = landing.glob(f"log_date=*/job_id={job}-{run}/run_id=r0")
        rank_steps, manifest = read_run(folder)
        if not computes_once(rank_steps, 6, manifest["vpp_size"]):
            raise RuntimeError(f"{job}-{run}: not every compute exactly once")
        results[run] = simulate_job(rank_steps, manifest)
    healthy, slowed = (results[run]["job_slowdown"].to_pylist()[0] for run in ("healthy", "slowed"))
    if slowed["status"] != STATUS_ANALYSED:
        raise RuntimeError(f"{job}-slowed: {slowed['status']}, {slowed['status_detail']}")
    causes = {row["cause"]: row for row in results["slowed"]["job_causes"].to_pylist()}
    found = causes["slow_worker"]
    return Outcome(
        job,
        healthy["actual_step_s"],
        slowed["simulated_step_s"] - found["time_saved_fraction"] * slowed["actual_step_s"],
        1 + dict(found["evidence"])["effect"],
        tuple((culprit["dp_rank"], culprit["pp_rank"]) for culprit in found["culprits"]),
        max(healthy["discrepancy"], slowed["discrepancy"]),
    )


def main() -> int:
    """Run the jobs, print what was found, and return 1 where something is out of bounds."""
    parser = argparse.ArgumentParser(prog="make real-run")
    parser.add_argument("--torch", required=True, help="a Python with torch, megatron-core and the emitter")
    parser.add_argument("--job", action="append", choices=[*JOBS], help="all where none is named")
    parser.add_argument("--landing", type=Path, help="keep the logs here")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        landing = options.landing or Path(temporary)
        for job in options.job or JOBS:
            for run, slow in (("healthy", 1.0), ("slowed", FACTOR)):
                script, *arguments = JOBS[job]
                command = [options.torch, str(HERE / script), *arguments, "--landing", str(landing)]
                command += ["--job", f"{job}-{run}", "--slow", str(slow)]
                subprocess.run(command, check=True, timeout=300)
            found = outcome(job, landing)
            failures = found.failures()
            failed += bool(failures)
            sys.stdout.write(
                f"{job}: healthy {found.healthy_s:.4f} s, slowed and mended {found.mended_s:.4f} s "
                f"({found.mended_s / found.healthy_s - 1:+.1%}); factor {found.factor:.3f} of {FACTOR}; "
                f"worker {found.culprits}; discrepancy {found.discrepancy:.1%}; "
                f"{'wrong: ' + ', '.join(failures) if failures else 'ok'}\n"
            )
            sys.stdout.flush()
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
