"""Test events of a run: single lines, limits of a file, and that readers of logs ignore event files."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobs.history.fingerprints import of_units
from jobs.landing.accounts import whole_unit
from jobs.landing.files import EVENTS as NAMES
from jobs.landing.formats import run_events
from jobs.landing.formats.rows import Bounds, FileError
from jobs.landing.formats.run_events import EVENT_ROWS, read_events
from jobs.landing.one_run import read_run, runs_in
from jobs.runtime.settings import load_settings
from schemas.vocabulary import JOBS, RANK_STEPS, RUN_EVENTS, SOURCE_FILES
from tests.jobs.landing.land import Landed, land
from tests.support.line_cases import JOB, RUN, line
from tests.support.night import DAY

UNIT = {"job_id": JOB, "run_id": RUN}
GOOD: dict[str, Any] = {"format": "run-events/1", **UNIT, "event": "checkpoint", "at_us": 5, "step": 3}
BAD: dict[str, tuple[dict[str, Any] | bytes, str, str]] = {
    "text": (b'{"format":', "not_json", "Expecting value"),
    "nothing": (b"null", "not_json", "not a JSON object"),
    "deep": (b'{"a":' + b"[" * 70 + b"]" * 70 + b"}", "nested_too_deeply", "64 levels"),
    "long": (b" " * 2001 + b"{}", "line_too_long", "2000 bytes"),
    "no time": (GOOD | {"at_us": None}, "missing_field", "at_us is null"),
    "no event": ({k: v for k, v in GOOD.items() if k != "event"}, "missing_field", "event is missing"),
    "another format without ids": ({"format": "acme-trace/2"}, "bad_type", "acme-trace/2"),
    "rank log": (GOOD | {"format": "rank-log/1"}, "bad_type", '"run-events/1"'),
    "event": (GOOD | {"event": "chekpoint"}, "bad_type", "did you mean checkpoint?"),
    "list": (GOOD | {"event": ["stop"]}, "bad_type", "one of start"),
    "truth": (GOOD | {"step": True}, "bad_type", "step is true"),
    "decimal": (GOOD | {"at_us": 5.5}, "bad_type", "at_us is 5.5"),
    "large": (GOOD | {"step": 2**63}, "bad_type", "64 bits"),
    "duration": (GOOD | {"duration_us": "5"}, "bad_type", "a number"),
    "early": (GOOD | {"at_us": -1}, "negative_time", "at_us is -1"),
    "shorter": (GOOD | {"duration_us": -0.5}, "negative_time", "duration_us is -0.5"),
    "NaN": (GOOD | {"duration_us": float("nan")}, "not_finite", "duration_us is NaN"),
    "endless": (GOOD | {"duration_us": 10**400}, "not_finite", "duration_us"),
    "other run": (GOOD | {"run_id": "other"}, "identity_mismatch", '"other"'),
    "number": (GOOD | {"run_id": 7}, "bad_type", "run_id is 7"),
}


def text(record: dict[str, Any] | bytes) -> bytes:
    return record if isinstance(record, bytes) else json.dumps(record).encode()


@pytest.mark.parametrize("defect", BAD)
def test_a_bad_line_is_a_reject_and_costs_no_other(defect: str) -> None:
    record, reason, detail = BAD[defect]
    found = read_events([[text(GOOD), b""], [text(record), text(GOOD)]], UNIT, Bounds(line_bytes=2000))
    assert [row["line"] for row in found.rows] == [1, 4]
    (reject,) = found.rejects
    assert (reject.line, reject.reason, detail in reject.detail) == (3, reason, True), reject
    assert len(found.rows) + len(found.rejects) == 3


def test_a_good_line_is_its_row_and_unknown_keys_are_ignored() -> None:
    found = read_events([[text(GOOD | {"duration_us": 2, "loss": 3.5})]], UNIT, Bounds())
    assert found.rows == [{"line": 1, "event": "checkpoint", "at_us": 5, "step": 3, "duration_us": 2}]


@pytest.mark.parametrize("duration_us", [2, 2**53 + 1, 2**63])
def test_a_duration_is_stored_whatever_integer_it_is(duration_us: int) -> None:
    found = read_events([[text(GOOD | {"duration_us": duration_us})]], UNIT, Bounds())
    stored = pa.Table.from_pylist(list(found.rows), EVENT_ROWS)
    assert stored["duration_us"].to_pylist() == [float(duration_us)]


def test_a_byte_order_mark_costs_the_first_line_as_in_a_rank_log(tmp_path: Path) -> None:
    log, mark = "rank-00001.jsonl", b"\xef\xbb\xbf"
    files = {NAMES[0]: b"\n".join([text(GOOD), text(GOOD)]), log: b"\n".join([line(), line(step=1)])}
    found = landed(tmp_path, {name: mark + content for name, content in files.items()})
    assert sorted(found.rejected(JOB)) == [(name, 1, "not_json") for name in sorted(files)]
    assert [row["line"] for row in found.of(RUN_EVENTS, JOB)] == [2]
    assert len(found.steps(JOB)) == 1


@pytest.mark.parametrize(("name", "most"), [("MOST_EVENTS", 1), ("MOST_BYTES", 150)])
def test_a_file_of_more_events_than_a_unit_can_carry_is_refused(
    name: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_events, name, most)
    with pytest.raises(FileError) as caught:
        read_events([[text(GOOD)], [text(GOOD)]], UNIT, Bounds())
    assert caught.value.reject.reason == "file_too_large"


def landed(tmp_path: Path, files: dict[str, bytes]) -> Landed:
    folder = tmp_path / "landing" / f"log_date={DAY}" / f"job_id={JOB}" / f"run_id={RUN}"
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return land(tmp_path / "landing", tmp_path / "tables")


def test_a_file_of_events_has_its_account_and_the_logs_beside_it_are_read_as_ever(tmp_path: Path) -> None:
    events = b"\n".join([text(GOOD), b"", text(BAD["event"][0]), text(GOOD)])
    log = {"rank-00001.jsonl": line()}
    for number, others in enumerate([{}, {NAMES[0]: events}, {NAMES[1]: gzip.compress(events)}]):
        found = landed(tmp_path / str(number), log | others)
        assert found.misplaced == []
        accounts = {each["source_file"].rsplit("/", 1)[1]: each for each in found.of(SOURCE_FILES, JOB)}
        for name in others:
            account = accounts.pop(name)
            assert (account["lines"], account["rows"], account["rejects"]) == (3, 2, 1)
            assert found.rejected(JOB) == [(name, 3, "bad_type")]
            assert [row["line"] for row in found.of(RUN_EVENTS, JOB)] == [1, 4]
        assert list(accounts) == ["rank-00001.jsonl"]
        assert len(found.steps(JOB)) == 1
        assert found.job(JOB)["source_format"] == "rank-log/1"


def test_events_without_any_step_are_stored(tmp_path: Path) -> None:
    found = landed(tmp_path, {NAMES[0]: text(GOOD | {"step": None})})
    assert [row["step"] for row in found.of(RUN_EVENTS, JOB)] == [None]


def test_one_that_breaks_off_is_one_reject_without_rows(tmp_path: Path) -> None:
    found = landed(tmp_path, {NAMES[1]: gzip.compress(text(GOOD))[:-4]})
    assert found.rejected(JOB) == [(NAMES[1], None, "unreadable_file")]
    assert found.of(RUN_EVENTS, JOB) == []
    (account,) = found.of(SOURCE_FILES, JOB)
    assert (account["lines"], account["rows"], account["rejects"]) == (None, 0, 1)


def test_it_is_no_log_of_another_tool_and_without_it_a_unit_has_none(tmp_path: Path) -> None:
    found = landed(tmp_path, {NAMES[0]: text(GOOD)})
    assert found.job(JOB)["manifest_status"] == "no_manifest"
    assert found.tables[RANK_STEPS] == []
    assert len(found.tables[JOBS]) == len(found.tables[RUN_EVENTS]) == 1
    (run,) = runs_in(tmp_path / "landing")
    assert [file.name for file in whole_unit(run.unit, run.files, Bounds()).events] == [NAMES[0]]


def test_other_events_are_another_fingerprint(tmp_path: Path) -> None:
    prints = []
    for number, step in enumerate((3, 3, 4)):
        landed(tmp_path / str(number), {NAMES[0]: text(GOOD | {"step": step})})
        (run,) = runs_in(tmp_path / str(number))
        (fingerprint,) = of_units([read_run(run, Bounds()).account], load_settings("base"))
        prints.append(fingerprint.inputs)
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize("later", [[], [GOOD | {"at_us": 9}]])
def test_events_that_lie_there_packed_too_count_once(later: list[dict[str, Any]], tmp_path: Path) -> None:
    """If a file of events also exists compressed, as after `gzip -k`, each event counts once."""
    plain, packed_too = [GOOD, GOOD | {"at_us": 7}], [GOOD, *later]
    files = {NAMES[0]: plain, NAMES[1]: packed_too}
    contents = {name: b"\n".join(map(text, records)) for name, records in files.items()}
    found = landed(tmp_path, contents | {NAMES[1]: gzip.compress(contents[NAMES[1]])})
    assert [row["at_us"] for row in found.of(RUN_EVENTS, JOB)] == [5, 7]
    assert found.rejected(JOB) == [(NAMES[1], None, "too_many_files")]


def test_events_of_two_files_count_where_they_differ(tmp_path: Path) -> None:
    other = gzip.compress(text(GOOD | {"at_us": 4}))
    found = landed(tmp_path, {NAMES[0]: text(GOOD), NAMES[1]: other})
    assert (len(found.of(RUN_EVENTS, JOB)), found.rejected(JOB)) == (2, [])
