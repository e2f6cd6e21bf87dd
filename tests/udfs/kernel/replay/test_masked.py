"""Custom scenarios of the kernel give the same step times as replaying each step alone, op by op."""

import numpy as np
import pytest

from jobs.synthetic.job import GeneratedJob
from tests.support.random_jobs import LAYOUTS, named_job
from tests.support.replays import replay, replayed_durations, step_time
from udfs.kernel.arrays import Mask
from udfs.kernel.recorded.first_pass import Recorded, read
from udfs.kernel.recorded.trace import Trace, build_trace
from udfs.kernel.replay.ideal import ideal_durations
from udfs.kernel.replay.masked import replay_changes
from udfs.kernel.what_if import OPS_TOGETHER
from udfs.layout import read_layout
from udfs.simulate.rank_rows import replayed_rows

JOBS = {name: named_job(name) for name in (*LAYOUTS, "disagreeing")} | {"middle_step_alone": named_job(53)}


def trace_of(job: GeneratedJob) -> Trace:
    layout = read_layout(job.manifest)
    rows = replayed_rows(job.rank_steps, layout)
    return build_trace(rows.stages(), layout, len(rows.steps))


def recorded_of(job: GeneratedJob) -> Recorded:
    """Read a job as if no transfer blocked its worker, which gives the same graph as `trace_of`."""
    layout = read_layout(job.manifest | {"blocking_transfers": []})
    return read(replayed_rows(job.rank_steps, layout), layout, OPS_TOGETHER, diagnosed=False)


def masks_of(trace: Trace, share: float, seed: int = 0) -> list[Mask]:
    rng = np.random.default_rng(seed)
    return [rng.random(block.start_s.shape) < share for block in trace.blocks]


def by_hand(trace: Trace, masks: list[Mask], factor: float | None) -> dict[int, float]:
    """Return step times from a separate replay of each step, with durations chosen op by op."""
    found = [replayed_durations(block) for block in trace.blocks]
    graphs = [block.graph for block in trace.blocks]
    ideal_s = ideal_durations(list(zip(graphs, found, strict=True)))
    times = {}
    for block, duration_s, mask in zip(trace.blocks, found, masks, strict=True):
        for place, step in enumerate(block.steps.tolist()):
            chosen_s = np.empty((block.graph.size, 1, 1, duration_s.shape[2]))
            for op, dp in np.ndindex(chosen_s.shape[0], chosen_s.shape[3]):
                own_s = duration_s[op, place, dp]
                new_s = (
                    ideal_s[block.graph.stages[op], block.graph.op_types[op]]
                    if factor is None
                    else own_s * factor
                )
                chosen_s[op, 0, 0, dp] = new_s if mask[op, place, dp] else own_s
            times[step] = float(step_time(replay(block.graph, chosen_s))[0, 0])
    return times


@pytest.mark.parametrize("factor", [None, 0.9])
@pytest.mark.parametrize("name", JOBS)
def test_scenarios_are_replays_of_one_step_at_a_time_bit_for_bit(name: str, factor: float | None) -> None:
    trace = trace_of(JOBS[name])
    scenarios = [masks_of(trace, share, seed) for seed, share in enumerate((0.1, 0.5))]
    times = replay_changes(recorded_of(JOBS[name]), zip(*scenarios, strict=True), factor)
    assert times.changed_ops.tolist() == [sum(mask.sum() for mask in masks) for masks in scenarios]
    for changed, masks in zip(times.changed, scenarios, strict=True):
        assert dict(enumerate(changed.tolist())) == by_hand(trace, masks, factor)


@pytest.mark.parametrize("factor", [-0.1, float("nan"), float("inf")])
def test_a_factor_that_is_no_factor(factor: float) -> None:
    with pytest.raises(ValueError, match="must be a finite number >= 0"):
        replay_changes(recorded_of(JOBS["one_worker"]), [[]], factor)
