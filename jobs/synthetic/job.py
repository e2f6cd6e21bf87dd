"""One generated job: shape, mechanisms and a seed in, rows and manifest out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.synthetic.mechanisms import Mechanisms, draw_times
from jobs.synthetic.program import ProgramOp, build_program
from jobs.synthetic.rank_rows import rank_rows
from jobs.synthetic.shape import JobShape
from jobs.synthetic.timeline import Timeline, run_program

GPUS_PER_HOST = 8
BURST = 5
"""Profilers record steps in bursts of about this many."""


@dataclass(frozen=True)
class GeneratedJob:
    """Rows in the form of rank_steps (without ids and source_file) and the manifest."""

    rank_steps: pa.Table
    manifest: dict[str, Any]

    @property
    def ops(self) -> int:
        """Recorded ops over all rows."""
        return int(pc.sum(pc.list_value_length(self.rank_steps["op"])).as_py())


@dataclass(frozen=True)
class JobIdentity:
    """Who the job is and where it runs. labels are further fields of the manifest."""

    job_id: str = "generated"
    run_id: str = "r0"
    first_step: int = 0
    first_t0_us: int = 1_767_600_000_000_000
    hosts: Sequence[str] = ()
    fields: dict[str, Any] = field(default_factory=dict)

    def host_of(self, rank: int) -> str:
        """Host of a global rank; named by its place where the job has no list of hosts."""
        place = rank // GPUS_PER_HOST
        return self.hosts[place % len(self.hosts)] if self.hosts else f"node-{place:04d}"


def generate_job(
    shape: JobShape, mechanisms: Mechanisms, seed: int, identity: JobIdentity | None = None
) -> GeneratedJob:
    """Run a job and record it. The same arguments give the same rows, to the last bit."""
    identity = identity or JobIdentity()
    rng = np.random.default_rng(seed)
    ops = build_program(shape)
    timeline = run_program(ops, *draw_times(shape, ops, mechanisms, rng))
    step_us = timeline.end_us.max(axis=(0, 2))
    timeline = _by_clocks_of_workers(timeline, ops, mechanisms.clock_skew_s * 1e6, rng)
    numbers = [identity.first_step + step + step // BURST * 100 for step in range(shape.steps)]
    elapsed_us = np.concatenate([[0.0], np.cumsum(step_us)[:-1]])
    gaps_us = (np.asarray(numbers) - np.arange(shape.steps)) * step_us.mean()
    t0_us = identity.first_t0_us + np.rint(elapsed_us + gaps_us).astype(np.int64)
    host_of: Callable[[int], str | None] = identity.host_of
    rows = rank_rows(shape, ops, timeline, numbers, [int(t0) for t0 in t0_us], host_of, rng)
    return GeneratedJob(rows, {**_sizes(shape, identity), **identity.fields})


def _by_clocks_of_workers(
    timeline: Timeline, ops: Sequence[ProgramOp], skew_us: float, rng: np.random.Generator
) -> Timeline:
    """Times as each worker's own clock shows them, none below zero."""
    off_us = rng.random((ops[-1].pp_rank + 1, timeline.start_us.shape[-1])) * 2 * skew_us
    by_op = off_us[[op.pp_rank for op in ops]][:, None, :]
    return Timeline(timeline.start_us + by_op, timeline.end_us + by_op)


def _sizes(shape: JobShape, identity: JobIdentity) -> dict[str, Any]:
    return {
        "job_id": identity.job_id,
        "run_id": identity.run_id,
        "dp_size": shape.dp_size,
        "pp_size": shape.pp_size,
        "tp_size": shape.tp_size,
        "cp_size": shape.cp_size,
        "vpp_size": shape.vpp_size,
        "world_size": shape.world_size,
    }
