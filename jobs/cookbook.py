"""Cookbook: answer a list of questions from a warehouse, as Markdown on standard output.

After `make demo`, `straggler cookbook --warehouse demo/warehouse > schemas/cookbook/README.md` writes the
page of this project. With another warehouse, the page has the answers for that warehouse.
"""

import io
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from jobs.entry_points.command import reader_entry_point
from jobs.reading.unit import job_ids
from jobs.runtime.arguments import Arguments
from jobs.runtime.printing import Result, write
from jobs.runtime.settings import Settings
from jobs.warehouse.reader import Reader
from schemas.cookbook import RECIPES
from schemas.sql_files import SqlFile
from schemas.table import sql_strings

_HEAD: Final = """# Cookbook

Questions to a warehouse, with their SQL and the answers for the demo's fleet. After `make demo`,
`straggler cookbook --warehouse demo/warehouse` prints this page. To ask a single question, run its file:

```
straggler query --warehouse demo/warehouse < schemas/cookbook/04_fix_first.sql
```
"""


_OWN_HEAD: Final = """# Cookbook

Questions to a warehouse, with their SQL and the answers for {root}. Questions about one day use
{log_date}, the latest day; questions about one job use {job_id}, which loses most on that day.
"""
_DEMO_DAY: Final = "2026-01-07"
_DEMO_JOBS: Final = ("gpt-175b", "moe-8x22b")
"""The day and the jobs that the recipes name."""
_OWN: Final = """
    SELECT CAST(log_date AS STRING) AS log_date, job_id
    FROM job_days
    WHERE is_analysed
    ORDER BY log_date DESC, lost_gpu_hours DESC NULLS LAST, job_id
    LIMIT 1
"""
"""In a warehouse without these jobs, the latest day and the job that loses most on it replace their names."""


def page(answers: Sequence[tuple[SqlFile, Result]], head: str = _HEAD) -> str:
    """Return one Markdown page with a question, its SQL and its answer for each recipe."""
    parts = [head]
    for number, (recipe, result) in enumerate(answers, start=1):
        table = io.StringIO()
        write(result, "markdown", table)
        parts.append(f"## {number}. {recipe.meaning}\n\n```sql\n{recipe.sql}\n```\n\n{table.getvalue()}")
    return "\n".join(parts)


def _with(text: str, stands_for: Mapping[str, str]) -> str:
    """Return a text or SQL query with all names replaced in one pass: a new name may contain an old one.

    stands_for : new name by old name
    """

    def here(found: re.Match[str]) -> str:
        name = stands_for[found["name"]]
        return sql_strings([name]) if found["quote"] else name

    names = "|".join(map(re.escape, stands_for))
    return re.sub(f"(?P<quote>')?(?P<name>{names})(?(quote)')", here, text)


@reader_entry_point("cookbook")
def main(reader: Reader, _settings: Settings, _args: Arguments) -> None:
    """Answer the cookbook's questions from a warehouse, as Markdown."""
    recipes, head = RECIPES, _HEAD
    own = reader.rows(_OWN).to_pylist()
    if own and set(_DEMO_JOBS).isdisjoint(job_ids(reader)):
        stands_for = {_DEMO_DAY: own[0]["log_date"], **dict.fromkeys(_DEMO_JOBS, own[0]["job_id"])}
        recipes = tuple(
            replace(recipe, sql=_with(recipe.sql, stands_for), meaning=_with(recipe.meaning, stands_for))
            for recipe in RECIPES
        )
        head = _OWN_HEAD.format(root=reader.root, **own[0])
    sys.stdout.write(page([(recipe, reader.ask(recipe.sql)) for recipe in recipes], head))


if __name__ == "__main__":
    sys.exit(main())
