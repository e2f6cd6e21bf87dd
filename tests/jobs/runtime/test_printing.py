"""Test how rows are printed as a table, CSV, JSON or Markdown."""

import csv
import io
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from jobs.reading.spark_reader import collected
from jobs.runtime.printing import FORMATS, Result, fit, shown, write, write_batches

RESULT = Result(
    columns=["job", "slowdown", "tags", "when"],
    is_number=[False, True, False, False],
    rows=[
        ["gpt, [bold]175b", 1.0730231134, ["a", None], date(2026, 1, 5)],
        ["Zoë", None, {"k": 0.5}, None],
        ["x" * 120, 12345.0, [], date(2026, 1, 6)],
    ],
)


def test_a_table_spells_out_what_a_terminal_would_obey() -> None:
    assert shown("job \x1b[31m\u202e") == r"job \x1b[31m\u202e"
    assert shown(["Zoë\n"]) == r'["Zoë\n"]'


ODD = "a\n1,2\x1b[31m\x9bü"


@pytest.mark.parametrize(
    ("form", "cell"),
    [
        ("table", r"a\n1,2\x1b[31m\x9bü"),
        ("csv", r'"a\n1,2\x1b[31m\x9bü"'),
        ("json", r"a\n1,2\u001b[31m\u009bü"),
        ("markdown", r"a 1,2\x1b[31m\x9bü"),
    ],
)
def test_no_format_lets_a_terminal_obey_a_name(form: str, cell: str) -> None:
    """No value or column name can begin a new line or control the terminal, whatever the format."""
    out = Terminal()
    write(Result([ODD, "n"], [[ODD, 1]]), form, out)
    printed = out.getvalue()
    assert cell in printed
    assert all(line.isprintable() for line in re.sub(r"\x1b\[[0-9;]*m", "", printed).splitlines())
    if form == "json":
        assert json.loads(printed) == [{ODD: ODD, "n": 1}]


def test_csv_is_exact_outside_a_terminal() -> None:
    assert written(Result([ODD], [[ODD]]), "csv") == f'"{ODD}"\n"{ODD}"\n'


def written(result: Result, form: str) -> str:
    out = io.StringIO()
    write(result, form, out)
    return out.getvalue()


def test_a_table_is_aligned_numbers_to_the_right_and_outside_a_terminal_never_folded() -> None:
    head, rule, *rows = (line.rstrip() for line in written(RESULT, "table").splitlines() if line.strip())
    assert head.split() == ["job", "slowdown", "tags", "when"]
    assert set(rule.strip()) <= set("─ ")
    ends = [
        row.index(number) + len(number)
        for row, number in zip(rows, ("1.073023", "null", "12345.0"), strict=True)
    ]
    assert len(set(ends)) == 1
    assert ends[0] == head.index("slowdown") + len("slowdown")
    assert rows[0].lstrip().startswith("gpt, [bold]175b ")
    assert rows[2].lstrip().startswith("x" * 120)
    assert '["a", null]' in rows[0]


class Terminal(io.StringIO):
    """A stream that claims to be a terminal; `lines` returns what it shows, without control codes."""

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        return [
            re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip()
            for line in self.getvalue().splitlines()
            if line.strip()
        ]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def test_on_a_terminal_wide_values_fold(terminal: Terminal) -> None:
    write(RESULT, "table", terminal)
    assert max(map(len, terminal.lines())) <= 60
    assert "".join(terminal.lines()).count("x") == 120


def test_on_a_terminal_rows_of_too_many_columns_become_lists(terminal: Terminal) -> None:
    names = [f"column_{number:02}" for number in range(9)]
    write(Result(names, [range(9), range(9)]), "table", terminal)
    lines = [line.split() for line in terminal.lines()]
    assert lines[0] == ["row", "1"]
    assert lines[9:12] == [["column_08", "8"], ["row", "2"], ["column_00", "0"]]


@pytest.mark.parametrize(("count", "said"), [(5, ""), (6, " and 1 more column"), (7, " and 2 more columns")])
def test_the_first_columns_without_room_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], count: int, said: str
) -> None:
    monkeypatch.setattr("jobs.runtime.printing.write_fitting", lambda *_: [*"abcdefg"[:count]])
    fit(RESULT, io.StringIO())
    heard = " ".join(capsys.readouterr().err.split())
    assert heard == f"no room for a, b, c, d, e{said}: -x shows all, or SELECT fewer"


def test_csv_is_exact_and_leaves_null_empty() -> None:
    lines = list(csv.reader(io.StringIO(written(RESULT, "csv"))))
    assert lines == [
        ["job", "slowdown", "tags", "when"],
        ["gpt, [bold]175b", "1.0730231134", '["a", null]', "2026-01-05"],
        ["Zoë", "", '{"k": 0.5}', ""],
        ["x" * 120, "12345.0", "[]", "2026-01-06"],
    ]


def test_json_is_one_array_of_objects() -> None:
    parsed = json.loads(written(RESULT, "json"))
    assert parsed[:2] == [
        {"job": "gpt, [bold]175b", "slowdown": 1.0730231134, "tags": ["a", None], "when": "2026-01-05"},
        {"job": "Zoë", "slowdown": None, "tags": {"k": 0.5}, "when": None},
    ]


def test_markdown_is_a_table_whose_cells_stay_cells() -> None:
    odd = Result(["a|b", "n"], [["x | y\nz", 0.1234567], [None, 2.0]])
    assert written(odd, "markdown").splitlines() == [
        "| a\\|b | n |",
        "| --- | ---: |",
        "| x \\| y z | 0.123457 |",
        "| null | 2.0 |",
    ]


def test_json_knows_no_nan_and_takes_decimals_and_structs() -> None:
    row = [math.nan, Decimal("1.20"), {"a": 1, "b": [{"c": math.inf}]}]
    parsed = json.loads(written(Result(["x", "y", "z"], [row]), "json"))
    assert parsed == [{"x": None, "y": 1.2, "z": {"a": 1, "b": [{"c": None}]}}]


def test_no_rows_are_shown_in_every_format() -> None:
    empty = Result(["a"], [], [True])
    lines = [written(empty, form).splitlines() for form in FORMATS[1:]]
    assert lines == [["a"], ["[]"], ["| a |", "| ---: |"], ["a"]]
    assert written(empty, "table").split()[0] == "a"


BATCHES = [Result(["a", "b"], rows, [True, False]) for rows in ([(1, "x"), (2, "y")], [(3, "z")], [])]
WHOLE = replace(BATCHES[0], rows=[row for batch in BATCHES for row in batch.rows])


@pytest.mark.parametrize("form", [None, "csv", "json", "markdown", "tab"])
@pytest.mark.parametrize("as_lists", [False, True])
def test_rows_in_batches_are_written_as_if_they_were_one(form: str | None, *, as_lists: bool) -> None:
    whole, parts = io.StringIO(), io.StringIO()
    write(WHOLE, form, whole, as_lists=as_lists)
    assert write_batches(iter(BATCHES), form, parts, as_lists=as_lists) == (3, False)
    assert parts.getvalue() == whole.getvalue()


def test_a_table_has_a_heading_for_each_batch_and_a_terminal_one_note(
    terminal: Terminal, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.StringIO()
    write_batches(iter(BATCHES), "table", out)
    lines = [line.split() for line in out.getvalue().splitlines() if line.strip()]
    assert [line for line in lines if "─" not in line[0]] == [
        ["a", "b"], ["1", "x"], ["2", "y"], ["a", "b"], ["3", "z"],
    ]  # fmt: skip
    monkeypatch.setenv("COLUMNS", "3")
    write_batches(iter([*BATCHES[:1], replace(BATCHES[1], is_cut=True)]), None, terminal)
    assert terminal.getvalue().count("a\n") == 2
    assert capsys.readouterr().err == "no room for b: -x shows all, or SELECT fewer\n"


def test_rows_are_written_when_they_come() -> None:
    out, seen = io.StringIO(), []

    def batches() -> Iterator[Result]:
        for batch in BATCHES:
            seen.append(out.getvalue())
            yield batch

    write_batches(batches(), "csv", out)
    assert seen == ["", "a,b\n1,x\n2,y\n", "a,b\n1,x\n2,y\n3,z\n"]


def test_json_of_an_answer_that_fails_has_no_end() -> None:
    def batches() -> Iterator[Result]:
        yield BATCHES[0]
        raise ValueError("no more")

    out = io.StringIO()
    with pytest.raises(ValueError, match="no more"):
        write_batches(batches(), "json", out)
    assert out.getvalue() == '[\n{"a": 1, "b": "x"},\n{"a": 2, "b": "y"}'


def test_numbers_are_shown_with_sensible_digits() -> None:
    values = [None, 1.25, 0.0, -0.0123456789, 4.2e-7, 1767600000.125, math.nan, True, 7]
    texts = ["null", "1.25", "0.0", "-0.012346", "4.2e-07", "1767600000.125", "nan", "True", "7"]
    assert [*map(shown, values)] == texts


def test_rows_of_a_frame_are_cut_at_the_limit_and_times_are_utc_wherever_this_runs(
    spark: SparkSession,
) -> None:
    frame = spark.createDataFrame(
        [(1, datetime(2026, 1, 5, 8, 30, tzinfo=UTC)), (2, None)], "n int, t timestamp"
    ).orderBy("n")
    cut = collected(frame, 1)
    assert (cut.columns, cut.is_number, cut.is_cut) == (["n", "t"], [True, False], True)
    assert [tuple(row) for row in cut.rows] == [(1, "2026-01-05 08:30:00")]
    assert not collected(frame, 2).is_cut
    assert len(collected(frame).rows) == 2


def test_columns_of_one_name_are_both_shown(spark: SparkSession) -> None:
    result = collected(spark.sql("SELECT 1 AS a, 2 AS a"))
    assert (result.columns, [tuple(row) for row in result.rows]) == (["a", "a"], [(1, 2)])


def test_csv_quotes_what_some_readers_end_a_line_by() -> None:
    """CSV quotes values with a character at which some readers end a line, such as a carriage return."""
    out = io.StringIO()
    write(Result(["job_id", "lost"], [("a\rvictim", 1.5), ("plain", None)]), "csv", out)
    assert out.getvalue() == 'job_id,lost\n"a\rvictim",1.5\nplain,\n'
