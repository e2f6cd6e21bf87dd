"""Diagnose generated jobs and compare the results with the truth."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any, Final

import pyarrow as pa

from jobs.synthetic.conditions import Cell
from jobs.synthetic.job import recorded_job
from jobs.synthetic.mechanisms.mechanism import ALWAYS, Mechanism, Windowed
from jobs.synthetic.sample_job import own_hosts, sample_job
from jobs.synthetic.shape import JobShape
from jobs.synthetic.simulation import JobPlan, Simulation, Truth, child_rng, true_savings
from schemas.vocabulary import FIXABLE_CAUSES, JOB_CAUSES, JOB_SLOWDOWN, LOGGED_CAUSES, Status
from tests.evaluation.skews import draw_clocks
from udfs.errors import TraceError
from udfs.what_if import simulate_job

NO_ANSWER: Final = "no answer"
"""Flag of a cause if the diagnosis returned no row for it."""

Row = dict[str, Any]
Diagnose = Callable[[pa.Table, Mapping[str, object] | None], Mapping[str, pa.Table]]
"""A function like simulate_job: from rows of rank_steps and the manifest to job_slowdown and job_causes."""


@dataclass(frozen=True)
class DiagnosedJob:
    """Rows of job_slowdown and job_causes for one job; only a status if its trace was refused.

    job    : row of job_slowdown; if the trace was refused, only its status
    causes : rows of job_causes, by cause; empty if the trace was refused
    """

    job: Row
    causes: Mapping[str, Row]

    @property
    def asked(self) -> list[str]:
        """Return the causes for which job_causes must have a row.

        Causes that only some logs can show are included only if the diagnosis has a row for them.
        """
        return [cause for cause in FIXABLE_CAUSES if cause not in LOGGED_CAUSES or cause in self.causes]

    @property
    def is_flagged(self) -> bool:
        """Return whether any row of job_causes has a flag, the row of unexplained loss included."""
        return any(self.answer(cause)["flag"] is not None for cause in {*self.asked, *self.causes})

    def answer(self, cause: str) -> Row:
        """Return `predicted`, `is_cause` and `flag`; a cause without a row saves 0 and is not named."""
        row = self.causes.get(cause, {})
        saved = row.get("time_saved_fraction")
        return {
            "predicted": saved or 0.0,
            "is_cause": bool(row.get("is_cause")),
            "flag": row.get("flag_reason") or (NO_ANSWER if saved is None else None),
        }

    def worst_cells(self, cause: str, dp_size: int, pp_size: int) -> frozenset[Cell]:
        """Return the workers of the worst culprit of `cause`; empty if `cause` has no culprit."""
        culprits = self.causes.get(cause, {}).get("culprits") or []
        below = [each for worst in culprits[:1] for each in worst.get("workers") or ()]
        if below:
            return frozenset((each["dp_rank"], each["pp_rank"]) for each in below)
        return frozenset(
            (dp_rank, pp_rank)
            for worst in culprits[:1]
            for dp_rank in (range(dp_size) if worst["dp_rank"] is None else [worst["dp_rank"]])
            for pp_rank in (range(pp_size) if worst["pp_rank"] is None else [worst["pp_rank"]])
        )


def diagnosed(diagnose: Diagnose, rank_steps: pa.Table, manifest: Mapping[str, object]) -> DiagnosedJob:
    """Diagnose a job; a refused trace gives a result without causes."""
    try:
        tables = diagnose(rank_steps, manifest)
    except TraceError:
        return DiagnosedJob({"status": Status.CORRUPT_TRACE}, {})
    (job,) = tables[JOB_SLOWDOWN].to_pylist()
    return DiagnosedJob(job, {row["cause"]: row for row in tables[JOB_CAUSES].to_pylist()})


THRESHOLD: Final = 0.025
"""A cause holds if its fix saves at least this share of the actual step time."""

SLOW_WORKER: Final = "slow_worker"
COMMUNICATION: Final = "communication"
FIGURES: Final = ("slowdown", "slow_worker_share", "last_stage_share", "forward_backward_correlation")
"""The paper's S (Eq. 1), M_W (Eq. 5), M_S and correlation, as in job_slowdown."""


@dataclass(frozen=True)
class Variant:
    """A job as drawn, but with some of its conditions changed.

    noise : standard deviation of the logarithm of each op's time; None: as drawn
    steps : number of recorded steps, in all of which faults then act; None: as drawn
    is_skewed : whether the clocks of the hosts are wrong
    """

    name: str
    noise: float | None = None
    steps: int | None = None
    is_skewed: bool = False

    def of(self, plan: JobPlan) -> JobPlan:
        """Return a job's plan with changed noise, number of steps or clock skew."""
        if self.noise is not None:
            plan = replace(plan, workload=replace(plan.workload, noise=self.noise))
        if self.steps is not None:
            opened = tuple(map(_opened, plan.mechanisms))
            plan = replace(plan, shape=replace(plan.shape, steps=self.steps), mechanisms=opened)
        if self.is_skewed:
            hosts = own_hosts(plan.shape, plan.identity)
            clocks = draw_clocks(child_rng(plan.seed, "clocks"), hosts, plan.shape.steps)
            plan = replace(plan, mechanisms=(*plan.mechanisms, clocks))
        return plan


USUAL: Final = Variant("as drawn")
VARIANTS: Final = (
    Variant("6 % op noise", noise=0.06),
    Variant("4 steps", steps=4),
    Variant("6 % op noise, 4 steps", noise=0.06, steps=4),
    Variant("skewed clocks", is_skewed=True),
)


def judge_job(
    seed: int, variant: Variant = USUAL, diagnose: Diagnose = simulate_job, most_ops: int = 150_000
) -> list[Row]:
    """Draw a job and judge its diagnosis; a job has about `most_ops` recorded ops at most."""
    return judge_plan(variant.of(sample_job(seed, most_ops=most_ops)), variant.name, diagnose)


def judge_plan(drawn: JobPlan, variant: str = USUAL.name, diagnose: Diagnose = simulate_job) -> list[Row]:
    """Diagnose a job, and compare the result with reruns of the job without each of its causes in turn.

    returns  : one row per cause, with its predicted and its true saving as fractions of the actual
               step time, and the job's own columns in each. is_detectable: False if a communication fault in
               all steps leaves no usual transfer; is_flagged: any row of the diagnosis has a flag;
               is_located: all workers of the worst culprit are truly slow; None without a true slow worker
    """
    simulation = Simulation(drawn)
    job, truth = recorded_job(simulation), true_savings(simulation)
    found = diagnosed(diagnose, job.rank_steps, job.manifest)
    shape = drawn.shape
    of_job = {
        "seed": drawn.seed,
        "variant": variant,
        "kind": drawn.kind,
        **{name: getattr(shape, name) for name in ("dp_size", "pp_size", "vpp_size", "steps")},
        "noise": drawn.workload.noise,
        "status": found.job["status"],
        "is_detectable": not any(is_hidden(mechanism, shape) for mechanism in truth.mechanisms),
        "is_flagged": found.is_flagged,
        "is_located": _is_located(found, truth, shape),
        **{name: found.job.get(name) for name in FIGURES},
    }
    return [
        {**of_job, "cause": cause, **found.answer(cause), "true": true, "is_true": true >= THRESHOLD}
        for cause in found.asked
        for true in [truth.time_saved_fraction[cause]]
    ]


def healthy_seeds(first: int, number: int) -> list[int]:
    """Return the first `number` seeds from `first` on whose jobs have no fault."""
    healthy: Iterator[int] = (seed for seed in count(first) if sample_job(seed).kind == "healthy")
    return list(islice(healthy, number))


def is_hidden(mechanism: Mapping[str, Any], shape: JobShape) -> bool:
    """Return whether a communication fault leaves no healthy transfer to compare with.

    This is so if the fault acts in all steps, and slows collectives of all dp ranks or the job's only
    link.
    """
    if mechanism["cause"] != COMMUNICATION or len(mechanism["slowed_steps"]) < shape.steps:
        return False
    is_only_link = shape.pp_size == 2 and shape.dp_size == 1
    return is_only_link or mechanism["parameters"].get("traffic") == "replicas"


def _opened(mechanism: Mechanism) -> Mechanism:
    return replace(mechanism, window=ALWAYS) if isinstance(mechanism, Windowed) else mechanism


def _is_located(found: DiagnosedJob, truth: Truth, shape: JobShape) -> bool | None:
    """Return whether all workers of the worst culprit have the costliest slow_worker fault.

    None if the job's slow workers together cost less than the threshold.
    """
    if truth.time_saved_fraction[SLOW_WORKER] < THRESHOLD:
        return None
    slow = [each for each in truth.mechanisms if each["cause"] == SLOW_WORKER]
    worst = max(slow, key=lambda mechanism: float(mechanism["time_saved_fraction"]))
    named = found.worst_cells(SLOW_WORKER, shape.dp_size, shape.pp_size)
    return bool(named) and named <= set(map(tuple, worst["culprits"]["workers"]))
