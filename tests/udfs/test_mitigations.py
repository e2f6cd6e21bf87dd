"""Predicted savings of mitigations agree with reruns, and a reason is given for each missing prediction."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from jobs.synthetic.mechanisms.mechanism import Mechanism, Window
from jobs.synthetic.mechanisms.work import LossLayer, UnevenLayers
from jobs.synthetic.mechanisms.workers import ThermalThrottling, WeakGpu
from jobs.synthetic.run_events import Part, RunHabits, run_through
from jobs.synthetic.shape import JobShape
from schemas.mitigations import (
    CAUSE_OF,
    CHECKPOINTS,
    COLLECTIONS,
    HOST_EXCHANGED,
    LAYERS,
    LIGHTER_REPLICA,
    OVER_DP_RANKS,
    OVERLAP,
    REPLICA_REMOVED,
    SEQUENCES,
)
from schemas.vocabulary import JOB_CAUSES, JOB_SLOWDOWN, MITIGATIONS, OP_CODES
from tests.evaluation.blocking.draw import EVERY, simulated_job
from tests.evaluation.blocking.workers import BACKWARD, FORWARD
from tests.evaluation.exchanged_microbatches import Exchanged
from tests.evaluation.mitigated_runs import OtherWeights
from tests.evaluation.mitigations import judge, main
from tests.support.mitigated import SEQUENCES_OF_ALL, SHAPE, answer, found, job, step_s
from tests.udfs.kernel.diagnosis.test_slow_links import Link, job_of, times_of
from udfs.errors import NothingToReplayError
from udfs.kernel.arrays import Floats
from udfs.kernel.diagnosis import mitigate
from udfs.kernel.diagnosis.mitigations import Layers, assigned, layers_between_stages
from udfs.mitigations import mitigated
from udfs.simulate.checkpoints import best_interval
from udfs.simulate.mitigation_rows import LayersError
from udfs.what_if import simulate_job

LOSS = LossLayer(forward_s=0.03, backward_s=0.05)


def test_layers_leave_the_stage_that_computes_the_loss() -> None:
    """Layers move away from the stage with the loss layer, and no other split that was tried is better."""
    one = answer(found(LOSS, layers=[32]), LAYERS)
    after, before = ([int(each) for each in text.split(", ")] for text in one.plan.split(" instead of "))
    assert before == [8, 8, 8, 8]
    assert sum(after) == 32
    assert after[-1] == min(after) < 7
    true_s = step_s(LOSS, UnevenLayers(tuple(float(each) for each in after)))
    assert one.step_s == pytest.approx(true_s, rel=0.002)
    assert one.time_saved_fraction == pytest.approx(1 - true_s / step_s(LOSS), abs=0.002)
    assert one.gpu_hours_saved == pytest.approx(100 * one.time_saved_fraction)
    for other in ((9, 9, 9, 5), (8, 8, 9, 7)):  # other splits that come close
        if list(other) != after:
            assert step_s(LOSS, UnevenLayers(other)) >= true_s * 0.999


def test_layers_that_are_uneven_are_stated_by_chunk() -> None:
    uneven = UnevenLayers((10, 8, 7, 7))
    one = answer(found(uneven, layers=[10, 8, 7, 7]), LAYERS)
    assert one.plan == "8, 8, 8, 8 instead of 10, 8, 7, 7"
    assert one.step_s == pytest.approx(step_s(), rel=0.003)


def test_memory_bounds_layers_and_samples() -> None:
    """The limit on memory bounds the layers that a stage, and the samples that a replica, may gain."""
    heavy, slow = job(LOSS), job(WeakGpu(dp_rank=2, pp_rank=1, factor=1.5))
    narrow, wide = (mitigated(heavy.rank_steps, heavy.manifest, [32], memory=most) for most in (1.05, 1.13))
    assert answer(narrow, LAYERS).plan == "as they are"
    after = [int(each) for each in answer(wide, LAYERS).plan.split(" instead of ")[0].split(", ")]
    assert (max(after), sum(after)) == (9, 32)
    shares = []
    for most in (1.02, np.inf):
        lighter = answer(mitigated(slow.rank_steps, slow.manifest, memory=most), LIGHTER_REPLICA)
        shares.append(float(lighter.plan.split()[-1].rstrip("%")))
    assert shares[0] <= 102.0 < shares[1]


def test_chunks_of_a_virtual_pipeline_move_layers_too() -> None:
    shape = replace(SHAPE, vpp_size=2)
    one = answer(found(LOSS, layers=[64], shape=shape), LAYERS)
    assert one.time_saved_fraction > 0.03
    assert len(one.plan.split(" instead of ")[0].split(", ")) == 8


def test_no_layers_move_where_a_chunk_hardly_takes_time() -> None:
    """If a chunk takes hardly any time, as FSDP's root does, no layers move."""
    generated = job(LOSS, shape=replace(SHAPE, vpp_size=2, noop_transfers="all"))
    rows = generated.rank_steps
    lists = zip(*(rows[name].to_pylist() for name in ("op", "model_chunk", "duration_us")), strict=True)
    compute = (OP_CODES["forward-compute"], OP_CODES["backward-compute"])
    shorter = [
        [took / 500 if op in compute and chunk == 0 else took for op, chunk, took in zip(*each, strict=True)]
        for each in lists
    ]
    at = rows.schema.get_field_index("duration_us")
    rows = rows.set_column(at, rows.schema.field(at), pa.array(shorter, rows.schema.field(at).type))
    answers = mitigated(rows, generated.manifest, [64])
    assert LAYERS not in {each.mitigation for each in answers.answers}
    assert "a chunk hardly takes time" in answers.without[LAYERS]


def test_even_stages_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """If stages are even, no layers move, even if rounding makes two replays differ."""

    def rounded(*given: Any) -> Layers:  # noqa: ANN401  # takes any arguments
        layers = layers_between_stages(*given)
        assert layers is not None
        return layers._replace(step_s=layers.step_s * (1.0 + 4e-16))

    monkeypatch.setattr(mitigate, "layers_between_stages", rounded)
    one = answer(found(layers=[32]), LAYERS)
    assert (one.plan, one.time_saved_fraction) == ("as they are", 0.0)


@pytest.mark.parametrize(
    ("name", "after"),
    [
        (OVER_DP_RANKS, Exchanged(**vars(SEQUENCES_OF_ALL))),
        (SEQUENCES, replace(SEQUENCES_OF_ALL, is_balanced=True)),
    ],
)
def test_sequences_are_balanced(name: str, after: Mechanism) -> None:
    """The predicted saving of balanced sequences is right, even if a slow worker stays slow."""
    slow = WeakGpu(dp_rank=1, pp_rank=2, factor=1.2)
    one = answer(found(SEQUENCES_OF_ALL, slow), name)
    true = 1 - step_s(after, slow) / step_s(SEQUENCES_OF_ALL, slow)
    assert one.time_saved_fraction == pytest.approx(true, abs=0.01)
    assert true > 0.02


@pytest.mark.parametrize(
    ("name", "seed", "most_ops"),
    [
        (SEQUENCES, 1600051, 15_000),  # a worker that gets hot is seen only in later steps
        (SEQUENCES, 3400007, 6_000),  # most steps are even, and stay unchanged
        (SEQUENCES, 3400055, 6_000),  # pauses in backwards must not change weights from forwards
        (SEQUENCES, 3400003, 6_000),  # one stage: even steps show how fast GPUs are
        (SEQUENCES, 3400077, 6_000),  # pauses hit 25 % of microbatches, in one of eight places
        (OVER_DP_RANKS, 1600019, 15_000),  # most steps are even: noise must not count as weights
        (HOST_EXCHANGED, 3400057, 6_000),  # one microbatch a step; the slow worker also pauses
    ],
)
def test_mitigations_that_were_off(name: str, seed: int, most_ops: int) -> None:
    row = judge(seed, name, most_ops)
    assert row is not None
    assert row["answered"]
    assert abs(row["error"]) < 0.7
    assert row["true"] > 0.4


def test_microbatches_of_which_it_is_open_which_move_have_no_answer() -> None:
    """If it is uncertain which microbatches would move, no saving by exchanging microbatches is predicted."""
    row = judge(3400045, OVER_DP_RANKS, 6_000)
    assert row is not None
    assert not row["answered"]


def test_what_other_numbers_would_explain_has_no_answer() -> None:
    """With one microbatch a step, a slow worker may have heavy data instead, so nothing is proposed."""
    alone, slow = replace(SHAPE, microbatches=1), WeakGpu(dp_rank=1, pp_rank=2, factor=1.5)
    of_data, beside = found(SEQUENCES_OF_ALL, shape=alone), found(SEQUENCES_OF_ALL, slow, shape=alone)
    assert SEQUENCES in {each.mitigation for each in of_data.answers}
    assert OVER_DP_RANKS in of_data.without
    assert {OVER_DP_RANKS, SEQUENCES, HOST_EXCHANGED} <= set(beside.without)
    few = replace(SHAPE, microbatches=3)
    assert OVER_DP_RANKS not in found(SEQUENCES_OF_ALL, shape=few).without
    assert OVER_DP_RANKS in found(SEQUENCES_OF_ALL, replace(slow, factor=1.2), shape=few).without


@pytest.mark.parametrize("is_replica", [True, False], ids=["replica", "stage"])
def test_slowness_that_heavy_data_look_like_has_no_answer(*, is_replica: bool) -> None:
    """If slow workers may have heavy data instead, mitigations of both causes have no answer."""
    places = [(1, 0), (1, 1), (1, 2)] if is_replica else [(each, 1) for each in range(4)]
    slow = [WeakGpu(*place, factor=1.6, window=Window(first=6)) for place in places]
    assert {SEQUENCES, OVER_DP_RANKS, HOST_EXCHANGED} <= set(found(SEQUENCES_OF_ALL, *slow).without)
    assert {SEQUENCES, HOST_EXCHANGED}.isdisjoint(found(SEQUENCES_OF_ALL, slow[0]).without)


@pytest.mark.parametrize(
    ("blocking", "is_fused", "is_overlapped"),
    [(EVERY, False, True), (frozenset[str](), False, False), (EVERY, True, False)],
    ids=["blocking", "streams", "calls"],
)
def test_transfers_are_overlapped_where_workers_wait_for_them_one_by_one(
    blocking: frozenset[str], *, is_fused: bool, is_overlapped: bool
) -> None:
    """Overlapping transfers is proposed only if workers wait for single transfers."""
    linked = job_of(4, blocking)._replace(microbatches=4, is_fused=is_fused)
    run = simulated_job(linked, times_of(linked, [Link(FORWARD, 0), Link(BACKWARD, 1)]))
    of = mitigated(run.rank_steps, run.manifest)
    assert bool(simulate_job(run.rank_steps, run.manifest)[JOB_SLOWDOWN]["blocking"][0].as_py()) == bool(
        blocking
    )
    assert (OVERLAP not in of.without) == is_overlapped
    if is_overlapped:
        assert "-pp-comm beside computes" in answer(of, OVERLAP).plan


def test_a_host_is_exchanged_only_where_it_is_known_to_be_slow() -> None:
    """Replacing a host is proposed only if the host is known to be slow, not if its stage may be heavy."""
    slow, hot = WeakGpu(dp_rank=1, pp_rank=2, factor=1.5), ThermalThrottling(0, 2, depth=1.0, rise_steps=6.0)
    assert HOST_EXCHANGED not in found(slow).without
    assert HOST_EXCHANGED in found(slow, shape=replace(SHAPE, tp_size=8, cp_size=2)).without
    assert HOST_EXCHANGED in found(hot, shape=replace(SHAPE, dp_size=1)).without


def test_heavy_microbatches_of_one_stage_may_be_slow_gpus() -> None:
    """With one stage, heavy microbatches of a dp rank may be a slow GPU instead, so there is no answer."""
    of_stage = found(SEQUENCES_OF_ALL, shape=replace(SHAPE, pp_size=1)).without
    assert "with one stage, heavy data look like a slower GPU" in of_stage[SEQUENCES]
    assert OVER_DP_RANKS in of_stage
    assert SEQUENCES not in found(replace(SEQUENCES_OF_ALL, spread=0.3)).without


@pytest.mark.parametrize(
    ("op_type", "stages"), [("forward-compute", 1), ("backward-compute", 4)], ids=["a stage", "a direction"]
)
def test_computes_that_take_no_time_say_nothing_of_heavy_data(op_type: str, stages: int) -> None:
    uneven = job(SEQUENCES_OF_ALL, shape=JobShape(dp_size=4, pp_size=4, microbatches=1, steps=3))
    rows = uneven.rank_steps.to_pylist()
    for row in rows:
        takes_none = [op == OP_CODES[op_type] and row["pp_rank"] < stages for op in row["op"]]
        row["duration_us"] = [
            0.0 if none else took for none, took in zip(takes_none, row["duration_us"], strict=True)
        ]
    table = pa.Table.from_pylist(rows, schema=uneven.rank_steps.schema)
    (status,) = simulate_job(table, uneven.manifest)[JOB_SLOWDOWN]["status"].to_pylist()
    assert status == "too_few_steps"


def test_slow_workers_are_mitigated() -> None:
    """Replacing a slow host, removing its replica or giving it lighter data saves what reruns save."""
    slow = WeakGpu(dp_rank=2, pp_rank=1, factor=1.5)
    of, now_s = found(slow), step_s(slow)
    exchanged, removed, lighter = (
        answer(of, name) for name in (HOST_EXCHANGED, REPLICA_REMOVED, LIGHTER_REPLICA)
    )
    assert exchanged.time_saved_fraction == pytest.approx(1 - step_s() / now_s, abs=0.003)
    assert removed.plan == "continue without dp rank 2: 3 replicas instead of 4"
    # Three replicas need 4/3 of the steps for the same samples, and a step takes as long as a healthy one.
    assert removed.time_saved_fraction == pytest.approx(1 - step_s() * 4 / 3 / now_s, abs=0.003)
    assert removed.gpu_hours_saved == pytest.approx(100 * (1 - step_s() / now_s), abs=0.3)
    own, others = (float(each.rstrip("%")) for each in lighter.plan.split() if each.endswith("%"))
    assert own + 3 * others == pytest.approx(400, abs=0.3)
    true_s = step_s(slow, OtherWeights([others / 100, others / 100, own / 100, others / 100]))
    assert lighter.time_saved_fraction == pytest.approx(1 - true_s / now_s, abs=0.003)
    assert 0.1 < lighter.time_saved_fraction < exchanged.time_saved_fraction


def test_a_night_has_rows_of_the_causes_that_it_finds() -> None:
    """A night stores mitigations of the causes that it names, with the figures that `mitigated` gives."""
    generated = job(LOSS)
    manifest = generated.manifest | {"gpu_hours": 100.0, "labels": {"layers": "32"}}
    tables = simulate_job(generated.rank_steps, manifest)
    causes = {row["cause"] for row in tables[JOB_CAUSES].to_pylist() if row["is_cause"]}
    rows = tables[MITIGATIONS].to_pylist()
    assert [row["mitigation"] for row in rows] == [LAYERS]
    assert causes == {CAUSE_OF[LAYERS]}
    asked = answer(mitigated(generated.rank_steps, manifest), LAYERS)
    assert {name: rows[0][name] for name in vars(asked)} == vars(asked)
    slow = WeakGpu(dp_rank=2, pp_rank=1, factor=1.5)
    generated = job(slow)
    manifest = generated.manifest | {"labels": {"layers": "32"}}  # even stages: no stage_imbalance
    rows = simulate_job(generated.rank_steps, manifest)[MITIGATIONS].to_pylist()
    assert {row["mitigation"] for row in rows} == {HOST_EXCHANGED, REPLICA_REMOVED, LIGHTER_REPLICA}
    (host,) = (row["host"] for row in rows if row["mitigation"] == HOST_EXCHANGED)
    assert host == "node-0000"


def test_checkpoints_as_often_as_failures_ask_for() -> None:
    """The best interval is Young's: the square root of 2 x 50 s a checkpoint x 5,000 s between failures."""
    habits = RunHabits(save_every=20, save_s=50.0, failures=4, startup_s=1.0, outage_s=1.0, slow_first_s=0.0)
    run = run_through(habits, np.full(2000, 10.0), Part(0.0), np.random.default_rng(1))
    found = best_interval(run.events)
    assert found is not None
    assert found.failures == 4
    assert found.now_s == pytest.approx(200.0, abs=1.0)
    assert found.best_s == pytest.approx((2 * found.stall_s * found.between_s) ** 0.5, rel=0.05)
    after = replace(habits, save_every=round(found.best_s / 10))
    times_s = [
        np.mean(
            [
                run_through(each, np.full(2000, 10.0), Part(0.0), np.random.default_rng(seed)).now_s
                for seed in range(40)
            ]
        )
        for each in (habits, after)
    ]
    assert found.saved_fraction == pytest.approx(1 - times_s[1] / times_s[0], abs=0.01)
    assert found.saved_fraction > 0.05
    slow = run_through(
        replace(habits, startup_s=500.0), np.full(2000, 10.0), Part(0.0), np.random.default_rng(1)
    )
    loaded = [
        each | {"event": "data_loading", "at_us": each["at_us"] + 1, "duration_us": 300e6}
        for each in slow.events
        if each["event"] in ("start", "restart")
    ]
    assert len(loaded) == 5
    again = best_interval(sorted([*slow.events, *loaded], key=lambda each: each["at_us"]))
    assert again is not None
    assert again.between_s == pytest.approx(found.between_s, rel=1e-3), (
        "before the first step no attempt was at work"
    )
    once = run_through(replace(habits, failures=1), np.full(2000, 10.0), Part(0.0), np.random.default_rng(1))
    assert best_interval(once.events) is None


def test_slow_first_steps_are_not_work_between_failures() -> None:
    """Slow first steps after a start are part of the cost of a restart, not work between failures."""
    habits = RunHabits(save_every=20, save_s=50.0, failures=4, startup_s=1.0, outage_s=1.0, slow_first_s=0.0)
    plain, slow = (
        best_interval(run_through(each, np.full(2000, 10.0), Part(0.0), np.random.default_rng(1)).events)
        for each in (habits, replace(habits, slow_first_s=300.0))
    )
    assert plain is not None
    assert slow is not None
    assert slow.between_s == pytest.approx(plain.between_s, rel=1e-3)
    assert slow.best_s == pytest.approx(plain.best_s, rel=1e-3)


def test_no_checkpoint_interval_mends_a_loop_of_crashes() -> None:
    """If a run crashes repeatedly soon after its restarts, no checkpoint interval is proposed."""
    marks: list[tuple[int, str, int, float | None]] = [(0, "start", 0, None), (60, "first_step", 0, None)]
    for hour in range(1, 11):
        at_s = 60 + 3660 * hour
        marks += [(at_s - 60, "step", 3600 * hour, None), (at_s - 60, "checkpoint", 3600 * hour, 60e6)]
    for crash in range(20):
        at_s = 36_660 + 150 * crash
        marks += [(at_s + 60, "step", 36_060, None), (at_s + 60, "failure", 36_060, None)]
        marks += [(at_s + 90, "restart", 36_000, None), (at_s + 150, "first_step", 36_000, None)]
    marks += [(41_460, "step", 37_800, None), (41_460, "stop", 37_800, None)]
    events = [
        {"event": event, "at_us": at_s * 1_000_000, "step": step, "duration_us": lasted_us}
        for at_s, event, step, lasted_us in marks
    ]
    assert best_interval(events) is None


def test_a_run_that_repeats_less_fails_less() -> None:
    """The predicted saving takes into account that a run that ends sooner fails less often."""
    habits = RunHabits(
        save_every=500, save_s=10.0, failures=10, startup_s=300.0, outage_s=300.0, slow_first_s=0
    )
    run = run_through(habits, np.full(2000, 10.0), Part(0.0), np.random.default_rng(7))
    found = best_interval(run.events)
    assert found is not None
    assert found.now_s > 0.8 * found.between_s
    now_s, best_s = (
        _failing_at_random_s(every_s, found.between_s, found.stall_s)
        for every_s in (found.now_s, found.best_s)
    )
    assert found.saved_fraction == pytest.approx(1 - best_s / now_s, abs=0.02)
    assert found.saved_fraction > 0.2


def _failing_at_random_s(every_s: float, between_s: float, save_s: float) -> float:
    """Return the mean time of 1,000 random runs of 20,000 s of work. [s]"""
    rng, total_s = np.random.default_rng(3), 0.0
    for _ in range(1000):
        done_s = 0.0
        while done_s < 20_000.0:
            until_s = min(done_s + rng.exponential(between_s), 20_000.0)
            total_s += until_s - done_s + save_s * (until_s // every_s - done_s // every_s)
            is_over = until_s == 20_000.0
            total_s += 0.0 if is_over else 600.0
            done_s = until_s if is_over else until_s // every_s * every_s
    return total_s / 1000


def test_of_what_is_not_there_the_reason_is_said() -> None:
    calm, even = (
        found(),
        "no microbatch is known to be heavier by its data, not by a slow worker, pauses or chance",
    )
    assert calm.answers == []
    assert calm.without == {
        LAYERS: "how many layers the model has is not known (--layers)",
        OVER_DP_RANKS: "each has too few microbatches, or the step time depends on which are heavier, "
        f"or {even}",
        SEQUENCES: even,
        COLLECTIONS: "there is one worker, or none is known to pause, not to be slow or have heavy data",
        HOST_EXCHANGED: "no worker on one known host is slow, rather than its stage or data heavier",
        REPLICA_REMOVED: "no worker is slow",
        LIGHTER_REPLICA: "no worker is slow, or another replica is as slow",
        OVERLAP: "too little of any communication lengthens steps, or it is transfers that run beside "
        "computes already (the next stage waits for their data), or several of one call",
        CHECKPOINTS: "its events show no interval, fewer than 2 failures, or a loop of crashes",
    }
    alone = found(layers=[8], shape=replace(SHAPE, dp_size=1, pp_size=1))
    assert alone.without[LAYERS] == "there is no pipeline"
    assert alone.without[OVER_DP_RANKS] == alone.without[LIGHTER_REPLICA] == "there is one dp rank"
    assert alone.without[REPLICA_REMOVED] == "there are fewer than 3 dp ranks"


@pytest.mark.parametrize("layers", [[31], [8, 8], [8, 8, 8, 0], [0]])
def test_layers_that_do_not_fit(layers: list[int]) -> None:
    with pytest.raises(LayersError, match=r"do not fit 4 chunks of the model \(4 stages x 1\)"):
        found(layers=layers)


def test_a_unit_without_ops_has_no_answer() -> None:
    generated = job()
    with pytest.raises(NothingToReplayError, match="no_ops"):
        mitigated(generated.rank_steps.slice(0, 0), generated.manifest)


def test_the_heaviest_microbatches_are_kept_apart() -> None:
    """Heavy microbatches are assigned to different ranks."""
    weight = np.array([[[9.0, 1.0], [8.0, 2.0]], [[1.0, 1.0], [1.0, 1.0]]])
    source = assigned(weight)
    moved = np.take_along_axis(weight.reshape(2, -1), source.reshape(2, -1), axis=1).reshape(2, 2, 2)
    assert moved[0].T.tolist() == [[9.0, 1.0], [8.0, 2.0]]
    assert [sorted(each) for each in source.reshape(2, -1).tolist()] == [[0, 1, 2, 3]] * 2


def _assigned_one_by_one(weight: Floats) -> list[list[list[int]]]:
    """Give each step's microbatches, heaviest first, to the least loaded rank that still lacks some."""
    found = []
    for of_step in weight:
        microbatches, ranks = of_step.shape
        got, load = [list[int]() for _ in range(ranks)], [0.0] * ranks
        flat = of_step.ravel().tolist()
        for place in sorted(range(len(flat)), key=lambda place: -flat[place]):
            rank = min((r for r in range(ranks) if len(got[r]) < microbatches), key=lambda r: load[r])
            got[rank].append(place)
            load[rank] += flat[place]
        found.append(got)
    return found


@pytest.mark.parametrize("shape", [(1, 1, 1), (4, 1, 6), (3, 7, 1), (5, 4, 3), (6, 3, 9), (20, 8, 8)])
@pytest.mark.parametrize("most", [2, 50])
def test_microbatches_are_assigned_as_one_by_one(shape: tuple[int, int, int], most: int) -> None:
    """Assigning microbatches in all steps at once equals assigning them one by one, for any weights."""
    weight = np.random.default_rng(most).integers(0, most, shape).astype(float) ** 3
    assert assigned(weight).swapaxes(1, 2).tolist() == _assigned_one_by_one(weight)


def test_the_evaluation_knows_the_truth(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row for seed in range(6000, 6006) if (row := judge(seed, LAYERS, 3_000)) is not None]
    assert rows
    assert all(abs(row["error"]) < 1.0 for row in rows)
    assert main(["--jobs", "1", "--seed", "6002", "--most-ops", "2000", "--format", "json"]) == 0
    assert "1 generated jobs for each mitigation, of seeds 6002 to " in capsys.readouterr().out
