import pytest

from jobs.synthetic.schedule import Compute, compute_order
from jobs.synthetic.shape import JobShape


def _short(order: list[Compute]) -> str:
    return " ".join(f"{c.direction[0].upper()}{c.microbatch}{'abc'[c.chunk]}" for c in order)


def test_1f1b_by_hand() -> None:
    shape = JobShape(pp_size=3, microbatches=4)
    assert _short(compute_order(shape, 0)) == "F0a F1a F2a B0a F3a B1a B2a B3a"
    assert _short(compute_order(shape, 2)) == "F0a B0a F1a B1a F2a B2a F3a B3a"


def test_interleaved_by_hand() -> None:
    """Two stages, two chunks, four microbatches: warm-up 2 (pp - p - 1) + (vpp - 1) pp."""
    shape = JobShape(pp_size=2, microbatches=4, vpp_size=2, noop_transfers="all")
    assert _short(compute_order(shape, 1)) == (
        "F0a F1a F0b B0b F1b B1b F2a B0a F3a B1a F2b B2b F3b B3b B2a B3a"
    )
    assert _short(compute_order(shape, 0)).startswith("F0a F1a F0b F1b F2a B0b")


def test_more_stages_than_microbatches_is_all_warm_up() -> None:
    assert _short(compute_order(JobShape(pp_size=4, microbatches=2), 0)) == "F0a F1a B0a B1a"


@pytest.mark.parametrize(
    ("sizes", "complaint"),
    [
        ({"vpp_size": 2, "noop_transfers": "all"}, "needs pp_size >= 2"),
        ({"vpp_size": 2, "pp_size": 4, "microbatches": 6, "noop_transfers": "all"}, "microbatches 6"),
        ({"vpp_size": 2, "pp_size": 4, "microbatches": 8}, "without its no-op transfers"),
        ({"absent": frozenset({"forward-send"})}, "all or not at all"),
        ({"absent": frozenset({"forward-pass"})}, "unknown op types"),
        ({"recorded_tp_ranks": 2}, "more ranks recorded"),
    ],
)
def test_impossible_shapes_are_refused(sizes: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        JobShape(**sizes)  # type: ignore[arg-type]  # sizes of every type stand in one table
