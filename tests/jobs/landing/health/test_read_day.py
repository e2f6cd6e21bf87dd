"""Test health of hosts: single lines, how events of a check become spans, and reading a day's files."""

import gzip
import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from jobs.landing.formats.health import Check, Event, read_event
from jobs.landing.formats.rank_log_line import LineError
from jobs.landing.formats.rows import Bounds
from jobs.landing.health import read_day
from jobs.landing.health.read_day import MOST_SPANS, spans_of
from schemas.vocabulary import HEALTH_SEVERITIES, SOURCE_FILES
from tests.jobs.landing.land import Landed, land
from tests.support.line_cases import JOB, RUN, line
from tests.support.night import DAY

NOON = datetime(DAY.year, DAY.month, DAY.day, 12, tzinfo=UTC)
NOON_US = int(NOON.timestamp()) * 1_000_000
GOOD: dict[str, Any] = {
    "format": "health/1", "time": NOON_US, "host": "node-7", "component": "gpu", "index": 3,
    "check": "throttle_thermal", "state": "starts", "value": 1, "severity": "warning", "message": "hot",
}  # fmt: skip
WITHOUT = {name: {k: v for k, v in GOOD.items() if k != name} for name in ("host", "check", "time")}
BAD: dict[str, tuple[dict[str, Any] | bytes, str, str]] = {
    "text": (b'{"format":', "not_json", "Expecting value"),
    "list": (b"[]", "not_json", "not a JSON object"),
    "twice": (b'{"host":"a","host":"b"}', "not_json", "twice"),
    "deep": (b'{"a":' + b"[" * 70 + b"]" * 70 + b"}", "nested_too_deeply", "64 levels"),
    "long": (b" " * 2001 + b"{}", "line_too_long", "2000 bytes"),
    "no host": (WITHOUT["host"], "missing_field", "host is missing"),
    "no check": (GOOD | {"check": None}, "missing_field", "check is null"),
    "another format": ({"format": "acme-trace/2"}, "bad_type", "acme-trace/2"),
    "format": (GOOD | {"format": "rank-log/1"}, "bad_type", '"health/1"'),
    "component": (GOOD | {"component": "gpuu"}, "bad_type", "did you mean gpu?"),
    "state": (GOOD | {"state": ["ends"]}, "bad_type", "one of starts"),
    "severity": (GOOD | {"severity": "bad"}, "bad_type", "one of ok"),
    "empty host": (GOOD | {"host": ""}, "bad_type", "host is"),
    "long host": (GOOD | {"host": "h" * 1001}, "bad_type", "1000 bytes"),
    "half": (json.dumps(GOOD | {"message": "\ud800"}).encode(), "bad_type", "message"),
    "index": (GOOD | {"index": -1}, "bad_type", "index is -1"),
    "truth": (GOOD | {"index": True}, "bad_type", "index is true"),
    "value": (GOOD | {"value": "hot"}, "bad_type", "a number"),
    "NaN": (GOOD | {"value": float("nan")}, "not_finite", "NaN"),
    "endless": (GOOD | {"value": 10**400}, "not_finite", "value"),
    "no zone": (GOOD | {"time": "2026-01-05T12:00:00"}, "bad_type", "with a zone"),
    "decimal": (GOOD | {"time": 5.5}, "bad_type", "microseconds"),
    "early": (GOOD | {"time": -1}, "negative_time", "time is -1"),
    "other day": (GOOD | {"time": NOON_US + 2 * 86_400_000_000}, "identity_mismatch", str(DAY)),
}


def text(record: dict[str, Any] | bytes) -> bytes:
    return record if isinstance(record, bytes) else json.dumps(record).encode()


@pytest.mark.parametrize("defect", BAD)
def test_a_bad_line_has_its_reason(defect: str) -> None:
    record, reason, detail = BAD[defect]
    with pytest.raises(LineError) as found:
        read_event(text(record), DAY, Bounds(line_bytes=2000))
    assert (found.value.reason, detail in found.value.detail) == (reason, True), found.value.detail


@pytest.mark.parametrize("day", [date.min, date.max])
def test_a_folder_of_the_first_or_last_day_has_rejects(day: date) -> None:
    with pytest.raises(LineError, match="but the folder is of"):
        read_event(text(GOOD), day, Bounds())


def test_a_time_is_a_number_or_iso_text_and_what_is_missing_is_null() -> None:
    iso = GOOD | {"time": "2026-01-05T13:00:00+01:00"}
    check, event = read_event(text(iso), DAY, Bounds())
    assert (check, event.at_us) == (Check("node-7", "gpu", 3, "throttle_thermal", ""), NOON_US)
    few = {name: GOOD[name] for name in ("format", "time", "host", "component", "check", "state")}
    check, event = read_event(text(few), DAY, Bounds())
    assert (check.device, check.peer, event.value, event.message) == (-1, "", None, None)
    assert HEALTH_SEVERITIES[event.severity] == "warning"
    assert len(read_event(text(GOOD | {"message": "x" * 5000}), DAY, Bounds())[1].message or "") == 300


def spans(*events: tuple[float, str, str]) -> list[tuple[float, float, str, int, bool, bool]]:
    """Return the spans that result from the given events of one check of one GPU.

    events : each (minutes from noon, state, severity)
    returns : for each span its begin and end in minutes from noon, severity, number of events, whether it is
              still open, and whether it began before the day
    """
    made = [
        Event(NOON_US + round(at * 60e6), state, HEALTH_SEVERITIES.index(severity), None, None, None)
        for at, state, severity in events
    ]
    rows = spans_of(Check("node-7", "gpu", 3, "hot", ""), made, "health.jsonl")
    minute = timedelta(minutes=1)
    return [
        (
            (row["first_at"] - NOON) / minute, (row["last_at"] - NOON) / minute, row["severity"],
            row["events"], row["is_open"], row["began_before"],
        )
        for row in rows
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("events", "wanted"),
    [
        ([(0, "starts", "error"), (5, "ends", "ok")], [(0, 5, "error", 2, False, False)]),
        ([(5, "ends", "ok"), (0, "starts", "error")], [(0, 5, "error", 2, False, False)]),
        ([(0, "starts", "warning")], [(0, 0, "warning", 1, True, False)]),
        (
            [(0, "starts", "error"), (5, "sample", "ok"), (9, "sample", "ok")],
            [(0, 5, "error", 1, False, False), (5, 9, "ok", 2, False, False)],
        ),
        ([(3, "ends", "ok")], [(3, 3, "info", 1, False, True)]),
        (
            [(1, "sample", "ok"), (3, "ends", "ok")],
            [(3, 3, "info", 1, False, False), (1, 1, "ok", 1, False, False)],
        ),
        (
            [(0, "starts", "info"), (1, "ends", "ok"), (9, "ends", "ok")],
            [(0, 1, "info", 2, False, False), (9, 9, "info", 1, False, False)],
        ),
        (
            [(0, "sample", "warning"), (8, "sample", "error"), (30, "sample", "warning")],
            [(0, 8, "error", 2, False, False), (30, 30, "warning", 1, False, False)],
        ),
        (
            [(0, "sample", "warning"), (4, "sample", "ok"), (8, "sample", "warning"), (9, "sample", "ok")],
            [
                (0, 0, "warning", 1, False, False),
                (8, 8, "warning", 1, False, False),
                (4, 9, "ok", 2, False, False),
            ],
        ),
    ],
)
def test_events_fold_into_spans(events: list[Any], wanted: list[Any]) -> None:
    assert spans(*events) == wanted


def test_a_check_that_flaps_is_few_spans_however_long() -> None:
    fast = [(n / 600, ("starts", "ends")[n % 2], "warning") for n in range(6000)]
    assert spans(*fast) == [(0, 5999 / 600, "warning", 6000, False, False)]
    slow = [(1.2 * n, ("starts", "ends")[n % 2], "warning") for n in range(1000)]
    found = spans(*slow)
    assert len(found) <= MOST_SPANS
    assert sum(each[3] for each in found) == 1000


def landed(tmp_path: Path, files: dict[str, bytes]) -> Landed:
    day = tmp_path / "landing" / f"log_date={DAY}"
    run = day / f"job_id={JOB}" / f"run_id={RUN}"
    run.mkdir(parents=True)
    (run / "rank-00001.jsonl").write_bytes(line())
    for name, content in files.items():
        (day / name).write_bytes(content)
    return land(tmp_path / "landing", tmp_path / "staging")


def test_a_days_files_are_read_beside_its_runs(tmp_path: Path) -> None:
    end = text(GOOD | {"time": NOON_US + 60_000_000, "state": "ends"})
    files = {
        "health.jsonl": b"\n".join([text(GOOD), b"", b"{", text(GOOD | {"host": "node-8"})]),
        "health-2.jsonl.gz": gzip.compress(end + b"\n"),
        "health.txt": text(GOOD),
        "health-3.jsonl.gz": b"no gzip",
    }
    found = landed(tmp_path, files)
    assert found.accounts[JOB].files  # the run in the same folder is read as usual
    account = found.accounts[""]
    assert account.health is not None
    rows = account.health.select(["host", "events", "is_open"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [("node-7", 2, False), ("node-8", 1, True)]
    assert found.rejected("") == [
        ("health-3.jsonl.gz", None, "unreadable_file"),
        ("health.jsonl", 3, "not_json"),
    ]
    assert [name.rsplit("/", 1)[1] for name in found.misplaced] == ["health.txt"]
    counted = [(row["lines"], row["rows"], row["rejects"]) for row in found.of(SOURCE_FILES, "")]
    assert sorted(counted, key=repr) == [(1, 1, 0), (3, 2, 1), (None, 0, 1)]
    assert not [row for row in found.tables["jobs"] if not row["job_id"]]


def test_bytes_of_a_day_are_those_of_all_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_day, "MOST_BYTES", len(text(GOOD)))
    found = landed(tmp_path, dict.fromkeys(["health-1.jsonl", "health-2.jsonl"], text(GOOD)))
    assert found.reasons("") == {"health-2.jsonl": "file_too_large"}


def test_spans_are_made_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = {"health.jsonl": b"\n".join(text(GOOD | {"index": n}) for n in range(7))}
    whole = landed(tmp_path / "whole", lines).accounts[""].health
    monkeypatch.setattr(read_day, "_SPANS_TOGETHER", 3)
    parts = landed(tmp_path / "parts", lines).accounts[""].health
    assert whole is not None
    assert parts is not None
    same = [{**row, "source_file": ""} for row in parts.to_pylist()]
    assert same == [{**row, "source_file": ""} for row in whole.to_pylist()]
    assert len(same) == 7


def test_a_day_of_too_many_lines_or_checks_is_one_reject(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_day, "MOST_LINES", 3)
    monkeypatch.setattr(read_day, "MOST_CHECKS", 2)
    many = b"\n".join([text(GOOD)] * 4)
    checks = b"\n".join(text(GOOD | {"check": f"c{n}"}) for n in range(3))
    found = landed(tmp_path, {"health-1.jsonl": many, "health-2.jsonl": checks, "health.jsonl": text(GOOD)})
    assert [(name, reason) for name, _, reason in found.rejected("")] == [
        ("health-1.jsonl", "file_too_large"),
        ("health-2.jsonl", "file_too_large"),
    ]
    health = found.accounts[""].health
    assert health is not None
    assert health.num_rows == 1
