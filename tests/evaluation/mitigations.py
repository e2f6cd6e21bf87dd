"""Evaluate what mitigations return: jobs are drawn with the trouble, and run once more with the mitigation.

`python -m tests.evaluation.mitigations --seed S` prints the tables. The second run has the same draws and the
mitigation in place: the layers that were advised; microbatches that are exchanged by their true work;
sequences that are packed evenly; collections of the same lengths, behind the optimizer, as often as was
advised. Seeds 0 to 99,999 are for tuning, those from 1,000,000 on are kept for evaluation.
"""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd

from jobs.runtime.arguments import Arguments, command, not_negative, option, positive
from jobs.synthetic.conditions import Conditions
from jobs.synthetic.job import recorded_job
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.mechanisms.work import LossLayer, PackedSequences, UnevenLayers
from jobs.synthetic.mechanisms.workers import UnsynchronisedGc
from jobs.synthetic.sample_faults import FAULTS, Setting
from jobs.synthetic.sample_job import sample_job
from jobs.synthetic.simulation import JobPlan, Simulation, child_rng
from schemas.vocabulary import JOB_SLOWDOWN, Exit, Status
from tests.evaluation.judge import Row
from tests.evaluation.report import FORMATS, Section, rendered
from udfs.mitigations import COLLECTIONS, LAYERS, OVER_DP_RANKS, SEQUENCES, Mitigation, mitigated
from udfs.what_if import simulate_job

NOTE: Final = (
    "Saved, and errors of it, in per cent of the recorded step, where there is an answer. "
    "Alone: the job has no fault of another cause."
)
LAYERS_OF_CHUNK: Final = (4, 13)
"""Least number of layers of a chunk, and one more than the most."""
NEAR: Final = 1.0
"""Error that is asked for [% of the step]."""
SURE: Final = 1.0
"""A direction is judged where that much is really saved or lost [% of the step]."""
FAULT_OF: Final = {
    LAYERS: "stage_imbalance",
    OVER_DP_RANKS: "data_imbalance",
    SEQUENCES: "data_imbalance",
    COLLECTIONS: "pause",
}


@dataclass(frozen=True)
class Exchanged(PackedSequences):
    """The same sequences; within each step dp ranks exchange whole microbatches by their true work."""

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Give the heaviest microbatch to the rank with the least work that has room."""
        super().change(conditions, rng)
        workload = conditions.workload
        work = (1 + workload.backward_ratio) * conditions.linear
        work = work + (1 + workload.attention_backward_ratio) * conditions.quadratic
        microbatches, steps, ranks = work.shape
        for step in range(steps):
            given: list[list[int]] = [[] for _ in range(ranks)]
            load = np.zeros(ranks)
            weight = work[:, step].ravel()
            for place in np.argsort(-weight, kind="stable").tolist():
                rank = min((r for r in range(ranks) if len(given[r]) < microbatches), key=lambda r: load[r])
                given[rank].append(place)
                load[rank] += weight[place]
            order = np.array(given).T
            for values in (conditions.linear, conditions.quadratic):
                values[:, step] = values[:, step].ravel()[order]


Exchanged.__name__ = PackedSequences.__name__  # draws go by the name: the same sequences


@dataclass(frozen=True)
class PlannedCollections(UnsynchronisedGc):
    """Collections of the same lengths: in every n-th step all workers collect behind the optimizer.

    planned_steps : n
    """

    planned_steps: int = 1

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Spread the pause of such a step over all steps: how many of them are recorded is chance."""
        rows = conditions.place.rows("optimizer")
        noise = rng.standard_normal((len(rows), *conditions.lanes))
        pause_s = self.pause_s * np.exp(self.spread * noise - self.spread**2 / 2)
        longest_s = pause_s.max(axis=(0, 2), keepdims=True)
        conditions.added_s[rows] += longest_s.mean(axis=1, keepdims=True) / self.planned_steps


def judge(seed: int, mitigation: str, most_ops: int) -> Row | None:
    """Draw a job with the trouble and compare; None where it has none, or is not analysed."""
    plan = sample_job(seed, most_ops=most_ops)
    shape, rng = plan.shape, child_rng(seed, "mitigation")
    setting = Setting(shape, plan.workload, shape.steps, ())
    trouble = FAULTS[FAULT_OF[mitigation]](child_rng(seed, "trouble"), setting)
    kinds: dict[str, type[Mechanism]] = {LAYERS: LossLayer, COLLECTIONS: UnsynchronisedGc}
    wanted = kinds.get(mitigation, PackedSequences)
    if not isinstance(trouble, wanted) or (mitigation == LAYERS and shape.pp_size == 1):
        return None
    others = [each for each in plan.mechanisms if each.cause is None or _is_apart(each, trouble)]
    plan = replace(plan, mechanisms=[trouble, *others])
    job = recorded_job(Simulation(plan))
    (unit,) = simulate_job(job.rank_steps, job.manifest)[JOB_SLOWDOWN].to_pylist()
    if unit["status"] != Status.ANALYSED:
        return None
    layers = [int(rng.integers(*LAYERS_OF_CHUNK))] * (shape.last_chunk + 1)
    found = mitigated(job.rank_steps, job.manifest, layers if mitigation == LAYERS else None)
    answers = {each.mitigation: each for each in found.answers}
    answer = answers.get(mitigation)
    after = _AFTER[mitigation](trouble, answer, layers)
    actual_s, true_s = (_step_s(each) for each in (plan, replace(plan, mechanisms=[*after, *others])))
    saved = 0.0 if answer is None else answer.time_saved_fraction
    true = 1 - true_s / actual_s
    return {
        "seed": seed,
        "mitigation": mitigation,
        "answered": answer is not None,
        "saved": 100 * saved,
        "true": 100 * true,
        "error": 100 * (saved - true),
        "sure": abs(100 * true) >= SURE,
        "right": np.sign(saved) == np.sign(true),
        "alone": not any(each.cause for each in others),
    }


def _is_apart(other: Mechanism, trouble: Mechanism) -> bool:
    """Whether a fault that the job also has is of another cause."""
    return other.cause != trouble.cause


def _step_s(plan: JobPlan) -> float:
    simulation = Simulation(plan)
    return float(simulation.step_us(simulation.timeline()).mean()) / 1e6


def _with_layers(trouble: Mechanism, answer: Mitigation | None, layers: Sequence[int]) -> list[Mechanism]:
    if answer is None or " instead of " not in answer.plan:
        return [trouble]
    after = [float(each) for each in answer.plan.split(" instead of ")[0].split(", ")]
    if sum(after) != sum(layers):
        raise AssertionError(f"{answer.plan}: layers were lost")
    return [trouble, UnevenLayers(tuple(after))]


def _exchanged(trouble: Mechanism, _answer: Mitigation | None, _layers: Sequence[int]) -> list[Mechanism]:
    return [Exchanged(**vars(trouble))]


def _packed(trouble: Mechanism, _answer: Mitigation | None, _layers: Sequence[int]) -> list[Mechanism]:
    left = trouble.without()
    return [] if left is None else [left]


def _planned(trouble: Mechanism, answer: Mitigation | None, _layers: Sequence[int]) -> list[Mechanism]:
    if answer is None:
        return [trouble]
    (every,) = re.findall(r"after every (\d+) steps", answer.plan)
    return [PlannedCollections(**vars(trouble), planned_steps=int(every))]


_AFTER: Final[dict[str, Callable[[Mechanism, Mitigation | None, Sequence[int]], list[Mechanism]]]] = {
    LAYERS: _with_layers,
    OVER_DP_RANKS: _exchanged,
    SEQUENCES: _packed,
    COLLECTIONS: _planned,
}


def tables(judged: pd.DataFrame) -> list[Section]:
    """Errors of each mitigation, and the largest."""
    key = ["mitigation", "alone"]
    answered = judged.groupby(key).answered.mean().mul(100).rename("answered [%]")
    sized = judged.assign(size=judged.error.abs(), near=judged.error.abs() <= NEAR)
    sized = sized[sized.answered]
    columns = {
        "jobs": ("seed", "size"),
        "mean saved [%]": ("true", "mean"),
        "bias [%]": ("error", "mean"),
        "MAE [%]": ("size", "mean"),
        "p95 [%]": ("size", lambda each: each.quantile(0.95)),
        "within 1 % [%]": ("near", lambda each: 100 * each.mean()),
    }
    sure = sized[sized.sure].groupby(key).right.agg(["size", "mean"])
    found = sized.groupby(key).agg(**columns).join([sure, answered]).reset_index()
    found = found.rename(columns={"size": "sure", "mean": "direction right [%]"})
    found["direction right [%]"] *= 100
    worst = (
        sized.reindex(sized["size"].sort_values(ascending=False).index)
        .head(10)
        .drop(columns=["size", "near", "answered"])
    )
    return [
        Section("Mitigations", NOTE, found),
        Section("Largest errors", "", worst),
    ]


@command(
    "tests.evaluation.mitigations",
    option("--jobs N", "jobs for each mitigation", positive, default=100),
    option("--seed S", "seed of the first job", not_negative, required=True),
    option("--most-ops N", "ops of a job, about", positive, default=15_000),
    option("--format FORMAT", "how to print it", choices=FORMATS, default=FORMATS[0]),
)
def main(args: Arguments) -> int:
    """Judge what mitigations return."""
    judged: list[Row] = []
    last = args.seed
    for mitigation in FAULT_OF:
        seed, jobs = args.seed, 0
        while jobs < args.jobs:
            row = judge(seed, mitigation, args.most_ops)
            judged += [] if row is None else [row]
            jobs += row is not None
            last = max(last, seed)
            seed += 1
    heading = f"{args.jobs} generated jobs for each mitigation, of seeds {args.seed} to {last}."
    sys.stdout.write(rendered(heading, tables(pd.DataFrame(judged)), args.format))
    return Exit.DONE


if __name__ == "__main__":
    sys.exit(main())
