"""Describe: the data dictionary in the terminal, or as a page.

`straggler describe` lists tables and views, `straggler describe job_slowdown` describes one of
them, `straggler describe --html FILE` writes the whole as one page. No Spark, no warehouse.
"""

import sys
from pathlib import Path
from textwrap import wrap
from typing import Final

from jobs.report.templates import dictionary_alone
from jobs.runtime.arguments import FORMAT, Arguments, called, command, option
from jobs.runtime.fitting import WITHOUT_SCREEN, screen_width
from jobs.runtime.printing import TABLE, Result, fit, write
from jobs.runtime.terminal import complain, say
from schemas.dictionary import Entry, entries, listed
from schemas.queries import QUERIES
from schemas.sql_files import SqlFile
from schemas.symbols import symbols_of
from schemas.table import Table
from schemas.tables import TABLES
from schemas.views import VIEWS
from schemas.vocabulary import Exit

_INDENT: Final = "    "
_NARROWEST: Final = 40
_COLUMNS: Final = ("column", "type", "unit", "key", "null", "meaning", "formula")


@command(
    "describe",
    option(
        "name TABLE",
        "a table, view or named query; default: list all",
        choices=(*TABLES, *VIEWS, *QUERIES),
        required=False,
    ),
    option("--html FILE", "write the whole dictionary to this file as one page", Path),
    option("--warehouse DIR", "accepted but not needed: meanings are the same in all warehouses"),
    FORMAT,
)
def main(args: Arguments) -> int:
    """Print the meaning of tables, views and columns."""
    name = args.name
    if args.html is not None:
        return _write_page(args.html)
    if name is None:
        _write_list(args.format)
    elif name in TABLES:
        _describe_table(TABLES[name], args.format)
    else:
        _describe_sql(VIEWS[name] if name in VIEWS else QUERIES[name], args.format)
    return Exit.DONE


def _write_page(target: Path) -> int:
    try:
        target.write_bytes(dictionary_alone())
    except OSError as error:
        complain(f"{called()}: error: --html: {target}: {error.strerror}")
        return Exit.WRONG_SETTINGS
    say(f"{target}: {len(TABLES)} tables, {len(VIEWS)} views, {len(QUERIES)} named queries")
    return Exit.DONE


def _write_list(form: str | None) -> None:
    found = Result(("name", "kind", "one_row_per", "meaning"), list(listed()))
    if form is None:  # people read it in a pager too
        fit(
            Result(
                ("name", "kind", "meaning"), [(name, kind, meaning) for name, kind, _, meaning in found.rows]
            ),
            sys.stdout,
        )
    else:
        write(found, form, sys.stdout)


def _describe_table(table: Table, form: str | None) -> None:
    found = [entry for entry in entries() if entry.table == table.name]
    if form is None:
        say(*_wrapped(f"{table.name}: {table.meaning}"), f"One row per {', '.join(table.grain)}.", "")
        for entry in found:
            say(*_lines(entry))
    else:
        result = Result(_COLUMNS, [_row(entry) for entry in found])
        if form != TABLE:
            write(result, form, sys.stdout)
            return
        say(f"{table.name}: {table.meaning}", f"One row per {', '.join(table.grain)}.")
        write(result, form, sys.stdout)
    if table.expectations:
        rules = (line for each in table.expectations for line in _wrapped(each.meaning, _INDENT))
        say("", "Holds for every row:", *rules)


def _lines(entry: Entry) -> list[str]:
    """Lines that describe a column: name and type, then its meaning and formula."""
    column, kind, unit, is_key, is_nullable, meaning, formula = _row(entry)
    notes = (f"[{unit}]" if unit else "", "key" if is_key else "", "may be null" if is_nullable else "")
    head = "  ".join([column, *(note for note in (kind, *notes) if note)])
    return [head, *_wrapped(meaning, _INDENT), *(_wrapped(formula, _INDENT) if formula else [])]


def _wrapped(text: str, indent: str = "") -> list[str]:
    """Wrap a text to the screen's width."""
    width = max(min(screen_width(sys.stdout), WITHOUT_SCREEN), _NARROWEST)
    return wrap(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _row(entry: Entry) -> tuple[str, ...]:
    formula = "; ".join(f"{each.symbol} = {each.formula}" for each in symbols_of(entry.table, entry.column))
    is_key, is_nullable = ("yes" if each else "" for each in (entry.is_key, entry.is_nullable))
    return entry.column, entry.type, entry.unit, is_key, is_nullable, entry.meaning, formula


def _describe_sql(file: SqlFile, form: str | None) -> None:
    if form not in (None, TABLE):
        row = (file.name, file.meaning, ", ".join(file.sources), file.sql)
        write(Result(("name", "meaning", "reads", "sql"), [row]), form, sys.stdout)
        return
    reads = f"Reads {', '.join(file.sources)}."
    said = _wrapped(f"{file.name}: {file.meaning}") if form is None else [f"{file.name}: {file.meaning}"]
    say(*said, reads, "", *file.sql.split("\n"))


if __name__ == "__main__":
    sys.exit(main())
