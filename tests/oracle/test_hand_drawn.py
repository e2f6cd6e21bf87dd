"""A timeline drawn by hand: two stages, two microbatches, every number worked out on paper.

Forward 10 s, except 14 s for microbatch 0 on stage 1; backward 20 s; transfers (but one), embedding and
clip 1 s; optimizer 2 s.
"""

from fractions import Fraction

import pytest

from tests.oracle import Layout, Op, what_if

LAYOUT = Layout(dp_size=1, pp_size=2)
#      stage, op, start, end, microbatch
DRAWN = (
    (0, "forward-compute", 0, 10, 0),
    (0, "forward-send", 10, 12, -1),  # two seconds, where its peer says one
    (0, "forward-compute", 10, 20, 1),
    (0, "forward-send", 20, 26, -1),
    (0, "backward-recv", 10, 46, -1),
    (0, "backward-compute", 46, 66, 0),
    (0, "backward-recv", 66, 76, -1),
    (0, "backward-compute", 76, 96, 1),
    (0, "embedding-grads-all-reduce", 96, 97, -1),
    (0, "optimizer-clip-main-grad", 97, 98, -1),
    (0, "optimizer", 98, 100, -1),
    (1, "forward-recv", 0, 11, -1),
    (1, "forward-compute", 11, 25, 0),
    (1, "backward-compute", 25, 45, 0),
    (1, "backward-send", 45, 46, -1),
    (1, "forward-recv", 25, 26, -1),
    (1, "forward-compute", 45, 55, 1),
    (1, "backward-compute", 55, 75, 1),
    (1, "backward-send", 75, 76, -1),
    (1, "embedding-grads-all-reduce", 75, 97, -1),
    (1, "optimizer-clip-main-grad", 97, 98, -1),
    (1, "optimizer", 98, 100, -1),
)


def _job(first_forward_late_s: float = 0.0) -> list[Op]:
    ops = []
    for stage, op_type, start, end, microbatch in DRAWN:
        late = 0.0 if op_type == "forward-recv" and start == 0 else first_forward_late_s
        late_end = first_forward_late_s
        ops.append(
            Op(0, stage, 7, op_type, start + late, end + late_end - start - late, microbatch, 0, rank=stage)
        )
    return ops


def test_step_times() -> None:
    found = what_if(_job(), LAYOUT)
    assert found.actual_step_s == {7: 100.0}
    assert found.identity_step_s == {7: 100.0}
    assert found.simulated_step_s == {7: 100.0}
    assert found.ideal_s["forward-compute", 0] == found.ideal_s["forward-compute", 1] == 11.0
    assert found.ideal_step_s == {7: 99.0}


def test_slowdowns() -> None:
    found = what_if(_job(), LAYOUT)
    assert found.slowdown == float(Fraction(100, 99))
    assert found.waste_fraction == pytest.approx(0.01, rel=1e-14)
    assert found.op_type_slowdown["forward-compute"] == float(Fraction(100, 99))
    assert found.op_type_slowdown["backward-compute"] == 1.0
    assert found.stage_slowdown == {0: float(Fraction(98, 99)), 1: float(Fraction(101, 99))}
    assert found.dp_rank_slowdown == {0: float(Fraction(100, 99))}
    assert found.worker_slowdown == {(0, 0): float(Fraction(98, 99)), (0, 1): float(Fraction(101, 99))}
    assert found.worker_slowdown_approx == {(0, 0): float(Fraction(98, 99)), (0, 1): float(Fraction(100, 99))}


def test_shares_beyond_one_stay() -> None:
    found = what_if(_job(), LAYOUT)
    assert found.slowest_workers == [(0, 1)]
    assert found.slow_worker_share == 2.0
    assert found.last_stage_share == 2.0


def test_late_data_is_launch_delay() -> None:
    found = what_if(_job(first_forward_late_s=0.5), LAYOUT)
    assert found.actual_step_s == {7: 100.5}
    assert found.simulated_step_s == {7: 100.0}
    assert found.identity_step_s == {7: 100.5}
    assert found.launch_slowdown == 1.005
    assert found.discrepancy == 0.5 / 100.5
    assert max(delay for delay in found.launch_delay_s if delay is not None) == 0.5


def test_transfers_are_counted_from_the_latest_start() -> None:
    found = what_if(_job(), LAYOUT)
    transfers = {
        (op.pp_rank, op.op_type, op.start_s): s for op, s in zip(found.ops, found.transfer_s, strict=True)
    }
    assert transfers[0, "forward-send", 10.0] == 2.0
    assert transfers[1, "forward-recv", 0.0] == 1.0
    assert transfers[0, "backward-recv", 10.0] == 1.0
    assert transfers[1, "embedding-grads-all-reduce", 75.0] == 1.0


def test_constant_computes_have_no_correlation() -> None:
    found = what_if(_job(), LAYOUT)
    assert found.forward_backward_correlation is None
