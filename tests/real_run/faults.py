"""Train by Megatron's 1F1B with one worker slow, in three different ways; check what the diagnosis names."""

import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow.compute as pc

from tests.real_run.links import MINIMUM, quiet_steps
from tests.support.training_run import read_run
from udfs.what_if import simulate_job

SLOWED: Final = (1, 0)
"""(dp rank, stage) of the slowed worker."""
MIDDLE: Final = 8
STEP_ERROR: Final = 0.03
HERE: Final = Path(__file__).parent


class Fault(NamedTuple):
    """How a worker is slowed, and the expected diagnosis: cause, compute direction, and course over time.

    first_step : step from which on the worker is slow; None if it is slow in every other step
    """

    arguments: tuple[str, ...]
    cause: str
    direction: str
    course: str
    first_step: int | None = None


RUNS: Final = {
    "slow-backward": Fault(
        ("--slow", "1.5", "--backward-alone"), "slow_worker", "backward", "comes_and_goes"
    ),
    "slow-from-middle": Fault(
        ("--slow", "1.5", "--from-step", str(MIDDLE)), "slow_worker", "both", "from", MIDDLE
    ),
    "pauses": Fault(("--pause-s", "0.4"), "pause", "forward", "comes_and_goes"),
}


class FaultOutcome(NamedTuple):
    """Result of a run, from replays of its healthy and its slowed steps; times are in seconds."""

    run: str
    healthy_s: float
    mended_s: float
    causes: frozenset[str]
    worst: dict[str, Any] | None
    steps: tuple[int, ...]
    """The slowed steps among those that were replayed."""

    @property
    def off(self) -> float:
        """Error of the step time with the cause fixed, relative to the step time of healthy steps."""
        return self.mended_s / self.healthy_s - 1

    def failures(self) -> list[str]:
        """Return the names of the figures that are out of bounds."""
        fault, worst = RUNS[self.run], self.worst or {}
        wrong = {
            "step time": abs(self.off) > STEP_ERROR,
            "causes": self.causes != {fault.cause},
            "worker": (worst.get("dp_rank"), worst.get("pp_rank")) != SLOWED,
            "direction": worst.get("direction") != fault.direction,
            "course": worst.get("course") != fault.course,
            "first step": worst.get("first_step") != self.steps[0],
        }
        return [name for name, is_wrong in wrong.items() if is_wrong]

    def __str__(self) -> str:
        worst = self.worst or {}
        found = ", ".join(
            f"{name} {worst.get(name)}" for name in ("dp_rank", "pp_rank", "direction", "course")
        )
        return (
            f"{self.run}: {', '.join(sorted(self.causes)) or 'no cause'} ({found}, from step "
            f"{worst.get('first_step')}, true {self.steps[0]}); healthy {self.healthy_s:.4f} s, mended "
            f"{self.mended_s:.4f} s ({self.off:+.1%}); "
            f"{'wrong: ' + ', '.join(self.failures()) if self.failures() else 'ok'}"
        )


def outcomes(torch: str, landing: Path, runs: Iterable[str]) -> Iterator[FaultOutcome]:
    """Train each run, replay it, and yield the results."""
    for run in runs:
        command = [torch, "-W", "ignore::UserWarning", str(HERE / "train_megatron.py")]
        command += ["--landing", str(landing), "--job", run, *RUNS[run].arguments]
        subprocess.run(command, check=True, timeout=300)
        yield outcome(run, landing)


def outcome(run: str, landing: Path) -> FaultOutcome:
    """Replay a run with its fault fixed; return its step time beside that of the healthy steps."""
    (folder,) = landing.glob(f"log_date=*/job_id={run}/run_id=r0")
    rank_steps, manifest = read_run(folder)
    every = simulate_job(rank_steps, manifest)["step_slowdown"].sort_by("actual_step_s")
    first = RUNS[run].first_step
    is_odd = pc.equal(pc.bit_wise_and(every["step"], 1), 1)
    healthy_s, chosen = quiet_steps(
        every, is_odd if first is None else pc.greater_equal(every["step"], first)
    )
    found = simulate_job(rank_steps.filter(pc.is_in(rank_steps["step"], chosen)), manifest, MINIMUM)
    (job,) = found["job_slowdown"].to_pylist()
    causes = {row["cause"]: row for row in found["job_causes"].to_pylist()}
    own = causes[RUNS[run].cause]
    return FaultOutcome(
        run,
        healthy_s,
        job["actual_step_s"] * (1 - own["time_saved_fraction"]),
        frozenset(name for name, row in causes.items() if row["is_cause"]),
        next(iter(own["culprits"]), None),
        tuple(sorted(step for step in chosen.to_pylist() if (step % 2 if first is None else step >= first))),
    )
