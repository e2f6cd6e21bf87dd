"""Replaying all scenarios together equals replaying each alone; with launch delays it gives T_actual."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.shape import JobShape, Workload
from schemas.op_types import DECLARED
from schemas.vocabulary import OP_TYPES
from tests.support import published
from tests.support.random_jobs import generate_job, named_job
from tests.support.replays import launch_delays, replay, replayed_durations, step_time
from tests.udfs.equal_results import assert_same_results
from udfs.kernel import op_type
from udfs.kernel.arrays import Floats
from udfs.kernel.graph.graph import Layout, OpGraph
from udfs.kernel.recorded.durations import clamped_launch_delays
from udfs.kernel.recorded.trace import StepBlock, Trace, build_trace
from udfs.kernel.replay import masked
from udfs.kernel.replay.ideal import ideal_durations, ideal_of_ops
from udfs.kernel.replay.masked import replay_one_by_one
from udfs.kernel.replay.replay import FEW_DP_RANKS, VERY_FEW_DP_RANKS, last_ops, latest_of_dp_ranks
from udfs.kernel.replay.replay import replay as replay_fast
from udfs.kernel.replay.stacked import replay_scenarios
from udfs.kernel.replay.timeline import replayed_timeline
from udfs.layout import read_layout
from udfs.simulate.rank_rows import replayed_rows
from udfs.what_if import simulate_job

SHAPES = {
    "one worker": JobShape(steps=3),
    "replicas": JobShape(dp_size=4, steps=3),
    "pipeline": JobShape(pp_size=4, microbatches=6, steps=3),
    "both": JobShape(dp_size=3, pp_size=3, microbatches=5, steps=3, batched=True),
    "virtual pipeline": JobShape(dp_size=3, pp_size=2, vpp_size=3, microbatches=4, steps=2,
                                 noop_transfers="all"),
    "overlapped": JobShape(dp_size=2, pp_size=2, vpp_size=2, microbatches=4, steps=3, overlapped=True,
                           noop_transfers="first_missing", buckets=2),
    "context parallel": JobShape(pp_size=2, cp_size=2, steps=3),
    "no collectives": JobShape(dp_size=3, pp_size=2, steps=3, absent=frozenset(OP_TYPES[6:12])),
}  # fmt: skip


def trace_of(shape: JobShape) -> tuple[Trace, pa.Table, dict[str, object]]:
    worker = WeakGpu(dp_rank=shape.dp_size - 1, pp_rank=0, factor=1.5)
    job = generate_job(shape, [worker], seed=3, workload=Workload(noise=0.05, launch_s=0.001))
    layout = read_layout(job.manifest)
    rows = replayed_rows(job.rank_steps, layout)
    return build_trace(rows.stages(), layout, len(rows.steps)), job.rank_steps, job.manifest


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_stacked_scenarios_are_one_at_a_time_replays_bit_for_bit(shape: JobShape) -> None:
    trace, _, manifest = trace_of(shape)
    (block,) = trace.blocks
    duration_s = replayed_durations(block)
    ideal_of_op = ideal_of_ops(block.graph, ideal_durations([(block.graph, duration_s)]))
    assert_together_as_alone(block.graph, read_layout(manifest), duration_s, ideal_of_op)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_the_fast_replay_is_the_one_that_is_read_bit_for_bit(shape: JobShape) -> None:
    trace, _, _ = trace_of(shape)
    (block,) = trace.blocks
    graph, duration_s = block.graph, replayed_durations(block)
    halved_s = np.where(np.arange(graph.size)[:, None, None] % 2, duration_s / 2, duration_s)
    both = np.stack([duration_s, halved_s], axis=1)
    fast_s = replay_fast(graph, list(both.reshape(graph.size, 2, -1)), both.shape[1:])
    for scenario, step in np.ndindex(fast_s.shape):
        read = replayed_timeline(graph, both[:, scenario, step])
        assert fast_s[scenario, step] == read.end_s.max()


def test_an_op_may_end_before_what_it_waited_for_where_its_ideal_is_negative() -> None:
    """Stacked and single replays agree even if a negative ideal lets an op end before its inputs."""
    trace, _, manifest = trace_of(SHAPES["both"])
    (block,) = trace.blocks
    is_noise = np.array(block.graph.op_types) >= op_type.OPTIMIZER_CLIP_MAIN_GRAD
    ideal_of_op = np.where(is_noise, -0.005, 0.1)
    assert_together_as_alone(block.graph, read_layout(manifest), block.duration_s, ideal_of_op)


def assert_together_as_alone(graph: OpGraph, layout: Layout, duration_s: Floats, ideal_of_op: Floats) -> None:
    is_last = last_ops(graph, np.minimum(duration_s.reshape(graph.size, -1).min(axis=1), ideal_of_op))
    together = replay_scenarios(graph, layout, duration_s, ideal_of_op, is_last)
    alone = replay_one_by_one(graph, layout, duration_s, ideal_of_op)
    for name, value in together._asdict().items():
        wanted = getattr(alone, name)
        if isinstance(value, dict):
            assert value.keys() == wanted.keys()
            assert all(np.array_equal(value[key], wanted[key]) for key in value), name
        else:
            assert np.array_equal(value, wanted), name


@pytest.mark.parametrize("dp_ranks", [1, 2, VERY_FEW_DP_RANKS + 1, FEW_DP_RANKS, FEW_DP_RANKS + 1])
def test_the_latest_of_dp_ranks_may_be_any_of_them(dp_ranks: int) -> None:
    each_is_latest = np.eye(dp_ranks)[None]
    assert latest_of_dp_ranks(each_is_latest).tolist() == np.ones((1, dp_ranks, 1)).tolist()


@pytest.mark.parametrize("values", [1, 600])
def test_stacks_of_few_scenarios_are_stacks_of_all(values: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaying scenarios in several small stacks, which need less memory, gives the results of one stack."""
    job = named_job("disagreeing")
    whole = simulate_job(job.rank_steps, job.manifest)
    monkeypatch.setattr(masked, "STACKED_VALUES", values)
    assert_same_results(simulate_job(job.rank_steps, job.manifest), whole, within=0.0)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_all_launch_delays_put_back_give_the_recorded_step_times(shape: JobShape) -> None:
    trace, _, _ = trace_of(shape)
    for block in trace.blocks:
        assert_identity(block)


@pytest.mark.parametrize("name", published.NAMES)
def test_identity_on_published_traces(name: str, published_traces: Path) -> None:
    layout = read_layout(published.manifest(published_traces, name))
    rows = replayed_rows(published.rank_steps(published_traces, name), layout)
    for block in build_trace(rows.stages(), layout, len(rows.steps)).blocks:
        assert_identity(block)


def assert_identity(block: StepBlock) -> None:
    ends_s = block.start_s + block.duration_s
    assert clamped_launch_delays(block.graph, block.start_s, ends_s) == 0
    end_s = replay(block.graph, replayed_durations(block)[:, None], launch_delays(block)[:, None])
    recorded_s = ends_s.max(axis=(0, 2)) - block.start_s.min(axis=(0, 2))
    assert step_time(end_s)[0] == pytest.approx(recorded_s, rel=1e-12)


def test_kernel_numbers_op_types_as_the_vocabulary_does() -> None:
    names = {
        value: name for name, value in vars(op_type).items() if isinstance(value, int) and name != "COUNT"
    }
    assert [names[code].lower().replace("_", "-") for code in range(op_type.COUNT)] == list(OP_TYPES)
    assert {OP_TYPES[code] for code in op_type.AVERAGED} == {
        each.name for each in DECLARED if each.is_averaged
    }
