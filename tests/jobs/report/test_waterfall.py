"""Test the bars of the waterfall chart: where each begins and ends, and whether it rises or falls."""

import re
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from jobs.reading.figures import Figures
from jobs.report.loss import waterfall
from jobs.runtime.project import PROJECT
from schemas.unit import Unit

UNIT = Unit(date(2026, 1, 5), "llm", "r1")
TOTALS = ("recorded", "nothing_lost", "ideal", "productive")


def chain(*figures: tuple[str, float | None], amounts: str = "gpu_hours") -> list[dict[str, Any]]:
    return waterfall(rows_of(figures, amounts), amounts)


def rows_of(figures: Sequence[tuple[str, float | None]], amounts: str = "gpu_hours") -> list[dict[str, Any]]:
    return [
        {"place": place, "figure": name, "is_total": name in TOTALS, amounts: amount}
        for place, (name, amount) in enumerate(figures)
    ]


WHOLE = (
    ("recorded", 200.0),
    ("slow_worker", 50.0),
    ("pause", 0.01),
    ("nothing_lost", 149.99),
    ("to_paper_ideal", -10.01),
    ("ideal", 160.0),
    ("outside_steps", 40.0),
    ("not_known", 0.0),
    ("productive", 120.0),
)


def test_each_bar_begins_where_the_one_before_ends() -> None:
    drawn = {row["figure"]: row for row in chain(*WHOLE)}
    assert [*drawn] == [name for name, _ in WHOLE if name not in {"pause", "not_known"}], (
        "figures that round to 0 are not drawn"
    )
    assert (drawn["recorded"]["x"], drawn["recorded"]["width"]) == (0.0, 100.0)
    assert (drawn["slow_worker"]["x"], drawn["slow_worker"]["width"]) == (75.0, 25.0)
    assert drawn["to_paper_ideal"]["x"] == pytest.approx(75.0, abs=0.01)
    assert (drawn["outside_steps"]["x"], drawn["outside_steps"]["width"]) == (60.0, 20.0)
    assert (drawn["productive"]["width"], drawn["productive"]["share"]) == (60.0, "60.0 %")


def test_what_is_not_known_may_be_productive_too() -> None:
    for not_known, title in (
        (0.0, "productive"),
        (90.0, "productive at least; what is not known may be productive, too"),
    ):
        figures = ("recorded", 200.0), ("ideal", 160.0), ("not_known", not_known), ("productive", 70.0)
        assert chain(*figures)[-1]["title"] == title


def test_a_small_part_of_much_is_there_if_the_totals_show_that_it_lacks() -> None:
    small = ("recorded", 30_000.0), ("unexplained", 2.67), ("pause", 0.4), ("nothing_lost", 29_996.93)
    drawn = {row["figure"]: row["amount"] for row in chain(*small)}
    assert drawn == {"recorded": "30,000", "unexplained": "-3", "nothing_lost": "29,997"}


def test_rows_that_come_in_another_order_are_drawn_at_the_same_places() -> None:
    assert waterfall(rows_of(WHOLE)[::-1], "gpu_hours") == chain(*WHOLE)


def test_what_is_taken_away_has_a_minus_and_what_is_added_a_plus() -> None:
    drawn = {row["figure"]: (row["amount"], row["share"]) for row in chain(*WHOLE)}
    assert drawn["slow_worker"] == ("-50", "-25.0 %")
    assert drawn["to_paper_ideal"] == ("+10", "+5.0 %")
    assert drawn["ideal"] == ("160", "80.0 %")


def test_a_notebook_draws_it_in_the_pages_colours() -> None:
    spec = Figures(UNIT, lambda _: rows_of([("recorded", 1.0)])).waterfall.spec
    scale = spec["encoding"]["color"]["scale"]
    style = (PROJECT / "jobs/report/page/report.css").read_text()
    (difference,) = re.findall(r"^\.fall rect \{ fill: (#\w+)", style, re.MULTILINE)
    total, *_ = re.findall(r"--accent: (#\w+)", style)
    assert dict(zip(scale["domain"], scale["range"], strict=True)) == {
        "total": total,
        "difference": difference,
    }


def test_without_events_it_ends_at_the_ideal_and_without_a_loss_known_it_is_not_drawn() -> None:
    known = [(name, None if name in {"outside_steps", "productive"} else amount) for name, amount in WHOLE]
    assert [row["figure"] for row in chain(*known, amounts="seconds")][-1] == "ideal"
    assert chain() == []
    assert chain(("recorded", None)) == []


@pytest.mark.parametrize(
    ("recorded", "losses"),
    [
        (2559.6, (814.4,)),
        (300.4, (20.4, 0.445, 33.3)),
        (4.2, (0.333, 0.333, 0.333)),
        (50_000.0, (0.4, 7.5, 7.5)),
    ],
)
def test_each_total_is_the_one_before_less_the_losses_as_they_are_printed(
    recorded: float, losses: tuple[float, ...]
) -> None:
    """Each printed total equals the printed total before it less the printed losses, in spite of rounding."""
    causes = ("slow_worker", "pause", "stage_imbalance")
    figures = [*zip(causes, losses, strict=False), ("nothing_lost", recorded - sum(losses))]
    drawn = chain(
        ("recorded", recorded), *figures, ("to_paper_ideal", -10.01), ("ideal", figures[-1][1] + 10.01)
    )
    left = Decimal(0)
    for row in drawn:
        amount = Decimal(row["amount"].replace(",", ""))
        left = left + amount if not row["is_total"] or row["figure"] == "recorded" else left
        assert not row["is_total"] or amount == left, row
