"""Names from logs can neither control a terminal nor begin a new line of output."""

import ast
import errno
import io
import logging
import signal

import pytest
from py4j import java_gateway
from py4j.protocol import Py4JNetworkError

from jobs.runtime.arguments import Arguments, command, option, run
from jobs.runtime.errors import PlainError
from jobs.runtime.project import PROJECT
from jobs.runtime.terminal import LineFormatter, complain, log_to_terminal, say, warn_on_terminal
from schemas.vocabulary import Exit

NAME = "gpt\n2026-01-05 INFO fine\x1b[31m\x1b]0;title\x07\r\x9b2J\u202e\u2028 \u00fc"
SHOWN = r"gpt\n2026-01-05 INFO fine\x1b[31m\x1b]0;title\x07\r\x9b2J\u202e\u2028 \u00fc".replace(
    r"\u00fc", "\u00fc"
)


class Unread(io.StringIO):
    """A pipe whose reader stops before the first line (`after` is False) or after it."""

    def __init__(self, *, after: bool) -> None:
        super().__init__()
        self.after = after

    def write(self, text: str) -> int:
        if not self.after:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        return super().write(text)

    def flush(self) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("typed", [[], ["--help"]])
def test_an_answer_that_nobody_reads_to_its_end_ends_quietly(
    typed: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, after: bool
) -> None:
    @command("answer")
    def answer(_args: Arguments) -> None:
        """Print one line."""
        say("a line")

    monkeypatch.setattr("sys.stdout", Unread(after=after))
    assert run(answer, typed) == Exit.UNREAD == 128 + signal.SIGPIPE
    assert capsys.readouterr().err == ""


def test_ctrl_c_is_one_line_without_py4js_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])

    @command("answer")
    def answer(_args: Arguments) -> None:
        """Log what py4j logs on Ctrl-C, and raise KeyboardInterrupt."""
        log_to_terminal()
        for error in (KeyboardInterrupt(), Py4JNetworkError("Answer from Java side is empty")):
            raised = (type(error), error, None)
            said = ("Exception while sending command.", None, raised)
            logging.getLogger().handle(
                logging.LogRecord("root", logging.ERROR, java_gateway.__file__, 1, *said)
            )
        raise KeyboardInterrupt

    assert run(answer, []) == Exit.INTERRUPTED == 128 + signal.SIGINT
    assert capsys.readouterr().err == "answer: interrupted\n"


def test_a_place_that_is_read_only_is_one_line_that_says_where_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @command("answer", option("--out FILE", "where to"), explain=str)
    def answer(_args: Arguments) -> None:
        """Raise the error of a path on a read-only file system."""
        raise OSError(errno.EROFS, "Read-only file system", "/data/x")

    assert run(answer, []) == Exit.WRONG_SETTINGS
    assert capsys.readouterr().err == (
        "answer: error: /data/x cannot be used: Read-only file system; name another place by --out\n"
    )


def test_what_this_user_may_not_read_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    @command("answer", explain=str)
    def answer(_args: Arguments) -> None:
        """Raise the error of a path that the user may not read."""
        raise PermissionError(errno.EACCES, "Permission denied", "/data")

    assert run(answer, []) == Exit.WRONG_SETTINGS
    assert capsys.readouterr().err == "answer: error: /data cannot be used by this user: Permission denied\n"


PRINTERS = (
    "jobs/runtime/terminal.py",
    "jobs/runtime/printing.py",
    "jobs/cookbook.py",
    "jobs/reading/straggler_command/__init__.py",
)
"""Modules that may write to standard output or error themselves."""


def test_lines_have_codes_for_what_a_terminal_would_obey(capsys: pytest.CaptureFixture[str]) -> None:
    say(NAME, "second")
    complain(NAME)
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == (f"{SHOWN}\nsecond\n", f"{SHOWN}\n")


def formatted(log: logging.Logger, name: str) -> list[str]:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(LineFormatter("%(levelname)s %(message)s"))
    log.addHandler(handler)
    error = ValueError(name)
    log.error("job %s", name, exc_info=(ValueError, error, error.__traceback__))
    log.removeHandler(handler)
    return out.getvalue().splitlines()


def test_a_record_is_one_line_and_its_traceback_is_indented() -> None:
    first, *rest = formatted(logging.getLogger("test_terminal"), NAME)
    assert first == f"ERROR job {SHOWN}"
    assert rest == [f"  ValueError: {NAME.splitlines()[0]}", *rest[1:]]
    assert all(line.startswith("  ") and line.isprintable() for line in rest)


@pytest.mark.parametrize("set_up", [log_to_terminal, warn_on_terminal])
def test_whatever_logs_to_a_terminal_has_that_format(monkeypatch: pytest.MonkeyPatch, set_up: object) -> None:
    root = logging.Logger("root")  # noqa: LOG001  # takes the place of the root logger
    monkeypatch.setattr(logging, "root", root)
    monkeypatch.setattr(logging, "lastResort", logging.StreamHandler())
    assert callable(set_up)
    set_up()
    handler = root.handlers[0] if root.handlers else logging.lastResort
    assert isinstance(handler and handler.formatter, LineFormatter)


def test_errors_and_near_matches_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    @command("ask", option("name NAME", "a name"), option("--kind KIND", "a kind", choices=["a", "b"]))
    def ask(args: Arguments) -> None:
        """Fail with an error that names the job."""
        raise PlainError(f"no job {args.name}: did you mean {args.name}?")

    assert run(ask, [NAME]) == 1
    assert capsys.readouterr().err == f"ask: error: no job {SHOWN}: did you mean {SHOWN}?\n"
    assert run(ask, ["x", "--kind", NAME]) == 2
    said = capsys.readouterr().err
    assert said.endswith("\n")
    assert said[:-1].isprintable()


def test_nothing_else_writes_to_a_terminal() -> None:
    writes = set()
    for file in (*PROJECT.glob("jobs/*.py"), *PROJECT.glob("jobs/*/**/*.py")):
        name = str(file.relative_to(PROJECT))
        for call in (each for each in ast.walk(ast.parse(file.read_text())) if isinstance(each, ast.Call)):
            called = ast.unparse(call.func)
            is_one = called in {"print", "click.echo"} or called.startswith(("sys.stdout.w", "sys.stderr.w"))
            if is_one and name not in PRINTERS:
                writes.add((name, called))
    assert writes == {(name, "print") for name in ("jobs/runtime/java.py", "jobs/runtime/delta_jars.py")}
