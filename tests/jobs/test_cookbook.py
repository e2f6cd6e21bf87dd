"""Each question of the cookbook is valid SQL, and the printed answers are those of the demo's warehouse."""

import re
from pathlib import Path

import pytest

from jobs.cookbook import main
from jobs.runtime.project import PROJECT
from schemas.cookbook import RECIPES
from schemas.vocabulary import JOB_SLOWDOWN, JOBS, WORKER_SLOWDOWN
from tests.jobs.conftest import Ask, Demo
from tests.jobs.reading.warehouses import warehouse_of
from tests.support.examples import DAY, table_rows

PRINTED = (PROJECT / "schemas" / "cookbook" / "README.md").read_text(encoding="utf-8")
ROUNDED = 1e-9
"""Relative tolerance: the SQL rounds its answers, and only the notation of a number may differ."""


def chapters(text: str) -> list[str]:
    return re.split(r"^## \d+\. ", text, flags=re.MULTILINE)[1:]


def cells(chapter: str) -> list[list[str]]:
    """Return the cells of the table in a chapter, header first."""
    lines = [line for line in chapter.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [rows[0], *rows[2:]]


def same(printed: str, found: str) -> bool:
    try:
        return float(printed) == pytest.approx(float(found), rel=ROUNDED)
    except ValueError:
        return printed == found


def test_each_question_has_its_sql_and_an_answer() -> None:
    for number, (recipe, chapter) in enumerate(zip(RECIPES, chapters(PRINTED), strict=True), start=1):
        assert recipe.name.startswith(f"{number:02}_")
        assert recipe.meaning.endswith("?")
        assert chapter.startswith(f"{recipe.meaning}\n\n```sql\n{recipe.sql}\n```\n")
        assert len(cells(chapter)) > 1


def test_another_warehouse_is_asked_about_its_own_job_and_day(call: Ask, tmp_path: Path) -> None:
    name = "gpt-175b's"  # contains the id of a job in the demo
    key = {"job_id": name, "run_id": "r1", "log_date": DAY}
    rows = {name: table_rows(name, [key]) for name in (JOBS, JOB_SLOWDOWN, WORKER_SLOWDOWN)}
    root = warehouse_of(tmp_path, **rows).root
    said = call(main, "--warehouse", root)
    assert (said.status, said.err) == (0, "")
    assert f"answers for {root}." in said.out
    assert f"{DAY}, the latest day; questions about one job use {name}, which loses most" in said.out
    slowest = chapters(said.out)[6]
    assert slowest.startswith(f"Which workers slow {name} most, each taken alone?\n")
    assert len(cells(slowest)) == 2
    found = re.search(r"gpt-175b(?!\W+s\b)|moe-8x22b|2026-01-07", said.out)
    assert found is None, said.out[found.start() - 40 : found.end() + 40]


def test_the_demo_gives_the_printed_answers(capsys: pytest.CaptureFixture[str], demo: Demo) -> None:
    assert main(["--warehouse", str(demo.warehouse)]) == 0
    found = capsys.readouterr().out
    for printed, answered in zip(chapters(PRINTED), chapters(found), strict=True):
        before, now = cells(printed), cells(answered)
        assert len(before) == len(now), answered
        for row, other in zip(before, now, strict=True):
            assert all(map(same, row, other)), (row, other)
