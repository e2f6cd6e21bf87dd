"""Traces of torch.profiler as files: cut anywhere, on two time bases, in windows, broken off."""

import io
import json

import pytest

from jobs.landing.formats import kineto, kineto_stream
from jobs.landing.formats.foreign import SourceFile
from jobs.landing.formats.rows import Bounds, FileError
from schemas.vocabulary import REASON_MISSING_FIELD, REASON_UNREADABLE_FILE
from tests.support.kineto_reading import files_of, read_all, without_collective
from tests.support.kineto_traces import BASE_NS, data_parallel_traces, random_durations


def test_it_does_not_matter_where_the_text_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = data_parallel_traces(random_durations(3, is_sharded=True, steps=2))
    _, _, whole = read_all(texts)
    monkeypatch.setattr(kineto_stream, "_BATCH_BYTES", 997)
    traces = [json.loads(text) for text in texts]
    for trace in traces:  # many borders like those between events, behind them
        trace["deviceProperties"] = [
            {"id": number} for number in range(len(trace.pop("deviceProperties")) * 40)
        ]
    _, _, cut = read_all([json.dumps(trace).encode() for trace in traces])
    assert cut.equals(whole)


def test_times_are_unix_times_whether_or_not_the_file_has_a_base() -> None:
    text = data_parallel_traces(random_durations(3, is_sharded=False, steps=1, ranks=1))[0]
    trace = json.loads(text)
    for event in trace["traceEvents"]:
        event["ts"] += trace["baseTimeNanoseconds"] / 1000
    del trace["baseTimeNanoseconds"]
    _, _, relative = read_all([text])
    _, _, absolute = read_all([json.dumps(trace).encode()])
    assert relative["t0_us"].to_pylist() == absolute["t0_us"].to_pylist() == [BASE_NS // 1000 + 1000]


def test_a_base_with_a_part_of_a_microsecond_loses_nothing() -> None:
    text = data_parallel_traces(random_durations(3, is_sharded=False, steps=1, ranks=1))[0]
    _, _, rows = read_all([text.replace(str(BASE_NS).encode(), str(BASE_NS + 1500).encode())])
    row = rows.to_pylist()[0]
    assert row["t0_us"] + row["start_us"][0] == BASE_NS // 1000 + 1001.5


def test_several_windows_of_a_rank_come_together_by_step() -> None:
    durations = random_durations(3, is_sharded=False, steps=4, ranks=1)
    trace = json.loads(data_parallel_traces(durations)[0])
    middle_us = sorted(e["ts"] for e in trace["traceEvents"] if e["name"].startswith("ProfilerStep#"))[2]
    autograd, events = trace["traceEvents"][:1], trace["traceEvents"][1:]
    windows = ([e for e in events if (e["ts"] < middle_us) == is_first] for is_first in (True, False))
    texts = [json.dumps({**trace, "traceEvents": autograd + window}).encode() for window in windows]
    _, parts, rows = read_all(texts)
    assert [len(part.rows.lines) for part in parts] == [2, 2]
    assert rows["step"].to_pylist() == [5, 6, 7, 8]


@pytest.mark.parametrize("lost", [0, 2])
def test_a_file_that_breaks_off_loses_itself_alone(lost: int) -> None:
    texts = data_parallel_traces(random_durations(3, is_sharded=False, steps=2))
    texts[lost] = texts[lost][: len(texts[lost]) // 2]
    _, parts, _ = read_all(texts)
    assert [len(part.rows.lines) for part in parts] == [0 if number == lost else 2 for number in range(3)]
    assert [reject.reason for reject in parts[lost].rejects] == [REASON_UNREADABLE_FILE]
    assert "breaks off" in parts[lost].rejects[0].detail


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
        kineto.read(files_of([text]), {}, Bounds())
    assert raised.value.reject.reason == REASON_UNREADABLE_FILE


def test_a_text_without_an_end_of_an_event_is_not_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto_stream, "_BATCH_BYTES", 997)
    monkeypatch.setattr(kineto_stream, "_LARGEST_EVENT", 5000)
    text = b'{"traceEvents": [' + b'{"ph": "X", "args": {"x": [}}, ' * 10_000
    opened = io.BytesIO(text)
    with pytest.raises(FileError, match="without the end of an event"):
        kineto.read([SourceFile("x", lambda: opened)], {}, Bounds())
    assert opened.closed


def test_a_file_that_would_be_refused_loses_itself_alone_behind_a_good_one() -> None:
    texts = data_parallel_traces(random_durations(3, is_sharded=False, steps=2))
    texts[1] = texts[1].replace(b"ProfilerStep#", b"Step#")
    _, parts, _ = read_all(texts)
    assert [len(part.rows.lines) for part in parts] == [2, 0, 2]
    assert "no ProfilerStep" in parts[1].rejects[0].detail


def test_numbers_that_json_lacks_are_taken_for_missing() -> None:
    text = data_parallel_traces(random_durations(3, is_sharded=False, steps=1, ranks=1))[0]
    odd = text.replace(b'"grid": [', b'"memory bandwidth (GB/s)": inf, "grid": [')
    assert odd != text
    assert read_all([odd])[2].equals(read_all([text])[2])


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


def test_a_rank_that_lost_a_collective_is_a_reject_and_not_compared_with_others() -> None:
    texts = data_parallel_traces(random_durations(3, is_sharded=False, steps=2))
    texts[1] = without_collective(texts[1], 2)
    _, parts, _ = read_all(texts)
    assert [len(part.rows.lines) for part in parts] == [2, 1, 2]
    assert [(reject.reason, reject.detail) for reject in parts[1].rejects] == [
        (
            REASON_MISSING_FIELD,
            "rank 1, step 5: 1 collectives of another rank are not there, 0 are there that it has not",
        )
    ]
