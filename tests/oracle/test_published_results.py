"""The oracle equals the published results on the published traces."""

import os
from typing import Any

import pytest

from tests.oracle.readers import TRACES, read_published
from tests.oracle.results import WhatIf, what_if

RELATIVE = 1e-6
"""The published results were computed partly in float32."""
SHARE = 1e-5
"""Absolute; shares are differences of step times."""


def _published(name: str) -> tuple[WhatIf, dict[str, Any]]:
    if not TRACES.exists():
        if os.environ.get("CI") == "true":
            pytest.fail(f"no published traces at {TRACES}")
        pytest.skip(f"no published traces at {TRACES}")
    ops, layout, published = read_published(name)
    return what_if(ops, layout, exact_workers=False), published


@pytest.mark.parametrize("name", ["ST", "SE"])
def test_every_published_figure(name: str) -> None:
    found, published = _published(name)
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
        assert as_text == pytest.approx(published[name_of_split], rel=RELATIVE), name_of_split
    assert found.slowdown == pytest.approx(published["blocking_slowdown"], rel=RELATIVE)
    assert found.launch_slowdown == pytest.approx(published["launch_slowdown"], rel=RELATIVE)
    shares = {"mw": found.slow_worker_share, "ms": found.last_stage_share}
    for name_of_share, share in shares.items():
        assert share == pytest.approx(published[name_of_share]["rem"], abs=SHARE), name_of_share
    assert found.identity_step_s == pytest.approx(found.actual_step_s, rel=1e-12)
    assert (found.clamped_transfers, found.clamped_launch_delays) == (0, 0)


@pytest.mark.parametrize(("name", "correlation"), [("ST", 0.86), ("SE", 0.993)])
def test_within_worker_correlation_as_the_model_gives_it(name: str, correlation: float) -> None:
    found, _ = _published(name)
    assert found.forward_backward_correlation == pytest.approx(correlation, abs=0.005)
