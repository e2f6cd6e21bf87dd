"""Units without transfers are not analysed, but get bounds of their slowdown and a list of slow computes."""

from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from schemas.unit import Unit
from schemas.vocabulary import OP_CODES
from udfs.custom_scenario import replay_scenarios
from udfs.errors import NothingToReplayError, TraceError
from udfs.simulate.unit_batches import UnitRows, simulate_unit
from udfs.what_if import SimulationSettings, simulate_job

FORWARD, BACKWARD, STEPS = 1000.0, 2000.0, 12
TRANSFER = 100.0


def manifest(dp_size: int, pp_size: int, **more: object) -> dict[str, Any]:
    sizes = {"dp_size": dp_size, "pp_size": pp_size, "tp_size": 1, "cp_size": 1, "vpp_size": 1}
    return sizes | {"world_size": dp_size * pp_size, "transfers": "absent"} | more


def line(step: int, dp_rank: int, stage: int, ops: list[tuple[str, float, float, int]]) -> dict[str, Any]:
    op, start, duration, microbatch = zip(*ops, strict=True)
    return {
        "step": step,
        "rank": 10 * stage + dp_rank,
        "dp_rank": dp_rank,
        "pp_rank": stage,
        "tp_rank": 0,
        "cp_rank": 0,
        "host": None,
        "t0_us": 0,
        "op": [OP_CODES[name] for name in op],
        "start_us": list(start),
        "duration_us": list(duration),
        "microbatch": list(microbatch),
        "model_chunk": [0] * len(op),
    }


def gpipe(
    slow: dict[tuple[int, int], float], dp_size: int = 1, order: tuple[int, ...] = (0, 1, 2, 3)
) -> pa.Table:
    """Return computes of two stages that run all forwards and then all backwards; some workers are slow.

    slow : factor on the computes of a worker, by (dp_rank, pp_rank)
    """
    rows = []
    for step in range(STEPS):
        for dp_rank in range(dp_size):
            lengths = [slow.get((dp_rank, stage), 1.0) for stage in range(2)]
            first, second = [0.0], [0.0]
            ops: tuple[list[Any], list[Any]] = ([], [])
            arrival = {}
            for microbatch in range(4):
                ops[0].append(("forward-compute", first[-1], FORWARD * lengths[0], microbatch))
                first.append(first[-1] + FORWARD * lengths[0])
                arrival[microbatch] = first[-1] + TRANSFER
            for microbatch in order:
                start = max(second[-1], arrival[microbatch])
                ops[1].append(("forward-compute", start, FORWARD * lengths[1], microbatch))
                second.append(start + FORWARD * lengths[1])
            for microbatch in order:
                ops[1].append(("backward-compute", second[-1], BACKWARD * lengths[1], microbatch))
                second.append(second[-1] + BACKWARD * lengths[1])
                start = max(first[-1], second[-1] + TRANSFER)
                ops[0].append(("backward-compute", start, BACKWARD * lengths[0], microbatch))
                first.append(start + BACKWARD * lengths[0])
            rows += [line(step, dp_rank, stage, ops[stage]) for stage in range(2)]
    return pa.Table.from_pylist(rows)


def job_of(rows: pa.Table, facts: dict[str, Any]) -> dict[str, Any]:
    tables = simulate_job(rows, facts)
    assert [name for name, table in tables.items() if table.num_rows] == ["job_slowdown"]
    found: dict[str, Any] = tables["job_slowdown"].to_pylist()[0]
    return found


@pytest.mark.parametrize("transfers", ["absent", "inferred", "measured"])
def test_what_was_not_measured_is_never_analysed(transfers: str) -> None:
    found = job_of(gpipe({}), manifest(1, 2, transfers=transfers, source_format="megascan"))
    assert (found["status"], found["slowdown"], found["steps"]) == ("partial_trace", None, None)
    assert 0.95 < found["slowdown_low"] < 1.0 < found["slowdown_high"] < 1.03
    assert found["slow_computes"] == []


def test_a_slow_stage_and_a_slow_worker_are_found_by_their_computes() -> None:
    stage = job_of(gpipe({(0, 1): 1.5}), manifest(1, 2))
    assert {(each["pp_rank"], each["dp_rank"]) for each in stage["slow_computes"]} == {(1, None)}
    assert 1 < stage["slowdown_low"] <= stage["slowdown_high"]
    worker = job_of(gpipe({(2, 0): 1.5}, dp_size=4), manifest(4, 2))
    assert {(each["pp_rank"], each["dp_rank"]) for each in worker["slow_computes"]} == {(0, 2)}
    assert worker["slow_computes"][0]["duration_s"] == pytest.approx(
        1.5 * worker["slow_computes"][0]["usual_s"]
    )


def test_transfers_of_the_log_that_were_inferred_count_for_nothing() -> None:
    rows = gpipe({(0, 1): 1.5}).to_pylist()
    for each in rows:
        name = "forward-send" if each["pp_rank"] == 0 else "forward-recv"
        for column, value in zip(("op", "start_us", "duration_us"), (OP_CODES[name], 0.0, 9e6), strict=True):
            each[column].append(value)
        each["microbatch"].append(0)
        each["model_chunk"].append(0)
    made_up = job_of(pa.Table.from_pylist(rows), manifest(1, 2, transfers="inferred"))
    absent = job_of(gpipe({(0, 1): 1.5}), manifest(1, 2))
    assert [made_up[name] for name in ("slowdown_low", "slowdown_high")] == [
        absent[name] for name in ("slowdown_low", "slowdown_high")
    ]


def test_warm_up_steps_are_not_replayed() -> None:
    warm = job_of(gpipe({}), manifest(1, 2, warm_up_steps=2))
    assert "in 10 steps" in warm["status_detail"]
    none = simulate_job(gpipe({}), manifest(1, 2, warm_up_steps=99))["job_slowdown"].to_pylist()
    assert none[0]["status"] == "no_ops"


@pytest.mark.parametrize("case", ["other order", "begins early", "missing"])
def test_other_schedules_are_corrupt_traces_that_say_so(case: str) -> None:
    rows = gpipe({}, order=(3, 0, 1, 2) if case == "other order" else (0, 1, 2, 3)).to_pylist()
    for each in rows:
        if case == "begins early" and each["pp_rank"] == 0:
            # Forwards are moved later and backwards earlier, so that no offset of a clock makes the order
            # possible.
            is_forward = [op == OP_CODES["forward-compute"] for op in each["op"]]
            moved_us = [5e3 if forward else -2.5e3 for forward in is_forward]
            each["start_us"] = [a + b for a, b in zip(each["start_us"], moved_us, strict=True)]
        if case == "missing" and each["pp_rank"] == 1:
            each["microbatch"] = [number + 7 for number in each["microbatch"]]
    with pytest.raises(TraceError, match="dynamic"):
        simulate_job(pa.Table.from_pylist(rows), manifest(1, 2))
    key = Unit(date(2026, 1, 5), "j", "r")
    unit = UnitRows(key, manifest(1, 2, manifest_status=None), pa.Table.from_pylist(rows))
    found = simulate_unit(unit, SimulationSettings())["job_slowdown"].to_pylist()[0]
    assert found["status"] == "corrupt_trace"


@pytest.mark.parametrize("drift_us", [0.0, 700.0])
def test_clocks_of_hosts_that_recorded_computes_alone_are_corrected(drift_us: float) -> None:
    rows, wanted = (
        gpipe({(0, 1): 1.5}, dp_size=2).to_pylist(),
        job_of(gpipe({(0, 1): 1.5}, 2), manifest(2, 2)),
    )
    for each in rows:
        each["host"] = f"host-{each['pp_rank']}"
        if each["pp_rank"]:
            each["start_us"] = [start + 30e3 + drift_us * each["step"] for start in each["start_us"]]
        each["t0_us"] = 60_000_000 * each["step"]
    found = job_of(pa.Table.from_pylist(rows), manifest(2, 2))
    assert "clocks were" in found["status_detail"]
    assert "clocks were" not in wanted["status_detail"]
    for name in ("slowdown_low", "slowdown_high"):
        assert found[name] == pytest.approx(wanted[name], rel=2e-3), name
    assert [each["gap_s"] for each in found["stage_gaps"]] == pytest.approx([1e-4, 1e-4], rel=0.05)


def test_a_gap_that_differs_by_direction_is_a_links_and_never_a_clocks() -> None:
    rows = gpipe({}).to_pylist()
    for each in rows:
        each["host"] = f"host-{each['pp_rank']}"
        # Forwards of the second stage, and backwards of the first, come 900 us later: only the forward gap
        # grows.
        if each["pp_rank"]:
            each["start_us"] = [start + 900.0 for start in each["start_us"]]
        else:
            is_forward = [op == OP_CODES["forward-compute"] for op in each["op"]]
            moved_us = [0.0 if forward else 900.0 for forward in is_forward]
            each["start_us"] = [a + b for a, b in zip(each["start_us"], moved_us, strict=True)]
    found = job_of(pa.Table.from_pylist(rows), manifest(1, 2))
    assert "clocks were" not in found["status_detail"]
    largest, other = found["stage_gaps"]
    assert (largest["direction"], largest["pp_rank"], largest["next_pp_rank"]) == ("forward", 0, 1)
    assert (largest["gap_s"], other["gap_s"]) == pytest.approx((1e-3, 1e-4))
    assert "largest gap: forward, stage 0 to 1, 1 ms" in found["status_detail"]


@pytest.mark.parametrize("slow_until", [STEPS, STEPS // 2])
def test_a_link_that_turns_slow_moves_no_clock(slow_until: int) -> None:
    """If a link becomes slow in one direction, the estimated clocks stay the same."""
    rows = gpipe({}).to_pylist()
    for each in rows:
        each["host"] = f"host-{each['pp_rank']}"
        late_us = 2e3 if each["step"] >= slow_until else 0.0
        if each["pp_rank"]:
            each["start_us"] = [start + 5e3 + late_us for start in each["start_us"]]
        else:
            is_forward = [op == OP_CODES["forward-compute"] for op in each["op"]]
            moved_us = [0.0 if forward else late_us for forward in is_forward]
            each["start_us"] = [a + b for a, b in zip(each["start_us"], moved_us, strict=True)]
    found = job_of(pa.Table.from_pylist(rows), manifest(1, 2))
    by_way = {each["direction"]: each["gap_s"] for each in found["stage_gaps"]}
    wanted_s = 1e-4 + 2e-3 * (STEPS - slow_until) / STEPS
    assert by_way == pytest.approx({"forward": wanted_s, "backward": 1e-4}, rel=0.05)


def test_computes_outside_the_layout_and_none_at_all_are_corrupt_traces() -> None:
    rows = gpipe({}).to_pylist()
    chunk = [each | {"model_chunk": [3] * len(each["op"])} for each in rows]
    other = [each | {"op": [OP_CODES["optimizer"]] * len(each["op"])} for each in rows]
    for changed, words in ((chunk, "model_chunk"), (other, "neither a forward-compute")):
        with pytest.raises(TraceError, match=words):
            simulate_job(pa.Table.from_pylist(changed), manifest(1, 2))


def test_scenarios_of_a_partial_trace_are_refused() -> None:
    with pytest.raises(NothingToReplayError, match="partial_trace: transfers were not recorded"):
        replay_scenarios(gpipe({}), manifest(1, 2), ["true"])
