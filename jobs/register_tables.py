"""Register: print SQL that makes the tables and views of a publication known to another engine's catalog.

`straggler register duckdb --warehouse demo/warehouse > views.sql`
"""

import re
import sys

from jobs.entry_points.command import opened, settings_entry_point
from jobs.reading.catalog import CATALOGS, statements
from jobs.runtime.arguments import Arguments, option
from jobs.runtime.settings import Settings
from jobs.runtime.terminal import say

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", re.ASCII)


def _schema(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(f"{text!r} is not a schema such as straggler, or main.straggler with its catalog")
    return text


@settings_entry_point(
    "register_tables",
    option("catalog CATALOG", f"{', '.join(CATALOGS)}", choices=CATALOGS),
    option(
        "--schema NAME",
        "target schema, such as main.straggler with its catalog",
        _schema,
        default="straggler",
    ),
)
def main(settings: Settings, args: Arguments) -> None:
    """Print the SQL that makes tables and views of the latest publication known to a catalog.

    Nothing is written, and no catalog is asked: run the statements where it is.
    """
    # All of them first: a file of half of them would be run.
    for statement in [*statements(opened(settings), args.catalog, args.schema)]:
        say(*(statement if statement.startswith("--") else f"{statement};").split("\n"))


if __name__ == "__main__":
    sys.exit(main())
