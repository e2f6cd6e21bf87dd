"""The oracle equals the published results on the published traces."""

from pathlib import Path
from typing import Any

import pytest

from tests.oracle.correlation import forward_backward_correlation
from tests.oracle.readers import read_layout, read_rank_steps
from tests.oracle.results import WhatIf, what_if
from tests.support import published

RELATIVE = 1e-6
"""The published results were computed partly in float32."""
SHARE = 1e-5
"""Absolute; shares are differences of step times."""


def _found(traces: Path, name: str) -> WhatIf:
    ops = read_rank_steps(published.rank_steps(traces, name))
    return what_if(ops, read_layout(published.manifest(traces, name)), exact_workers=False)


@pytest.mark.parametrize("name", ["ST", "SE"])
def test_every_published_figure(published_traces: Path, name: str) -> None:
    found, wanted = _found(published_traces, name), published.results(published_traces, name)
    per_key: dict[str, dict[Any, float]] = {
        "step_t_base": found.actual_step_s,
        "step_t_nodelay": found.simulated_step_s,
        "step_t_noblk": found.ideal_step_s,
        "blocking_step_slowdown": found.step_slowdown,
        "blocking_decompose_by_optype": found.op_type_slowdown,
        "blocking_decompose_by_dp_rank": found.dp_rank_slowdown,
        "blocking_decompose_by_stage": found.stage_slowdown,
    }
    for name_of_split, split in per_key.items():
        as_text = {str(key): value for key, value in split.items()}
        assert as_text == pytest.approx(wanted[name_of_split], rel=RELATIVE), name_of_split
    assert found.slowdown == pytest.approx(wanted["blocking_slowdown"], rel=RELATIVE)
    assert found.launch_slowdown == pytest.approx(wanted["launch_slowdown"], rel=RELATIVE)
    shares = {"mw": found.slow_worker_share, "ms": found.last_stage_share}
    for name_of_share, share in shares.items():
        assert share == pytest.approx(wanted[name_of_share], abs=SHARE), name_of_share
    assert found.identity_step_s == pytest.approx(found.actual_step_s, rel=1e-12)
    assert (found.clamped_transfers, found.clamped_launch_delays) == (0, 0)


@pytest.mark.parametrize(("name", "correlation"), [("ST", 0.86), ("SE", 0.993)])
def test_within_worker_correlation_as_the_model_gives_it(
    published_traces: Path, name: str, correlation: float
) -> None:
    ops = read_rank_steps(published.rank_steps(published_traces, name))
    assert forward_backward_correlation(ops) == pytest.approx(correlation, abs=0.005)
