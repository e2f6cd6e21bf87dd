"""Export all tables and views as one DuckDB file, for DuckDB's clients, BI tools and notebooks.

`straggler export fleet.duckdb --warehouse demo/warehouse` copies the rows, so that the file can be used
without the warehouse.
"""

import sys
from pathlib import Path
from typing import Final
from uuid import uuid4

import duckdb

from jobs.entry_points.command import opened, settings_entry_point
from jobs.reading.database import Database
from jobs.reading.question import first_line
from jobs.runtime.arguments import Arguments, option
from jobs.runtime.settings import Settings, SettingsError
from jobs.runtime.terminal import say
from jobs.warehouse.reader import AnswerError
from schemas.sql_files import VIEW_NAMES
from schemas.tables import TABLES
from schemas.views import VIEWS, mentioned
from schemas.vocabulary import RANK_STEPS

OF_OPS: Final = (RANK_STEPS, *(name for name in VIEW_NAMES if RANK_STEPS in mentioned(name)))
"""The table of recorded ops, the largest by far, and views that read it: exported only with --with-ops."""


def export(database: Database, target: Path, names: tuple[str, ...]) -> None:
    """Write tables and views as of one publication to a DuckDB file, which is replaced atomically.

    Raises SettingsError if `target` exists and is not a regular file, AnswerError if it cannot be written.
    """
    if target.is_symlink() or (target.exists() and not target.is_file()):
        raise SettingsError(
            f"{target}: only a new or a regular file can be written, not a link, folder or device"
        )
    beside = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        database.write(beside, names)
        beside.replace(target)
    except (OSError, duckdb.IOException) as error:
        raise AnswerError(f"{target} could not be written: {first_line(error)}") from error
    finally:
        for left in (beside, beside.with_name(f"{beside.name}.wal")):
            left.unlink(missing_ok=True)


@settings_entry_point(
    "export_database",
    option("file FILE", "file to write, such as fleet.duckdb; replaced if it exists", Path),
    option(
        "--with-ops", "include all recorded ops: the table rank_steps, by far the largest, and the view ops"
    ),
)
def main(settings: Settings, args: Arguments) -> None:
    """Write all tables and views as of one publication into one DuckDB file."""
    target: Path = args.file
    if not target.parent.is_dir():
        raise SettingsError(f"{target}: no such folder: {target.parent}")
    names = tuple(name for name in (*TABLES, *VIEWS) if args.with_ops or name not in OF_OPS)
    export(opened(settings), target, names)
    size = f"{target.stat().st_size / 1e6:,.1f} MB"
    tables, views = (len(all_.keys() & {*names}) for all_ in (TABLES, VIEWS))
    say(f"{target}: {tables} tables, {views} views, {size}")


if __name__ == "__main__":
    sys.exit(main())
