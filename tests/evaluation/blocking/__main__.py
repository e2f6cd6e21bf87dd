"""Evaluate the replay on jobs whose transfers block their workers, and on jobs whose transfers do not.

`python -m tests.evaluation.blocking --jobs 400` prints the tables.
"""

import argparse
import sys
from collections import defaultdict
from typing import Final, NamedTuple

import numpy as np

from tests.evaluation.blocking.draw import KINDS, Drawn, draw
from udfs.what_if import simulate_job

CAUSE_OF: Final = {
    "worker": "slow_worker",
    "link": "communication",
    "stage": "stage_imbalance",
    "late": "launch_delay",
}
SAME: Final = 1e-3
"""Largest relative difference at which two slowdowns, or two step times, count as equal."""
LEAST_LOST: Final = 0.025
"""A fault that costs at least this share of the step time must be named."""
SHOWN: Final = 0.005
"""With `--list-wrong`, a job is listed only if its discrepancy is at least this large."""
TITLES: Final = (
    "kind", "jobs", "discrepancy before, median, worst", "after, median, worst", "the same types chosen",
    "as good as chosen", "S in the log", "S within 0.1 %", "S worst",
)  # fmt: skip
CAUSE_TITLES: Final = (
    "kind", "like clocks", "faults", "named", "on twins", "of several replicas", "named", "on twins", "jobs",
    "wrong names in", "on twins", "without a flag in", "on twins",
)  # fmt: skip


class Outcome(NamedTuple):
    """Replay results of one job; `sure` lists the causes that are named and have no flag."""

    drawn: Drawn
    blocking: frozenset[str]
    before: float
    after: float
    slowdown: float
    replayed_s: float
    causes: frozenset[str]
    sure: frozenset[str]

    @property
    def off(self) -> float:
        """Return the relative error of the replayed slowdown: replayed / true - 1."""
        return self.slowdown / self.drawn.slowdown - 1

    @property
    def is_chosen(self) -> bool:
        return self.blocking == self.drawn.job.blocking

    @property
    def is_as_good(self) -> bool:
        """Return whether the blocking ops were found, or step time and slowdown are right to within SAME."""
        return self.is_chosen or max(abs(self.off), abs(self.replayed_s / self.drawn.step_s - 1)) <= SAME

    @property
    def is_wrong(self) -> bool:
        return not self.is_as_good or (self.drawn.is_recorded and abs(self.off) > SAME)

    @property
    def is_wrong_and_sure(self) -> bool:
        return bool(self.sure - {CAUSE_OF.get(self.drawn.fault)})

    @property
    def has_wrong_name(self) -> bool:
        return bool(self.causes - {CAUSE_OF.get(self.drawn.fault)})

    @property
    def is_named(self) -> bool:
        return self.cause in self.causes

    @property
    def cause(self) -> str | None:
        """Return the cause to name; None if the fault costs under LEAST_LOST, or looks like wrong clocks."""
        if self.drawn.is_like_a_clock:
            return None
        lost = 1 - self.drawn.healthy_s / self.drawn.recorded_s
        return CAUSE_OF.get(self.drawn.fault) if lost >= LEAST_LOST else None

    def __str__(self) -> str:
        job = self.drawn.job
        return (
            f"{self.drawn.manifest['job_id']} {self.drawn.fault} pp {job.pp} dp {job.dp} m {job.microbatches}"
            f"{' gpipe' if job.is_gpipe else ''}: {', '.join(sorted(self.blocking)) or 'none'}; "
            f"{self.before:.2%} -> {self.after:.2%}; S {self.slowdown:.4f}, true {self.drawn.slowdown:.4f}"
        )


class Pair(NamedTuple):
    """A job with blocking transfers, and its control: the same job in which no transfer blocks."""

    job: Outcome
    control: Outcome

    @property
    def is_worse(self) -> bool:
        """Return whether the job's causes have an error that the control's causes do not have."""
        job, control = self
        missed = job.cause is not None and control.is_named and not job.is_named
        return (
            missed
            or (job.has_wrong_name and not control.has_wrong_name)
            or (job.is_wrong_and_sure and not control.is_wrong_and_sure)
        )

    def compared(self) -> str:
        """Format the causes of a job and its control; flagged causes are in brackets."""
        names = (
            ", ".join(name if name in each.sure else f"({name})" for name in sorted(each.causes)) or "none"
            for each in self
        )
        return f"  causes {', on the control '.join(names)}\n"


def outcome(drawn: Drawn) -> Outcome:
    found = simulate_job(drawn.rank_steps, drawn.manifest)
    (job,) = found["job_slowdown"].to_pylist()
    held = [row for row in found["job_causes"].to_pylist() if row["is_cause"]]
    return Outcome(
        drawn,
        frozenset(job["blocking"]),
        job["discrepancy_nonblocking"],
        job["discrepancy"],
        job["slowdown"],
        job["simulated_step_s"],
        frozenset(row["cause"] for row in held),
        frozenset(row["cause"] for row in held if row["flag_reason"] is None),
    )


def row(kind: str, outcomes: list[Outcome]) -> str:
    """Format the line of one kind of job in the table of discrepancies and slowdowns."""
    before, after = ([getattr(each, name) for each in outcomes] for name in ("before", "after"))
    offs = np.array([abs(each.off) for each in outcomes if each.drawn.is_recorded])
    cells = (
        kind,
        f"{len(outcomes)}",
        *(f"{np.median(each):.2%}, {max(each):.1%}" for each in (before, after)),
        f"{sum(each.is_chosen for each in outcomes)}",
        f"{sum(each.is_as_good for each in outcomes)}",
        f"{len(offs)}",
        f"{np.count_nonzero(offs <= SAME)}",
        f"{offs.max(initial=0.0):.2%}",
    )
    return f"| {' | '.join(cells)} |\n"


def cause_row(kind: str, pairs: list[Pair]) -> str:
    """Format one line of the table of causes; recall counts pairs in which both jobs have a cause to name."""
    wanted = [pair for pair in pairs if all(each.cause is not None for each in pair)]
    cells = [kind, str(sum(pair.job.drawn.is_like_a_clock for pair in pairs))]
    for asked in (wanted, [pair for pair in wanted if pair.job.drawn.job.dp > 1]):
        cells += [str(len(asked)), *_counts("is_named", asked)]
    cells += [str(len(pairs)), *_counts("has_wrong_name", pairs), *_counts("is_wrong_and_sure", pairs)]
    return f"| {' | '.join(cells)} |\n"


def _counts(name: str, pairs: list[Pair]) -> tuple[str, str]:
    """Return, as text, the number of jobs and the number of controls that have the property `name`."""
    of_jobs, of_controls = (sum(getattr(pair[side], name) for pair in pairs) for side in (0, 1))
    return str(of_jobs), str(of_controls)


def main() -> int:
    """Draw jobs, replay them, and print the tables of discrepancies and of causes."""
    parser = argparse.ArgumentParser(prog="tests.evaluation.blocking")
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=[*KINDS])
    parser.add_argument("--list-wrong", action="store_true")
    options = parser.parse_args()
    kinds = [options.kind] if options.kind else [*KINDS]
    by_kind: dict[str, list[Pair]] = defaultdict(list)
    for number in range(options.jobs):
        kind, seed = kinds[number % len(kinds)], options.seed + number
        job = outcome(draw(seed, kind))
        # A job whose transfers neither block nor are eager is its own control.
        pair = Pair(job, job if kind == "streams" else outcome(draw(seed, kind, is_control=True)))
        by_kind[kind].append(pair)
        if options.list_wrong and (job.is_wrong or pair.is_worse):
            sys.stdout.write(f"{job}\n{pair.compared() if pair.is_worse else ''}")
    every = [pair for pairs in by_kind.values() for pair in pairs]
    shown = [pair for pair in every if pair.job.before >= SHOWN]
    rows = [*by_kind.items(), ("all", every), (f"all with a discrepancy of {SHOWN:.1%}", shown)]
    for titles, line in (
        (TITLES, lambda kind, pairs: row(kind, [pair.job for pair in pairs])),
        (CAUSE_TITLES, cause_row),
    ):
        sys.stdout.write(f"| {' | '.join(titles)} |\n|---|{'---:|' * (len(titles) - 1)}\n")
        sys.stdout.writelines(line(kind, pairs) for kind, pairs in rows if pairs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
