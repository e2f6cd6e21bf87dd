"""Judging many jobs, by one process or by several."""

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import pandas as pd
from rich.progress import track

from jobs.evaluation.diagnosis import Diagnose
from jobs.evaluation.published import InjectionJudged, causes_of, injections, judge_injection
from jobs.evaluation.sample import (
    USUAL,
    VARIANTS,
    JudgedJob,
    Variant,
    answers_of,
    healthy_seeds,
    judge_job,
)
from udfs.what_if import simulate_job

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Wanted:
    """What to evaluate.

    jobs, seed  : so many jobs, of the seeds from `seed` on
    healthy     : more jobs, of the seeds after those, all drawn without a fault
    sensitivity : so many of the jobs again under other conditions
    most_ops    : about so many ops are recorded of a job, at most
    traces      : folders of published traces
    """

    jobs: int
    seed: int
    healthy: int = 0
    sensitivity: int = 0
    most_ops: int = 60_000
    traces: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Evaluated:
    """What was said, beside its truth.

    answers   : of the jobs, one row per job and cause
    healthy   : of the healthy jobs
    usual     : those of `answers` whose jobs were judged again
    variants  : of the same jobs, by other conditions
    injected  : faults in published traces
    published : all causes of the published traces
    last_seed : the last one used
    """

    answers: pd.DataFrame
    healthy: pd.DataFrame
    usual: pd.DataFrame
    variants: dict[str, pd.DataFrame]
    injected: list[InjectionJudged]
    published: pd.DataFrame
    last_seed: int


def evaluate(wanted: Wanted, workers: int = 1, diagnose: Diagnose = simulate_job) -> Evaluated:
    """Judge generated jobs and injected faults.

    The same seeds give the same answers, whatever the number of processes.

    diagnose : with several processes, a function that they find by its name
    raises   : NoDiagnosisError where the simulation gives no causes
    """
    seeds = range(wanted.seed, wanted.seed + wanted.jobs)
    healthy = healthy_seeds(seeds.stop, wanted.healthy)
    again = seeds[: wanted.sensitivity]
    tasks = [(seed, USUAL) for seed in (*seeds, *healthy)]
    tasks += [(seed, variant) for variant in VARIANTS for seed in again]
    judge = partial(_judge, diagnose=diagnose, most_ops=wanted.most_ops)
    judged = _all_done("jobs", judge, tasks, workers)
    ours, rest = judged[: wanted.jobs], judged[wanted.jobs :]
    ours_and_later = answers_of(ours)
    inject = partial(judge_injection, diagnose=diagnose)
    return Evaluated(
        answers=ours_and_later,
        healthy=answers_of(rest[: len(healthy)]),
        usual=ours_and_later[ours_and_later.seed.isin(again)],
        variants={
            variant.name: answers_of([job for job in rest if job.variant == variant.name])
            for variant in VARIANTS
            if again
        },
        injected=_all_done("injected faults", inject, injections(wanted.traces), workers),
        published=pd.concat([causes_of(folder, diagnose) for folder in wanted.traces])
        if wanted.traces
        else pd.DataFrame(),
        last_seed=max([*seeds, *healthy]),
    )


def _judge(task: tuple[int, Variant], diagnose: Diagnose, most_ops: int) -> JudgedJob:
    seed, variant = task
    return judge_job(seed, variant, diagnose, most_ops)


def _all_done(name: str, work: Callable[[Task], Result], tasks: Sequence[Task], workers: int) -> list[Result]:
    """Results in the order of the tasks; a bar shows the progress where standard output is a terminal."""
    is_hidden = not tasks or not sys.stdout.isatty()
    with _in_order(work, tasks, workers) as results:
        return list(track(results, name, len(tasks), disable=is_hidden, transient=True))


@contextmanager
def _in_order(
    work: Callable[[Task], Result], tasks: Sequence[Task], workers: int
) -> Iterator[Iterator[Result]]:
    """Results as they come, by this process or by others."""
    if workers == 1 or not tasks:
        yield map(work, tasks)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield pool.map(work, tasks, chunksize=4)
