"""One generated job: shape, mechanisms and a seed in, rows and manifest out."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jobs.synthetic.rank_rows import rank_rows
from jobs.synthetic.simulation import JobPlan, Simulation
from jobs.synthetic.timeline import Timeline
from schemas.vocabulary import OP_CODES
from udfs.op_lists import LISTS

BURST = 5
"""Profilers record steps in bursts of about this many."""
BETWEEN_BURSTS = 100
"""Steps that are not recorded after each burst."""
SIZES = ("dp_size", "pp_size", "tp_size", "cp_size", "vpp_size", "world_size")
"""Sizes that the manifest states."""


@dataclass(frozen=True)
class GeneratedJob:
    """Rows in the form of rank_steps (without ids and source_file) and the manifest."""

    rank_steps: pa.Table
    manifest: dict[str, Any]

    @property
    def ops(self) -> int:
        """Recorded ops over all rows."""
        return int(pc.sum(pc.list_value_length(self.rank_steps["op"])).as_py() or 0)

    def without_ranks(self, ranks: Collection[int]) -> "GeneratedJob":
        """The job with the logs of some ranks lost."""
        lost = pc.is_in(self.rank_steps["rank"], pa.array(sorted(ranks), pa.int32()))
        return GeneratedJob(self.rank_steps.filter(pc.invert(lost)), self.manifest)

    def contradicting(self) -> "GeneratedJob":
        """The job of a pipeline, whose last rank lacks a recv in every step: sends match it by number."""
        records = self.rank_steps.to_pylist()
        for record in records:
            if record["rank"] == records[-1]["rank"]:
                place = record["op"].index(OP_CODES["forward-recv"])
                for name in LISTS:
                    del record[name][place]
        return GeneratedJob(pa.Table.from_pylist(records, self.rank_steps.schema), self.manifest)


def recorded_job(simulation: Simulation) -> GeneratedJob:
    """Run a job with all its mechanisms and record it."""
    plan = simulation.plan
    timeline = simulation.timeline()
    numbers = step_numbers(plan)
    t0_us = _step_zeros_us(plan, timeline)
    timeline = _by_clocks_of_workers(timeline, simulation, t0_us)
    host_of: Callable[[int], str | None] = plan.identity.host_of
    rng = simulation.rng("record")
    rows = rank_rows(plan.shape, simulation.place.ops, timeline, numbers, t0_us, host_of, rng)
    ids = {"job_id": plan.identity.job_id, "run_id": plan.identity.run_id}
    sizes = {name: getattr(plan.shape, name) for name in SIZES}
    return GeneratedJob(rows, {**ids, **sizes, **plan.identity.fields})


def step_numbers(plan: JobPlan) -> list[int]:
    """Numbers of the recorded steps: bursts with gaps between them."""
    return [
        plan.identity.first_step + step + step // BURST * BETWEEN_BURSTS for step in range(plan.shape.steps)
    ]


def _step_zeros_us(plan: JobPlan, timeline: Timeline) -> list[int]:
    """Unix time at which each recorded step starts [us]."""
    identity, step = plan.identity, np.arange(plan.shape.steps)
    step_us = timeline.end_us.max(axis=(0, 2))
    elapsed_us = np.concatenate([[0.0], np.cumsum(step_us)[:-1]])
    first = step // BURST * BURST  # of the burst
    if identity.recorded_s is None:
        since_us = elapsed_us + (np.asarray(step_numbers(plan)) - identity.first_step - step) * step_us.mean()
    else:
        since_us = elapsed_us - elapsed_us[first] + first / len(step) * identity.recorded_s * 1e6
    t0_us: NDArray[np.int64] = identity.first_t0_us + np.rint(since_us).astype(np.int64)
    return [int(t0) for t0 in t0_us]


def _by_clocks_of_workers(timeline: Timeline, simulation: Simulation, t0_us: Sequence[int]) -> Timeline:
    """Times as each worker's own clock shows them, none below zero."""
    conditions = simulation.conditions()
    since_s = (np.array(t0_us) - t0_us[0])[:, None] * 1e-6
    ahead_s = conditions.clock_s[:, None, :] + conditions.clock_rate[:, None, :] * since_s
    ahead_s += conditions.clock_jump_s
    ahead_s -= min(ahead_s.min(), 0.0)
    ahead_us = ahead_s[[op.pp_rank for op in simulation.place.ops]] * 1e6
    return Timeline(timeline.start_us + ahead_us, timeline.end_us + ahead_us)
