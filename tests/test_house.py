"""Rules for the whole project: its root folder, lock files, imports, and reasons for silenced checks."""

import re
import subprocess
import sys
import tokenize
import tomllib
from importlib.metadata import packages_distributions
from io import StringIO
from pathlib import Path

import pytest
from grimp import ImportGraph

from jobs.runtime.project import PROJECT
from tests.import_contracts import OnlyContract

FOLDERS = ("dags", "jobs", "udfs", "schemas", "tests")
ROOT = {*FOLDERS, "conf", "pyproject.toml", "README.md", "Makefile", "LICENSE"}
LOCKS = sorted((PROJECT / "conf").glob("*.lock"))
SOURCES = sorted(file for folder in FOLDERS for file in (PROJECT / folder).rglob("*.py"))

SUPPRESSION = re.compile(r"#\s*(?:noqa|type:\s*ignore|mypy:|ruff:|pragma:|pylint:)")
EXPLAINED = re.compile(
    r"#\s(?:noqa: [A-Z]+\d+(?:, [A-Z]+\d+)*|type: ignore\[[a-z, -]+\])(?P<why>(?:  #| -) \w.+)?$"
)
FORBIDDEN = {
    "a test that always holds": re.compile(r"\bassert (?:True|1)\s*(?:,|#|$)"),
    "a test switched off": re.compile(
        r"pytest\.mark\.(?:skip|skipif|xfail)\b|pytest\.(?:skip|xfail|importorskip)\("
    ),
    "work left over": re.compile(r"\b(?:[T]ODO|[F]IXME|[X]XX)\b"),
    "an exception swallowed": re.compile(
        r"except(?: Exception| BaseException)?(?: as \w+)?:\s*(?:pass|\.\.\.)\s*$"
    ),
}


def ignored_at_the_root() -> set[str]:
    lines = (PROJECT / ".gitignore").read_text().splitlines()
    return {line.strip("/") for line in lines if line.startswith("/")}


def unexplained(text: str) -> list[int]:
    """Return the numbers of lines that silence a check without naming the check or giving a reason."""
    lines = text.splitlines()
    found = []
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.type != tokenize.COMMENT or not SUPPRESSION.match(token.string):
            continue
        named = EXPLAINED.match(token.string)
        number = token.start[0]
        above = lines[number - 2].strip() if number > 1 else ""
        if named is None or not (named["why"] or above.startswith("# ")):
            found.append(number)
    return found


def test_the_root_holds_only_its_eight_entries_and_what_the_two_commands_need() -> None:
    entries = {path.name for path in PROJECT.iterdir() if not path.name.startswith(".")}
    entries -= {"__pycache__"} | ignored_at_the_root()
    assert entries <= ROOT, f"not part of the house: {sorted(entries - ROOT)}"


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: str(lock.name))
def test_a_lock_pins_every_package_by_hash_and_names_no_place(lock: Path) -> None:
    text = lock.read_text()
    entries = re.split(r"\n(?=[a-z0-9])", text)
    assert entries
    for entry in entries:
        assert re.match(r"[a-z0-9._-]+(\[[a-z,]+\])?==[^\s;]+", entry), entry.splitlines()[0]
        assert "--hash=sha256:" in entry, entry.splitlines()[0]
    assert not re.search(r"://|(?:^|\s)(?:/|-i\s|--(?:index|extra-index|find)-)", text)


def test_the_lock_pins_what_pyproject_asks_for() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    extras = [each for extra in project["project"]["optional-dependencies"].values() for each in extra]
    asked = [*project["project"]["dependencies"], *extras, *project["dependency-groups"]["dev"]]
    pinned = set(
        re.findall(r"^(\S+==[^\s;]+)", (PROJECT / "conf" / "requirements.lock").read_text(), re.MULTILINE)
    )
    missing = [
        name
        for name in asked
        if not name.startswith(project["project"]["name"])
        and re.sub(r"\[.*?\]", "", name) not in {re.sub(r"\[.*?\]", "", p) for p in pinned}
    ]
    assert not missing, "run make lock"


def test_the_import_contracts_hold() -> None:
    command = [sys.executable, "-m", "tests.import_contracts"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=PROJECT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("imported", "is_kept"),
    [
        ("airflow", True),
        ("airflow.sdk", True),
        ("json", True),
        ("airflows", False),
        ("pandas", False),
        ("jobs", False),
    ],
)
def test_an_only_contract_lets_through_what_it_names_and_the_standard_library(
    imported: str, is_kept: bool
) -> None:
    graph = ImportGraph()
    for module in ("dags", "dags.nightly"):
        graph.add_module(module)
    graph.add_module(imported, is_squashed=True)
    graph.add_import(importer="dags.nightly", imported=imported)
    contract = OnlyContract("dags", {}, {"modules": ["dags", "dags.**"], "allowed": ["airflow"]})
    assert contract.check(graph, verbose=False).kept is is_kept


def test_an_only_contract_about_nothing_is_an_error() -> None:
    contract = OnlyContract("dags", {}, {"modules": ["dag"], "allowed": ["airflow"]})
    with pytest.raises(ValueError, match="no such modules"):
        contract.check(ImportGraph(), verbose=False)


def test_no_entry_point_hides_a_module_that_others_import() -> None:
    """No module imports an entry point, because spark-submit would then import the entry point twice."""
    names = {file.stem for file in (PROJECT / "jobs").iterdir() if file.suffix == ".py" or file.is_dir()}
    others = sys.stdlib_module_names | packages_distributions().keys() | set(FOLDERS)
    assert not (names - {"__init__", "__pycache__"}) & others


def test_no_check_is_silenced_without_a_reason() -> None:
    found = {str(file.relative_to(PROJECT)): unexplained(file.read_text()) for file in SOURCES}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_there_is_nowhere(what: str) -> None:
    found = [
        f"{file.relative_to(PROJECT)}:{number}"
        for file in SOURCES
        for number, line in enumerate(file.read_text().splitlines(), start=1)
        if FORBIDDEN[what].search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("line", "is_explained"),
    [
        ("x = 1", True),
        ("x = f()  # noqa: S603  # our own command", True),
        ("# our own command\nx = f()  # noqa: S603", True),
        ("x = f()  # noqa: S603", False),
        ("# why\nx = f()  # noqa", False),
        ("x = f()  # type: ignore[misc]  # py4j has no types", True),
        ("# why\nx = f()  # type: ignore", False),
        ("# why\n# ruff: noqa", False),
    ],
)
def test_a_silenced_check_is_named_and_explained(line: str, is_explained: bool) -> None:
    assert (unexplained(line) == []) is is_explained


def test_the_version_is_the_changelogs_newest() -> None:
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    changelog = (PROJECT / "jobs" / "CHANGELOG.md").read_text()
    assert re.findall(r"^## (\S+)$", changelog, flags=re.MULTILINE)[0] == version
