"""Train small models in processes that wait for each other, and replay the logs that the emitter writes.

In every other step one worker is slowed by a known factor, so that load on the machine affects slowed and
healthy steps alike. If the slowed steps are replayed with the slow worker mended, they must take as long as
the healthy steps. `make real-run` installs torch into an environment for these runs.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from schemas.vocabulary import OP_CODES, Status
from tests.real_run import faults, links
from tests.support.training_run import read_run
from udfs.what_if import SimulationSettings, simulate_job

FORWARD, BACKWARD, GATHERED, REDUCED, REDUCED_LAST = (
    OP_CODES[name]
    for name in (
        "forward-compute",
        "backward-compute",
        "params-all-gather",
        "grads-reduce-scatter",
        "separate-grads-all-reduce",
    )
)
FACTOR: Final = 1.5
SLOWED: Final = (1, 0)
"""(dp rank, stage) of the slowed worker."""
STEP_ERROR: Final = 0.03
FACTOR_ERROR: Final = 0.05
DISCREPANCY: Final = 0.05
JOBS: Final = {
    "megatron-1f1b": ("train_megatron.py",),
    "megatron-interleaved": ("train_megatron.py", "--chunks", "2"),
    "torch-1f1b": ("train_torch.py",),
    "torch-interleaved": ("train_torch.py", "--chunks", "2"),
    "torch-ddp": ("train_torch.py", "--ddp"),
    "torch-fsdp": ("train_torch.py", "--fsdp", "--microbatches", "2"),
}
EVERY: Final = [*JOBS, *faults.RUNS, *links.RUNS]
HERE: Final = Path(__file__).parent


class Outcome(NamedTuple):
    """Figures of a job from replays of its healthy and of its slowed steps; times are in seconds."""

    job: str
    healthy_s: float
    mended_s: float
    factor: float
    culprits: tuple[tuple[int, int], ...]
    discrepancy: float

    def failures(self) -> list[str]:
        """Return the names of the figures that are out of bounds."""
        wrong = {
            "step time": abs(self.mended_s / self.healthy_s - 1) > STEP_ERROR,
            "factor": abs(self.factor / FACTOR - 1) > FACTOR_ERROR,
            "worker": self.culprits != (SLOWED,),
            "discrepancy": self.discrepancy > DISCREPANCY,
        }
        return [name for name, is_wrong in wrong.items() if is_wrong]


def ops_once(rank_steps: pa.Table, chunks: int, *, is_sharded: bool) -> bool:
    """Return whether each rank-step has each op of each microbatch and chunk exactly once.

    is_sharded : parameters of each chunk are then also gathered once, and its gradients reduced once
    """
    microbatches = 1 + pc.max(pc.list_flatten(rank_steps["microbatch"])).as_py()
    wanted = [(op, m, c) for op in (FORWARD, BACKWARD) for m in range(microbatches) for c in range(chunks)]
    names = {FORWARD: FORWARD, BACKWARD: BACKWARD}
    if is_sharded:
        wanted += [(op, -1, c) for op in (GATHERED, REDUCED) for c in range(chunks)]
        names |= {
            GATHERED: GATHERED,
            REDUCED: REDUCED,
            REDUCED_LAST: REDUCED,
        }  # the last reduction of gradients has another name
    columns = [rank_steps[name].to_pylist() for name in ("op", "microbatch", "model_chunk")]
    return all(
        sorted((names[op], m, c) for op, m, c in zip(*row, strict=True) if op in names) == sorted(wanted)
        for row in zip(*columns, strict=True)
    )


def replay_of_quiet_steps(rank_steps: pa.Table, manifest: dict[str, Any]) -> dict[str, pa.Table]:
    """Replay the faster half of the given steps, because other load on the machine only lengthens steps."""
    settings = SimulationSettings(minimum_steps=1)
    every = simulate_job(rank_steps, manifest, settings)["step_slowdown"].sort_by("actual_step_s")
    quiet = every["step"][: len(every) // 2]
    return simulate_job(rank_steps.filter(pc.is_in(rank_steps["step"], quiet)), manifest, settings)


def outcome(job: str, landing: Path) -> Outcome:
    """Replay the healthy and the slowed steps of a job; return the figures that are compared."""
    (folder,) = landing.glob(f"log_date=*/job_id={job}/run_id=r0")
    rank_steps, manifest = read_run(folder)
    if not ops_once(rank_steps, manifest["vpp_size"], is_sharded="--fsdp" in JOBS[job]):
        raise RuntimeError(f"{job}: not every op exactly once")
    is_slowed = pc.equal(pc.bit_wise_and(rank_steps["step"], 1), 1)
    results = [
        replay_of_quiet_steps(rank_steps.filter(chosen), manifest)
        for chosen in (pc.invert(is_slowed), is_slowed)
    ]
    healthy, slowed = (tables["job_slowdown"].to_pylist()[0] for tables in results)
    if slowed["status"] != Status.ANALYSED:
        raise RuntimeError(f"{job}: {slowed['status']}, {slowed['status_detail']}")
    causes = {row["cause"]: row for row in results[1]["job_causes"].to_pylist()}
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
    """Train and replay all jobs, print the results, and return 1 if a result is out of bounds."""
    parser = argparse.ArgumentParser(prog="make real-run")
    parser.add_argument("--torch", required=True, help="a Python with torch, megatron-core and the emitter")
    parser.add_argument("--job", action="append", choices=EVERY, help="all where none is named")
    parser.add_argument("--landing", type=Path, help="keep the logs here")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        landing = options.landing or Path(temporary)
        jobs = options.job or EVERY
        for job in filter(JOBS.__contains__, jobs):
            script, *arguments = JOBS[job]
            command = [options.torch, "-W", "ignore::UserWarning", str(HERE / script), *arguments]
            command += ["--landing", str(landing), "--job", job, "--slow", str(FACTOR)]
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
        for of_fault in faults.outcomes(
            options.torch, landing, [each for each in faults.RUNS if each in jobs]
        ):
            failed += bool(of_fault.failures())
            sys.stdout.write(f"{of_fault}\n")
            sys.stdout.flush()
        for of_link in links.outcomes(options.torch, landing, filter(links.RUNS.__contains__, jobs)):
            failed += not of_link.is_good
            sys.stdout.write(f"{of_link}\n")
            sys.stdout.flush()
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
