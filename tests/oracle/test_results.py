"""What is made of the replays: clamps, ideals, shares, correlation."""

import pytest

from tests.oracle import Layout, Op, what_if


def test_incomplete_steps_are_dropped_and_counted() -> None:
    whole = [Op(0, stage, 1, "forward-compute", 0, 1, 0, 0) for stage in (0, 1)]
    half = [Op(0, 0, 2, "forward-compute", 0, 1, 0, 0)]
    found = what_if(whole + half, Layout(1, 2))
    assert (found.steps_dropped, set(found.step_slowdown)) == (1, {1})
    with pytest.raises(ValueError, match="none of 1 steps"):
        what_if(half, Layout(1, 2))


def test_correlation_is_the_median_over_workers() -> None:
    """One worker in step, one against; a slow worker alone does not make a correlation."""
    forward, backward, against = [1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [60.0, 50.0, 40.0]
    ops = []
    for dp_rank, series in ((0, backward), (1, backward), (2, against)):
        for microbatch in range(3):
            start = 100.0 * microbatch
            ops += [
                Op(dp_rank, 0, 0, "forward-compute", start, forward[microbatch], microbatch, 0),
                Op(dp_rank, 0, 0, "backward-compute", start + 10, series[microbatch], microbatch, 0),
            ]
    assert what_if(ops, Layout(3, 1)).forward_backward_correlation == pytest.approx(1.0)


def test_ideals_are_means_of_work_and_medians_of_communication() -> None:
    """Three steps with times 1, 2 and 6: the mean is 3, the median 2."""
    kinds = ("forward-compute", "backward-compute", "gc", "layernorm-grads-all-reduce", "optimizer")
    ops = [
        Op(0, 0, step, kind, 10.0 * place, seconds, 0, 0)
        for step, seconds in enumerate([1.0, 2.0, 6.0])
        for place, kind in enumerate((*kinds, "optimizer-clip-main-grad"))
    ]
    found = what_if(ops, Layout(1, 1)).ideal_s
    assert {op_type: ideal_s for (op_type, _), ideal_s in found.items()} == {
        "forward-compute": 3.0,
        "backward-compute": 3.0,
        "gc": 3.0,
        "optimizer": 3.0,
        "layernorm-grads-all-reduce": 2.0,
        "optimizer-clip-main-grad": 2.0,
    }


@pytest.mark.parametrize(
    ("form", "forward_s", "layernorm_s"),
    [
        ("pooled-mean-median", (5.0, 5.0), (5.5, 5.5)),
        ("pooled-median", (5.5, 5.5), (5.5, 5.5)),
        ("stage-mean-median", (3.0, 7.0), (2.0, 6.0)),
        ("stage-median", (2.0, 6.0), (2.0, 6.0)),
    ],
)
def test_the_four_ideals(form: str, forward_s: tuple[float, float], layernorm_s: tuple[float, float]) -> None:
    """Times 1, 2, 6 on stage 0 and 5, 6, 10 on stage 1; pooled their mean is 5, their median 5.5."""
    ops = [
        Op(0, stage, step, kind, 10.0 * place, seconds + 4.0 * stage, 0, 0)
        for stage in (0, 1)
        for step, seconds in enumerate([1.0, 2.0, 6.0])
        for place, kind in enumerate(("forward-compute", "layernorm-grads-all-reduce"))
    ]
    found = what_if(ops, Layout(1, 2), ideal=form).ideal_s
    assert (found["forward-compute", 0], found["forward-compute", 1]) == forward_s
    assert (found["layernorm-grads-all-reduce", 0], found["layernorm-grads-all-reduce", 1]) == layernorm_s


def test_equally_slow_workers_are_taken_by_rank() -> None:
    """Stage 1 is heavy on both replicas, so that both workers tie; replica 1 has the lower ranks."""
    ops = [
        Op(dp_rank, stage, 0, "forward-compute", 0, 1.0 + stage, 0, 0, rank=stage * 2 + (1 - dp_rank))
        for dp_rank in (0, 1)
        for stage in (0, 1)
    ]
    assert what_if(ops, Layout(2, 2)).slowest_workers == [(1, 1)]


def test_no_waste_has_no_shares() -> None:
    ops = [Op(0, stage, 0, "forward-compute", 0, 1, 0, 0) for stage in (0, 1)]
    found = what_if(ops, Layout(1, 2))
    assert (found.slowdown, found.slow_worker_share, found.last_stage_share) == (1.0, None, None)
