"""Evaluate the bounds of the slowdown of logs without transfers: complete logs are analysed without them.

`python -m tests.evaluation.partial --jobs 400` prints the table.
"""

import argparse
import sys
from collections import defaultdict
from math import nan
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from jobs.synthetic.job import recorded_job
from jobs.synthetic.sample_job import sample_job
from jobs.synthetic.simulation import Simulation
from schemas.vocabulary import JOB_SLOWDOWN, OP_CODES, TRANSFER_OPS, Status, Transfers
from tests.evaluation.blocking.draw import KINDS, draw
from udfs.errors import TraceError
from udfs.what_if import simulate_job

GENERATED: Final = "as the demo draws them"
MOST_OFF_S: Final = 0.05
MOST_DRIFT: Final = 1e-4
"""Largest rate at which a host's clock gains or loses time. [s/s]"""
LISTS: Final = ("op", "start_us", "duration_us", "microbatch", "model_chunk")
TITLES: Final = (
    "kind", "jobs", "S within the bounds", "width, median, worst", "on other clocks, within the bounds",
    "bounds on other clocks off by, worst", "slow links with the largest gap",
)  # fmt: skip


class Job(NamedTuple):
    """A complete job, its slowdown, and its slow link as (direction, sending stage, receiving stage)."""

    name: str
    rank_steps: pa.Table
    manifest: dict[str, Any]
    slowdown: float
    link: tuple[str, int, int] | None = None


class Outcome(NamedTuple):
    """Bounds without transfers, with right and with wrong clocks, and the link with the longest stage gap."""

    job: Job
    bounds: tuple[float, float]
    on_clocks: tuple[float, float]
    largest: tuple[str, int, int] | None

    def holds(self, low: float, high: float) -> bool:
        """Return whether the slowdown with transfers lies between the given bounds."""
        return low <= self.job.slowdown <= high

    @property
    def width(self) -> float:
        return (self.bounds[1] - self.bounds[0]) / self.job.slowdown

    @property
    def moved(self) -> float:
        """Largest relative change of a bound when the clocks are wrong instead of right."""
        return max(abs(a / b - 1.0) for a, b in zip(self.on_clocks, self.bounds, strict=True))

    def __str__(self) -> str:
        shown = (f"{low:.4f} to {high:.4f}" for low, high in (self.bounds, self.on_clocks))
        return f"{self.job.name}: S {self.job.slowdown:.4f}; {'; on other clocks '.join(shown)}"


def drawn(seed: int, kind: str) -> Job | None:
    """Draw a job; None if a generated job has no pipeline, or is not analysed even with its transfers."""
    if kind == GENERATED:
        return _generated(seed)
    found = draw(seed, kind)
    return Job(f"{kind} {seed}", found.rank_steps, found.manifest, found.slowdown, found.slow_link)


def _generated(seed: int) -> Job | None:
    job = recorded_job(Simulation(sample_job(seed, most_ops=15_000)))
    if job.manifest["pp_size"] == 1:
        return None
    (row,) = simulate_job(job.rank_steps, job.manifest)[JOB_SLOWDOWN].to_pylist()
    if row["status"] != Status.ANALYSED:
        return None
    return Job(f"{GENERATED} {seed}", job.rank_steps, dict(job.manifest), row["slowdown"])


def without_transfers(rank_steps: pa.Table) -> pa.Table:
    """Return the rows without sends and recvs."""
    codes = {OP_CODES[name] for name in TRANSFER_OPS}
    rows = rank_steps.to_pylist()
    for row in rows:
        kept = [at for at, op in enumerate(row["op"]) if OP_CODES.get(op, op) not in codes]
        row.update({name: [row[name][at] for at in kept] for name in LISTS})
    return pa.Table.from_pylist(rows)


def on_other_clocks(rank_steps: pa.Table, seed: int) -> pa.Table:
    """Return the rows with one host per rank, whose clocks are wrong by an offset and a drift."""
    rng = np.random.default_rng([317, seed])
    ranks, zero_us = (np.asarray(rank_steps.column(name)) for name in ("rank", "t0_us"))
    offset_us = 1e6 * rng.uniform(-MOST_OFF_S, MOST_OFF_S, ranks.max() + 1)
    drift = rng.uniform(-MOST_DRIFT, MOST_DRIFT, ranks.max() + 1)
    moved_us = zero_us + np.rint(offset_us[ranks] + drift[ranks] * (zero_us - zero_us.min())).astype(np.int64)
    others = {"host": [f"host-of-{rank}" for rank in ranks], "t0_us": moved_us}
    return pa.table({name: others.get(name, rank_steps.column(name)) for name in rank_steps.column_names})


def judged(job: Job, seed: int) -> Outcome:
    """Remove the transfers of a job, and compute the bounds with right and with wrong clocks."""
    stripped, facts = without_transfers(job.rank_steps), job.manifest | {"transfers": Transfers.ABSENT}
    bounds = []
    largest = None
    for rows in (on_other_clocks(stripped, seed), stripped):
        try:
            (found,) = simulate_job(rows, facts)[JOB_SLOWDOWN].to_pylist()
        except TraceError:
            bounds.append((nan, nan))
            continue
        bounds.append((found["slowdown_low"], found["slowdown_high"]))
        gaps = found["stage_gaps"][0]
        largest = gaps["direction"], gaps["pp_rank"], gaps["next_pp_rank"]
    return Outcome(job, bounds[1], bounds[0], largest)


def row(kind: str, outcomes: list[Outcome]) -> str:
    """Format the line of one kind of job in the table."""
    widths = [each.width for each in outcomes]
    links = [each for each in outcomes if each.job.link is not None]
    cells = (
        kind,
        f"{len(outcomes)}",
        f"{sum(each.holds(*each.bounds) for each in outcomes)}",
        f"{np.median(widths):.1%}, {np.max(widths):.1%}",
        f"{sum(each.holds(*each.on_clocks) for each in outcomes)}",
        f"{np.max([each.moved for each in outcomes]):.2%}",
        f"{sum(each.largest == each.job.link for each in links)} of {len(links)}",
    )
    return f"| {' | '.join(cells)} |\n"


def main(given: list[str] | None = None) -> int:
    """Draw jobs, remove their transfers, and print the table."""
    parser = argparse.ArgumentParser(prog="tests.evaluation.partial")
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list-wrong", action="store_true")
    options = parser.parse_args(given)
    kinds = [*KINDS, GENERATED]
    by_kind: dict[str, list[Outcome]] = defaultdict(list)
    seed = options.seed
    while sum(map(len, by_kind.values())) < options.jobs:
        kind = kinds[seed % len(kinds)]
        job = drawn(seed, kind)
        if job is not None:
            found = judged(job, seed)
            by_kind[kind].append(found)
            if options.list_wrong and not (found.holds(*found.bounds) and found.holds(*found.on_clocks)):
                sys.stdout.write(f"{found}\n")
        seed += 1
    sys.stdout.write(f"| {' | '.join(TITLES)} |\n|---|{'---:|' * (len(TITLES) - 1)}\n")
    every = [each for outcomes in by_kind.values() for each in outcomes]
    for kind, outcomes in (*by_kind.items(), ("all", every)):
        sys.stdout.write(row(kind, outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
