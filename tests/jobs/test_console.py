"""The console command: all commands by what they are for, each imported when it is called."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from jobs.console import COMMANDS, GROUPS, main
from jobs.runtime.arguments import Command
from jobs.runtime.project import PROJECT

NOT_COMMANDS = {"console", "delta_jars", "java", "package"}
"""Modules of jobs/ that a make target starts, or this command itself."""


def test_every_module_that_can_be_started_is_a_command() -> None:
    started = {file.stem for file in (PROJECT / "jobs").glob("*.py") if "__main__" in file.read_text()}
    assert {entry.module for entry in COMMANDS.values()} == started - NOT_COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_it_takes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(import_module(f"jobs.{COMMANDS[name].module}").main, Command)
    assert main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: straggler {name} [OPTIONS]")


def test_help_lists_all_commands_by_purpose(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    message = capsys.readouterr().out
    assert all(f"\n{purpose}:\n" in message for purpose in GROUPS)
    assert all(f"\n  {name} " in message for name in COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nigth"], "straggler: error: No such command 'nigth'. Did you mean 'night'?"),
        (["named_query"], "straggler: error: No such command 'named_query': it is called 'headline'."),
        (["query", "--formt", "csv"], "straggler query: error: No such option '--formt'. Did you mean"),
        (["headline", "stragling"], "straggler headline: error: Invalid value for 'NAME'"),
        (["trend"], "straggler: error: 'trend' is a headline: straggler headline trend"),
        (["night"], "straggler night: error: Missing option '--log-date'."),
    ],
)
def test_an_error_is_one_line_with_the_closest_name(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(message)


def test_without_a_command_it_says_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "\n  analyse " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "offered"), [("straggler wh", "what-if"), ("straggler analyse --p", "--page")]
)
def test_a_shell_completes_commands_and_options(words: str, offered: str, tmp_path: Path) -> None:
    message = _outcome(
        "-c",
        "import sys; from jobs.console import main; sys.exit(main())",
        _STRAGGLER_COMPLETE="bash_complete",
        COMP_WORDS=words,
        COMP_CWORD=str(len(words.split()) - 1),
        HOME=str(tmp_path),
    )
    assert message.split() == [f"plain,{offered}"]


def test_help_imports_neither_spark_nor_a_command() -> None:
    program = (
        "import sys; from jobs.console import main; main(['--help']); "
        "print(*sorted({'pyspark', 'duckdb', 'jobs.query'} & {*sys.modules}), 'imported')"
    )
    assert _outcome("-c", program).splitlines()[-1] == "imported"


def _outcome(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(PROJECT), **environment},
    )
    return done.stdout


def test_alone_it_prints_its_help_as_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("Usage: straggler [OPTIONS] COMMAND [ARGS]...\n\n")
