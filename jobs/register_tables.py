"""Register: print SQL that creates the tables and views of a publication in another engine's catalog.

For example `straggler register duckdb --warehouse demo/warehouse > views.sql`.
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
    """Print SQL statements that create the tables and views of the latest publication in a catalog.

    The command itself writes nothing and connects to no catalog: run the statements in the catalog's engine.
    """
    # All are computed before the first is printed: after an error, no incomplete file is run.
    for statement in [*statements(opened(settings), args.catalog, args.schema)]:
        say(*(statement if statement.startswith("--") else f"{statement};").split("\n"))


if __name__ == "__main__":
    sys.exit(main())
