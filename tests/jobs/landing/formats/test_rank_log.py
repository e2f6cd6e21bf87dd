"""Rank log lines give the same rows and rejects, whether they are read one by one or many at a time."""

import random
from typing import Any

import pytest

from jobs.landing.formats import rank_log
from jobs.landing.formats.rank_log import RankLogReader
from jobs.landing.formats.rank_log_line import LineError, read_line
from jobs.landing.formats.rows import Bounds, Reject, Rows, table_of
from schemas.vocabulary import FILE_REASONS, REJECT_REASONS
from tests.support.line_cases import BAD_LINES, JOB, ODD_LINES, PLAIN_LINES, RUN, SIZES, line, row

BOUNDS = Bounds(nesting=64)
UNIT: dict[str, Any] = {"job_id": JOB, "run_id": RUN, **SIZES}
TEXTS = [text for text, *_ in (BAD_LINES | PLAIN_LINES | ODD_LINES).values()]
BLANK = [b"", b" \t\r"]


def read(lines: list[bytes], first: int = 1, **bounds: int) -> tuple[Rows, list[Reject]]:
    return RankLogReader(UNIT, Bounds(**bounds)).read(lines, first)


def as_dicts(rows: Rows) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table_of(rows).to_pylist()
    return [{"line": number, **each} for number, each in zip(rows.lines, found, strict=True)]


def rejection(text: bytes, **unit: object) -> LineError:
    with pytest.raises(LineError) as caught:
        read_line(text, UNIT | unit, BOUNDS)
    return caught.value


@pytest.mark.parametrize("defect", BAD_LINES)
def test_bad_line_is_rejected_with_the_first_reason(defect: str) -> None:
    bad = BAD_LINES[defect]
    error = rejection(bad.text)
    assert (error.reason, bad.detail in error.detail) == (bad.reason, True), error.detail


@pytest.mark.parametrize("case", [*PLAIN_LINES, *ODD_LINES])
def test_good_line_becomes_its_row(case: str) -> None:
    good = (PLAIN_LINES | ODD_LINES)[case]
    assert read_line(good.text, UNIT, BOUNDS) == good.row


def test_every_reason_of_a_line_has_a_case() -> None:
    of_several = {"contested_rank_step", "duplicate_rank_step"}
    of_one_line = set(REJECT_REASONS) - {*of_several, "line_too_long", *FILE_REASONS}
    assert {bad.reason for bad in BAD_LINES.values()} == of_one_line


def test_coordinates_that_fit_in_each_others_place_are_said_to_be_exchanged() -> None:
    wide = {"dp_size": 8, "pp_size": 2}
    assert rejection(line(dp_rank=1, pp_rank=5), **wide).detail == (
        "pp_rank is 5, not below pp_size 2: are dp_rank and pp_rank exchanged?"
    )
    assert rejection(line(dp_rank=3, pp_rank=5), **wide).detail == "pp_rank is 5, not below pp_size 2"


def test_what_is_judged_depends_on_the_unit() -> None:
    unknown = dict.fromkeys(SIZES)
    no_rank = line("tp_rank", rank=10**6, dp_rank=99)
    assert read_line(no_rank, UNIT | unknown, BOUNDS)["rank"] == 10**6
    assert rejection(line(dp_rank=-1), **unknown).reason == "rank_out_of_range"
    assert rejection(line(rank=2**31), **unknown).reason == "rank_out_of_range"
    error = rejection(line("tp_rank"), tp_size=2)
    assert (error.reason, error.detail) == ("missing_field", "tp_rank is missing")
    assert read_line(line("tp_rank"), UNIT, BOUNDS)["tp_rank"] is None
    assert rejection(line(job_id=7), job_id="7").reason == "bad_type"
    assert read_line(line(job_id="7"), UNIT | {"job_id": "7"}, BOUNDS)["rank"] == 1


@pytest.mark.parametrize("case", PLAIN_LINES)
def test_a_plain_line_is_read_without_the_slow_reader(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_log, "read_line", None)
    rows, rejects = read([PLAIN_LINES[case].text])
    (found,) = as_dicts(rows)
    assert {name: found[name] for name in PLAIN_LINES[case].row} == PLAIN_LINES[case].row
    assert rejects == []


@pytest.mark.parametrize("seed", range(30))
def test_lines_of_all_kinds_together_are_what_each_is_alone(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  # nothing is secret here
    lines = [*chance.sample(TEXTS, chance.randint(1, len(TEXTS))), *BLANK, line(), line(step=3)]
    chance.shuffle(lines)
    alone, wrong = [], []
    for number, text in enumerate(lines, start=1):
        try:
            if text.strip():
                alone.append({"line": number, **read_line(text, UNIT, BOUNDS)})
        except LineError as error:
            wrong.append((error.reason, error.detail, number))
    rows, rejects = read(lines)
    assert as_dicts(rows) == alone
    assert [(each.reason, each.detail, each.line) for each in rejects] == wrong


def test_rows_and_rejects_have_the_numbers_of_their_lines() -> None:
    rows, rejects = read([b"", line(step=1), b"torn", line(step=2, note={"odd": 1}), line(step=3)], first=101)
    assert [(each["line"], each["step"]) for each in as_dicts(rows)] == [(102, 1), (104, 2), (105, 3)]
    assert [(each.line, each.text) for each in rejects] == [(103, "torn")]


def test_text_is_cut_and_what_is_not_utf8_is_replaced() -> None:
    ((_, _, _, text),) = read([b"\xff" + "ö".encode() * 3000])[1]
    assert text == "\ufffd" + "ö" * 1999


def test_a_line_of_too_many_bytes_is_rejected_unread() -> None:
    long = line(note="x" * 5000)
    rows, (reject,) = read([line(), long, line(step=3)], line_bytes=len(long) - 1)
    assert (reject.reason, reject.line, len(reject.text or "")) == ("line_too_long", 2, 2000)
    assert [each["step"] for each in as_dicts(rows)] == [2, 3]
    assert read([long], line_bytes=len(long))[1] == []


def test_arrays_within_arrays_are_no_numbers() -> None:
    """A line with nested arrays is rejected, although the fast parser would accept it and flatten them."""
    nested = line(start_us="@").replace(b'"@"', b"[[0], [15480.5], [15500]]")
    (reject,) = read([nested])[1]
    assert (reject.reason, reject.detail) == ("bad_type", "element 1 of start_us is [0], not a number")


def test_what_is_known_of_lines_does_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_log, "_MOST_KNOWN", 3)
    reader = RankLogReader(UNIT, Bounds())
    names = ["gc", "optimizer", "forward-compute"]
    lines = [line(op=[a, b, c], **{f"key {a} {b} {c}": 1}) for a in names for b in names for c in names]
    rows, _ = reader.read(lines, 1)
    assert len(rows.lines) == len(lines)
    assert max(each.cache_info().currsize for each in (reader._codes_of, reader._has_keys)) == 3
    assert {tuple(each["op"]) for each in as_dicts(rows)} == {
        tuple(row(op=[a, b, c])["op"]) for a in names for b in names for c in names
    }


def test_lines_state_types_of_gpu_by_host() -> None:
    """The GPU types of a host come from all its valid lines, and from no line that becomes a reject."""
    odd = line(gpu_type="H100", host="node-2", step=4).replace(b'"H100"', b'"H10\\u0030"')
    lines = [
        line(),
        line(gpu_type="A100"),
        line(gpu_type="A100", step=3),
        odd,
        line(gpu_type=None, step=5),
        line("host", gpu_type="T4", step=6),
        line(gpu_type="B200", start_us=[-1, 0, 0]),
        line(gpu_type="B300", start_us=[0]),
    ]
    reader = RankLogReader(UNIT, Bounds())
    rows, rejects = reader.read(lines, 1)
    assert (len(rows.lines), [each.reason for each in rejects]) == (6, ["negative_time", "array_length"])
    assert reader.gpu_types == {"node-0123": {"A100"}, "node-2": {"H100"}}


def test_ever_new_hosts_and_types_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_log, "MOST_TYPE_TEXT", 20)
    reader = RankLogReader(UNIT, Bounds())
    reader.read([line(gpu_type=f"T{step}", step=step) for step in range(5)], 1)
    assert reader.gpu_types == {"node-0123": {"T0", "T1"}}
    reader.read([line(gpu_type="T4", host=f"h{step}", step=step) for step in range(5, 9)], 6)
    assert list(reader.gpu_types) == ["node-0123"]


@pytest.mark.parametrize(
    ("stated", "reason", "detail"),
    [
        ("A100", "identity_mismatch", 'gpu_type is "A100", but job.json says "H100" for host "node-0123"'),
        ("", "bad_type", 'gpu_type is "", not a name'),
        (7, "bad_type", "gpu_type is 7, not text of at most 1000 bytes"),
    ],
)
def test_a_wrong_type_of_gpu_is_a_reject(stated: object, reason: str, detail: str) -> None:
    reader = RankLogReader(UNIT | {"gpu_types": {"node-0123": "H100"}}, Bounds())
    rows, (reject,) = reader.read([line(gpu_type=stated), line(gpu_type="H100", step=3)], 1)
    assert (reject.reason, reject.detail, rows.lines) == (reason, detail, [2])


def test_a_type_that_the_manifest_does_not_contradict_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_log, "read_line", None)
    reader = RankLogReader(UNIT | {"gpu_types": {"node-0123": "H100"}}, Bounds())
    rows, rejects = reader.read([line(gpu_type="H100"), line(gpu_type="A100", host="node-1", step=3)], 1)
    assert (len(rows.lines), rejects) == (2, [])
