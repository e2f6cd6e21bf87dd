"""Recorded times alone show whether the transfers of a type may block their workers."""

from itertools import pairwise

import numpy as np
import pytest

from tests.support.random_jobs import FAULTS, NOISY, USUAL, generate_job
from udfs.kernel import op_type as ot
from udfs.kernel.recorded.signs import OVERLAPPING, types_that_may
from udfs.kernel.recorded.trace import StepBlock, build_trace
from udfs.layout import read_layout
from udfs.simulate.rank_rows import replayed_rows

TOLERANCE_S = 50e-6
IN_TURN = (*ot.COMPUTE, ot.GRADS_REDUCE_SCATTER, *ot.TAIL)


def recorded() -> StepBlock:
    job = generate_job(USUAL, FAULTS, 3, workload=NOISY)
    layout = read_layout(job.manifest)
    rows = replayed_rows(job.rank_steps, layout)
    (block,) = build_trace(rows.stages(), layout, len(rows.steps)).blocks
    return block


def overlapping(block: StepBlock, op_type: int) -> tuple[int, int]:
    """Count the transfers of a type, and those of them that overlap other work of the same worker."""
    found = number = 0
    for first, end in pairwise(block.graph.first_op):
        kinds = block.graph.op_types
        others = [op for op in range(first, end) if kinds[op] in IN_TURN]
        for op in (op for op in range(first, end) if kinds[op] == op_type):
            for start_s, lasts_s, *work in zip(
                block.start_s[op].flat,
                block.duration_s[op].flat,
                *(block.start_s[each].flat for each in others),
                *(block.duration_s[each].flat for each in others),
                strict=True,
            ):
                spans = zip(work[: len(others)], work[len(others) :], strict=True)
                shared_s = [min(start_s + lasts_s, at + own) - max(start_s, at) for at, own in spans]
                found += max(shared_s) > TOLERANCE_S
                number += 1
    return found, number


@pytest.mark.parametrize("stage", range(USUAL.pp_size))
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_transfers_of_whatever_worker_count(stage: int, share: float) -> None:
    """Transfers of every worker that ran them are counted; transfers of zero duration overlap nothing."""
    block = recorded()
    is_transfer = np.isin(block.graph.op_types, ot.TRANSFERS)
    block.duration_s[is_transfer] = 0.0
    steps = slice(0, round(share * len(block.steps)))
    of_stage = np.flatnonzero(is_transfer & (np.array(block.graph.stages) == stage))
    block.duration_s[of_stage, steps] = 10.0
    counts = {each: overlapping(block, each) for each in ot.TRANSFERS}
    wanted = [each for each, (found, number) in counts.items() if number and found <= OVERLAPPING * number]
    assert list(types_that_may([block])) == wanted
    assert len(wanted) < len(ot.TRANSFERS) if share else len(wanted) == len(ot.TRANSFERS)
