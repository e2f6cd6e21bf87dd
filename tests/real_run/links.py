"""Train by Megatron's 1F1B with a link that is slow in every other step, and replay the log.

The diagnosis must name an end of the slow link and its direction, and nothing if no link is slow. The
manifest that the emitter writes states which transfers block; the discrepancy of a replay in which none
blocks is printed too.
"""

import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tests.support.training_run import read_run
from udfs.what_if import SimulationSettings, simulate_job

STEPS: Final = 24
STAGE: Final = 1
"""The slow link connects this stage and the next one."""
RUNS: Final = {
    "link-none": ("0", ()),
    "link-5-forward": ("5", ("--link-forward",)),
    "link-5-backward": ("5", ()),
    "link-50-forward": ("50", ("--link-forward",)),
    "link-50-backward": ("50", ()),
}
End = tuple[int, str]
"""(stage, op type) of one end of a link."""
MINIMUM: Final = SimulationSettings(minimum_steps=1)
HEALTHY_ERROR: Final = 0.02
QUIET: Final = 5
"""Number of healthy steps, and of slowed steps, that are compared."""
HERE: Final = Path(__file__).parent


class LinkOutcome(NamedTuple):
    """Figures of a run from replays of its healthy and of its slowed steps; times are in seconds.

    nonblocking : discrepancy of a replay in which no transfer blocks
    discrepancy : discrepancy of a replay in which transfers block as the manifest states
    wanted : the two ends of the slow link; empty if no link is slow
    named : the end that lost most by the diagnosis; None if it names no slow link
    """

    run: str
    healthy_s: float
    mended_s: float
    nonblocking: float
    discrepancy: float
    blocking: tuple[str, ...]
    wanted: frozenset[End]
    named: End | None

    @property
    def off(self) -> float:
        """Error of the step time with the link fixed, relative to the step time of healthy steps."""
        return self.mended_s / self.healthy_s - 1

    @property
    def is_good(self) -> bool:
        """Whether the step time is close enough, and the right link and direction are named."""
        is_near = abs(self.off) <= HEALTHY_ERROR and self.discrepancy <= HEALTHY_ERROR
        return is_near and (self.named in self.wanted if self.wanted else self.named is None)

    def __str__(self) -> str:
        named = "none" if self.named is None else f"{self.named[1]} of stage {self.named[0]}"
        return (
            f"{self.run}: discrepancy {self.nonblocking:.1%} where nothing blocks, {self.discrepancy:.1%} "
            f"with {len(self.blocking)} blocking op types; healthy {self.healthy_s:.4f} s, mended "
            f"{self.mended_s:.4f} s ({self.off:+.1%}); named {named}; "
            f"{'ok' if self.is_good else 'wrong'}"
        )


def outcomes(torch: str, landing: Path, runs: Iterable[str]) -> Iterator[LinkOutcome]:
    """Train each run, replay it, and yield the results."""
    for run in runs:
        late_ms, direction = RUNS[run]
        command = [
            torch,
            "-W",
            "ignore::UserWarning",
            str(HERE / "train_megatron.py"),
            "--landing",
            str(landing),
        ]
        command += ["--job", run, "--dp", "1", "--stages", "4", "--forward-s", "0.03", "--microbatches", "8"]
        command += ["--steps", str(STEPS), "--link", str(STAGE), "--link-ms", late_ms, *direction]
        subprocess.run(command, check=True, timeout=300)
        yield outcome(run, landing)


def quiet_steps(every: pa.Table, is_slowed: pa.Array) -> tuple[float, pa.Array]:
    """Return (mean time of the fastest healthy steps [s], numbers of the fastest healthy and slowed steps).

    Other load on the machine makes steps only longer, so the fastest steps of each kind count as quiet.

    every     : rows of step_slowdown, sorted by actual_step_s
    is_slowed : for each row, whether the fault was active
    """
    kinds = map(every.filter, (pc.invert(is_slowed), is_slowed))
    quiet = [each.slice(0, QUIET) for each in kinds]
    return pc.mean(quiet[0]["actual_step_s"]).as_py(), pa.concat_tables(quiet)["step"]


def ends_of(run: str) -> frozenset[End]:
    """Return both ends of the link that is slow in a run; empty if no link is slow."""
    late_ms, direction = RUNS[run]
    if late_ms == "0":
        return frozenset()
    sender, receiver, name = (STAGE, STAGE + 1, "forward") if direction else (STAGE + 1, STAGE, "backward")
    return frozenset({(sender, f"{name}-send"), (receiver, f"{name}-recv")})


def outcome(run: str, landing: Path) -> LinkOutcome:
    """Replay a run with its link fixed; return its step time beside that of the healthy steps."""
    (folder,) = landing.glob(f"log_date=*/job_id={run}/run_id=r0")
    rank_steps, manifest = read_run(folder)
    every = simulate_job(rank_steps, manifest)["step_slowdown"].sort_by("actual_step_s")
    is_slowed = pc.equal(pc.bit_wise_and(every["step"], 1), 1)
    healthy_s, chosen = quiet_steps(every, is_slowed)
    found = simulate_job(rank_steps.filter(pc.is_in(rank_steps["step"], chosen)), manifest, MINIMUM)
    (job,) = found["job_slowdown"].to_pylist()
    causes = {row["cause"]: row for row in found["job_causes"].to_pylist()}
    saved = causes["communication"]["time_saved_fraction"]
    # If a link is slow, any culprit counts as named, because a delay of 5 ms costs too little for a cause.
    culprits = (
        causes["communication"]["culprits"] if ends_of(run) or causes["communication"]["is_cause"] else []
    )
    return LinkOutcome(
        run,
        healthy_s,
        job["actual_step_s"] * (1 - saved),
        job["discrepancy_nonblocking"],
        job["discrepancy"],
        tuple(job["blocking"]),
        ends_of(run),
        next(((each["pp_rank"], each["direction"]) for each in culprits), None),
    )
