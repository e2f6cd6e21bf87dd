"""Command-line arguments of all commands, built on click."""

import errno
import logging
import math
import os
import shlex
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import date
from functools import partial
from inspect import cleandoc
from io import StringIO, TextIOWrapper
from itertools import zip_longest
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from jobs.runtime.errors import PlainError
from jobs.runtime.extras import missing
from jobs.runtime.nearest import suggestion
from jobs.runtime.places import copied_first
from jobs.runtime.printing import FORMATS
from jobs.runtime.terminal import complain, warn_on_terminal
from schemas.vocabulary import Exit

WAREHOUSE_VARIABLE: Final = "STRAGGLER_WAREHOUSE"
"""Environment variable that names the warehouse if --warehouse is omitted."""

logger = logging.getLogger(__name__)

_PATHS: Final = {"DIR": "dir", "FILE": "file", "FOLDER": "dir", "PATH": "file"}
"""Shell completion type, by the placeholder of the value."""
_JOB_ID: Final = "--job-id"
"""Option by which other commands take a job."""


class Arguments(SimpleNamespace):
    """Parsed arguments: an attribute for each, and the arguments as typed in `arguments`."""


class _Value(click.ParamType[object]):
    """Argument type parsed by a function; the text of its ValueError becomes the error message."""

    def __init__(self, read: Callable[[str], object], shown: str) -> None:
        self._read, self._shown, self.name = read, shown, shown.lower()

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        if not isinstance(value, str):  # a default
            return value
        if not value and self._shown in _PATHS and (param is None or param.default != value):
            self.fail("it is empty, and names no place", param, ctx)  # Path("") is the current folder
        if self._read is Path and "://" in value:  # else a folder named like the URL is made
            takes_run = self._shown in ("FOLDER", "PATH")
            said = copied_first(value) if takes_run else f"{value} is a URL: name a path on this machine"
            self.fail(said, param, ctx)
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem]:
        kind = _PATHS.get(self._shown)
        return [CompletionItem(text, type=kind)] if kind else super().shell_complete(ctx, param, text)


class _Name(click.Choice[str]):
    """Argument type for a choice of names, case-insensitive; errors suggest the closest name."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__(list(names), case_sensitive=False)

    def get_invalid_choice_message(self, value: object, ctx: click.Context | None) -> str:  # noqa: ARG002  # click's
        return f"{value!r} is unknown: {suggestion(str(value), self.choices)}"


def option(
    usage: str,
    meaning: str,
    kind: Callable[[str], object] = str,
    *,
    also: str | None = None,
    dest: str | None = None,
    choices: Collection[str] = (),
    **how: Any,  # noqa: ANN401  # what else click's Option or Argument takes
) -> click.Parameter:
    """Declare a command-line argument.

    usage : name and placeholder of the value, as in `--days N`; without a placeholder, a switch
    kind : reads the value; raises ValueError with the reason
    also : name of the argument in an earlier version, which is still accepted
    dest : name of the attribute, if not that of the argument
    """
    name, _, value = usage.partition(" ")
    names = [each for each in (name, also, dest) if each]
    if choices:
        how |= {"type": _Name(choices), "metavar": value or None}
    elif value:
        how |= {"type": _Value(kind, value), "metavar": value}
    else:
        how["is_flag"] = True
    if not name.startswith("-"):
        return click.Argument(names, help=meaning, **how)
    how.setdefault("show_default", bool(how.get("default")))
    return click.Option(names, help=meaning, **how)


INTERRUPTED: Final = "interrupted"


def end_interrupted(message: str = INTERRUPTED) -> int:
    """Print that the running command was interrupted, which click itself does not; return the exit status."""
    complain(f"{called()}: {message}")
    return Exit.INTERRUPTED


class Command(click.Command):
    """click command that is called with a list of arguments and returns the exit status.

    body : does the work and returns the exit status; raises click.UsageError for wrong arguments
    epilog : lines printed unchanged below the description of the arguments
    described_by : object whose docstring is the command's description; None: body
    one_of : names of arguments of which exactly one has to be given
    explain : returns the message for an error that is no PlainError; None: such errors are raised, except
        an OSError, whose own message names its file
    """

    def __init__(
        self,
        name: str,
        body: Callable[[Arguments], int | None],
        options: Sequence[click.Parameter],
        *,
        epilog: str | None = None,
        described_by: object = None,
        one_of: Sequence[str] = (),
        explain: Callable[[Exception], str] | None = None,
    ) -> None:
        super().__init__(
            name,
            params=list(options),
            callback=lambda **given: body(Arguments(**given, arguments=_context().meta[_TYPED])),
            help=cleandoc((described_by or body).__doc__ or ""),
            epilog=f"\b\n{epilog}" if epilog else None,
        )
        self._one_of, self._explain = one_of, explain

    def __call__(self, argv: Sequence[str] | None = None) -> int:
        """Run the command with these arguments (None: the process's) and return the exit status."""
        return run(self, argv)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; raise UsageError unless exactly one of `one_of` is given."""
        ctx.meta[_TYPED] = list(args)
        # SQL that starts with a `--` comment goes to the end, after `--`, so that click leaves it alone.
        # Unlike an option's name, it has several lines. The value of an option may begin with `--` as it is.
        takes_sql = "--" not in args and any(isinstance(each, click.Argument) for each in self.params)
        texts = [each for each in args if takes_sql and each.startswith("--") and "\n" in each]
        if texts:
            args = [*(each for each in args if each not in texts), "--", *texts]
        try:
            rest = super().parse_args(ctx, list(args))
        except click.UsageError as error:
            if said := self._other_form(ctx, args, error):
                raise click.UsageError(said, ctx) from None
            raise
        if self._one_of and sum(bool(ctx.params[name]) for name in self._one_of) != 1:
            names = ", ".join(f"--{name.replace('_', '-')}" for name in self._one_of)
            raise click.UsageError(f"give one of {names}", ctx)
        return rest

    def _other_form(self, ctx: click.Context, args: list[str], error: click.UsageError) -> str:
        """Suggest this command's way to name a job, if other commands' way was used; empty otherwise."""
        if isinstance(error, click.NoSuchOption):
            takes_job = any(each.metavar in ("RUN", "A", "B") for each in self.params)
            job = _value_of(_JOB_ID, args) if takes_job and error.option_name == _JOB_ID else ""
            return f"{error.message.rstrip('.')}: did you mean {ctx.command_path} {job}?" if job else ""
        if not any(_JOB_ID in each.opts for each in self.params):
            return ""
        with suppress(click.UsageError):
            given, rest, _ = self.make_parser(ctx).parse_args(list(args))
            takes_none = not any(isinstance(each, click.Argument) for each in self.params)
            if rest and takes_none and not given.get("job_id"):
                job = f"{_JOB_ID} {shlex.quote(rest[0])}"
                return f"Got unexpected extra argument ({rest[0]}): did you mean {job}?"
        return ""

    def invoke(self, ctx: click.Context) -> int:
        """Do the work and return the exit status; an error prints one line."""
        try:
            return super().invoke(ctx) or Exit.DONE
        except PlainError as error:
            message, status = str(error), error.exit_status
        except (click.ClickException, BrokenPipeError):  # a broken pipe: the reader has stopped
            raise
        except KeyboardInterrupt:
            return end_interrupted()
        except Exception as error:
            if refused := self._refused(error):
                complain(f"{called()}: error: {refused}")
                return Exit.WRONG_SETTINGS
            if missing(error) or not (self._explain or isinstance(error, OSError)):
                raise
            status = Exit.FAILED
            if self._explain is None:
                message = str(error)
            else:
                logger.exception("%s failed", called())
                message = self._explain(error)
        complain(f"{called()}: error: {message}")
        return status

    def _refused(self, error: Exception) -> str:
        """Describe a path that this user, or any user, may not use; empty for errors of other kinds."""
        is_read_only = isinstance(error, OSError) and error.errno == errno.EROFS
        if not isinstance(error, OSError) or not (is_read_only or isinstance(error, PermissionError)):
            return ""
        place = os.fsdecode(error.filename) if error.filename else "a file"
        elsewhere = "; name another place by --out" if any(each.name == "out" for each in self.params) else ""
        return f"{place} cannot be used{'' if is_read_only else ' by this user'}: {error.strerror}{elsewhere}"


def _value_of(name: str, args: Sequence[str]) -> str:
    """Return the value that typed arguments give to an option, quoted for a shell; empty without a value."""
    for each, behind in zip_longest(args, args[1:], fillvalue=""):
        typed, is_one, value = each.partition("=")
        if typed == name and (found := value if is_one else behind):
            return shlex.quote(found)
    return ""


_TYPED: Final = f"{__name__}.typed"
_context: Final = click.get_current_context


def command(
    name: str,
    *options: click.Parameter,
    **how: Any,  # noqa: ANN401  # what else Command takes
) -> Callable[[Callable[[Arguments], int | None]], Command]:
    """Make a command from the function that does its work."""
    return lambda body: Command(name, body, options, **how)


def run(of: click.Command, argv: Sequence[str] | None = None) -> int:
    """Run a command or a group, and return the exit status."""
    warn_on_terminal()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for characters that it cannot encode
    out = sys.stdout
    try:
        status = _status(of, argv)
        sys.stdout.flush()
    except SystemExit:
        if sys.stdout is out:
            raise
        status = Exit.UNREAD  # click has replaced stdout, because its reader has stopped
    except BrokenPipeError:
        sys.stdout = StringIO()  # takes what is still buffered
        status = Exit.UNREAD
    return status


def _status(of: click.Command, argv: Sequence[str] | None) -> int:
    """Run a command or a group; an error that a user can act on prints one line."""
    try:
        return of.main(argv, prog_name=of.name, standalone_mode=False) or Exit.DONE
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return Exit.WRONG_SETTINGS
    except click.ClickException as error:
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else of.name
        message = " ".join(error.format_message().split())
        complain(f"{where}: error: {message} (see --help)")
        return Exit.WRONG_SETTINGS
    except OSError as error:
        complain(f"{of.name}: error: {error}")
        return Exit.FAILED
    except ModuleNotFoundError as error:
        said = missing(error)
        if said is None:
            raise
        complain(f"{of.name}: error: {said}")
        return Exit.WRONG_SETTINGS
    except click.Abort:
        return Exit.FAILED


def called() -> str:
    """Return the running command as typed, such as `straggler night`."""
    return _context().command_path


def log_date(text: str) -> date:
    """Parse a date as in the landing's folders, 2026-01-05; raise ValueError for other texts."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None or day.isoformat() != text:
        raise ValueError(f"{text!r} is not a date such as 2026-01-05")
    return day


_DIGITS: Final = 12
"""Most digits of a whole number: larger ones overflow."""


def _at_least(least: int, text: str) -> int:
    if not text.removeprefix("-").isdecimal():
        raise ValueError(f"{text!r} is not a whole number")
    if len(text) > _DIGITS:
        raise ValueError(f"{text[:_DIGITS]}... is too large")
    if int(text) < least:
        raise ValueError(f"{text} is less than {least}")
    return int(text)


positive: Final = partial(_at_least, 1)
not_negative: Final = partial(_at_least, 0)
"""Parse a whole number of at least 0 (`positive`: 1); raise ValueError for other texts."""


def _number(text: str) -> float:
    """Return a text as a number; NaN for a text that is not a number."""
    with suppress(ValueError):
        return float(text)
    return math.nan


def not_negative_number(text: str) -> float:
    """Parse a finite number of at least 0, such as 0.9; raise ValueError for other texts."""
    if not 0 <= _number(text) < math.inf:
        raise ValueError(f"{text!r} is not a number of at least 0")
    return float(text)


def probability(text: str) -> float:
    """Parse a number between 0 and 1, such as 0.95; raise ValueError for other texts."""
    if not 0 < _number(text) < 1:
        raise ValueError(f"{text!r} is not a probability between 0 and 1, such as 0.95")
    return float(text)


def where(landing: str | None = None, warehouse: str | None = None) -> tuple[click.Parameter, ...]:
    """Return the arguments of every command with settings: landing, warehouse, settings.

    landing, warehouse : default values; None: the values in the settings, or for the warehouse in the
        environment
    """
    variable = None if warehouse else WAREHOUSE_VARIABLE
    return (
        option("--landing DIR", "landing: the folder or URL with the producers' logs", default=landing),
        option(
            "--warehouse DIR",
            "warehouse: the folder or URL with the tables",
            default=warehouse,
            envvar=variable,
            show_envvar=variable is not None,
        ),
        option("--settings FILE", "settings file that overrides conf/"),
    )


WHERE: Final = where()
NO_WAIT: Final = option("--no-wait", "fail at once if another run is writing the warehouse")
LOG_DATE: Final = option("--log-date DATE", "the log date, such as 2026-01-05", log_date, required=True)
OF_UNIT: Final = (
    option("--job-id JOB", "the job, or JOB/RUN, on its latest day or @DAY", required=True),
    option("--run-id RUN", "the run; required if the job has several on that day"),
    option("--log-date DATE", "the log date, such as 2026-01-05; default: the job's latest", log_date),
)
"""Arguments that name the unit, for commands that work on one unit."""
PERIOD: Final = tuple(
    option(f"--{end} DATE", f"{name} day, such as 2026-01-05; default: open", log_date, dest=name)
    for end, name in (("from", "first"), ("to", "last"))
)
FORMAT: Final = option(
    "--format FORMAT",
    f"{', '.join(FORMATS)}: table and markdown round numbers, the others are exact; default: as wide as the "
    "terminal, tab in a file or a pipe",
    choices=FORMATS,
)
"""Format of an answer that has rows."""
AS_JSON: Final = option(
    "--format FORMAT", "json: an array of one object, exact; default: text for people", choices=("json",)
)
"""Format of an answer that is text, unless it is asked for as JSON."""
AS_LISTS: Final = option("-x", "print each row as a list of columns, nothing truncated", dest="as_lists")
