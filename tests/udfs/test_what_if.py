"""Timelines drawn by hand give the figures of the drawing, and each status if its condition holds."""

from typing import Any

import pyarrow as pa
import pytest

from schemas.tables import TABLES
from schemas.vocabulary import RESULT_TABLES
from tests.udfs.lines import Ops, line, manifest, rank_steps
from udfs.what_if import SimulationSettings, simulate_job

FEW_STEPS = SimulationSettings(minimum_steps=1)


def job(tables: dict[str, pa.Table]) -> dict[str, Any]:
    (row,) = tables["job_slowdown"].to_pylist()
    return dict(row)


def column(tables: dict[str, pa.Table], table: str, key: str, value: str = "slowdown") -> dict[Any, Any]:
    return {row[key]: row[value] for row in tables[table].to_pylist()}


def one_worker_step(step: int, forward_s: float) -> dict[str, Any]:
    ops: Ops = [
        ("forward-compute", 0, forward_s),
        ("backward-compute", forward_s, 2),
        ("optimizer", forward_s + 2, 1),
    ]
    return line(step, 0, 0, ops)


def test_one_worker_two_steps() -> None:
    """One worker with steps of 4 and 6 s has an ideal step of 2 + 2 + 1 = 5 s."""
    tables = simulate_job(rank_steps(one_worker_step(7, 1), one_worker_step(9, 3)), manifest(), FEW_STEPS)
    assert column(tables, "step_slowdown", "step", "simulated_step_s") == {7: 4.0, 9: 6.0}
    assert column(tables, "step_slowdown", "step") == {7: 4 / 5, 9: 6 / 5}
    assert column(tables, "op_type_slowdown", "op_type") == {
        "forward-compute": 1.0,
        "backward-compute": 1.0,
        "optimizer": 1.0,
    }
    assert job(tables)["slowdown"] == 1.0
    assert job(tables)["last_stage_share"] == 0.0
    assert job(tables)["slow_worker_share"] is None, "nothing is lost, so no share of it exists"


def replica(dp_rank: int, forward_s: float, slowest_s: float) -> dict[str, Any]:
    """Return a replica with a forward, a backward of 1 s, and a scatter of 1 s after the slowest replica."""
    ready_s = forward_s + 1
    ops: Ops = [
        ("forward-compute", 0, forward_s),
        ("backward-compute", forward_s, 1),
        ("grads-reduce-scatter", ready_s, slowest_s + 1 + 1 - ready_s),
    ]
    return line(0, dp_rank, 0, ops)


def test_two_replicas_wait_for_the_slow_one() -> None:
    """Two replicas wait for the slow one: T = 5 s and T_ideal = 4 s."""
    tables = simulate_job(rank_steps(replica(0, 1, 3), replica(1, 3, 3)), manifest(dp_size=2), FEW_STEPS)
    assert job(tables)["simulated_step_s"] == 5.0
    assert job(tables)["ideal_step_s"] == 4.0
    assert column(tables, "dp_rank_slowdown", "dp_rank") == {0: 4 / 4, 1: 5 / 4}
    assert column(tables, "worker_slowdown", "dp_rank") == {0: 4 / 4, 1: 5 / 4}
    assert column(tables, "worker_slowdown", "dp_rank", "is_slowest") == {0: False, 1: True}
    assert column(tables, "stage_slowdown", "pp_rank") == {0: 5 / 4}
    assert column(tables, "op_type_slowdown", "op_type")["grads-reduce-scatter"] == 1.0
    assert job(tables)["slow_worker_share"] == 1.0, "with replica 1 ideal the step takes 4 s"


def two_stages(step: int, last_stage_s: float) -> list[dict[str, Any]]:
    """Return one microbatch through two stages; transfers take 1 s, and so do the first stage's computes.

    stage 0: forward 0-1, send 1-2 ... recv posted at 2, done at 4 + 2x, backward 1 s stage 1: recv posted
    at 0, done at 2, forward 2-2+x, backward x, send 1 s (x = last_stage_s)
    """
    back_s = 2 + 2 * last_stage_s
    first: Ops = [
        ("forward-compute", 0, 1),
        ("forward-send", 1, 1),
        ("backward-recv", 2, back_s + 1 - 2),
        ("backward-compute", back_s + 1, 1),
    ]
    last: Ops = [
        ("forward-recv", 0, 2),
        ("forward-compute", 2, last_stage_s),
        ("backward-compute", 2 + last_stage_s, last_stage_s),
        ("backward-send", back_s, 1),
    ]
    return [line(step, 0, 0, first), line(step, 0, 1, last)]


def test_a_slow_last_stage() -> None:
    """A last stage of 3 s instead of 1 s gives T = 4 + 2 x 3 = 10 s, and T_ideal = 10 s as well."""
    tables = simulate_job(rank_steps(*two_stages(0, 3)), manifest(pp_size=2), FEW_STEPS)
    assert job(tables)["simulated_step_s"] == 10.0
    assert job(tables)["ideal_step_s"] == 10.0
    assert column(tables, "stage_slowdown", "pp_rank") == {0: 8 / 10, 1: 12 / 10}, (
        "slowdowns below 1 are not changed"
    )
    assert column(tables, "op_type_slowdown", "op_type")["forward-pp-comm"] == 1.0


def test_share_of_the_last_stage_in_a_job_that_loses_time() -> None:
    """The share of the last stage is 2: an ideal last stage saves 8 s, and all ideal ops save 4 s.

    One replica has steps of 10 and 18 s, and the other the same steps swapped, so both steps take 18 s.
    """
    lines = []
    for step in (0, 1):
        for dp_rank in (0, 1):
            for row in two_stages(step, 3 if step == dp_rank else 7):
                clip_start_s = row["start_us"][-1] / 1e6 + row["duration_us"][-1] / 1e6
                row["op"].append(11)
                row["start_us"].append(clip_start_s * 1e6)
                row["duration_us"].append((18 + 1 - clip_start_s) * 1e6)
                row["microbatch"].append(-1)
                row["model_chunk"].append(-1)
                lines.append(row | {"dp_rank": dp_rank, "rank": 100 * dp_rank + row["pp_rank"]})
    found = job(simulate_job(rank_steps(*lines), manifest(dp_size=2, pp_size=2), FEW_STEPS))
    assert (found["simulated_step_s"], found["ideal_step_s"]) == (19.0, 15.0)
    assert found["last_stage_share"] == (19 - 11) / (19 - 15), (
        "with the last stage ideal: 2 + 2 + 2 x 3 + 1 = 11"
    )


def test_start_in_the_step_is_counted_from_the_lowest_t0_as_integers() -> None:
    """Starts are counted from the lowest t0 as integers, because floats would lose 0.1 us."""
    t0_us = 1_767_600_000_000_000
    early = line(0, 0, 0, [("optimizer", 0, 1)], t0_us=t0_us)
    late = line(0, 1, 0, [("optimizer", 0.1e-6, 1)], t0_us=t0_us + 5)
    tables = simulate_job(rank_steps(early, late), manifest(dp_size=2), FEW_STEPS)
    assert job(tables)["actual_step_s"] == pytest.approx(1 + 5.1e-6, abs=1e-12)


def test_lowest_cp_and_tp_rank_of_a_worker_is_replayed() -> None:
    ranks = [
        line(
            0, 0, 0, [("optimizer", 0, seconds)], rank=rank, cp_rank=cp_rank, tp_rank=tp_rank, host=f"h{rank}"
        )
        for rank, cp_rank, tp_rank, seconds in ((0, 1, 0, 5), (1, 0, 1, 7), (2, 1, 1, 9))
    ]
    tables = simulate_job(rank_steps(*ranks), manifest(tp_size=2, cp_size=2), FEW_STEPS)
    assert job(tables)["actual_step_s"] == 7.0
    assert column(tables, "worker_slowdown", "rank", "host") == {1: "h1"}


def test_ops_by_name_give_what_codes_give() -> None:
    coded = rank_steps(*two_stages(0, 3))
    names = [[("forward-compute", "backward-compute", "forward-send", "forward-recv", "backward-send",
               "backward-recv")[code] for code in codes] for codes in coded["op"].to_pylist()]  # fmt: skip
    named = coded.set_column(coded.column_names.index("op"), "op", pa.array(names))
    layout = manifest(pp_size=2)
    assert simulate_job(named, layout)["stage_slowdown"].equals(simulate_job(coded, layout)["stage_slowdown"])


def test_results_have_the_columns_of_their_tables() -> None:
    tables = simulate_job(rank_steps(one_worker_step(0, 1)), manifest(gpu_hours=4))
    assert {name: table.schema for name, table in tables.items()} == {
        name: TABLES[name].value_schema for name in RESULT_TABLES
    }
    assert job(tables)["wasted_gpu_hours"] == 0.0


@pytest.mark.parametrize(
    ("rows", "facts", "status", "detail"),
    [
        ([], {}, "no_manifest", "job.json"),
        ([one_worker_step(0, 1)], manifest() | {"world_size": 2}, "bad_layout", "world_size is 2"),
        ([one_worker_step(0, 1)], manifest() | {"pp_size": "1"}, "bad_layout", "pp_size is '1'"),
        ([one_worker_step(0, 1)], manifest(restarts=16), "too_many_restarts", "16 restarts"),
        ([], manifest(), "no_ops", "no rank recorded an op"),
        ([line(0, 0, 0, [])], manifest(), "no_ops", "no rank recorded an op"),
        (
            [one_worker_step(0, 1)],
            manifest(dp_size=2),
            "missing_workers",
            "missing in 1: dp_rank 1, pp_rank 0",
        ),
        (
            [one_worker_step(0, 1)],
            manifest(dp_size=400_000_000),
            "missing_workers",
            (
                "missing in 1: dp_rank 1, pp_rank 0; dp_rank 2, pp_rank 0; dp_rank 3, pp_rank 0; dp_rank 4, "
                "pp_rank 0; dp_rank 5, pp_rank 0; and 399999994 more"
            ),
        ),
        (
            [*two_stages(0, 3)[:1], *two_stages(1, 3)[1:], *two_stages(2, 3)[1:]],
            manifest(pp_size=2),
            "missing_workers",
            "missing in 2: dp_rank 0, pp_rank 0",
        ),
        ([one_worker_step(s, 1) for s in range(9)], manifest(), "too_few_steps", "9 complete steps"),
        ([one_worker_step(0, 1)], manifest(), "too_few_steps", "1 complete step, but 10 are needed"),
        ([one_worker_step(s, 1) for s in range(10)], manifest(), "analysed", None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_status(rows: list[dict[str, Any]], facts: dict[str, Any], status: str, detail: str | None) -> None:
    found = job(simulate_job(rank_steps(*rows), facts))
    assert found["status"] == status
    assert found["status_detail"] is None if detail is None else detail in found["status_detail"]


def test_data_loading_before_the_first_op_is_a_high_discrepancy() -> None:
    """A second without ops, at the start of a step of 5 s, gives the status high_discrepancy."""
    ops: Ops = [("forward-compute", 0, 1), ("backward-compute", 2, 3)]
    found = job(simulate_job(rank_steps(*(line(step, 0, 0, ops) for step in range(10))), manifest()))
    assert found["status"] == "high_discrepancy"
    assert "20.00%" in found["status_detail"]
    assert found["launch_slowdown"] == 5 / 4


def test_steps_with_a_missing_worker_are_dropped_and_counted() -> None:
    lines = [row for step in range(4) for row in two_stages(step, 3)][:-1]
    found = job(simulate_job(rank_steps(*lines), manifest(pp_size=2)))
    assert (found["steps"], found["steps_dropped"]) == (3, 1)


def test_transfer_that_ends_before_its_peer_starts_is_clamped_and_counted() -> None:
    first, last = two_stages(0, 3)
    first["duration_us"][1] = 0.5e6
    last["start_us"][0], last["duration_us"][0] = 1.9e6, 0.1e6
    found = job(simulate_job(rank_steps(first, last), manifest(pp_size=2)))
    assert (found["clamped_transfers"], found["clamped_launch_delays"]) == (1, 0)


def test_compute_that_starts_before_its_recv_ends_is_clamped_and_counted() -> None:
    first, last = two_stages(0, 3)
    last["start_us"][1] = 1.95e6
    found = job(simulate_job(rank_steps(first, last), manifest(pp_size=2)))
    assert (found["clamped_transfers"], found["clamped_launch_delays"]) == (0, 1)


def test_first_backward_recv_waits_for_the_compute_two_places_before_the_first_backward() -> None:
    ops: Ops = [
        ("forward-compute", 0, 1, 0),
        ("forward-compute", 1, 1, 1),
        ("backward-recv", 0.5, 0.1),
        ("backward-compute", 2, 1, 0),
        ("backward-recv", 3, 0),
        ("backward-compute", 3, 1, 1),
    ]
    found = job(simulate_job(rank_steps(line(0, 0, 0, ops)), manifest()))
    assert found["clamped_launch_delays"] == 1
