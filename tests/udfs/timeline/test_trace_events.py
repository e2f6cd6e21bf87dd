"""Exported traces follow the Trace Event Format, and Perfetto's own processor reads them."""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from jobs.synthetic.job import GeneratedJob
from jobs.synthetic.mechanisms.nuisances import ClockSkew
from jobs.synthetic.mechanisms.workers import WeakGpu
from tests.support.perfetto import TraceProcessor
from tests.support.random_jobs import NOISY, USUAL, generate_job, named_job
from tests.udfs.lines import Ops, line, manifest, rank_steps
from udfs.timeline.timelines import (
    CULPRITS,
    KINDS,
    StepTimelines,
    Worker,
    culprits_and_neighbours,
    host_of,
    lost_s,
    step_timelines,
)
from udfs.timeline.trace_events import CRITICAL, LAUNCH_DELAY, SHOWN, arrows_left_out, lanes, trace_events

OVERLAPPING: Ops = [("forward-compute", 0, 2, 0), ("forward-compute", 1, 2, 1), ("forward-compute", 2, 2, 2)]
"""Forwards that overlap, which no stream can run, though a profiler may log them."""

JOBS = {
    "usual": named_job("usual"),
    "virtual_pipeline": named_job("virtual_pipeline"),
    "overlapped": named_job("virtual_pipeline_batched_overlapped"),
    "no_op_transfers": named_job("noop_transfers_without_virtual_pipeline"),
    "disagreeing": named_job("disagreeing"),
    "clock_skew": generate_job(USUAL, [ClockSkew(0.05)], seed=3, workload=NOISY),
    "overlapping": GeneratedJob(rank_steps(line(0, 0, 0, OVERLAPPING)), manifest()),
}
Events = list[dict[str, Any]]


def step_of(name: str) -> StepTimelines:
    return step_timelines(JOBS[name].rank_steps, JOBS[name].manifest)


def all_workers(step: StepTimelines) -> list[Worker]:
    return list(lost_s(step))


def slices(events: Events) -> Events:
    return [each for each in events if each["ph"] == "X"]


def thread_names(events: Iterable[dict[str, Any]]) -> list[str]:
    return [each["args"]["name"] for each in events if each["name"] == "thread_name"]


def nested(events: Events) -> bool:
    """Return whether the slices of each thread are disjoint or nested, to the nanosecond."""
    threads: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for each in events:
        start = round(each["ts"] * 1000)
        threads[each["tid"]].append((start, start + round(each["dur"] * 1000)))
    for spans in threads.values():
        open_until: list[int] = []
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            if open_until and end > open_until[-1]:
                return False
            open_until.append(end)
    return True


@pytest.mark.parametrize("name", JOBS)
def test_the_rules_of_the_format(name: str) -> None:
    step = step_of(name)
    workers = all_workers(step)
    events = list(trace_events(step, workers))
    assert {each["ph"] for each in events} == {"M", "X", "s", "f"} - ({"s", "f"} if not step.peers else set())
    named = {(each["pid"], each["tid"]) for each in events if each["name"] == "thread_name"}
    assert len(named) == len(KINDS) + lanes(step, workers)
    drawn = slices(events)
    assert nested(drawn)
    assert all(each["ts"] >= 0 and each["dur"] >= 0 for each in drawn)
    assert {(each["pid"], each["tid"]) for each in drawn} <= named
    ops = [each for each in drawn if each["tid"] > len(KINDS) and each["args"]]
    assert len(ops) == len(SHOWN) * step.ops
    assert sum(CRITICAL in each["cat"] for each in ops) == sum(len(step.critical[kind]) for kind in SHOWN)
    sent = {each["id"]: each for each in events if each["ph"] == "s"}
    taken = {each["id"]: each for each in events if each["ph"] == "f"}
    assert sent.keys() == taken.keys()
    assert len(sent) == len(SHOWN) * len(step.peers) - arrows_left_out(step, workers)
    assert all(each["bp"] == "e" and each["ts"] == sent[number]["ts"] for number, each in taken.items())
    json.dumps(events, allow_nan=False)


@pytest.mark.parametrize("name", JOBS)
def test_each_path_has_a_thread_that_fills_the_step(name: str) -> None:
    step = step_of(name)
    events = list(trace_events(step, []))
    for tid, kind in enumerate(KINDS, start=1):
        path = [each for each in slices(events) if each["tid"] == tid]
        assert sum(each["dur"] for each in path) == pytest.approx(step.step_s(kind) * 1e6, abs=0.002)
        delays = [each for each in path if each["name"] == LAUNCH_DELAY]
        assert bool(delays) == (kind == "recorded" and name != "overlapping")


def test_a_slow_worker_stands_first_with_its_host_and_its_neighbours_follow() -> None:
    job = generate_job(replace(USUAL, dp_size=8), [WeakGpu(5, 2, 1.8)], seed=1)
    step = step_timelines(job.rank_steps, job.manifest)
    workers = culprits_and_neighbours(step)
    assert workers[0] == (5, 2)
    assert workers[1][1] == 2
    assert workers[2:4] == [(5, 1), (5, 3)]
    assert len(workers) <= 4 * CULPRITS < len(lost_s(step))
    names = thread_names(trace_events(step, workers))
    assert [name.split(",")[0] for name in names[: len(KINDS)]] == ["critical path"] * len(KINDS)
    assert names[len(KINDS)].startswith(f"{host_of(step, (5, 2))} 5,2 compute, recorded")


def test_threads_hold_one_stream_as_recorded_and_beneath_it_as_ideal() -> None:
    named = thread_names(trace_events(step_of("usual"), [(0, 1)]))[len(KINDS) :]
    first = [name.split(" 0,1 ")[1] for name in named if "(" not in name]
    assert first == [
        f"{stream}, {kind}" for stream in ("compute", "transfer", "collective") for kind in SHOWN
    ]


def test_arrows_need_both_their_ends() -> None:
    step = step_of("usual")
    assert not [each for each in trace_events(step, [(0, 0)]) if each["ph"] in "sf"]
    assert [each for each in trace_events(step, [(0, 0), (0, 1)]) if each["ph"] == "s"]


@pytest.mark.parametrize("name", JOBS)
def test_perfetto_reads_every_slice_and_every_arrow_and_complains_of_nothing(name: str) -> None:
    step = step_of(name)
    events = list(trace_events(step, all_workers(step)))
    perfetto = TraceProcessor(json.dumps({"traceEvents": events}).encode())
    trouble = "SELECT json_array(name, value) FROM stats WHERE severity <> 'info' AND value > 0"
    assert perfetto.rows(trouble) == []
    counted = "SELECT json_array((SELECT count(*) FROM slice), (SELECT count(*) FROM flow)) AS counts"
    wanted = [sum(each["ph"] == "X" for each in events), sum(each["ph"] == "s" for each in events)]
    assert perfetto.rows(counted) == [wanted]
    in_order = perfetto.rows("SELECT json_array(name) FROM thread WHERE tid > 0 AND name <> '' ORDER BY tid")
    assert [name for (name,) in in_order] == thread_names(events)


def test_in_perfetto_arrows_go_from_sends_to_recvs_of_the_same_microbatch() -> None:
    step = step_of("usual")
    perfetto = TraceProcessor(
        json.dumps({"traceEvents": list(trace_events(step, all_workers(step)))}).encode()
    )
    called = "coalesce((SELECT name FROM slice AS outer_one WHERE outer_one.id = {0}.parent_id), {0}.name)"
    arrows = perfetto.rows(
        f"SELECT json_array({called.format('a')}, {called.format('b')}) FROM flow "
        "JOIN slice AS a ON a.id = slice_out JOIN slice AS b ON b.id = slice_in"
    )
    assert len(arrows) == len(SHOWN) * 48
    for sent, taken in arrows:
        assert sent.replace("send", "recv") == taken
        assert "send" in sent


def test_perfetto_would_report_overlapping_slices() -> None:
    """Perfetto's processor reports overlapping slices, as other tests assume."""
    one = {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 0, "dur": 10}
    perfetto = TraceProcessor(json.dumps({"traceEvents": [one, one | {"ts": 5}]}).encode())
    warnings = perfetto.rows("SELECT json_array(name) FROM stats WHERE severity <> 'info' AND value > 0")
    assert warnings == [["slice_drop_overlapping_complete_event"]]
