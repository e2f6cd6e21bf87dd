"""For one planted fault at a time, the diagnosis names the fault's cause, and no cause that resembles it."""

from dataclasses import replace
from typing import Final

import pytest

from jobs.synthetic.mechanisms.mechanism import Mechanism, Window
from jobs.synthetic.mechanisms.transfers import CongestedNetwork, FlappingLink, SlowStorage
from jobs.synthetic.mechanisms.work import LossLayer, PackedSequences, UnevenLayers
from jobs.synthetic.mechanisms.workers import (
    AllocatorStalls,
    SickHost,
    ThermalThrottling,
    UnsynchronisedGc,
    WeakGpu,
)
from jobs.synthetic.shape import JobShape
from tests.udfs.kernel.diagnosis.generated import OVERLAPPED, USUAL, VIRTUAL, diagnosed

NEAR: Final = 0.005
"""Largest error, relative to the true saving; absent causes may claim twice this as a share of T_actual."""

UNEVEN_DATA: Final = PackedSequences(token_limit=32768, median_tokens=2000, spread=1.2)
SHAPES: Final = {"usual": USUAL, "virtual": VIRTUAL, "overlapped": OVERLAPPED}
WORKER_MECHANISMS: Final[dict[str, Mechanism]] = {
    "weak gpu": WeakGpu(2, 1, 1.5),
    "weak gpu in half of the steps": WeakGpu(2, 1, 1.5, 0.5),
    "weak gpu from a step on": WeakGpu(3, 0, 1.4, window=Window(5)),
    "throttling": ThermalThrottling(2, 1, 0.5, 4.0),
    "collections": UnsynchronisedGc(0.4, 6.0),
    "flapping link": FlappingLink(1, 0.08, 0.6, 0.8, 2),
    "slow storage": SlowStorage(0.2),
    "slow storage of one": SlowStorage(0.25, 0.6, 1),
}
NETWORK: Final = {
    "pipeline": CongestedNetwork("pipeline", 0.05, window=Window(4)),
    "replicas": CongestedNetwork("replicas", 0.1, window=Window(4)),
}


def shapes(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(name, SHAPES.values(), ids=SHAPES.keys())


def assert_alone(shape: JobShape, mechanism: Mechanism) -> None:
    """Assert that only the mechanism's cause is named and saves time, with the right saving."""
    found = diagnosed(shape, mechanism)
    cause = mechanism.cause or ""
    assert found.labels == [cause]
    saved = {name: row["time_saved_fraction"] for name, row in found.rows.items() if name != "unexplained"}
    assert saved.pop(cause) == pytest.approx(found.true[cause], rel=NEAR)
    assert saved == pytest.approx(dict.fromkeys(saved, 0.0), abs=2 * NEAR)


@shapes("shape")
def test_a_healthy_job_has_no_cause(shape: JobShape) -> None:
    for seed in range(4):
        found = diagnosed(shape, seed=seed)
        assert found.labels == []
        assert found.flags == {}


@shapes("shape")
@pytest.mark.parametrize("mechanism", WORKER_MECHANISMS.values(), ids=WORKER_MECHANISMS.keys())
def test_a_mechanism_on_workers_is_found_and_located(shape: JobShape, mechanism: Mechanism) -> None:
    assert_alone(shape, mechanism)
    found = diagnosed(shape, mechanism)
    assert found.workers(mechanism.cause or "") == found.struck


@shapes("shape")
def test_stalls_too_short_to_cost_anything_name_no_culprit(shape: JobShape) -> None:
    stalls = AllocatorStalls(0.2, 0.01)
    assert_alone(shape, stalls)
    found = diagnosed(shape, stalls)
    assert found.workers("pause")
    assert found.workers("pause") <= found.struck


@shapes("shape")
def test_uneven_data_are_found_without_a_culprit(shape: JobShape) -> None:
    assert_alone(shape, UNEVEN_DATA)
    assert diagnosed(shape, UNEVEN_DATA).workers("data_imbalance") == set()


@shapes("shape")
def test_a_loss_layer_is_found_on_the_last_stage(shape: JobShape) -> None:
    loss = LossLayer(0.03, 0.05)
    assert_alone(shape, loss)
    assert diagnosed(shape, loss).workers("stage_imbalance") == {(None, shape.pp_size - 1)}


@pytest.mark.parametrize(
    ("shape", "layers", "heavy"),
    [(USUAL, (6, 6, 8, 6), 2), (VIRTUAL, (6, 8, 6, 8), 1), (OVERLAPPED, (8, 6, 6), 0)],
    ids=SHAPES.keys(),
)
def test_more_layers_are_found_where_they_are(shape: JobShape, layers: tuple[int, ...], heavy: int) -> None:
    assert_alone(shape, UnevenLayers(layers))
    assert diagnosed(shape, UnevenLayers(layers)).workers("stage_imbalance") == {(None, heavy)}


@shapes("shape")
@pytest.mark.parametrize("congestion", NETWORK.values(), ids=NETWORK.keys())
def test_congestion_in_most_of_the_steps_is_found(shape: JobShape, congestion: CongestedNetwork) -> None:
    """Congestion in 16 of 20 steps is found, although only a fifth of the steps show usual transfer times."""
    longer = replace(shape, steps=20)
    assert_alone(longer, congestion)
    assert len(diagnosed(longer, congestion).workers("communication")) > shape.dp_size


@pytest.mark.parametrize("host", ["node-0000", "node-0001"])
def test_a_sick_host_of_two_whole_stages_is_no_stage_imbalance(host: str) -> None:
    """If a slow host holds exactly two stages, its workers are named as slow, not the stages as heavy."""
    sick = SickHost(host, 1.4)
    assert_alone(USUAL, sick)
    found = diagnosed(USUAL, sick)
    assert found.workers("slow_worker") == found.struck
    assert len(found.struck) == 8


@pytest.mark.parametrize("shape", [USUAL, VIRTUAL], ids=["usual", "virtual"])
@pytest.mark.parametrize(
    "mechanism",
    [UnsynchronisedGc(0.4, 6.0), UNEVEN_DATA, WeakGpu(2, 1, 1.5), LossLayer(0.03, 0.05)],
    ids=["pause", "data", "worker", "stage"],
)
def test_a_late_peer_in_a_call_is_no_slow_transfer(shape: JobShape, mechanism: Mechanism) -> None:
    """If a peer comes late to a call, all its transfers last long, but none of them counts as slow."""
    assert_alone(replace(shape, batched=True), mechanism)


@shapes("shape")
def test_a_loss_layer_with_uneven_data_is_no_slow_worker(shape: JobShape) -> None:
    """With uneven data, the loss layer's stage is named as heavy, and no worker of the stage as slow."""
    found = diagnosed(shape, LossLayer(0.05, 0.08), UNEVEN_DATA)
    assert found.labels == ["stage_imbalance", "data_imbalance"]
    assert found.rows["slow_worker"]["time_saved_fraction"] == pytest.approx(0.0, abs=NEAR)
    for cause in found.labels:
        assert found.rows[cause]["time_saved_fraction"] == pytest.approx(found.true[cause], abs=2 * NEAR)
