"""Judging many jobs, by one process or by several."""

from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from jobs.runtime.arguments import Arguments
from jobs.runtime.progress import spread
from tests.evaluation.answers import Diagnose, Row
from tests.evaluation.judge import USUAL, VARIANTS, Variant, healthy_seeds, judge_job
from tests.evaluation.published import causes_of, injections, judge_injection


class Evaluated(NamedTuple):
    """What was said, beside its truth: one row per job and cause.

    answers   : of the jobs
    healthy   : of more jobs, all drawn without a fault
    again     : of some of the jobs, under other conditions
    injected  : faults in published traces, one row each
    published : all causes of the published traces
    """

    answers: pd.DataFrame
    healthy: pd.DataFrame
    again: pd.DataFrame
    injected: pd.DataFrame
    published: pd.DataFrame


def evaluate(args: Arguments, traces: Sequence[Path], diagnose: Diagnose) -> Evaluated:
    """Judge generated jobs, as the command's arguments say, and faults injected into published traces.

    The same seeds give the same answers, whatever the number of processes.

    traces   : folders of published traces
    diagnose : with several processes, a function that they find by its name
    """
    seeds = range(args.seed, args.seed + args.jobs)
    tasks = [(seed, USUAL) for seed in (*seeds, *healthy_seeds(seeds.stop, args.healthy))]
    tasks += [(seed, variant) for variant in VARIANTS for seed in seeds[: args.sensitivity]]
    judge = partial(_judge, diagnose=diagnose, most_ops=args.most_ops)
    judged = pd.DataFrame(chain.from_iterable(spread("jobs", judge, tasks, args.workers)))
    is_usual = judged.variant == USUAL.name
    inject = partial(judge_injection, diagnose=diagnose)
    return Evaluated(
        answers=judged[is_usual & (judged.seed < seeds.stop)],
        healthy=judged[is_usual & (judged.seed >= seeds.stop)],
        again=judged[~is_usual],
        injected=pd.DataFrame(spread("injected faults", inject, injections(traces), args.workers)),
        published=pd.DataFrame(row for folder in traces for row in causes_of(folder, diagnose)),
    )


def _judge(task: tuple[int, Variant], diagnose: Diagnose, most_ops: int) -> list[Row]:
    seed, variant = task
    return judge_job(seed, variant, diagnose, most_ops)
