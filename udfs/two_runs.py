"""Compare two runs of a job, without Spark: which ops, stages and hosts make one of the runs slower.

`divided([read_run(rows, manifest)], [read_run(other_rows, other_manifest)]).by_op_type`
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.graph.graph import Layout
from udfs.kernel.recorded.first_pass import Recorded
from udfs.kernel.replay.masked import op_stages
from udfs.kernel.replay.other_times import (
    Match,
    change_by_group,
    parts_of,
    times_by_key,
    with_other_times,
)
from udfs.kernel.replay.replay import step_times
from udfs.kernel.replay.scenario_rows import TYPE_GROUP
from udfs.op_lists import GROUPS
from udfs.scenario.op_columns import BlockColumns, WorkerRows
from udfs.simulate.choice import chosen
from udfs.simulate.rank_rows import ReplayedRows
from udfs.what_if import SimulationSettings, garbage_collection_paused

MOST_GROUPS: Final = 16
"""Most stages, or hosts, that get a separate part; those whose ops change most are taken."""
OTHERS: Final = "all others"
_UNKNOWN: Final = "host not logged"


class ReadRun(NamedTuple):
    """A run, or one day of it, that is ready for a replay."""

    rows: ReplayedRows
    layout: Layout
    recorded: Recorded


class Divided(NamedTuple):
    """Difference of the replayed step times of two runs, by groups of ops; in seconds per step.

    match       : attributes by which the ops of the two runs were matched.
    first_s, second_s : T of the first run and of the second.
    matched_s   : T of the second run with the durations of the first. matched_s - first_s is due to the order
                  and number of ops, and to ops that only one of the runs has.
    by_op_type, by_stage, by_host : parts of second_s - matched_s; each mapping adds up to this difference.
                  by_stage and by_host are empty if there is only one, or if the layouts differ too much.
    """

    match: Match
    first_s: float
    second_s: float
    matched_s: float
    by_op_type: Mapping[str, float]
    by_stage: Mapping[str, float]
    by_host: Mapping[str, float]


def read_run(
    rank_steps: pa.Table, manifest: Mapping[str, object], settings: SimulationSettings | None = None
) -> ReadRun:
    """Read a unit as custom_scenario.replay_scenarios does, with the same errors."""
    how = settings or SimulationSettings()
    with garbage_collection_paused():
        choice = chosen(rank_steps, manifest, how)
        return ReadRun(choice.rows, choice.layout, choice.read(how.ops_together))


def divided(first: Sequence[ReadRun], second: Sequence[ReadRun]) -> Divided:
    """Divide the difference between the step times of two runs by op type, stage and host.

    first, second : units of each run; all units of one run have one layout.
    """
    layout, other = second[0].layout, first[0].layout
    match = Match.WORKERS if layout.dp_size == other.dp_size else Match.STAGES
    if (layout.pp_size, layout.vpp_size) != (other.pp_size, other.vpp_size):
        match = Match.OP_TYPES
    blocks = [block for run in second for block in run.recorded.blocks]
    references = [block for run in first for block in run.recorded.blocks]
    with garbage_collection_paused():
        taken_s = with_other_times(
            blocks, layout.dp_size, match, times_by_key(references, other.dp_size, match)
        )

        def shared(groups: Sequence[Ints], names: Sequence[str]) -> tuple[float, float, dict[str, float]]:
            change_s = change_by_group(blocks, taken_s, groups, len(names))
            kept, named = _largest(change_s, names)
            found = parts_of(blocks, taken_s, [kept[each] for each in groups], len(named))
            return found.recorded_s, found.all_s, dict(zip(named, found.parts_s.tolist(), strict=True))

        types = [np.array(TYPE_GROUP)[list(block.graph.op_types)][:, None, None] for block in blocks]
        second_s, matched_s, by_op_type = shared(types, GROUPS)
        by_stage: dict[str, float] = {}
        by_host: dict[str, float] = {}
        if match is not Match.OP_TYPES and layout.pp_size > 1:
            stages = [op_stages(block.graph)[:, None] for block in blocks]
            by_stage = shared(stages, [f"stage {stage}" for stage in range(layout.pp_size)])[2]
        if match is Match.WORKERS:
            hosts, names = _hosts(first, second)
            by_host = shared(hosts, names)[2] if len(names) > 1 else {}
    steps = sum(len(run.rows.steps) for run in first)
    totals_s = [
        sum(step_times(block.graph, block.duration_s).sum() for block in run.recorded.blocks) for run in first
    ]
    first_s = float(sum(totals_s) / steps)
    return Divided(match, first_s, second_s, matched_s, by_op_type, by_stage, by_host)


def _largest(change_s: Floats, names: Sequence[str]) -> tuple[Ints, list[str]]:
    """Keep the groups that change most and merge all others; return new group numbers and names.

    Groups that do not change join the last one, because they add nothing to its part.
    """
    changing = [int(each) for each in np.argsort(-change_s, kind="stable") if change_s[each] > 0.0]
    kept = sorted(changing[:MOST_GROUPS])
    named = [names[each] for each in kept]
    if len(changing) > MOST_GROUPS or not kept:
        named.append(OTHERS)
    number = np.full(len(names), len(named) - 1)
    number[kept] = np.arange(len(kept))
    return number, named


def _hosts(first: Sequence[ReadRun], second: Sequence[ReadRun]) -> tuple[list[Ints], list[str]]:
    """Return the host number of each op for each block of the second run, and names of the hosts.

    A name includes the host of the same workers in the first run, if that was exactly one other host.
    """
    before = _host_names(WorkerRows.of(first[-1].rows))
    names: dict[str, int] = {}
    groups = []
    for run in second:
        workers = WorkerRows.of(run.rows)
        here = _host_names(workers)
        labels = []
        for host in (*workers.hosts, _UNKNOWN):
            was = {str(each) for each in before[here == host]} - {_UNKNOWN}
            labels.append(f"{host} (was {was.pop()})" if len(was) == 1 and was != {host} else host)
        number = np.array([names.setdefault(label, len(names)) for label in labels])
        columns = (BlockColumns(block, run.rows.steps, workers) for block in run.recorded.blocks)
        groups += [number[each("host").values] for each in columns]
    return groups, list(names)


def _host_names(workers: WorkerRows) -> npt.NDArray[np.str_]:
    """Return the host of each worker in the first step, shape (stage, dp_rank)."""
    return np.array([*workers.hosts, _UNKNOWN])[workers.host[:, 0]]
