"""Query: answer SQL over tables and views, as text for the terminal, tabs, CSV, JSON, Markdown or a table.

A terminal gets the first 1,000 rows. A file or a pipe gets all rows, which are read and written in batches.

The SQL is the argument or standard input: `straggler query < question.sql`. Without an argument, a terminal
gets a prompt, which keeps the tables open, so that later answers come faster.
"""

import readline
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from jobs.entry_points.command import reader_entry_point
from jobs.reading.left_out import not_in_fix_first, reads_fix_first
from jobs.reading.limits import batches_within_limits, with_limited_heap, within_limits
from jobs.reading.question import NAMES
from jobs.runtime.arguments import AS_LISTS, FORMAT, Arguments, not_negative, option
from jobs.runtime.fitting import complain_fitting
from jobs.runtime.plural import plural
from jobs.runtime.printing import write_batches
from jobs.runtime.settings import Settings
from jobs.runtime.terminal import complain
from jobs.warehouse.reader import AnswerError, QuestionError, Reader
from schemas.sql_files import VIEW_NAMES
from schemas.tables import TABLES

DEFAULT_LIMIT: Final = 1000
"""Most rows that a terminal gets without --limit."""

DEFAULT_TIMEOUT_S: Final = 60

_STANDARD_INPUT: Final = "-"

HISTORY: Final = Path("~/.straggler_history")
_HISTORY_LINES: Final = 1000
_WORDS: Final = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "JOIN", "USING", "AND", "DESC"),
    *("count(*)", "round(", "sum(", "avg(", "median(", "SHOW TABLES", "DESCRIBE"),
)
_WELCOME: Final = (
    "Write SQL and end it with a semicolon. Tab completes names; SHOW TABLES lists tables and views, "
    "DESCRIBE NAME lists columns. Ctrl-D ends the prompt."
)


def _sql(text: str) -> str | None:
    """Return the argument, or for `-` the text of standard input; None if standard input is a terminal."""
    if text != _STANDARD_INPUT:
        return text
    return None if sys.stdin.isatty() else sys.stdin.read()


@reader_entry_point(
    "query",
    option(
        "sql SQL",
        'such as "SELECT * FROM straggling_jobs", in Spark\'s SQL; left out: a prompt, or standard input',
        _sql,
        default=_STANDARD_INPUT,
    ),
    FORMAT,
    AS_LISTS,
    option(
        "--limit N",
        f"maximum number of rows; 0: all (default: {DEFAULT_LIMIT:,} at a terminal, else all)",
        not_negative,
    ),
    option(
        "--timeout S",
        "longest that the engine may work [s], with a memory limit of a quarter of the machine; 0: no limits",
        not_negative,
        default=DEFAULT_TIMEOUT_S,
    ),
    settings_of=lambda settings, args: with_limited_heap(settings, args.timeout),
)
def main(reader: Reader, _settings: Settings, args: Arguments) -> None:
    """Answer SQL queries over the warehouse's tables and views. Times are UTC."""
    if args.sql is None:
        _prompt(reader, args)
    else:
        _answer(reader, args.sql, args)


def _answer(reader: Reader, sql: str, args: Arguments) -> None:
    started = time.monotonic()
    limit = args.limit
    if limit is None:
        limit = DEFAULT_LIMIT if sys.stdout.isatty() else 0
    batches = batches_within_limits(reader, reader.batches(sql, limit), args.timeout)
    count, is_cut = write_batches(batches, args.format, sys.stdout, as_lists=args.as_lists)
    if is_cut:
        complain(f"shown: only the first {plural(limit, 'row')} (--limit 0 shows all)")
    elif sys.stdout.isatty():
        complain(f"{plural(count, 'row')} in {time.monotonic() - started:.2f} s")
    if reads_fix_first(sql) and (
        without := within_limits(reader, lambda: not_in_fix_first(reader), args.timeout)
    ):
        complain_fitting(without)


def _prompt(reader: Reader, args: Arguments) -> None:
    """Read questions from the terminal until it closes, and answer each; an error ends only its question."""
    complain(_WELCOME)
    reader.ask("SHOW TABLES")  # opens all tables in advance
    views = {name: [str(row[0]) for row in reader.ask(f"DESCRIBE {name}").rows] for name in VIEW_NAMES}
    columns = {**{name: table.column_names for name, table in TABLES.items()}, **views}
    with _line_editing(lambda text: completions(text, readline.get_line_buffer(), columns)):
        for sql in _questions():
            try:
                _answer(reader, sql, args)
            except (QuestionError, AnswerError) as error:
                complain(f"error: {error}")
            except KeyboardInterrupt:
                complain("")


def completions(text: str, line: str, columns: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names that begin with `text`: columns of tables named in the line, or else all names.

    After FROM, JOIN or DESCRIBE, only names of tables and views are returned.
    """
    before = line.removesuffix(text).split()
    if before and before[-1].upper() in {"FROM", "JOIN", "DESCRIBE"}:
        offered: Sequence[str] = NAMES
    else:
        named = [name for name in NAMES if name in line.replace(",", " ").split()] or NAMES
        offered = (*dict.fromkeys(each for name in named for each in columns[name]), *NAMES, *_WORDS)
    return [name for name in offered if text and name.lower().startswith(text.lower())]


def _questions() -> Iterator[str]:
    """Yield the text before each semicolon; Ctrl-C discards the current input."""
    typed: list[str] = []
    while True:
        try:
            line = input("...> " if typed else "sql> ")
        except KeyboardInterrupt:
            typed.clear()
            complain("")
            continue
        except EOFError:
            complain("")
            return
        typed.append(line)
        if line.rstrip().endswith(";"):
            yield "\n".join(typed)
            typed.clear()
        elif not "".join(typed).strip():
            typed.clear()


@contextmanager
def _line_editing(complete: Callable[[str], list[str]]) -> Iterator[None]:
    history = HISTORY.expanduser()
    with suppress(OSError):  # at the first start there is no file
        readline.read_history_file(history)
    readline.set_history_length(_HISTORY_LINES)
    readline.set_completer_delims(" \t\n,()=<>+-*/")
    readline.set_completer(lambda text, place: dict(enumerate(complete(text))).get(place))
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        readline.set_completer(None)
        with suppress(OSError):  # in a home folder that cannot be written, no history is kept
            readline.write_history_file(history)


if __name__ == "__main__":
    sys.exit(main())
