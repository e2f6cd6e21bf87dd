"""Custom scenarios of one unit, callable without Spark: what if these ops had been ideal, or so much faster?

`replay_scenarios(rows, manifest, ["op_type = 'forward-compute' AND pp_rank = 3"]).answers[0].time_saved_s`
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final

import numpy as np
import pyarrow as pa

from udfs.clocks import correct_clocks
from udfs.ideals import IDEALS, PAPER_IDEAL
from udfs.kernel.custom import CustomTimes, replay_changes
from udfs.kernel.errors import TraceDefectError
from udfs.kernel.masked import Mask
from udfs.kernel.program import Floats
from udfs.kernel.trace import Trace, build_trace
from udfs.layout import read_layout
from udfs.op_columns import BlockColumns, WorkerRows
from udfs.op_predicate import OpPredicate, parse_predicate
from udfs.rank_rows import ReplayedRows, rows_to_replay
from udfs.trace_defects import refuse_endless, trace_error
from udfs.what_if import garbage_collection_paused

ALL_TOGETHER: Final = "all together"
"""Scenario that changes what any of several predicates chooses."""


@dataclass(frozen=True)
class Answer:
    """What one scenario gives.

    scenario            : the predicate, or ALL_TOGETHER.
    ops, ops_share      : how many of the replayed ops were changed, and their share.
    step_s              : replayed step time with these ops changed, mean over steps. [s]
    slowdown            : step_s over the mean ideal step time.
    time_saved_s        : T - step_s, for each step. [s]
    time_saved_fraction : (T - step_s) / T.
    gpu_hours_saved     : gpu_hours of the unit times that fraction; None where they are not known.
    """

    scenario: str
    ops: int
    ops_share: float
    step_s: float
    slowdown: float
    time_saved_s: float
    time_saved_fraction: float
    gpu_hours_saved: float | None


@dataclass(frozen=True)
class Answers:
    """The answers for one unit, and what they are measured against.

    steps, ops     : how many were replayed.
    actual_step_s, simulated_step_s, ideal_step_s : T_actual, T and T_ideal, means over steps. [s]
    slowdown       : S (Eq. 1), nothing changed.
    ideal          : how the ideal durations were chosen.
    answers        : one for each predicate, and behind them one for all together where there are several.
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
    ideal: str = PAPER_IDEAL,
) -> Answers:
    """Replay one unit with some of its ops changed and all others as recorded.

    rank_steps : rows of one unit in any order, columns as in the table rank_steps; `op` as names or codes.
    manifest   : the unit's job.json, or its row of jobs, as a dict.
    predicates : one scenario each; which ops it changes.
    factor     : None makes these ops ideal; a number gives each its own replayed duration times that number.
    ideal      : how ideal durations are chosen, a name in IDEALS.
    raises     : PredicateError, LayoutError for a manifest without sizes, NothingToReplayError, TraceError
                 where the recorded ops contradict each other, ValueError for a factor below 0.
    """
    chosen = [parse_predicate(each) if isinstance(each, str) else each for each in predicates]
    layout = read_layout(manifest)
    with garbage_collection_paused():
        rows = rows_to_replay(rank_steps, layout, manifest)
        try:
            trace = build_trace(rows.stages(), layout, len(rows.steps))
            correct_clocks(trace, rows, layout)
            scenarios = _scenarios(trace, rows, rank_steps, chosen)
            times = replay_changes(trace, list(scenarios.values()), factor, IDEALS[ideal])
        except TraceDefectError as defect:
            raise trace_error(defect, rows) from None
    refuse_endless(times.actual, rows)
    counts = [_count(trace, masks) for masks in scenarios.values()]
    return _answers(times, rows, list(scenarios), counts, manifest.get("gpu_hours"), ideal)


def _scenarios(
    trace: Trace, rows: ReplayedRows, rank_steps: pa.Table, predicates: Sequence[OpPredicate]
) -> dict[str, list[Mask]]:
    """Which ops of each block every scenario changes."""
    workers = WorkerRows.of(rank_steps, rows)
    blocks = [BlockColumns(block, rows.steps, workers) for block in trace.blocks]
    scenarios = {each.text: [each.chosen(columns) for columns in blocks] for each in predicates}
    if len(scenarios) > 1:
        scenarios[ALL_TOGETHER] = [reduce(or_, masks) for masks in zip(*scenarios.values(), strict=True)]
    return scenarios


def _count(trace: Trace, masks: Sequence[Mask]) -> int:
    """Number of ops that a scenario changes."""
    shapes = (block.start_s.shape for block in trace.blocks)
    return sum(int(np.broadcast_to(mask, shape).sum()) for mask, shape in zip(masks, shapes, strict=True))


def _answers(
    times: CustomTimes,
    rows: ReplayedRows,
    names: Sequence[str],
    counts: Sequence[int],
    gpu_hours: object,
    ideal: str,
) -> Answers:
    simulated_s, ideal_s = float(times.recorded.mean()), float(times.ideal.mean())

    def answer(name: str, ops: int, step_times: Floats) -> Answer:
        step_s = float(step_times.mean())
        fraction = (simulated_s - step_s) / simulated_s
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
        actual_step_s=float(times.actual.mean()),
        simulated_step_s=simulated_s,
        ideal_step_s=ideal_s,
        slowdown=simulated_s / ideal_s,
        ideal=ideal,
        answers=tuple(answer(*each) for each in zip(names, counts, times.changed, strict=True)),
    )
