"""The slowness of a GPU type is what all workers of the type share; the rest belongs to single workers."""

from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from jobs.synthetic.mechanisms.work import LossLayer, PackedSequences
from jobs.synthetic.mechanisms.workers import MixedTypes, UnsynchronisedGc, WeakGpu
from jobs.synthetic.shape import JobShape
from tests.udfs.kernel.diagnosis.generated import OVERLAPPED, USUAL, VIRTUAL, diagnosed
from udfs.kernel.diagnosis.factors import decompose
from udfs.kernel.diagnosis.gpu_types import type_factors

NEAR: Final = 0.005
"""Largest error of a saving, as a share of T_actual."""

FACTORS: Final = {"H100": (1.0, 1.0), "A100": (1.5, 1.4), "L40S": (2.0, 2.2)}
SHAPES: Final = {
    name: replace(shape, tp_size=8)
    for name, shape in {"usual": USUAL, "virtual": VIRTUAL, "overlapped": OVERLAPPED}.items()
}
"""Layouts in which each worker has its own host; worker (stage, dp_rank) has host stage * dp_size +
dp_rank."""


def types_of(shape: JobShape, *slower: tuple[int, int], name: str = "A100") -> dict[str, str]:
    """Return each host's GPU type: `name` for the given workers (dp_rank, pp_rank), else H100."""
    return {
        f"node-{number:04d}": name if cell in slower else "H100" for number, cell in enumerate(shape.cells)
    }


def mixed(shape: JobShape, *slower: tuple[int, int]) -> MixedTypes:
    return MixedTypes(types_of(shape, *slower), FACTORS)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_a_replica_on_a_slower_type_is_named_as_one(shape: JobShape) -> None:
    replica = [(2, stage) for stage in range(shape.pp_size)]
    found = diagnosed(shape, mixed(shape, *replica))
    assert found.labels == ["mixed_hardware"]
    assert found.flags == {}
    assert found.workers("mixed_hardware") == {(2, None)}
    assert found.rows["mixed_hardware"]["time_saved_fraction"] == pytest.approx(
        found.true["mixed_hardware"], abs=NEAR
    )


def test_most_workers_may_be_on_the_slower_type() -> None:
    shape = SHAPES["usual"]
    slower = [cell for cell in shape.cells if cell[0] != 1]
    found = diagnosed(shape, mixed(shape, *slower))
    assert found.labels == ["mixed_hardware"]
    assert found.workers("mixed_hardware") == {(dp_rank, None) for dp_rank in (0, 2, 3)}


def test_a_slow_worker_on_the_slower_type_is_found_beside_it() -> None:
    shape = SHAPES["usual"]
    found = diagnosed(shape, mixed(shape, (2, 0), (2, 1), (3, 1), (1, 2)), WeakGpu(2, 1, 1.3))
    assert found.labels == ["slow_worker", "mixed_hardware"]
    assert found.workers("slow_worker") == {(2, 1)}
    assert found.workers("mixed_hardware") == {(2, 0), (2, 1), (3, 1), (1, 2)}
    saved = {name: found.rows[name]["time_saved_fraction"] for name in found.labels}
    assert saved == pytest.approx({name: found.true[name] for name in found.labels}, abs=NEAR)


def test_a_slow_worker_is_no_type_where_the_types_are_alike() -> None:
    shape = SHAPES["usual"]
    alike = MixedTypes(types_of(shape, (2, 0), (2, 1)), dict.fromkeys(FACTORS, (1.0, 1.0)))
    found = diagnosed(shape, alike, WeakGpu(2, 1, 1.3))
    assert found.labels == ["slow_worker"]
    assert found.rows["mixed_hardware"]["time_saved_fraction"] == 0.0


def test_unlike_gpus_beside_other_causes() -> None:
    shape = SHAPES["usual"]
    others = [LossLayer(0.02, 0.04), PackedSequences(32768, 3000, 1.0), UnsynchronisedGc(0.2, 8.0)]
    found = diagnosed(shape, mixed(shape, (2, 0), (2, 1), (0, 2), (1, 3)), *others)
    assert found.rows["mixed_hardware"]["time_saved_fraction"] == pytest.approx(
        found.true["mixed_hardware"], abs=0.02
    )
    assert found.rows["pause"]["time_saved_fraction"] == pytest.approx(found.true["pause"], abs=0.02)


def test_a_whole_stage_on_a_slower_type_is_known_from_other_stages_with_both() -> None:
    shape = SHAPES["usual"]
    found = diagnosed(shape, mixed(shape, *((dp_rank, 1) for dp_rank in range(4)), (0, 0), (2, 2)))
    assert found.labels == ["mixed_hardware"]
    assert found.workers("mixed_hardware") == {(None, 1), (0, 0), (2, 2)}
    assert found.flags == {}


def test_types_that_share_no_stage_are_compared_stage_with_stage_and_flagged() -> None:
    shape = SHAPES["usual"]
    whole = [(dp_rank, stage) for dp_rank in range(4) for stage in (1, 2)]
    found = diagnosed(shape, mixed(shape, *whole))
    assert found.labels == ["mixed_hardware"]
    assert set(found.flags.values()) == {"mixed_hardware_or_stage_imbalance"}
    assert found.rows["mixed_hardware"]["time_saved_fraction"] == pytest.approx(
        found.true["mixed_hardware"], abs=NEAR
    )


def test_one_heavier_stage_on_another_type_stays_a_stage() -> None:
    shape = SHAPES["usual"]
    last = [(dp_rank, 3) for dp_rank in range(4)]
    alike = MixedTypes(types_of(shape, *last), dict.fromkeys(FACTORS, (1.0, 1.0)))
    found = diagnosed(shape, alike, LossLayer(0.02, 0.04))
    assert found.labels == ["stage_imbalance"]
    assert found.flags["stage_imbalance"] == "mixed_hardware_or_stage_imbalance"


def computes(worker_type: np.ndarray, factors: list[float], stages: list[float]) -> np.ndarray:
    """Return median computes, equal in all steps; shape (stage, direction, chunk, step, dp_rank)."""
    base_s = np.array(stages)[:, None] * np.append(factors, 1.0)[worker_type]
    return np.broadcast_to(base_s[:, None, None, None], (len(stages), 2, 1, 12, worker_type.shape[1])).copy()


def test_types_are_compared_through_a_third() -> None:
    """Two GPU types without a common stage are compared through a third that shares stages with both."""
    worker_type = np.array([[0, 0, 1], [1, 2, 2], [2, 2, -1]])
    found = type_factors(computes(worker_type, [1.5, 1.0, 3.0], [1.0, 5.0, 2.0]), worker_type)
    assert np.exp(found.measured) == pytest.approx(np.array([[1.5, 1.5], [1.0, 1.0], [3.0, 3.0]]))
    assert found.is_slower.tolist() == [True, False, True]
    assert not found.is_confounded
    assert found.of_workers[:, 0, 0, 0, 0] == pytest.approx(np.array([[1.5, 1.5, 1], [1, 3, 3], [3, 3, 1]]))


def test_a_type_whose_workers_scatter_more_than_it_is_slow_is_not_slower() -> None:
    worker_type = np.array([[0, 0, 0, 0, 1, 1, 1, 1]])
    times_s = computes(worker_type, [1.0, 1.1], [1.0])
    assert type_factors(times_s, worker_type).is_slower.tolist() == [False, True]
    times_s *= np.array([0.9, 1.1, 1.0, 1.2, 0.9, 1.1, 1.0, 1.2])
    assert type_factors(times_s, worker_type).is_slower.tolist() == [False, False]


def test_a_pause_is_as_long_on_a_slower_type() -> None:
    worker_type = np.array([[0, 0, 1, 1]])
    times_s = np.repeat(computes(worker_type, [1.0, 2.0], [1.0])[:, :, :, None], 4, axis=3)
    times_s[0, 0, 0, 1, 5, 3] += 3.0
    found = decompose(times_s, np.full(worker_type.shape, -1), worker_type)
    assert found.pause_s is not None
    assert found.pause_s.max() == pytest.approx(3.0)
    assert found.pause_s.sum() == pytest.approx(3.0)
