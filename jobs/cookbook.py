"""Cookbook: answer a list of questions from a warehouse, as Markdown on standard output.

`straggler cookbook --warehouse demo/warehouse > schemas/cookbook/README.md` after `make demo` gives the
page of this project; another warehouse gives its answers.
"""

import io
import sys
from collections.abc import Sequence
from typing import Final

from jobs.entry_points.command import reader_entry_point
from jobs.runtime.arguments import Arguments
from jobs.runtime.printing import Result, write
from jobs.runtime.settings import Settings
from jobs.warehouse.reader import Reader
from schemas.cookbook import RECIPES
from schemas.sql_files import SqlFile

_HEAD: Final = """# Cookbook

Questions to the warehouse with their SQL and the answers that the demo's fleet gives: `make demo`, then
`straggler cookbook --warehouse demo/warehouse`. Ask each yourself, from its file:

```
straggler query --warehouse demo/warehouse < schemas/cookbook/04_fix_first.sql
```
"""


def page(answers: Sequence[tuple[SqlFile, Result]]) -> str:
    """Return questions, SQL and answers as one Markdown page."""
    parts = [_HEAD]
    for number, (recipe, result) in enumerate(answers, start=1):
        table = io.StringIO()
        write(result, "markdown", table)
        parts.append(f"## {number}. {recipe.meaning}\n\n```sql\n{recipe.sql}\n```\n\n{table.getvalue()}")
    return "\n".join(parts)


@reader_entry_point("cookbook")
def main(reader: Reader, _settings: Settings, _args: Arguments) -> None:
    """Answer the cookbook's questions from a warehouse, as Markdown."""
    sys.stdout.write(page([(recipe, reader.ask(recipe.sql)) for recipe in RECIPES]))


if __name__ == "__main__":
    sys.exit(main())
