"""Arguments of all commands: how they are declared, and those that several share."""

import argparse
import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import date
from functools import partial
from typing import Any, Final, NamedTuple, Never

from jobs.printing import FORMATS
from schemas.vocabulary import EXIT_WRONG_SETTINGS


class Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments on one line; exit status 2."""

    def error(self, message: str) -> Never:
        """End the process, telling the defect without the whole usage."""
        self.exit(EXIT_WRONG_SETTINGS, f"{self.prog}: error: {message} (--help tells more)\n")


class Option(NamedTuple):
    """One argument of a command, as argparse takes it; exactly one of a group has to be given."""

    name: str
    how: Mapping[str, Any]
    group: str | None


def option(
    usage: str,
    meaning: str,
    kind: Callable[[str], object] = str,
    *,
    group: str | None = None,
    **how: Any,  # noqa: ANN401  # what else argparse's add_argument takes
) -> Option:
    """Declare an argument.

    usage : its name, and what stands for its value, as in `--days N`; without that it is a switch
    """
    name, _, value = usage.partition(" ")
    if value:
        how = {"metavar": value, "type": kind, **how}
    elif "choices" not in how:
        how = {"action": "store_true"}
    return Option(name, {"help": meaning, **how}, group)


def make_parser(name: str, description: str, *options: Option, epilog: str | None = None) -> Parser:
    """Return a parser with these arguments."""
    layout = argparse.RawDescriptionHelpFormatter if epilog and "\n" in epilog else argparse.HelpFormatter
    parser = Parser(
        prog=name, description=description, epilog=epilog, allow_abbrev=False, formatter_class=layout
    )
    groups: dict[str, Any] = defaultdict(lambda: parser.add_mutually_exclusive_group(required=True))
    for argument, how, group in options:
        (groups[group] if group else parser).add_argument(argument, **how)
    return parser


def log_date(text: str) -> date:
    """Read a date as the landing's folders spell it, and in no other way.

    Raises argparse.ArgumentTypeError, which a parser tells as a wrong argument.
    """
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None or day.isoformat() != text:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date such as 2026-01-05")
    return day


def _at_least(least: int, text: str) -> int:
    if not text.lstrip("-").isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    if int(text) < least:
        raise argparse.ArgumentTypeError(f"{text} is less than {least}")
    return int(text)


positive: Final = partial(_at_least, 1)
not_negative: Final = partial(_at_least, 0)
"""Read a whole number; argparse tells what is wrong with another."""


def not_negative_number(text: str) -> float:
    """Read a finite number of at least 0, such as 0.9."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 0")
    return value


WHERE: Final = (
    option("--landing DIR", "where producers leave their logs"),
    option("--warehouse DIR", "where the tables lie"),
    option("--settings FILE", "settings on top of conf/"),
)
"""Arguments of every entry point that has a session."""

NO_WAIT: Final = option("--no-wait", "fail at once where another run writes the warehouse")
LOG_DATE: Final = option("--log-date DATE", "the day, as 2026-01-05", log_date, required=True)
OF_UNIT: Final = (
    option("--job-id JOB", "the job", required=True),
    option("--run-id RUN", "its run; needed where the day has several"),
    option("--log-date DATE", "the day, as 2026-01-05; the job's latest if left out", log_date),
)
"""Which unit, of an entry point that works on one."""
PERIOD: Final = tuple(
    option(f"--{end} DATE", f"{name} day, as 2026-01-05; open if left out", log_date, dest=name)
    for end, name in (("from", "first"), ("to", "last"))
)
FORMAT: Final = option(
    "--format",
    "table and markdown round numbers; csv and json are exact",
    choices=FORMATS,
    default=FORMATS[0],
)
"""Rows for people or for programs."""
