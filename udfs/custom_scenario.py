"""What-if scenarios of a unit, without Spark: chosen ops get ideal or scaled durations, or causes are fixed.

`replay_scenarios(rows, manifest, ["op_type = 'forward-compute' AND pp_rank = 3"]).answers[0].time_saved_s`
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import fsum
from operator import or_
from typing import Any, Final

import pyarrow as pa

from schemas.vocabulary import ALL_CAUSES, JOB_CAUSES, JOB_SLOWDOWN
from udfs.errors import NothingToReplayError
from udfs.kernel.arrays import Mask
from udfs.kernel.recorded.first_pass import Block
from udfs.kernel.replay.ideal import IDEALS
from udfs.kernel.replay.masked import CustomTimes, replay_changes
from udfs.scenario.op_columns import BlockColumns, WorkerRows
from udfs.scenario.op_predicate import OpPredicate, parse_predicate
from udfs.simulate.choice import chosen, defects_named
from udfs.simulate.rank_rows import ReplayedRows
from udfs.what_if import SimulationSettings, garbage_collection_paused, simulate_job

ALL_TOGETHER: Final = "all together"
"""Scenario that changes the ops chosen by any of several predicates."""


@dataclass(frozen=True)
class Answer:
    """What one scenario gives: the replayed step time, the slowdown, and the time and GPU-hours saved.

    scenario            : the predicate, or ALL_TOGETHER.
    ops, ops_share      : how many of the replayed ops were changed, and their share; None where a cause
                          was fixed, see replay_causes.
    step_s              : replayed step time with these ops changed, mean over steps. [s]
    slowdown            : step_s over the mean ideal step time.
    time_saved_s        : T - step_s, for each step. [s]
    time_saved_fraction : (T - step_s) / T_actual, as in job_causes.
    gpu_hours_saved     : gpu_hours of the unit times time_saved_fraction; None if gpu_hours is unknown.
    """

    scenario: str
    ops: int | None
    ops_share: float | None
    step_s: float
    slowdown: float
    time_saved_s: float
    time_saved_fraction: float
    gpu_hours_saved: float | None


@dataclass(frozen=True)
class Answers:
    """Results of all scenarios of a unit, and of the unchanged replay with which they are compared.

    steps, ops     : how many were replayed.
    actual_step_s, simulated_step_s, ideal_step_s : T_actual, T and T_ideal, means over steps. [s]
    slowdown       : S (Eq. 1) of the unchanged replay.
    ideal          : how the ideal durations were chosen.
    answers        : one for each predicate; if there are several, then one for ALL_TOGETHER.
    """

    steps: int
    ops: int
    actual_step_s: float
    simulated_step_s: float
    ideal_step_s: float
    slowdown: float
    ideal: str
    answers: tuple[Answer, ...]


def replay_scenarios(
    rank_steps: pa.Table,
    manifest: Mapping[str, object],
    predicates: Sequence[str | OpPredicate],
    factor: float | None = None,
    settings: SimulationSettings | None = None,
) -> Answers:
    """Replay one unit with the chosen ops changed and all others as recorded.

    rank_steps : rows of one unit in any order, columns as in the table rank_steps; `op` as names or codes.
    manifest   : the unit's job.json, or its row of jobs, as a dict.
    predicates : each chooses the ops that one scenario changes.
    factor     : None makes these ops ideal; a number multiplies their replayed durations.
    settings   : with the settings of the night, T and T_ideal equal those in job_slowdown.
    raises     : PredicateError, NothingToReplayError with the status of a unit that is not replayed,
                 TraceError where the recorded ops contradict each other, ValueError for a factor below 0.
    """
    understood = [parse_predicate(each) if isinstance(each, str) else each for each in predicates]
    asked = {each.text: each for each in understood}
    how = settings or SimulationSettings()
    with garbage_collection_paused():
        choice = chosen(rank_steps, manifest, how)
        rows, recorded = choice.rows, choice.read(how.ops_together)
        with defects_named(rows):
            masks = _masks(recorded.blocks, rows, list(asked.values()))
            times = replay_changes(recorded, masks, factor, IDEALS[how.ideal])
    names = [*asked, ALL_TOGETHER] if len(asked) > 1 else [*asked]
    actual_s = float(recorded.actual_s.mean())
    return _answers(times, actual_s, rows, names, manifest.get("gpu_hours"), how.ideal)


def _masks(
    blocks: Sequence[Block], rows: ReplayedRows, predicates: Sequence[OpPredicate]
) -> Iterator[list[Mask]]:
    """Yield for each block the ops that each scenario changes; for several scenarios, also their union."""
    workers = WorkerRows.of(rows)
    for block in blocks:
        columns = BlockColumns(block, rows.steps, workers)
        masks = [each.chosen(columns) for each in predicates]
        yield [*masks, reduce(or_, masks)] if len(masks) > 1 else masks


def _answers(
    times: CustomTimes,
    actual_step_s: float,
    rows: ReplayedRows,
    names: Sequence[str],
    gpu_hours: object,
    ideal: str,
) -> Answers:
    simulated_s, ideal_s = float(times.recorded.mean()), float(times.ideal.mean())

    def answer(name: str, ops: int, step_s: float) -> Answer:
        fraction = (simulated_s - step_s) / actual_step_s
        return Answer(
            scenario=name,
            ops=ops,
            ops_share=ops / rows.ops,
            step_s=step_s,
            slowdown=step_s / ideal_s,
            time_saved_s=simulated_s - step_s,
            time_saved_fraction=fraction,
            gpu_hours_saved=gpu_hours * fraction if isinstance(gpu_hours, int | float) else None,
        )

    return Answers(
        steps=len(rows.steps),
        ops=rows.ops,
        actual_step_s=actual_step_s,
        simulated_step_s=simulated_s,
        ideal_step_s=ideal_s,
        slowdown=simulated_s / ideal_s,
        ideal=ideal,
        answers=tuple(map(answer, names, times.changed_ops.tolist(), times.changed.mean(axis=1).tolist())),
    )


def replay_causes(
    rank_steps: pa.Table,
    manifest: Mapping[str, object],
    causes: Sequence[str],
    settings: SimulationSettings,
) -> Answers:
    """Replay one unit with each of the given causes fixed alone, and then with all of them fixed.

    The table job_causes stores the results of the same replays.

    rank_steps, manifest : as replay_scenarios takes them.
    causes   : those of CAUSES that have a fix.
    settings : with the settings of the night, the answers equal the rows of job_causes before revision.
    returns  : one answer for each cause, then one for ALL_CAUSES. `ops` is None in all of them, because a
               fix removes only a part of the time of many ops. step_s is T_actual minus the time saved.
    raises   : NothingToReplayError if the unit is not replayed, or its log cannot show one of the causes;
               TraceError if its ops contradict each other.
    """
    tables = simulate_job(rank_steps, manifest, settings)
    (job,) = tables[JOB_SLOWDOWN].to_pylist()
    return cause_answers(job, tables[JOB_CAUSES].to_pylist(), causes)


def cause_answers(
    job: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], causes: Sequence[str]
) -> Answers:
    """Return, from the unit's tables, what fixing each of the given causes saves, and fixing all of them.

    job, rows : its row of job_slowdown, and its rows of job_causes, revised or not.
    raises    : NothingToReplayError as in replay_causes.
    """
    if not rows:
        raise NothingToReplayError(f"{job['status']}: {job['status_detail']}")
    saved = {row["cause"]: row["time_saved_fraction"] for row in rows}
    unseen = [cause for cause in causes if cause not in saved]
    if unseen:
        raise NothingToReplayError(f"{', '.join(unseen)}: the unit's log does not record what would show it")
    together = max(0.0, fsum(row["attributed_fraction"] for row in rows))
    asked = {cause: saved[cause] for cause in causes} | {ALL_CAUSES: together}
    actual_s, ideal_s, gpu_hours = job["actual_step_s"], job["ideal_step_s"], job["gpu_hours"]
    return Answers(
        steps=job["steps"],
        ops=job["ops"],
        actual_step_s=actual_s,
        simulated_step_s=job["simulated_step_s"],
        ideal_step_s=ideal_s,
        slowdown=job["slowdown"],
        ideal=job["ideal"],
        answers=tuple(
            Answer(
                scenario=name,
                ops=None,
                ops_share=None,
                step_s=actual_s * (1 - fraction),
                slowdown=actual_s * (1 - fraction) / ideal_s,
                time_saved_s=actual_s * fraction,
                time_saved_fraction=fraction,
                gpu_hours_saved=None if gpu_hours is None else gpu_hours * fraction,
            )
            for name, fraction in asked.items()
        ),
    )
