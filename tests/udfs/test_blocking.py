"""Blocking transfers are found only if the record shows them, and replays equal the reference's."""

from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pyarrow as pa
import pytest

from jobs.synthetic.job import recorded_job
from jobs.synthetic.sample_job import sample_job
from jobs.synthetic.simulation import Simulation
from schemas.vocabulary import OP_TYPES, TRANSFER_OPS, Status
from tests.conftest import TRACES
from tests.evaluation.blocking.draw import KINDS, Drawn, draw
from tests.oracle.readers import read_layout as layout_of_twin
from tests.oracle.readers import read_rank_steps
from tests.oracle.records import Layout
from tests.oracle.results import what_if
from tests.support import published
from tests.udfs.equal_results import assert_same_results
from tests.udfs.lines import Ops, line, manifest, rank_steps
from tests.udfs.reference import assert_equal_results
from udfs.custom_scenario import replay_scenarios
from udfs.kernel import op_type as ot
from udfs.kernel.recorded import blocking, first_pass, trace
from udfs.kernel.recorded.blocking import sampled
from udfs.kernel.recorded.first_pass import Recorded, read
from udfs.kernel.replay.ideal import ideal_durations, ideal_of_ops
from udfs.kernel.replay.masked import replay_one_by_one
from udfs.kernel.replay.replay import last_ops, replay
from udfs.kernel.replay.stacked import replay_scenarios as replay_stacked
from udfs.kernel.replay.timeline import replayed_timeline
from udfs.kernel.what_if import OPS_TOGETHER
from udfs.layout import read_layout
from udfs.simulate.rank_rows import ReplayedRows, replayed_rows
from udfs.timeline.timelines import step_timelines
from udfs.what_if import simulate_job

SHOWN = {
    "streams": 0, "blocking": 8, "receives": 10, "fused": 3, "mixed: forward": 10, "buffered": 17,
    "buffered, fused": 38,
}  # fmt: skip
"""By kind of job, a seed of a job whose log shows which transfers block."""


@cache
def drawn(kind: str) -> Drawn:
    return draw(SHOWN[kind], kind)


def job_row(rows: pa.Table, facts: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = simulate_job(rows, facts)["job_slowdown"].to_pylist()[0]
    return found


def recorded(rows: pa.Table, facts: dict[str, Any]) -> Recorded:
    layout = read_layout(facts)
    return read(replayed_rows(rows, layout), layout, OPS_TOGETHER, diagnosed=False)


def reference_layout(rows: pa.Table, facts: dict[str, Any]) -> Layout:
    """Return the layout for the reference, with the op types that the simulator found to block."""
    chosen = recorded(rows, facts).blocking.chosen
    blocking, eager = (frozenset(OP_TYPES[each] for each in types) for types in chosen)
    return replace(layout_of_twin(facts), blocking=blocking, eager=eager)


@pytest.mark.parametrize("kind", SHOWN)
def test_what_blocks_is_found_and_brings_the_replay_to_the_record(kind: str) -> None:
    job = job_row(drawn(kind).rank_steps, drawn(kind).manifest)
    assert bool(job["blocking"]) == bool(KINDS[kind][0])
    assert job["discrepancy"] < 0.002
    assert job["simulated_step_s"] == pytest.approx(drawn(kind).step_s, rel=1e-3)
    if kind != "buffered, fused":  # calls of this kind hide when their sends ended
        assert job["slowdown"] == pytest.approx(drawn(kind).slowdown, rel=1e-3)


@pytest.mark.parametrize(
    ("seed", "kind"),
    [
        (71001, "blocking"),
        (71033, "fused"),
        (60099, "buffered, receives"),
        (60166, "mixed: all but sends back"),
        (77099, "buffered, receives"),
    ],
)
def test_little_that_the_replay_misses_shows_waits_by_when_ops_begin(seed: int, kind: str) -> None:
    """Starts of ops show blocking, even if a replay without blocking misses the step time by under 0.3 %."""
    found = draw(seed, kind)
    job = job_row(found.rank_steps, found.manifest)
    assert set(job["blocking"]) == KINDS[kind][0]
    assert job["discrepancy_nonblocking"] < 0.003
    assert job["slowdown"] == pytest.approx(found.slowdown, rel=1e-4)


def test_waits_that_the_middle_step_lacks_show_if_they_explain_every_step() -> None:
    """Blocking that explains all steps is found, even if the middle step hardly shows it."""
    found = draw(85371, "blocking")
    job = job_row(found.rank_steps, found.manifest)
    assert set(job["blocking"]) == KINDS["blocking"][0]
    assert job["slowdown"] == pytest.approx(found.slowdown, rel=1e-4)


@pytest.mark.parametrize(("seed", "odd"), [(8, {3}), (28, {3, 4})], ids=["one", "two: most sends wait"])
def test_a_few_steps_of_other_clocks_make_no_send_eager(seed: int, odd: set[int]) -> None:
    """If one clock is 50 ms ahead in a few steps, these steps do not make sends count as eager."""
    job = draw(seed, "blocking")
    lines = job.rank_steps.to_pylist()
    for each in lines:
        each["t0_us"] += 50_000 * (each["step"] in odd and each["pp_rank"] == 1)
        each["host"] = "host"
    rows = pa.Table.from_pylist(lines, schema=job.rank_steps.schema)
    chosen = recorded(rows, job.manifest).blocking.chosen
    assert chosen.types
    assert not chosen.eager


def test_sends_that_never_find_their_receive_late_are_eager_where_they_end_long_before_it() -> None:
    """Sends that always end long before their receives begin count as eager, and no cause is named.

    In an earlier version, these sends did not count as eager, so that others looked slow, and
    communication was wrongly named.
    """
    job = draw(77268, "buffered, fused")
    assert recorded(job.rank_steps, job.manifest).blocking.chosen.eager == (ot.FORWARD_SEND, ot.BACKWARD_SEND)
    causes = simulate_job(job.rank_steps, job.manifest)["job_causes"].to_pylist()
    assert not [each["cause"] for each in causes if each["is_cause"]]


def test_ops_that_begin_whenever_they_like_wait_for_no_transfer() -> None:
    """If ops start at random times, no transfer counts as blocking, though replays are off by 0.1 %."""
    job = recorded_job(Simulation(replace(sample_job(40, most_ops=8000), lost_ranks=())))
    found = job_row(job.rank_steps, job.manifest)
    assert 0.001 < found["discrepancy_nonblocking"] < blocking.NOTABLE
    assert not found["blocking"]


@pytest.mark.parametrize("seed", [3153, 3253, 3333])
def test_of_two_transfers_that_were_ready_together_one_is_the_slower(seed: int) -> None:
    """If two transfers of a call were ready together, the call's length is that of the slower one."""
    job = draw(seed, "fused")
    found = job_row(job.rank_steps, job.manifest)
    assert found["blocking"]
    assert found["slowdown"] == pytest.approx(job.slowdown, rel=5e-4)


@pytest.mark.parametrize(("late", "slower"), [(0, "backward"), (1, "forward")])
def test_of_two_transfers_that_were_ready_together_the_receivers_say_which_is_slower(
    late: int, slower: str
) -> None:
    """If two transfers of a call were ready together, the times at their receivers show the slower one."""
    job = drawn("fused")
    rows = job.rank_steps.to_pylist()
    for row in rows:
        times = [*zip(row["start_us"], row["duration_us"], strict=True)]
        in_calls = [row["pp_rank"] == late and times.count(own) > 1 for own in times]
        row["duration_us"] = [
            duration + 5_000 * is_late for duration, is_late in zip(row["duration_us"], in_calls, strict=True)
        ]
    facts = job.manifest | {"blocking_transfers": list(TRANSFER_OPS)}
    (block,) = recorded(pa.Table.from_pylist(rows, job.rank_steps.schema), facts).blocks
    hidden = {
        (OP_TYPES[block.graph.op_types[op]], bool(each.is_hidden.all()))
        for op, each in block.unknown.items()
        if block.graph.stages[op] == 0
    }
    assert hidden == {("forward-send", slower == "backward"), ("backward-recv", slower == "forward")}


@pytest.mark.parametrize("kind", ["receives", "fused", "mixed: forward"])
def test_no_fewer_types_leave_less_than_is_said_of_all_of_them(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, bounds = blocking._tried, []

    def with_fewer(
        sample: blocking.Sample, types: tuple[int, ...], eager: tuple[int, ...], nonblocking: float
    ) -> blocking.BlockingFound | None:
        found = tried(sample, types, eager, nonblocking)
        assert found is not None
        bounds.append(found.least)
        for fewer in (some for size in range(len(types)) for some in combinations(types, size)):
            replayed = tried(sample, fewer, eager, nonblocking)
            assert replayed is not None
            assert replayed.blocking >= found.least * (1.0 - blocking.ROUNDING)
        return found

    monkeypatch.setattr(blocking, "_tried", with_fewer)
    job_row(drawn(kind).rank_steps, drawn(kind).manifest)
    assert bounds[0] > 0.0


@pytest.mark.parametrize("kind", SHOWN)
def test_the_twin_agrees(kind: str) -> None:
    found = simulate_job(drawn(kind).rank_steps, drawn(kind).manifest)
    layout = reference_layout(drawn(kind).rank_steps, drawn(kind).manifest)
    assert sorted(layout.blocking) == sorted(found["job_slowdown"]["blocking"][0].as_py())
    assert_equal_results(found, what_if(read_rank_steps(drawn(kind).rank_steps), layout))


@pytest.mark.parametrize("kind", SHOWN)
def test_all_replays_of_a_graph_with_blocking_transfers_agree_bit_for_bit(kind: str) -> None:
    job = drawn(kind)
    found, layout = recorded(job.rank_steps, job.manifest), read_layout(job.manifest)
    (block,) = found.blocks
    graph, duration_s = block.graph, block.duration_s
    fast_s = replay(graph, list(duration_s.reshape(graph.size, 1, -1)), (1, *duration_s.shape[1:]))[0]
    for step, step_s in enumerate(fast_s):
        assert replayed_timeline(graph, duration_s[:, step]).end_s.max() == step_s
    ideal_of_op = ideal_of_ops(graph, ideal_durations([(graph, duration_s)]))
    is_last = last_ops(graph, np.minimum(duration_s.reshape(graph.size, -1).min(axis=1), ideal_of_op))
    together = replay_stacked(graph, layout, duration_s, ideal_of_op, is_last)
    alone = replay_one_by_one(graph, layout, duration_s, ideal_of_op)
    assert np.array_equal(together.recorded, alone.recorded)
    assert np.array_equal(together.ideal, alone.ideal)
    assert np.array_equal(together.by_worker, alone.by_worker)


@pytest.mark.parametrize("kind", ["receives", "fused", "buffered"])
def test_scenarios_and_timelines_replay_what_the_tables_do(kind: str) -> None:
    rows, facts = drawn(kind).rank_steps, drawn(kind).manifest
    found = simulate_job(rows, facts)
    (job,) = found["job_slowdown"].to_pylist()
    assert replay_scenarios(rows, facts, ["dp_rank = 0"]).simulated_step_s == job["simulated_step_s"]
    last = found["step_slowdown"].to_pylist()[-1]
    step = step_timelines(rows, facts, step=last["step"])
    assert step.step_s("replayed") == pytest.approx(last["simulated_step_s"], rel=1e-12)
    assert step.step_s("ideal") == pytest.approx(last["ideal_step_s"], rel=1e-12)


def test_the_manifest_rules_where_it_states_what_blocks() -> None:
    rows, facts = drawn("blocking").rank_steps, drawn("blocking").manifest
    free = simulate_job(rows, facts | {"blocking_transfers": []})
    assert free["job_slowdown"]["blocking"].to_pylist() == [[]]
    assert free["job_slowdown"]["discrepancy"][0].as_py() > 0.01
    stated = simulate_job(rows, facts | {"blocking_transfers": list(TRANSFER_OPS)})
    assert_same_results(stated, simulate_job(rows, facts), within=0.0)


@pytest.mark.parametrize("stated", ["forward-recv", ["forward-compute"], [3]])
def test_a_manifest_that_states_what_is_no_transfer_is_a_bad_layout(stated: object) -> None:
    job = job_row(drawn("streams").rank_steps, drawn("streams").manifest | {"blocking_transfers": stated})
    assert job["status"] == Status.BAD_LAYOUT
    assert "blocking_transfers" in job["status_detail"]


def test_a_recv_that_is_posted_late_begins_late() -> None:
    """If a worker posts a recv only after a backward, the replay begins the recv after the backward too."""
    first: Ops = [
        ("forward-compute", 0.0, 0.1, 0), ("forward-send", 0.1, 0.1), ("forward-compute", 0.2, 0.1, 1),
        ("forward-send", 0.3, 0.9),
    ]  # fmt: skip
    second: Ops = [
        ("forward-recv", 0.0, 0.2), ("forward-compute", 0.2, 0.4, 0), ("backward-compute", 0.6, 0.5, 0),
        ("forward-recv", 1.1, 0.1), ("forward-compute", 1.2, 0.4, 1),
    ]  # fmt: skip
    rows = rank_steps(line(1, 0, 0, first), line(1, 0, 1, second))
    paper, late = (
        job_row(rows, manifest(pp_size=2) | {"blocking_transfers": stated})
        for stated in ([], ["forward-recv"])
    )
    assert paper["simulated_step_s"] == pytest.approx(1.5)
    assert late["simulated_step_s"] == pytest.approx(1.6)
    assert late["discrepancy"] == pytest.approx(0.0, abs=1e-12)


def test_rows_are_read_once_and_the_compared_steps_laid_out_once_however_many_types_are_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = drawn("mixed: forward")
    layout = read_layout(job.manifest)
    rows = replayed_rows(job.rank_steps, layout)
    stages, lay_out = MagicMock(wraps=rows.stages), MagicMock(wraps=trace.lay_out)

    def laid() -> list[int]:
        return [steps for _, _, steps in (call.args for call in lay_out.call_args_list)]

    monkeypatch.setattr(first_pass, "lay_out", lay_out)
    monkeypatch.setattr(ReplayedRows, "stages", stages)
    assert read(rows, layout, OPS_TOGETHER, diagnosed=False).blocking.chosen.types
    assert stages.call_count == 1
    # First one step, to see whether blocking may explain any error; then the steps that are compared.
    assert laid() == [1, len(sampled(len(rows.steps)))]
    lay_out.reset_mock()
    monkeypatch.setattr(blocking, "LITTLE_MORE", np.inf)
    assert read(rows, layout, OPS_TOGETHER, diagnosed=False).blocking.chosen.types
    assert laid() == [len(sampled(len(rows.steps))), 1], "in the other order if a bound may suffice"


def _chosen_of_all() -> dict[str, dict[str, Any]]:
    """Return the columns about blocking for trace SE and for one job of each kind."""
    jobs = {kind: (drawn(kind).rank_steps, drawn(kind).manifest) for kind in SHOWN}
    jobs["SE"] = published.rank_steps(TRACES, "SE"), published.manifest(TRACES, "SE")
    columns = ("blocking", "discrepancy_nonblocking", "discrepancy_blocking")
    return {name: {column: job_row(*job)[column] for column in columns} for name, job in jobs.items()}


def test_what_is_ruled_out_would_not_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _chosen_of_all()
    monkeypatch.setattr(blocking, "_is_ruled_out", lambda *_: False)
    tried = _chosen_of_all()
    assert tried["SE"].pop("discrepancy_blocking") == pytest.approx(0.00204, abs=1e-5)
    assert found["SE"].pop("discrepancy_blocking") is None, "the bound suffices"
    assert found == tried
