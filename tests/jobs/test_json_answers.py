"""Every command that answers questions can print JSON, in the form that jobs/README.md describes."""

import json
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobs import analyse, convert, describe, diff_runs, make_fleet, mitigate_job
from jobs.console import COMMANDS, GROUPS
from jobs.runtime.project import PROJECT
from schemas.tables import TABLES
from schemas.vocabulary import JOB_CAUSES, JOB_SLOWDOWN, JOBS, REJECTS, WORKER_SLOWDOWN
from tests.jobs import test_fix_effect, test_job_changes
from tests.jobs.conftest import Ask
from tests.jobs.landing.formats.foreign_logs import LOGS
from tests.jobs.reading.warehouses import replicated, warehouse_of
from tests.schemas import test_drain
from tests.support.examples import table_rows

KEYS = PROJECT / "tests" / "data" / "json_keys.json"
"""File with the top-level keys of each command's answer. Only a new version may remove keys."""
COMMAND_PAGE = (PROJECT / "jobs" / "README.md").read_text()
PAGE = COMMAND_PAGE.partition("## Answers for programs\n")[2].partition("\n## ")[0]
LISTED = dict(re.findall(r"^\| `([\w-]+)` \| [^|]* \| ([^|]*) \|$", PAGE, re.MULTILINE))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Folders of the runs of two days of a generated job."""
    landing = tmp_path_factory.mktemp("fleet") / "landing"
    few = ("--jobs", "2", "--days", "1", "--most-ops", "1000", "--seed", "3")
    assert make_fleet.main(["--landing", str(landing), *few]) == 0
    return sorted(path.parent for path in landing.glob("log_date=*/*/*/job.json"))


def test_the_page_lists_every_command_that_answers_and_names_the_others() -> None:
    has_json = set()
    for name, entry in COMMANDS.items():
        for each in import_module(f"jobs.{entry.module}").main.params:
            if "--format" in each.opts and "json" in getattr(each.type, "choices", ()):
                has_json.add(name)
    assert set(LISTED) == has_json
    answering = {*GROUPS["One run"], *GROUPS["Ask the warehouse"]}
    assert {name for name in answering - has_json if f"`{name}`" not in PAGE} == set()


def test_each_folder_of_logs_is_answered_with_the_documented_keys_and_nothing_beside(
    folders: list[Path], tmp_path: Path, call: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.analyse.chart_library", lambda _: b"charts_library()")
    page = tmp_path / "page.html"
    asked = {
        "analyse": call(analyse.main, folders[0], "--page", page, "--format", "json"),
        "convert": call(convert.main, LOGS / "timeline/timeline-ST.json.gz", "--check", "--format", "json"),
        "diff": call(diff_runs.main, *folders, "--format", "json"),
        "mitigate": call(mitigate_job.main, folders[0], "--format", "json"),
        "describe": call(describe.main, "--format", "json"),
    }
    for name, (status, out, _) in asked.items():
        found = json.loads(out)
        assert (status, isinstance(found, dict)) == (0, name == "diff"), name
        if name == "mitigate" and not found:  # no mitigation saves time here
            continue
        keys = set(found if name == "diff" else found[0])
        stated = re.findall(r"`(\w+)`", LISTED[name].partition(";")[0])
        documented = set(stated) - {JOB_SLOWDOWN}
        assert documented <= keys, (name, documented - keys)
    (run,) = json.loads(asked["analyse"].out)
    assert set(TABLES[JOB_SLOWDOWN].column_names) <= set(run)
    assert set(run[JOB_CAUSES][0]) == set(TABLES[JOB_CAUSES].column_names) - {"log_date", "job_id", "run_id"}
    assert run[REJECTS] == []
    assert Path(run["page"]) == page


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A warehouse for all commands: units to replay, a host to drain, a job that slows down, fixed jobs."""
    results, manifests, workers = test_fix_effect.units()
    stated = [
        replicated(),
        tables_of(test_drain.fleet({"node-1": "..xxx", "node-2": "x....", "node-3": "....."})),
        tables_of(test_job_changes.grown_slow()),
        tables_of({JOB_SLOWDOWN: results, JOBS: manifests, WORKER_SLOWDOWN: workers}),
    ]
    names = {name for tables in stated for name in tables}
    all_ = {name: pa.concat_tables([each[name] for each in stated if name in each]) for name in names}
    return warehouse_of(tmp_path_factory.mktemp("warehouse"), **all_).root


ASKED = {
    "query": ["SELECT 1 AS one, 2 AS two"],
    "headline": ["goodput"],
    "describe": [],
    "drain": [],
    "changes": ["--job-id", "llm"],
    "fix-effect": ["--date", str(test_fix_effect.FIXED), "--team", "speech"],
    "what-if": ["--job-id", "llm-b", "--run-id", "r2", "--fix", "slow_worker"],
}
"""Arguments of the commands that read the warehouse."""
ELSEWHERE = {"compare"}
"""Commands that need two sets of results: test_compare_versions.py tests their keys."""


def test_top_level_keys_of_every_answer_stay(
    folders: list[Path], ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.analyse.chart_library", lambda _: b"charts_library()")
    of_folders: dict[str, Sequence[object]] = {
        "analyse": [folders[0], "--page", folders[0].parent / "page.html"],
        "convert": [LOGS / "timeline/timeline-ST.json.gz", "--check"],
        "diff": folders,
        "mitigate": [folders[0], "--layers", "12"],
    }
    found = {}
    for name, arguments in {**of_folders, **ASKED}.items():
        main = import_module(f"jobs.{COMMANDS[name].module}").main
        status, out, err = ask(main, *arguments, "--format", "json")
        assert (status, bool(out)) == (0, True), (name, err)
        answer = json.loads(out)
        assert answer, f"{name}: an empty answer has no keys"
        found[name] = sorted(answer if isinstance(answer, dict) else answer[0])
    assert found.keys() | ELSEWHERE == LISTED.keys()
    assert found == json.loads(KEYS.read_text())


def tables_of(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, pa.Table]:
    return {name: table_rows(name, each) for name, each in rows.items()}


def test_what_is_written_is_not_what_is_asked(folders: list[Path], tmp_path: Path, call: Ask) -> None:
    to = ("--landing", tmp_path, "--job-id", "j", "--run-id", "r", "--log-date", "2026-01-05")
    assert call(convert.main, folders[0], *to, "--format", "json").status == 2
