"""Cookbook: questions with their SQL, answered by a warehouse, as Markdown on standard output.

`python -m jobs.cookbook --warehouse demo/warehouse > schemas/cookbook/README.md` after `make demo` gives the
page of this project; over another warehouse it answers the same questions for that one.
"""

import argparse
import io
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from pyspark.sql import SparkSession

from jobs import query
from jobs.cli import entry_point
from jobs.printing import Result, write
from jobs.progress import steps
from jobs.settings import Settings
from schemas.cookbook import RECIPES
from schemas.sql_files import SqlFile

_BY_NAME: Final = {recipe.name: recipe for recipe in RECIPES}
_HEAD: Final = """# Cookbook

Questions to the warehouse with their SQL and the answers that the demo's fleet gives: `make demo`, then
`.venv/bin/python -m jobs.cookbook --warehouse demo/warehouse`. Ask each yourself, from its file:

```
.venv/bin/python -m jobs.query --warehouse demo/warehouse < schemas/cookbook/04_fix_first.sql
```
"""


def run(spark: SparkSession, settings: Settings) -> Iterator[tuple[SqlFile, Result]]:
    """Answer every question; raises query.QueryError where there are no tables."""
    with steps("cookbook", list(_BY_NAME)) as names:
        for name in names:
            yield _BY_NAME[name], Result.of(query.run(spark, settings, _BY_NAME[name].sql))


def page(answers: Sequence[tuple[SqlFile, Result]]) -> str:
    """Return questions, SQL and answers as Markdown."""
    parts = [_HEAD]
    for number, (recipe, result) in enumerate(answers, start=1):
        table = io.StringIO()
        write(result, "markdown", table)
        parts.append(f"## {number}. {recipe.meaning}\n\n```sql\n{recipe.sql}\n```\n\n{table.getvalue()}")
    return "\n".join(parts)


@entry_point("cookbook", is_recorded=False)
def main(spark: SparkSession, settings: Settings, _args: argparse.Namespace) -> dict[str, int]:
    """Answer the cookbook's questions from a warehouse, as Markdown."""
    sys.stdout.write(page(list(run(spark, settings))))
    return {}


if __name__ == "__main__":
    sys.exit(main())
