"""`straggler` lists all commands by purpose, and each command reports wrong arguments in one line."""

import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from jobs.console import COMMANDS, GROUPS, main
from jobs.runtime.arguments import Command
from jobs.runtime.project import PROJECT
from schemas.vocabulary import JOB_SLOWDOWN, WORKER_SLOWDOWN
from tests.jobs.conftest import Ask
from tests.jobs.reading.warehouses import replicated, warehouse_of
from tests.support.examples import table_rows

NOT_COMMANDS = {"console", "delta_jars", "java", "package"}
"""Modules that can be started but are no commands of `straggler`."""


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


WRONG = """\
nigth => No such command 'nigth'. Did you mean 'night'?
named_query => No such command 'named_query': it is called 'headline'.
trend => 'trend' is a headline: straggler headline trend
night => Missing option '--log-date'.
night --log-date 2026-02-30 => Invalid value for '--log-date': '2026-02-30' is not a date such as DAY
night --log-date 20260105 => Invalid value for '--log-date': '20260105' is not a date such as DAY
night --log-date 2026-W01-1 => Invalid value for '--log-date': '2026-W01-1' is not a date
night --log-date DAY --land x => No such option '--land'. Did you mean '--landing'?
night --log-date DAY --settings absent.toml => absent.toml: No such file or directory
RELEASE a => Invalid value for '--accept': 'a' is not table.expectation, as named in the refusal
release --log-date DAY --by ' ' --because b --accept a.b => Invalid value for '--by': must not be empty
release --log-date DAY --by a --because ' ' --accept a.b => Invalid value for '--because': must not be
RELEASE stage_slowdown.key_is_unique => Invalid value for '--accept': stage_slowdown.key_is_unique cannot
backfill --from 2026-01-06 --to DAY => --to DAY lies before --from 2026-01-06
describe job_slowdwn => Invalid value for 'TABLE': 'job_slowdwn' is unknown: did you mean job_slowdown?
describe --html /nowhere/at/all.html => --html: /nowhere/at/all.html: No such file or directory
describe --format xml => Invalid value for '--format': 'xml' is unknown: choose from table, csv, json, markdow
headline => Missing argument 'NAME'
headline stragling => Invalid value for 'NAME': 'stragling' is unknown: did you mean straggling?
headline nope => Invalid value for 'NAME': 'nope' is unknown: choose from
headline trend --from May => Invalid value for '--from': 'May' is not a date
headline trend --from 2026-02-01 --to 2026-01-01 => --to 2026-01-01 lies before --from 2026-02-01
headline trend --warehouse EMPTY => no tables in EMPTY: run a night first, or name another by --warehouse DIR
cookbook --warehouse EMPTY => no tables in EMPTY
export EMPTY/x.duckdb --warehouse EMPTY => no tables in EMPTY
export EMPTY/none/x.duckdb => EMPTY/none/x.duckdb: no such folder
what-if --job-id llm-a --fix TRUE --warehouse EMPTY => no tables in EMPTY
query 'SELECT 1' --warehouse EMPTY => no tables in EMPTY
query 'SELECT 1' --warehouse AFILE => AFILE is a file, not the folder of a warehouse; an exported file is for
query 'SELECT 1' --warehouse WAREHOUSEx => no tables in WAREHOUSEx: did you mean wh in PARENT?
query 'SELECT 1' --warehouse WAREHOUSEx --engine spark => no tables in WAREHOUSEx: did you mean wh in PARENT?
query 'SELECT 1' --warehouse WAREHOUSE/jobs => no tables in WAREHOUSE/jobs: it is a table of the warehouse /
query 'SELECT 1' --warehouse PARENT => no tables in PARENT: the folder wh in it is a warehouse
query 'SELECT 1' --warehouse PARENT --engine spark => no tables in PARENT: the folder wh in it is a warehouse
query 'SELECT 1' --warehouse file://EMPTY => no tables in file://EMPTY
query 'SELECT 1' --warehouse viewfs://a/b => the warehouse viewfs://a/b: a warehouse is a folder
query --formt csv => No such option '--formt'. Did you mean
query --limit -1 => Invalid value for '--limit': -1 is less than 0
query 'SELEC 1' => Invalid expression / Unexpected token: line 1, column 7, at '1'
query 'SELECT slowdwn FROM job_slowdown' => no column slowdwn: did you mean slowdown?
query 'SELECT j.worlds_size FROM job_slowdown AS j' => no column worlds_size: did you mean world_size?
query 'SELECT frist_day FROM job_history' => no column frist_day: did you mean first_day?
query 'SELECT a FROM (SELECT 1 AS aa)' => no column a: did you mean aa?
query 'SELECT zzz FROM (SELECT 1 AS b, 2 AS c)' => no column zzz: choose from b
query 'SELECT sum(slowdown), job_id FROM job_slowdown' => job_id must be in GROUP BY, or within an aggregate
query 'SELECT team FROM job_slowdown' => no column team in job_slowdown: jobs have it
query 'SELECT * FROM job_slowdwn' => no table or view job_slowdwn: did you mean job_slowdown?
query 'SELECT * FROM zzz' => no table or view zzz: choose from
query '' => only one SELECT can be asked
fix-effect --date DAY => give one of --job-id, --team, --host, --fleet
fix-effect --date DAY --team a --job-id b => give one of --job-id, --team, --host, --fleet
fix-effect --date DAY --fleet --label b => Invalid value for '--label': 'b' is not a label such as
fleet --landing '' --jobs 2 => Invalid value for '--landing': it is empty, and names no place
backfill --from DAY --to DAY --warehouse-new '' => Invalid value for '--warehouse-new': it is
headline trend --warehouse '' => Invalid value for '--warehouse' (env var: '
analyse '' => Invalid value for 'FOLDER': it is empty, and names no place
fleet --landing s3://b/l --jobs 2 => Invalid value for '--landing': s3://b/l is a URL: name a path on
fix-effect --date DAY --fleet --days 0 => Invalid value for '--days': 0 is less than 1
fix-effect --date DAY --fleet --confidence 95 => Invalid value for '--confidence': '95' is not a prob
fix-effect --date DAY --team languge => no team languge: did you mean language?
fix-effect --date DAY --job-id llm-c => no job llm-c: did you mean llm-
fix-effect --date DAY --host node-012 => no host node-012: did you mean node-0123?
what-if => Missing option '--job-id'.
what-if a/r@DAY --fix TRUE => Got unexpected extra argument (a/r@DAY): did you mean --job-id a/r@DAY?
job-page llm-a => Got unexpected extra argument (llm-a): did you mean --job-id llm-a?
timeline llm-a --step 7 => Got unexpected extra argument (llm-a): did you mean --job-id llm-a?
changes 'llm a' => Got unexpected extra argument (llm a): did you mean --job-id 'llm a'?
fix-effect llm-a => Got unexpected extra argument (llm-a): did you mean --job-id llm-a?
changes --job-id llm-a llm-b => Got unexpected extra argument (llm-b) (see --help)
drain llm-a => Got unexpected extra argument (llm-a) (see --help)
mitigate --job-id llm-a --layers 8 => No such option '--job-id': did you mean straggler mitigate llm-a?
diff --job-id=llm-a => No such option '--job-id': did you mean straggler diff llm-a?
mitigate --job-id => No such option '--job-id'. (see --help)
query --job-id llm-a => No such option '--job-id'. (see --help)
what-if --job-id a --fix 'stage = 3' => Invalid value for '--fix': no column stage: did you mean pp_rank?; use
what-if --job-id a --fix slowworker => Invalid value for '--fix': slowworker is neither a cause nor a
what-if --job-id a --fix TRUE --set -1 => Invalid value for '--set': '-1' is not a number of at least 0
what-if --job-id a --fix TRUE --set nan => Invalid value for '--set': 'nan' is not a number of at least 0
what-if --job-id a --fix TRUE --set fast => Invalid value for '--set': 'fast' is not a number of at least 0
what-if --job-id llm-c --fix TRUE => no job llm-c: did you mean llm-
what-if --job-id zzz --fix TRUE => no job zzz: choose from bad, llm-a, llm-b
what-if --job-id llm-b --fix TRUE => job llm-b has several runs, name one as llm-b/RUN: run r1 on DAY, ru
what-if --job-id llm-a --log-date 2026-01-09 --fix TRUE => job llm-a has nothing on 2026-01-09: it has run
what-if --job-id llm-a/r3@2026-01-09 --fix TRUE => job llm-a has no run r3 on 2026-01-09: it has run r3
what-if --job-id llm-a@DAY..2026-01-06 --fix TRUE => llm-a@DAY..2026-01-06 names several days, but only one
what-if --job-id llm-a@may --fix TRUE => 'may' is not a date such as DAY
what-if --job-id llm-a/r3@DAY --log-date 2026-01-06 --fix TRUE => llm-a/r3@DAY names the day DAY, and 2026
what-if --job-id llm-a --run-id r1 --fix TRUE => job llm-a has no run r1: it has run r3 on DAY,
what-if UNIT --fix pause --set 0.5 => --set (factor) scales the ops of a predicate, but pause is a cause
what-if UNIT --fix FALSE => no op of this unit matches FALSE
what-if UNIT --fix TRUE --fix 'pp_rank = 8' => no op of this unit matches pp_rank = 8: its pp_rank is 0 to 0
what-if UNIT --fix "host = 'nod-1'" => no op of this unit matches host = 'nod-1': no host nod-1: did you
what-if UNIT --fix "GATHER" => no op of this unit matches GATHER: no op_type params-all-gather: it has forw
timeline UNIT --step 8 => no step 8 among the 1 complete ones, 7 to 7: next to it are 7
timeline UNIT --worker 2,0 => --worker 2,0: the job has dp ranks 0 to 1 and stages 0 to 0
timeline UNIT --worker 7 => --worker 7: no worker is replayed by that rank; name it as DP,PP
timeline UNIT --worker a => Invalid value for '--worker': 'a' is not a whole number
analyse s3://b/l/run => Invalid value for 'FOLDER': s3://b/l/run is a URL: first copy the run's folder
diff s3://b/l/a s3://b/l/b => s3://b/l/a is a URL: first copy the run's folder to this machine
mitigate s3://b/l/a => s3://b/l/a is a URL: first copy the run's folder to this machine, as by `aws s3 cp
register duckdb --warehouse file://WAREHOUSE => file://WAREHOUSE is in a store: straggler export FILE.duckdb
drain --days 61 => Invalid value for '--days': 61 days are more than the 60 by which hosts are judged
drain --limit --5 => Invalid value for '--limit': '--5' is not a whole number
drain --limit 99999999999999999999 => Invalid value for '--limit': 999999999999... is too large
timeline UNIT --stage 1 => --stage 1: the job has stages 0 to 0
timeline UNIT --step -1 => Invalid value for '--step': -1 is less than 0
timeline UNIT --out /nowhere/at/all.json => --out: /nowhere/at/all.json: No such file or directory
job-page UNIT => job llm-b has no results of DAY: straggler simulate --log-date DAY
"""
"""A wrong command line in each line, and the beginning of the error that it gives."""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A warehouse with the units of test_what_if.py; one of these units has a result."""
    root = tmp_path_factory.mktemp("wrong") / "wh"
    results = {name: table_rows(name) for name in (JOB_SLOWDOWN, WORKER_SLOWDOWN)}
    return warehouse_of(root, **replicated(), **results).root


@pytest.mark.parametrize("case", WRONG.splitlines())
def test_wrong_arguments_give_one_line(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, warehouse: str, case: str
) -> None:
    for place in ("jobs.entry_points.cli.session", "jobs.runtime.session.session"):
        monkeypatch.setattr(place, lambda *_: pytest.fail("a session was made"))
    monkeypatch.setattr("jobs.report.files.chart_library", lambda _: b"")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    before = contents(Path(warehouse))
    names = {"WAREHOUSE": warehouse, "PARENT": str(Path(warehouse).parent), "EMPTY": str(tmp_path / "empty")}
    names["AFILE"] = str(tmp_path / "file")
    names["RELEASE"] = "release --log-date DAY --by a --because b --accept"
    names |= {"DAY": "2026-01-05", "UNIT": "--job-id llm-b --run-id r1"}
    names["GATHER"] = "op_type = 'params-all-gather'"
    for name, meant in names.items():
        case = case.replace(name, meant)
    line, message = case.split(" => ")
    status, out, err = ask(main, *shlex.split(line))
    assert (status, out) == (2, "")
    (said,) = err.splitlines()
    assert said.partition(": error: ")[2].startswith(message)
    assert contents(Path(warehouse)) == before


def contents(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


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
    said = capsys.readouterr().err
    assert said.startswith("Usage: straggler [OPTIONS] COMMAND [ARGS]...\n\n")
    assert "\n  analyse " in said
