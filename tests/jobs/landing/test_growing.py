"""A log that still grows is read up to its last complete line, and read again when it has grown."""

from datetime import date
from io import BytesIO
from pathlib import Path

import pytest

from jobs.landing import growing
from jobs.landing.files import LandedFile
from jobs.landing.growing import Tails, grown, last_lines
from jobs.landing.stores import store_of
from schemas.unit import Unit

LINES = [b"%d %s\n" % (number, b"x" * number) for number in range(40)]
UNIT = Unit(date(2026, 1, 5), "alpha", "r1")


def log(name: str, size: int) -> LandedFile:
    return LandedFile(*UNIT, f"log_date=2026-01-05/job_id=alpha/run_id=r1/{name}", name, size)


@pytest.mark.parametrize("piece", [1, 7, 10_000])
@pytest.mark.parametrize("wanted", [1, 5, 39, 40, 100])
@pytest.mark.parametrize("rest", [b"", b'{"half of a line'])
def test_the_last_lines_are_whole(
    piece: int, wanted: int, rest: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "_PIECE", piece)
    assert last_lines(BytesIO(b"".join(LINES) + rest), wanted) == b"".join(LINES[-wanted:])


def test_a_log_without_a_whole_line_has_none() -> None:
    assert last_lines(BytesIO(b""), 3) == last_lines(BytesIO(b"half of a line"), 3) == b""


def test_of_lines_without_end_no_more_is_read_than_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "_MOST_BYTES", 50)
    whole = b"".join(LINES)
    assert last_lines(BytesIO(whole), 10) == LINES[-1]
    assert last_lines(BytesIO(b"x" * 1000 + b"\n"), 10) == b""


def test_manifests_are_read_whole_and_rank_logs_from_behind(tmp_path: Path) -> None:
    for name in ("job.json", "rank-00000.jsonl"):
        (tmp_path / name).write_bytes(b"".join(LINES))
    store = Tails(store_of(str(tmp_path)), 2)
    with store.open(str(tmp_path / "job.json")) as manifest:
        assert manifest.read() == b"".join(LINES)
    with store.open(str(tmp_path / "rank-00000.jsonl")) as tail:
        assert tail.read() == b"".join(LINES[-2:])
    assert store.bytes_read == len(b"".join(LINES[-2:]))


def test_a_run_is_read_again_once_all_of_its_rank_logs_have_changed() -> None:
    files = [log(name, size) for name, size in (("job.json", 9), ("rank-0.jsonl", 4), ("rank-1.jsonl", 4))]
    units = {UNIT: [*files, log("trace-x.parquet", 5), log("rank-2.jsonl.gz", 5)]}
    assert grown(units, {}) == {UNIT: files}
    assert grown(units, {UNIT: {"rank-0.jsonl": 3}}) == {UNIT: files}, "rank-1 was missing in the last round"
    assert grown(units, {UNIT: {"rank-0.jsonl": 3, "rank-1.jsonl": 4}}) == {}
    assert grown(units, {UNIT: {"rank-0.jsonl": 3, "rank-1.jsonl": 5}}) == {UNIT: files}, (
        "rank-1 has shrunk: it was written anew"
    )
    assert grown({UNIT: [log("job.json", 9), log("trace-x.parquet", 5)]}, {}) == {}
    assert grown({Unit.of_day(UNIT.log_date): [log("health.jsonl", 9)]}, {}) == {}
