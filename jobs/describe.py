"""Describe: print what tables, views, named queries and columns mean, or write all meanings as a page.

`straggler describe` lists tables, views and named queries. `straggler describe job_slowdown` describes one of
them, `straggler describe flag_reason` a column in every table that has it. `straggler describe --html FILE`
writes everything as one page. The command needs neither Spark nor a warehouse.
"""

import re
import sys
from pathlib import Path
from textwrap import wrap
from typing import Final

import click

from jobs.reading.database import Database
from jobs.reading.duckdb_reader import DuckDbReader
from jobs.report.templates import dictionary_alone
from jobs.runtime.arguments import FORMAT, Arguments, called, command, option
from jobs.runtime.fitting import WITHOUT_SCREEN, screen_width
from jobs.runtime.nearest import close_match, suggestion
from jobs.runtime.printing import TABLE, Result, fit, write
from jobs.runtime.settings import write_named
from jobs.runtime.terminal import say
from schemas.dictionary import Entry, entries, listed, type_name
from schemas.queries import QUERIES
from schemas.sql_files import SqlFile
from schemas.symbols import symbols_of
from schemas.table import Table
from schemas.tables import TABLES
from schemas.views import VIEWS, mentioned

_INDENT: Final = "    "
_NARROWEST: Final = 40
_COLUMNS: Final = ("column", "type", "unit", "key", "null", "meaning", "formula")
_UNITS: Final = {
    "gpu_hours": "GPU h",
    "_fraction": "fraction",
    "_share": "fraction",
    "_s": "s",
    "_days": "days",
}
"""Units of columns that only a view or query has, by the end of the column's name."""
_NO_WAREHOUSE: Final = "/no/warehouse"
"""DuckDB reads all tables of a missing folder as empty, which is enough to find the columns of a view."""


def _name(text: str) -> str:
    """Return the name of a table, view, query or column; raise ValueError for any other name."""
    names = {each.lower(): each for each in (*TABLES, *VIEWS, *QUERIES)}
    columns = {entry.column for entry in entries()}
    if (low := text.lower()) not in names.keys() | columns:
        near = close_match(text, [*names.values(), *columns])
        raise ValueError(f"{text!r} is unknown: {near or suggestion(text, names.values(), called())}")
    return names.get(low, low)


@command(
    "describe",
    option(
        "name TABLE",
        "a table, view, named query, or a column of any table; default: list all",
        _name,
        required=False,
    ),
    option("--sql", "print the SQL of a view or named query instead of its columns"),
    option("--html FILE", "write the whole dictionary to this file as one page", Path),
    option("--warehouse DIR", "accepted but not needed: meanings are the same in all warehouses"),
    FORMAT,
)
def main(args: Arguments) -> None:
    """Print the meaning of tables, views and columns."""
    name = args.name
    if args.html is not None:
        write_named("--html", args.html, dictionary_alone())
        say(f"{args.html}: {len(TABLES)} tables, {len(VIEWS)} views, {len(QUERIES)} named queries")
        return
    file = None if name is None else VIEWS.get(name) or QUERIES.get(name)
    if args.sql and file is None:
        raise click.UsageError("--sql: name a view or a named query")
    if name is None and args.format is None:  # for people, also in a pager
        rows = [(each, kind, meaning) for each, kind, _, meaning in listed()]
        fit(Result(("name", "kind", "meaning"), rows), sys.stdout)
    elif name is None:
        found = Result(("name", "kind", "one_row_per", "meaning"), list(listed()))
        write(found, args.format, sys.stdout)
    elif name in TABLES:
        _describe_table(TABLES[name], args.format)
    elif file is not None:
        _describe_sql(file, args.format, is_sql=args.sql)
    else:
        _describe_column(name, args.format)


def _describe_table(table: Table, form: str | None) -> None:
    found = [entry for entry in entries() if entry.table == table.name]
    said, grain = f"{table.name}: {table.meaning}", f"One row per {', '.join(table.grain)}."
    if form is None:
        say(*_wrapped(said), grain, "")
        for entry in found:
            say(*_lines(entry))
    else:
        if form == TABLE:
            say(said, grain)
        write(Result(_COLUMNS, [_row(entry) for entry in found]), form, sys.stdout)
        if form != TABLE:
            return
    if table.expectations:
        rules = (line for each in table.expectations for line in _wrapped(each.meaning, _INDENT))
        say("", "Holds for every row:", *rules)


def _lines(entry: Entry) -> list[str]:
    """Return the lines that describe a column: name and type, then its meaning and formula."""
    column, kind, unit, is_key, is_nullable, meaning, formula = _row(entry)
    notes = (f"[{unit}]" if unit else "", "key" if is_key else "", "may be null" if is_nullable else "")
    head = "  ".join([column, *(note for note in (kind, *notes) if note)])
    return [head, *_wrapped(meaning, _INDENT), *(_wrapped(formula, _INDENT) if formula else [])]


def _wrapped(text: str, indent: str = "") -> list[str]:
    width = max(min(screen_width(sys.stdout), WITHOUT_SCREEN), _NARROWEST)
    return wrap(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _row(entry: Entry) -> tuple[str, ...]:
    formula = "; ".join(f"{each.symbol} = {each.formula}" for each in symbols_of(entry.table, entry.column))
    is_key, is_nullable = ("yes" if each else "" for each in (entry.is_key, entry.is_nullable))
    return entry.column, entry.type, entry.unit, is_key, is_nullable, entry.meaning, formula


def _describe_column(name: str, form: str | None) -> None:
    found = [entry for entry in entries() if entry.column == name]
    if form is not None:
        rows = [(entry.table, *_row(entry)) for entry in found]
        write(Result(("table", *_COLUMNS), rows), form, sys.stdout)
        return
    meanings: dict[str, list[Entry]] = {}
    for entry in found:
        meanings.setdefault(entry.meaning, []).append(entry)
    for same in meanings.values():
        say(*_wrapped(f"A column of {', '.join(entry.table for entry in same)}:"), *_lines(same[0]), "")


def _describe_sql(file: SqlFile, form: str | None, *, is_sql: bool) -> None:
    is_text = form in (None, TABLE)
    if is_text:
        said = f"{file.name}: {file.meaning}"
        say(*(_wrapped(said) if form is None else [said]), f"Reads {', '.join(file.sources)}.", "")
    if is_sql and is_text:
        say(*file.sql.split("\n"))
    elif is_sql:
        row = (file.name, file.meaning, ", ".join(file.sources), file.sql)
        write(Result(("name", "meaning", "reads", "sql"), [row]), form, sys.stdout)
    elif form is None:
        for entry in _columns(file):
            say(*_lines(entry))
        say("", f"Its SQL: {called()} {file.name} --sql")
    else:
        write(Result(_COLUMNS, [_row(entry) for entry in _columns(file)]), form, sys.stdout)


def _columns(file: SqlFile) -> list[Entry]:
    """Return an entry for each column of a view or query.

    If all tables that the SQL reads give one meaning to a column, the entry has that meaning. It ends with
    the sentences of the file's own comment that name the column, which may say what part of the value a row
    has. Names without an underscore are not looked for there, because they are also common words.
    """
    sentences = re.split(r"(?<=[.])\s+", file.meaning)
    meant: dict[str, dict[str, Entry]] = {}
    for entry in entries():
        if entry.table in mentioned(file.sql):
            meant.setdefault(entry.column, {}).setdefault(entry.meaning, entry)
    found = []
    for column in DuckDbReader(Database(_NO_WAREHOUSE)).rows(file.over()).schema:
        unit = next((unit for end, unit in _UNITS.items() if column.name.endswith(end)), "")
        said = sentences if "_" in column.name else []
        meaning = " ".join(each for each in said if re.search(rf"\b{column.name}\b", each))
        if len(known := [*meant.get(column.name, {}).values()]) == 1:
            own = f". Here: {meaning}" if meaning else ""
            unit, meaning = known[0].unit, f"as in {known[0].table}: {known[0].meaning}{own}"
        kind = type_name(column.type)
        found.append(
            Entry(file.name, column.name, kind, unit, is_key=False, is_nullable=False, meaning=meaning)
        )
    return found


if __name__ == "__main__":
    sys.exit(main())
