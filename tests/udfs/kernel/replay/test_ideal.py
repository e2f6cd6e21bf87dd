"""Ideal durations of every op type against the same taken value by value."""

from dataclasses import replace
from statistics import fmean, median

import numpy as np
import pytest

from tests.support.random_jobs import LAYOUTS, NOISY, generate_job
from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats
from udfs.kernel.recorded.trace import StepBlock, build_trace
from udfs.kernel.replay.ideal import IDEALS, ideal_durations, ideal_of_ops
from udfs.layout import read_layout
from udfs.simulate.rank_rows import replayed_rows

WORK = {ot.FORWARD_COMPUTE, ot.BACKWARD_COMPUTE, ot.OPTIMIZER, ot.GC}


def blocks_of_every_op_type() -> list[StepBlock]:
    """Two steps, each a separate block; all but the embedding are on every stage."""
    shape = replace(LAYOUTS["virtual_pipeline_batched_overlapped"], steps=2)
    job = generate_job(shape, [], seed=29, workload=NOISY)
    layout = read_layout(job.manifest)
    rows = replayed_rows(job.rank_steps, layout)
    return [block for step in (0, 1) for block in build_trace(rows.stages(step, step + 1), layout, 1).blocks]


@pytest.mark.parametrize("name", IDEALS)
def test_ideal_of_every_op_type(name: str) -> None:
    """Durations of 1 and, seldom, 10 s, each a little different: no mean is a median, no stage is another."""
    rng = np.random.default_rng(0)
    drawn: list[Floats] = []
    values: dict[tuple[int, int], list[float]] = {}
    blocks = blocks_of_every_op_type()
    for block in blocks:
        seldom = np.where(rng.random(block.start_s.shape) < 0.2, 10.0, 1.0)
        drawn.append(seldom + rng.random(seldom.shape) + np.array(block.graph.stages)[:, None, None])
        for op, (stage, op_type) in enumerate(zip(block.graph.stages, block.graph.op_types, strict=True)):
            key = (stage if IDEALS[name].within_stage else -1, op_type)
            values.setdefault(key, []).extend(drawn[-1][op].ravel().tolist())
    assert {op_type for _, op_type in values} == set(range(ot.COUNT))
    ideal_s = ideal_durations(
        [(block.graph, own_s.copy()) for block, own_s in zip(blocks, drawn, strict=True)], IDEALS[name]
    )
    for (stage, op_type), own in values.items():
        is_mean = op_type in WORK and "mean" in name
        wanted = pytest.approx(fmean(own) if is_mean else median(own), rel=1e-14)
        stages = range(len(ideal_s)) if stage < 0 else [stage]
        assert [ideal_s[each, op_type] for each in stages] == [wanted] * len(stages), (stage, op_type)
    graph = blocks[0].graph
    by_op = ideal_of_ops(graph, ideal_s)
    assert by_op.tolist() == [ideal_s[s, t] for s, t in zip(graph.stages, graph.op_types, strict=True)]
