"""Safe output to terminals, because names come from logs and may contain control characters.

Unescaped, a name could begin a line that looks like the program's own, colour it, or set a terminal's title.
"""

import logging
import sys
from pathlib import Path
from typing import Final

LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def printable(text: str) -> str:
    """Escape characters of a text that would control a terminal or be invisible."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def say(*lines: str) -> None:
    """Print lines on standard output, escaped."""
    sys.stdout.writelines(f"{printable(line)}\n" for line in lines)


def complain(line: str) -> None:
    """Print a line on standard error, escaped."""
    sys.stderr.write(f"{printable(line)}\n")


class LineFormatter(logging.Formatter):
    """Formatter of a log record as one line, followed by indented traceback lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's lines."""
        record.exc_text = None  # another formatter may have left its own there
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # as logging spells it
        """Return the first line."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # noqa: N802  # as logging spells it
        """Return the lines of a traceback."""
        return _indented(super().formatException(ei))  # type: ignore[arg-type]  # as logging passes it on

    def formatStack(self, stack_info: str) -> str:  # noqa: N802  # as logging spells it
        """Return the lines of a stack."""
        return _indented(super().formatStack(stack_info))


def log_to_terminal(level: int = logging.INFO, form: str = LOG_FORMAT) -> None:
    """Log records of this level and above to standard error."""
    handler = logging.StreamHandler()
    handler.setLevel(level)
    handler.setFormatter(LineFormatter(form))
    handler.addFilter(_is_not_raised_too)
    logging.basicConfig(level=level, handlers=[handler])


def _is_not_raised_too(record: logging.LogRecord) -> bool:
    """Return False for errors that py4j logs, because py4j raises them, too.

    py4j does not raise errors of callbacks, but this project uses no callbacks.
    """
    return not record.exc_info or Path(record.pathname).parent.name != "py4j"


def warn_on_terminal() -> None:
    """Escape what logging prints on standard error for commands that do not set up a log."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(LineFormatter())


def _indented(text: str) -> str:
    return "\n".join(f"  {printable(line)}" for line in text.split("\n"))
