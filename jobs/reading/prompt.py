"""Interactive prompt for questions, with history and completion, which keeps tables open."""

import readline
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from jobs.reading.question import NAMES
from jobs.runtime.terminal import complain
from jobs.warehouse.reader import AnswerError, QuestionError, Reader
from schemas.sql_files import VIEW_NAMES
from schemas.tables import TABLES

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


def ask_on(reader: Reader, answer: Callable[[str], None]) -> None:
    """Read questions from the terminal until it closes, and answer each; an error ends only its question."""
    complain(_WELCOME)
    columns = columns_of(reader)
    with _line_editing(lambda text: completions(text, readline.get_line_buffer(), columns)):
        for sql in _questions():
            try:
                answer(sql)
            except (QuestionError, AnswerError) as error:
                complain(f"error: {error}")
            except KeyboardInterrupt:
                complain("")


def columns_of(reader: Reader) -> dict[str, Sequence[str]]:
    """Return the columns of every table and view, and open all of them in advance."""
    reader.ask("SHOW TABLES")
    views = {name: [str(row[0]) for row in reader.ask(f"DESCRIBE {name}").rows] for name in VIEW_NAMES}
    return {**{name: table.column_names for name, table in TABLES.items()}, **views}


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
