"""Timelines in Chrome's Trace Event Format give the published figures; invalid events are left out."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from jobs.landing.formats.foreign import RefusalError
from jobs.landing.formats.rows import Bounds, FileError
from tests.conftest import TRACES
from tests.jobs.landing.formats.foreign_logs import as_json, outcome, packed, read
from tests.support import published

EXACT = 2e-7
"""Relative tolerance: times in the files are rounded to float32."""

SHARE = 2e-8
"""Absolute tolerance of shares, which are ratios of differences of times in float32."""


def thread(tid: int, name: str, pid: int = 0) -> dict[str, Any]:
    return {"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}


def op(name: str = "forward-compute", **changes: object) -> dict[str, Any]:
    args = {"step": 7, "model_chunk": 0, "mb_id": 0, **args_of(changes)}
    return {"name": name, "ph": "X", "pid": 0, "tid": 0, "ts": 5.0, "dur": 2.0, **changes, "args": args}


def args_of(changes: dict[str, Any]) -> dict[str, Any]:
    args: dict[str, Any] = changes.get("args", {})
    return args


STAGE = thread(0, "PP rank 0, TP rank 0, compute")


def test_st_gives_the_published_figures_to_float32() -> None:
    (file,) = packed("timeline", "timeline-ST.json.gz")
    found = read({"timeline-ST.json": gzip.decompress(file.read_bytes())})
    wanted = json.loads((TRACES / "ST" / "result-ST.json").read_text())
    shares = {
        name: json.loads((TRACES / "ST" / f"{name}-ST.json").read_text())["rem"] for name in ("mw", "ms")
    }
    assert (found.run.source_format, found.run.transfers, found.rejects) == ("ndtimeline", "measured", [])
    assert [found.job[name] for name in ("manifest_status", "dp_size", "pp_size", "world_size")] == [
        None,
        2,
        4,
        8,
    ]
    job = found.outcome()
    assert (job["status"], job["ops"], job["steps"]) == ("analysed", 6784, 32)
    assert job["slowdown"] == pytest.approx(wanted["blocking_slowdown"], rel=EXACT)
    assert job["slow_worker_share"] == pytest.approx(shares["mw"], abs=SHARE)
    assert job["last_stage_share"] == pytest.approx(shares["ms"], rel=EXACT)


def test_se_gives_the_published_figures_over_the_published_steps(published_traces: Path) -> None:
    """The timeline of trace SE gives the published figures if its two additional steps are removed.

    M_W differs by 6e-7, relative, because the file has float32. Durations of computes equal those of the
    trace bit for bit. Ops that meet begin up to 1.07 us from the latest start in the trace; float32 has steps
    of this size at 11 s. Rounding all times a second time, by up to half such a step, changes M_W by 3e-7
    (rms of 8 tries; at most 9e-7).
    """
    (file,) = packed("timeline", "timeline-SE.json.gz")
    content = gzip.decompress(file.read_bytes())
    found = read({"timeline-SE.json": content}, {"cp_size": 2})
    trace = published.rank_steps(published_traces, "SE")
    of_trace = found.rows.filter(pc.is_in(found.rows["step"], trace["step"]))
    assert (found.rows.num_rows, of_trace.num_rows, trace.num_rows) == (2880, 2752, 2752)
    job = outcome(of_trace, found.job)
    wanted = published.results(published_traces, "SE")
    assert job["slowdown"] == pytest.approx(wanted["blocking_slowdown"], rel=EXACT)
    assert job["slow_worker_share"] == pytest.approx(wanted["mw"], abs=SHARE)
    assert job["last_stage_share"] == pytest.approx(wanted["ms"], rel=EXACT)


def test_a_transfer_that_ends_before_it_began_keeps_its_end() -> None:
    late = op("optimizer-clip-main-grad", ts=9.0, dur=-3.0)
    found = read({"t.json": as_json([op(), late, STAGE])})
    assert found.rows["start_us"].to_pylist() == [[0.0, 1.0]]
    assert found.rows["duration_us"].to_pylist() == [[2.0, 0.0]]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "changes",
    [
        *(
            {"ts": "5"},
            {"dur": None},
            {"ts": True},
            {"args": {"mb_id": 2**40}},
            {"ts": float("nan")},
            {"ts": 10**400},
        ),
        *(
            {"ts": float("inf")},
            {"ts": float("-inf")},
            {"ts": 1.7e308, "dur": float("-inf")},
            {"dur": -1.7e308},
        ),
    ],
)
def test_an_op_without_a_number_costs_its_rank_and_step_alone(changes: dict[str, Any]) -> None:
    events = [
        op(),
        op(args={"step": 8}),
        op(**changes, tid=1),
        STAGE,
        thread(1, "PP rank 0, TP rank 0, pp-comm"),
    ]
    found = read({"t.json": as_json(events)})
    assert found.rows["step"].to_pylist() == [8]
    assert [each.reason for each in found.rejects] == ["not_finite"]


def test_null_in_the_args_is_absent() -> None:
    nulls = op("optimizer", args={"mb_id": None, "model_chunk": None}, ts=9.0)
    found = read({"t.json": as_json([op(), nulls, op("gc", args={"step": None}), STAGE])})
    assert found.rejects == []
    assert found.rows["microbatch"].to_pylist() == [[0, -1]]
    assert found.rows["model_chunk"].to_pylist() == [[0, 0]]
    assert dict(found.run.left_out) == {"ops without a thread or step": 1}


def test_all_files_of_a_run_are_bounded_together() -> None:
    content = as_json([*[op()] * 5, STAGE])
    with pytest.raises(RefusalError, match=r"more than 8 ops in one run.*Record fewer steps"):
        read({"a.json": content, "b.json": content}, bounds=Bounds(trace_ops=8))


def test_what_is_no_op_is_counted_and_costs_nothing() -> None:
    events = [op(), op("kernel"), {"ph": "X", "name": ["a"]}, 7, op(args={"step": "7"}), op(tid=99), STAGE]
    found = read({"t.json": as_json(events)})
    assert found.rows.num_rows == 1
    assert sum(found.run.left_out.values()) == 5, dict(found.run.left_out)


def test_ranks_are_as_threads_are_numbered_or_by_stage() -> None:
    names = ["PP rank 0, TP rank 0, compute", "PP rank 1, TP rank 0, compute"]
    for tids, ranks in (((0, 20), [0, 4]), ((3, 4), [0, 1])):
        events = [op(tid=tid) for tid in tids] + [thread(*each) for each in zip(tids, names, strict=True)]
        assert sorted(read({"t.json": as_json(events)}).rows["rank"].to_pylist()) == ranks


def test_an_unknown_layout_is_refused() -> None:
    with pytest.raises(RefusalError, match=r"the layout is unknown\. Keep the thread_name events"):
        read({"t.json": as_json([op()])})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (as_json([op(), STAGE])[:-5], "unreadable_file"),
        (as_json([op(), STAGE])[:-1], "unreadable_file"),
        (as_json([op(), STAGE])[:-1] + b" x]", "unreadable_file"),
        (as_json([op()] * 9), "file_too_large"),
        (b'[{"name": "forward-compute", "mb_id": "' + b"x" * 4_000_000, "file_too_large"),
        (b'[{"name": "forward-compute", "mb_id": ' + b"[" * 100_000, "unreadable_file"),
    ],
)
def test_a_file_that_breaks_off_or_is_too_large_says_so(content: bytes, reason: str) -> None:
    with pytest.raises(FileError) as refused:
        read({"t.json": content}, bounds=Bounds(line_bytes=1_000_000, trace_ops=8))
    assert refused.value.reject.reason == reason
