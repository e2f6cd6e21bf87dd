"""Traces: rules of the Trace Event Format, and what Perfetto's own trace processor makes of them."""

import json
from collections import defaultdict
from typing import Any

import pytest

from jobs.synthetic.job import GeneratedJob
from jobs.synthetic.mechanisms.nuisances import ClockSkew
from tests.perfetto import TraceProcessor
from tests.random_jobs import NOISY, USUAL, generate_job, named_job
from tests.udfs.lines import Ops, line, manifest, rank_steps
from udfs.timelines import KINDS, StepTimelines, step_timelines
from udfs.trace_events import CRITICAL, LAUNCH_DELAY, arrows_left_out, trace_events

OVERLAPPING: Ops = [("forward-compute", 0, 2, 0), ("forward-compute", 1, 2, 1), ("forward-compute", 2, 2, 2)]
"""As no stream can run them; a profiler may say so all the same."""

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


def slices(events: Events, pid: int) -> Events:
    return [each for each in events if each["ph"] == "X" and each["pid"] == pid]


def nested(events: Events) -> bool:
    """Whether the slices of each thread lie beside or within each other, in whole nanoseconds."""
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
    events = list(trace_events(step))
    assert {each["ph"] for each in events} == {"M", "X", "s", "f"} - ({"s", "f"} if not step.peers else set())
    named = {(each["pid"], each["tid"]) for each in events if each["name"] == "thread_name"}
    for pid in (1, 2, 3):
        mine = slices(events, pid)
        assert nested(mine)
        assert all(each["ts"] >= 0 and each["dur"] >= 0 for each in mine)
        assert {(each["pid"], each["tid"]) for each in mine} <= named
        ops = [each for each in mine if each["tid"] != pid and each["args"]]
        assert len(ops) == step.ops
        assert sum(CRITICAL in each["cat"] for each in ops) == len(step.critical[KINDS[pid - 1]])
    sent = {each["id"]: each for each in events if each["ph"] == "s"}
    taken = {each["id"]: each for each in events if each["ph"] == "f"}
    assert sent.keys() == taken.keys()
    assert len(sent) == 3 * len(step.peers) - arrows_left_out(step)
    assert all(each["bp"] == "e" and each["ts"] == sent[number]["ts"] for number, each in taken.items())
    json.dumps(events, allow_nan=False)


@pytest.mark.parametrize("name", JOBS)
def test_the_path_has_a_thread_of_its_own_that_fills_the_step(name: str) -> None:
    step = step_of(name)
    events = list(trace_events(step))
    for pid, kind in enumerate(KINDS, start=1):
        path = [each for each in slices(events, pid) if each["tid"] == pid]
        assert sum(each["dur"] for each in path) == pytest.approx(step.step_s(kind) * 1e6, abs=0.002)
        delays = [each for each in path if each["name"] == LAUNCH_DELAY]
        assert bool(delays) == (kind == "recorded" and name != "overlapping")


@pytest.mark.parametrize("name", JOBS)
def test_perfetto_reads_every_slice_and_every_arrow_and_complains_of_nothing(name: str) -> None:
    step = step_of(name)
    events = list(trace_events(step))
    perfetto = TraceProcessor(json.dumps({"traceEvents": events}).encode())
    trouble = "SELECT json_array(name, value) FROM stats WHERE severity <> 'info' AND value > 0"
    assert perfetto.rows(trouble) == []
    counted = "SELECT json_array((SELECT count(*) FROM slice), (SELECT count(*) FROM flow)) AS counts"
    wanted = [sum(each["ph"] == "X" for each in events), sum(each["ph"] == "s" for each in events)]
    assert perfetto.rows(counted) == [wanted]
    processes = perfetto.rows("SELECT json_array(pid, name) FROM process WHERE pid > 0 ORDER BY pid")
    assert [name.split(":")[0] for _, name in processes] == ["recorded", "replayed (T)", "ideal (T_ideal)"]


def test_in_perfetto_arrows_go_from_sends_to_recvs_of_the_same_microbatch() -> None:
    perfetto = TraceProcessor(json.dumps({"traceEvents": list(trace_events(step_of("usual")))}).encode())
    called = "coalesce((SELECT name FROM slice AS outer_one WHERE outer_one.id = {0}.parent_id), {0}.name)"
    arrows = perfetto.rows(
        f"SELECT json_array({called.format('a')}, {called.format('b')}) FROM flow "
        "JOIN slice AS a ON a.id = slice_out JOIN slice AS b ON b.id = slice_in"
    )
    assert len(arrows) == 3 * 48
    for sent, taken in arrows:
        assert sent.replace("send", "recv") == taken
        assert "send" in sent


def test_perfetto_would_tell_of_slices_that_overlap() -> None:
    """What the tests above rest on: it does find fault."""
    one = {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 0, "dur": 10}
    perfetto = TraceProcessor(json.dumps({"traceEvents": [one, one | {"ts": 5}]}).encode())
    told = perfetto.rows("SELECT json_array(name) FROM stats WHERE severity <> 'info' AND value > 0")
    assert told == [["slice_drop_overlapping_complete_event"]]
