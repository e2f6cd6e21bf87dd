"""Replies to agents are short, say what was left out, and never take names in the data as instructions."""

import json
from datetime import date

from jobs.agents.tools import MOST_CHARACTERS, reply


def test_rows_that_do_not_fit_are_counted_and_can_be_asked_for() -> None:
    rows = [{"host": f"node-{number:04}", "gpu_hours": float(number)} for number in range(1_000)]
    first = json.loads(reply(rows))
    assert len(reply(rows)) <= MOST_CHARACTERS
    kept = len(first["rows"])
    assert 100 < kept < 1_000
    assert (first["all_rows"], first["left_out"]) == (1_000, 1_000 - kept)
    assert first["how_to_get_them"] == f"ask again with first={kept}"
    second = json.loads(reply(rows, first=kept))
    assert second["rows"][0] == {"host": f"node-{kept:04}", "gpu_hours": float(kept)}


def test_all_of_a_few_rows_without_nulls_and_with_six_digits() -> None:
    row = {"day": date(2026, 1, 5), "lost": 0.123456789, "host": None, "bad": float("nan")}
    assert json.loads(reply([row], unit="u", run=None)) == {
        "unit": "u",
        "rows": [{"day": "2026-01-05", "lost": 0.123457, "bad": None}],
        "all_rows": 1,
    }


def test_long_texts_and_lists_are_cut_and_say_so() -> None:
    (row,) = json.loads(reply([{"name": "x" * 10_000, "hosts": list(range(50))}]))["rows"]
    assert row["name"].endswith("... (10,000 characters)")
    assert row["hosts"] == [0, 1, 2, 3, 4, "... and 45 more"]


def test_a_row_that_is_too_long_alone_says_how_to_ask() -> None:
    wide = {f"column_{number}": "x" * 300 for number in range(100)}
    said = json.loads(reply([wide]))
    assert (said["rows"], said["left_out"]) == ([], 1)
    assert "fewer columns" in said["how_to_get_them"]


def test_what_a_terminal_obeys_is_only_its_code() -> None:
    said = reply([{"host": "a\x1b]0;owned\x07\u202eb\n"}])
    assert said.isprintable()
    assert json.loads(said)["rows"] == [{"host": "a\x1b]0;owned\x07\u202eb\n"}]
