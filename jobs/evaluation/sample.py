"""Generated jobs, each diagnosed and set beside its truth."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count, islice
from typing import Any, Final

import pandas as pd

from jobs.evaluation.diagnosis import Cell, Diagnose, DiagnosedJob, Indicators, diagnosed
from jobs.synthetic.mechanisms.clocks import draw_clocks
from jobs.synthetic.mechanisms.mechanism import Mechanism, Windowed
from jobs.synthetic.sample_job import SampledJob, own_hosts, run_sampled, sample_job
from jobs.synthetic.sample_layout import child_rng
from jobs.synthetic.shape import JobShape
from jobs.synthetic.simulation import LABELS
from jobs.synthetic.truth import Truth, true_savings
from jobs.synthetic.window import ALWAYS
from udfs.what_if import simulate_job

THRESHOLD: Final = 0.025
"""A cause holds if its fix saves this share of the actual step time."""

SLOW_WORKER: Final = "slow_worker"
COMMUNICATION: Final = "communication"


@dataclass(frozen=True)
class Variant:
    """A job as drawn, but for some of its conditions.

    noise : standard deviation of the log of any op's time; None: as drawn
    steps : recorded steps; None: as drawn. Windows are then opened, because most begin after so few.
    is_skewed : whether the clocks of its hosts are off besides
    """

    name: str
    noise: float | None = None
    steps: int | None = None
    is_skewed: bool = False

    def of(self, job: SampledJob) -> SampledJob:
        """Return the job under these conditions."""
        plan = job.plan
        if self.noise is not None:
            plan = replace(plan, workload=replace(plan.workload, noise=self.noise))
        if self.steps is not None:
            opened = tuple(map(_opened, plan.mechanisms))
            plan = replace(plan, shape=replace(plan.shape, steps=self.steps), mechanisms=opened)
        if self.is_skewed:
            hosts = own_hosts(plan.shape, plan.identity)
            clocks = draw_clocks(child_rng(plan.seed, "clocks"), hosts, plan.shape.steps)
            plan = replace(plan, mechanisms=(*plan.mechanisms, clocks))
        return replace(job, plan=plan)


USUAL: Final = Variant("as drawn")
VARIANTS: Final = (
    Variant("6 % op noise", noise=0.06),
    Variant("4 steps", steps=4),
    Variant("6 % op noise, 4 steps", noise=0.06, steps=4),
    Variant("skewed clocks", is_skewed=True),
)


@dataclass(frozen=True)
class Answer:
    """One cause of one job; fractions are of the actual step time."""

    cause: str
    predicted: float
    true: float
    is_cause: bool
    is_true: bool
    flag: str | None


@dataclass(frozen=True)
class JudgedJob:
    """A job beside its truth.

    kind          : as drawn: healthy, single or several
    noise         : standard deviation of the log of any op's time
    is_detectable : False if a communication fault in all steps leaves no usual transfer; see is_hidden
    is_flagged    : whether any row of the diagnosis has a flag
    is_located    : whether the cells named worst are truly slow; None without a true slow worker
    """

    seed: int
    variant: str
    kind: str
    dp_size: int
    pp_size: int
    vpp_size: int
    steps: int
    noise: float
    status: str
    is_detectable: bool
    is_flagged: bool
    is_located: bool | None
    indicators: Indicators
    answers: tuple[Answer, ...]


def judge_job(
    seed: int, variant: Variant = USUAL, diagnose: Diagnose = simulate_job, most_ops: int = 150_000
) -> JudgedJob:
    """Draw, run and record a job, let it be diagnosed, and run it again without each cause.

    most_ops : about so many ops are recorded, at most
    """
    drawn = variant.of(sample_job(seed, most_ops=most_ops))
    job, simulation = run_sampled(drawn.plan, drawn.lost_ranks)
    truth = true_savings(simulation)
    found = diagnosed(diagnose, job.rank_steps, job.manifest)
    shape = drawn.plan.shape
    return JudgedJob(
        seed=seed,
        variant=variant.name,
        kind=drawn.kind,
        dp_size=shape.dp_size,
        pp_size=shape.pp_size,
        vpp_size=shape.vpp_size,
        steps=shape.steps,
        noise=drawn.plan.workload.noise,
        status=found.status,
        is_detectable=not any(is_hidden(mechanism, shape) for mechanism in truth.mechanisms),
        is_flagged=found.is_flagged,
        is_located=_is_located(found, truth, shape),
        indicators=found.indicators,
        answers=tuple(_answer(cause, found, truth) for cause in LABELS),
    )


def healthy_seeds(first: int, number: int) -> list[int]:
    """Seeds from `first` on whose jobs are drawn without a fault."""
    return list(islice(_healthy(first), number))


def is_hidden(mechanism: Mapping[str, Any], shape: JobShape) -> bool:
    """Whether a communication fault leaves nothing to compare with.

    So if it struck in all steps, and hit whole collectives of the dp ranks, or the only link there is.
    """
    if mechanism["cause"] != COMMUNICATION or len(mechanism["slowed_steps"]) < shape.steps:
        return False
    is_only_link = shape.pp_size == 2 and shape.dp_size == 1
    return is_only_link or mechanism["parameters"].get("traffic") == "replicas"


def answers_of(judged: Sequence[JudgedJob]) -> pd.DataFrame:
    """One row per job and cause: the answer, and the job's columns beside."""
    rows = []
    for job in judged:
        of_job = asdict(job)
        del of_job["answers"]
        figures = of_job.pop("indicators")
        rows += [{**of_job, **figures, **asdict(answer)} for answer in job.answers]
    return pd.DataFrame(rows)


def _healthy(first: int) -> Iterator[int]:
    return (seed for seed in count(first) if sample_job(seed).kind == "healthy")


def _opened(mechanism: Mechanism) -> Mechanism:
    return replace(mechanism, window=ALWAYS) if isinstance(mechanism, Windowed) else mechanism


def _answer(cause: str, found: DiagnosedJob, truth: Truth) -> Answer:
    given, true = found.causes[cause], truth.time_saved_fraction[cause]
    return Answer(cause, given.time_saved_fraction, true, given.is_cause, true >= THRESHOLD, given.flag)


def _is_located(found: DiagnosedJob, truth: Truth, shape: JobShape) -> bool | None:
    """Whether every cell of the culprit named worst is one of the costliest slow worker mechanism."""
    if truth.time_saved_fraction[SLOW_WORKER] < THRESHOLD:
        return None
    slow = [each for each in truth.mechanisms if each["cause"] == SLOW_WORKER]
    worst = max(slow, key=lambda mechanism: float(mechanism["time_saved_fraction"]))
    cells: set[Cell] = {(dp_rank, pp_rank) for dp_rank, pp_rank in worst["culprits"]["workers"]}
    named = found.causes[SLOW_WORKER].culprits
    return bool(named) and named[0].cells(shape.dp_size, shape.pp_size) <= cells
