"""Test how results are printed for people and shells: fitted to a screen, as lists, or tab-separated."""

import io
from collections.abc import Callable

import pytest

from jobs.runtime.fitting import brief, complain_fitting, say_fitting, write_rows_as_lists
from jobs.runtime.printing import Result, is_for_people, write

FIX_FIRST = Result(
    ["cause", "host", "job_ids", "units", "flagged_units", "first_day", "last_day", "lost_gpu_hours",
     "lost_s", "attributed_gpu_hours", "recoverable_gpu_hours", "time_saved_fraction_max"],
    [
        ["slow_worker", "node-0013", ["chat-70b", "draft-13b", "gpt-175b", "long-context-7b"], 7, 2,
         "2026-01-05", "2026-01-07", 2110.6602071, 32.08, 2110.66, 2110.6602071, 0.22369],
        ["unexplained", None, ["a"], 40, 0, "2026-01-05", "2026-01-07", None, 32.08, 0.0, None, None],
    ],
)  # fmt: skip


class Screen(io.StringIO):
    """A text stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


Shown = Callable[..., list[str]]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """Function that returns the lines that a terminal of `width` columns shows of a result."""

    def of(result: Result, width: int, *, as_lists: bool = False) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        out = Screen()
        write(result, None, out, as_lists=as_lists)
        return out.getvalue().splitlines()

    return of


def test_sentences_are_broken_between_words_at_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "  status: no word-of-this is broken, whatever its width"
    shown = []
    for out in (Screen(), io.StringIO()):
        monkeypatch.setenv("COLUMNS", "24")
        monkeypatch.setattr("sys.stdout", out)
        say_fitting(line, "")
        shown.append(out.getvalue().split("\n"))
        said = type(out)()
        monkeypatch.setattr("sys.stderr", said)
        complain_fitting(line)
        assert said.getvalue() + "\n" == out.getvalue()
    broken, whole = shown
    assert broken == [
        "  status: no",
        "    word-of-this is",
        "    broken, whatever its",
        "    width",
        "",
        "",
    ]
    assert whole == [line, "", ""]


@pytest.mark.parametrize("width", [60, 80, 100, 140, 300])
def test_no_line_is_wider_than_the_screen_and_what_matters_is_shown(shown: Shown, width: int) -> None:
    lines = shown(FIX_FIRST, width)
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert "slow_worker node-0013" in text
    assert "2110.7" in text, "the column of lost hours is shown on any screen"
    assert ("0.22369" in text) == (width == 300), "this column is the first to be left out"


def test_words_stay_whole_and_long_lists_are_short(shown: Shown, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(FIX_FIRST, 100)
    assert "chat-70b, draft-13b," in " ".join(lines)
    assert "gpt-175b, 1 more" in " ".join(lines)
    assert capsys.readouterr().err.startswith("no room for ")
    assert "time_" in shown(FIX_FIRST, 300)[0]
    assert capsys.readouterr().err == ""


def test_numbers_end_below_each_other(shown: Shown) -> None:
    _, _, first, second = shown(Result(["name", "n"], [["a", 12345.678], ["b c", 0.5]]), 80)
    assert (first, second) == ("a     12345.7", "b c   0.50000".replace("   0", "   0"))
    assert len(first) == len(second)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"), (True, "true"), (0.0, "0"), (1e-7, "1e-07"), (0.12345678, "0.12346"), (7, "7"),
        (1234567.89, "1234567.9"), (["a", None, 1, 2, 3], "a, null, 1, 2 more"), ("a\n\x1b", "a\\n\\x1b"),
        ({"k": "v" * 99}, '{"k": "' + "v" * 52 + "…"), (float("nan"), "nan"),
    ],
)  # fmt: skip
def test_values_are_brief_and_nothing_that_a_terminal_obeys(value: object, text: str) -> None:
    assert brief(value) == text


def test_a_row_as_a_list_has_every_column_and_all_of_each(shown: Shown) -> None:
    first, *lines = shown(FIX_FIRST, 60, as_lists=True)
    assert first.startswith("-[ 1 ]-")
    assert [line.split(" | ")[0].strip() for line in lines if " | " in line and line[0] != " "] == [
        *FIX_FIRST.columns, *FIX_FIRST.columns,
    ]  # fmt: skip
    assert '"long-context-7b"]' in " ".join(lines)
    assert max(map(len, lines)) <= 60


def test_nothing_is_written_of_no_rows() -> None:
    out = io.StringIO()
    write_rows_as_lists(["a"], [], out)
    assert out.getvalue() == ""


def test_a_pipe_is_given_tabs_exact_and_one_line_a_row() -> None:
    out = io.StringIO()
    write(Result(["a", "b", "c"], [["x\ty\nz", 0.1234567891, None], [["p"], {"k": 1.5}, "\x1b"]]), None, out)
    assert out.getvalue().splitlines() == [
        "a\tb\tc",
        "x\\ty\\nz\t0.1234567891\t",
        '["p"]\t{"k": 1.5}\t\\x1b',
    ]
    assert not is_for_people(None, out)
    assert is_for_people(None, Screen())
    assert is_for_people("table", out)
