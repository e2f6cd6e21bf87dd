"""MegaScan's aggregated file gives the same rows as the files of its ranks, to a microsecond."""

import json
import re
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

from jobs.landing.formats import megascan, megascan_aggregated
from jobs.landing.formats.foreign import RefusalError
from jobs.landing.formats.known import format_of
from jobs.landing.formats.rows import Bounds
from tests.jobs.landing.formats.foreign_logs import Read, as_json, read
from tests.jobs.landing.formats.test_megascan import shared

COLOUR = {"cname": "thread_state_running"}


def iterations_of(log: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    ends = [place for place, each in enumerate(log) if each["name"] == "iteration" and each["ph"] == "E"]
    begins = [0, *(place + 1 for place in ends[:-1])]
    return [log[begin + 1 : end] for begin, end in zip(begins, ends, strict=True)]


def aggregate(files: dict[str, bytes], first: int = 0) -> list[dict[str, Any]]:
    """Return an aggregated log as MegaScan writes it: one time line, with an event at each iteration's start.

    first : iterations before this one are left out
    """
    events, zero_ns = [], 0
    logs = {int(re.findall(r"pipeline-(\d+)", name)[0]): json.loads(text) for name, text in files.items()}
    by_stage = {stage: iterations_of(log) for stage, log in logs.items()}
    for number in range(first, len(by_stage[0])):
        for stage, iterations in by_stage.items():
            events.append(chrome({"name": "iteration begin", "ph": "i", "rel_ts": 0}, number, stage, zero_ns))
            events += [chrome(each, number, stage, zero_ns) for each in iterations[number]]
        zero_ns += 4_000_000_000
    return sorted(events, key=lambda event: event["ts"])


def chrome(event: dict[str, Any], number: int, stage: int, zero_ns: int) -> dict[str, Any]:
    more = {name: value for name, value in event.items() if name not in {"name", "ph", "rel_ts"}}
    ts = int((event["rel_ts"] + zero_ns) / 1e3)
    named = {"name": event["name"], **COLOUR, "ph": event["ph"], "ts": ts, "pid": stage, "tid": 0}
    return {**named, "args": {"iteration": number, **more}}


def complete(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the log as newer versions of MegaScan write it: an X event per op, and global ranks as pids."""
    begun: dict[int, dict[str, Any]] = {}
    found = []
    for event in events:
        if event["ph"] == "B":
            begun[event["pid"]] = event
        elif event["ph"] == "E":
            begin = begun[event["pid"]]
            args = {"dp_rk": 0, "pp_rk": event["pid"], "tp_rk": 0, "g_rk": 8 + event["pid"], **event["args"]}
            args.pop("pp_rank", None)
            timed = {**begin, "ph": "X", "dur": event["ts"] - begin["ts"], "pid": 8 + event["pid"]}
            found.append({**timed, "args": args})
        else:
            found.append(event)
    return [*found, {"ph": "M", "name": "process_name", "pid": 8, "args": {"name": "DP0-PP0-TP0"}}]


def durations(found: Read) -> np.ndarray[Any, np.dtype[np.float64]]:
    rows = found.rows.sort_by([("step", "ascending"), ("pp_rank", "ascending")])
    return np.stack([pc.list_flatten(rows[name]).to_numpy() for name in ("start_us", "duration_us")])


def test_the_aggregate_gives_what_the_files_of_its_ranks_give() -> None:
    files = shared()
    itself = read(files)
    for events, ranks in ((aggregate(files), [0, 1, 2, 3]), (complete(aggregate(files)), [8, 9, 10, 11])):
        found = read({"run-aggregated.json": json.dumps(events, indent=2).encode()})
        assert (found.run.source_format, found.run.transfers, found.rejects) == ("megascan", "absent", [])
        assert found.job | {"warm_up_steps": 2, "world_size": 4} == itself.job | {"left_out": None}
        assert np.abs(durations(found) - durations(itself)).max() <= 2.0
        assert sorted(set(found.rows["rank"].to_pylist())) == ranks
        job, wanted = found.outcome(), itself.outcome()
        assert job["status"] == "partial_trace"
        assert job["slowdown_low"] == pytest.approx(wanted["slowdown_low"], rel=1e-3)


def test_an_aggregate_behind_the_warm_up_is_replayed_from_its_first_iteration() -> None:
    found = read({"a.json": json.dumps(aggregate(shared(), first=10), indent=2).encode()})
    assert (found.job["warm_up_steps"], found.rows["step"].to_pylist()[0]) == (0, 10)
    assert found.outcome()["steps"] is None
    assert "in 10 steps" in found.outcome()["status_detail"]


def op(**changes: Any) -> dict[str, Any]:  # noqa: ANN401  # any JSON value
    args = {"iteration": 5, "microbatch": 0, "model_chunk": 0, "pp_rank": 0, **changes.pop("args", {})}
    return {
        "name": "forward",
        **COLOUR,
        "ph": "X",
        "ts": 7,
        "dur": 3,
        "pid": 0,
        "tid": 0,
        **changes,
        "args": args,
    }


def test_what_is_no_op_is_counted_and_a_time_that_is_none_costs_its_iteration() -> None:
    odd = [7, op(name="loss"), op(ph="E", name="backward"), op(ph="B"), op(args={"iteration": 6}, dur="x")]
    found = read({"a.json": as_json([op(), *odd])})
    assert found.rows["step"].to_pylist() == [5, 6]
    assert np.isnan(found.rows["duration_us"].to_pylist()[1][0])
    assert dict(found.run.left_out) == {
        "values that are not events": 1,
        "events named loss": 1,
        "ends of ops that did not begin": 1,
        "beginnings of ops that did not end": 1,
    }


def test_a_time_before_all_others_is_no_zero_of_other_ranks() -> None:
    second = op(pid=1, args={"pp_rank": 1})
    text = as_json([op(), {**second, "ts": "?"}]).replace(b'"?"', b"-Infinity")
    found = read({"a.json": text})
    starts_us = {row["pp_rank"]: row["start_us"][0] for row in found.rows.to_pylist()}
    assert starts_us[0] == 0
    assert np.isnan(starts_us[1])


def test_what_cannot_be_placed_or_is_too_large_is_refused() -> None:
    for events, bounds, words in (
        ([op(args={"pp_rank": None})], Bounds(), "do not say their stage. Give the files of the ranks"),
        ([op(ph="i")], Bounds(), "no op of an iteration"),
        ([op()] * 9, Bounds(trace_ops=8), "more than 8 ops in one file. Aggregate fewer"),
        ([op(), op(name="backward-wgrad")], Bounds(), "a backward in two parts"),
    ):
        with pytest.raises(RefusalError, match=words):
            read({"a.json": as_json(events)}, bounds=bounds)


def test_the_forms_are_told_apart() -> None:
    assert format_of(as_json([op()])) is megascan_aggregated
    assert format_of(next(iter(shared().values()))[: 64 << 10]) is megascan
    assert format_of(as_json([{**op(), "cname": 1}])) is None


@pytest.mark.parametrize("wrong", [{"tid": "1"}, {"pid": "0"}, {"args": {"iteration": "5"}}])
def test_an_op_whose_place_is_no_number_is_of_no_other_rank(wrong: dict[str, Any]) -> None:
    found = read({"a.json": as_json([op(), op(**wrong)])})
    assert [len(each) for each in found.rows["op"].to_pylist()] == [1]
    assert dict(found.run.left_out) == {"events named forward": 1}
