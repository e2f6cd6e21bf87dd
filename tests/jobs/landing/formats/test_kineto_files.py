"""torch.profiler's files are read in batches, with absolute or relative times, and several per rank."""

import io
import json
from collections.abc import Callable

import pytest

from jobs.landing.formats import kineto, kineto_stream
from jobs.landing.formats.foreign import SourceFile
from jobs.landing.formats.rows import Bounds, FileError
from schemas.vocabulary import Reason
from tests.jobs.landing.formats.foreign_logs import read, sources
from tests.support.kineto_traces import BASE_NS, data_parallel_traces, random_durations, without_collective


def test_it_does_not_matter_where_the_text_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = data_parallel_traces(random_durations(3, is_sharded=True, steps=2))
    whole = read(texts).rows
    monkeypatch.setattr(kineto_stream, "_BATCH_BYTES", 997)
    traces = [json.loads(text) for text in texts]
    for trace in traces:  # bytes that look like borders of events, but follow the events
        trace["deviceProperties"] = [
            {"id": number} for number in range(len(trace.pop("deviceProperties")) * 40)
        ]
    cut = read([json.dumps(trace).encode() for trace in traces]).rows
    assert cut.equals(whole)


def test_times_are_unix_times_whatever_base_the_file_has() -> None:
    text = data_parallel_traces(random_durations(3, is_sharded=False, steps=1, ranks=1))[0]
    trace = json.loads(text)
    for event in trace["traceEvents"]:
        event["ts"] += trace["baseTimeNanoseconds"] / 1000
    del trace["baseTimeNanoseconds"]
    finer = text.replace(str(BASE_NS).encode(), str(BASE_NS + 1500).encode())
    for each, wanted_us in ((text, 1000.0), (json.dumps(trace).encode(), 1000.0), (finer, 1001.5)):
        (row,) = read([each]).rows.to_pylist()
        assert row["t0_us"] + row["start_us"][0] == BASE_NS // 1000 + wanted_us


def test_several_windows_of_a_rank_come_together_by_step() -> None:
    durations = random_durations(3, is_sharded=False, steps=4, ranks=1)
    trace = json.loads(data_parallel_traces(durations)[0])
    middle_us = sorted(e["ts"] for e in trace["traceEvents"] if e["name"].startswith("ProfilerStep#"))[2]
    autograd, events = trace["traceEvents"][:1], trace["traceEvents"][1:]
    windows = ([e for e in events if (e["ts"] < middle_us) == is_first] for is_first in (True, False))
    texts = [json.dumps({**trace, "traceEvents": autograd + window}).encode() for window in windows]
    _, parts, rows, *_ = read(texts)
    assert [len(part.rows.lines) for part in parts] == [2, 2]
    assert rows["step"].to_pylist() == [5, 6, 7, 8]


LACKS = "rank 1, step 5: 1 collectives of another rank are missing, 0 have no counterpart there"


@pytest.mark.parametrize(
    ("place", "change", "rows", "reason", "detail"),
    [
        (0, lambda text: text[: len(text) // 2], 0, Reason.UNREADABLE_FILE, "breaks off"),
        (2, lambda text: text[: len(text) // 2], 0, Reason.UNREADABLE_FILE, "breaks off"),
        (
            1,
            lambda text: text.replace(b"ProfilerStep#", b"Step#"),
            0,
            Reason.UNREADABLE_FILE,
            "no ProfilerStep",
        ),
        (1, lambda text: without_collective(text, 2), 1, Reason.MISSING_FIELD, LACKS),
    ],
)
def test_a_file_that_cannot_be_compared_loses_itself_alone(
    place: int, change: Callable[[bytes], bytes], rows: int, reason: str, detail: str
) -> None:
    texts = data_parallel_traces(random_durations(3, is_sharded=False, steps=2))
    texts[place] = change(texts[place])
    parts = read(texts).parts
    assert [len(part.rows.lines) for part in parts] == [rows if n == place else 2 for n in range(3)]
    (reject,) = parts[place].rejects
    assert (reject.reason, detail in reject.detail) == (reason, True)


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        (b"{}", "traceEvents"),
        (b'{"traceEvents": [', "breaks off"),
        (b'{"traceEvents": [{"ph": "X"}, {"ts": "soon"}, {"ph": "X"}]}', "another type than usual.*ts"),
        (b'{"traceEvents": [{"ph": "X"}', "breaks off"),
    ],
)
def test_what_is_no_trace_is_an_unreadable_file(text: bytes, detail: str) -> None:
    with pytest.raises(FileError, match=detail) as raised:
        kineto.read(sources([text]), {}, Bounds())
    assert raised.value.reject.reason == Reason.UNREADABLE_FILE


def test_a_text_without_an_end_of_an_event_is_not_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto_stream, "_BATCH_BYTES", 997)
    monkeypatch.setattr(kineto_stream, "_LARGEST_EVENT", 5000)
    text = b'{"traceEvents": [' + b'{"ph": "X", "args": {"x": [}}, ' * 10_000
    opened = io.BytesIO(text)
    with pytest.raises(FileError, match="without the end of an event"):
        kineto.read([SourceFile("x", lambda: opened)], {}, Bounds())
    assert opened.closed


def test_numbers_that_json_lacks_are_taken_for_missing() -> None:
    text = data_parallel_traces(random_durations(3, is_sharded=False, steps=1, ranks=1))[0]
    odd = text.replace(b'"grid": [', b'"memory bandwidth (GB/s)": inf, "grid": [')
    assert odd != text
    assert read([odd]).rows.equals(read([text]).rows)


@pytest.mark.parametrize(
    ("head", "is_own"),
    [
        (b'\n{\n  "schemaVersion": 1,\n  "deviceProperties": [', True),
        (b'{"traceEvents": [{"ph": "X", "cat": "cpu_op"', True),
        (b'{"traceEvents": [{"ph": "X", "name": "forward-compute", "pid": 0}', False),
        (b'[{"ph": "X", "cat": "cpu_op"', False),
        (b'{"format": "rank-log/1"}', False),
    ],
)
def test_a_trace_is_recognised_by_how_it_begins(head: bytes, is_own: bool) -> None:
    assert kineto.recognises(head) is is_own
