"""Run `make quick`: the tests nearest to the changed files, for at most 15 seconds.

Files count as changed if they differ from HEAD, or from the commit that `make quick SINCE=main` names. The
run has the tests of the same name or in the same folder, and the tests that import a changed file. Tests that
need a Spark session run only in `make test`.
"""

import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import grimp
import pytest

from jobs.runtime.project import PROJECT

LAYERS: Final = ("dags", "jobs", "udfs", "schemas", "tests")
ALWAYS: Final = ("tests/test_house.py", "tests/test_documents.py")
LIMIT_S: Final = 15


def changed_files(since: str) -> list[Path]:
    """Return files that differ from a commit or are unknown to git, relative to the root."""
    asked = (
        ["git", "diff", "--name-only", "--diff-filter=d", since],
        ["git", "ls-files", "--others", "--exclude-standard"],
    )
    answers = (subprocess.check_output(command, cwd=PROJECT, text=True) for command in asked)
    return [Path(line) for answer in answers for line in answer.splitlines()]


def touched(changed: Iterable[Path]) -> list[str]:
    """Return the tests of changed files: those of the same name first, then those that import the files."""
    graph = grimp.build_graph(*LAYERS, cache_dir=str(PROJECT / ".venv" / ".grimp"))
    same_name, others = [], []
    for path in changed:
        module = ".".join(path.with_suffix("").parts)
        if module in graph.modules:
            same_name += [path, Path("tests", *path.parent.parts, f"test_{path.name}")]
            others += _importing_tests(graph, module)
        elif path.parts[0] in LAYERS and path.suffix != ".md":
            rooms = (sorted(Path("tests", folder).glob("test_*.py")) for folder in path.parents)
            others += next(filter(None, rooms), [])
    return [*ALWAYS, *(str(path) for path in dict.fromkeys([*same_name, *others]) if _is_test(path))]


def _importing_tests(graph: grimp.ImportGraph, module: str) -> list[Path]:
    """Return the tests that import a module; without any, the tests of its importers, and so on."""
    seen = nearest = {module}
    while nearest:
        nearest = {user for each in nearest for user in graph.find_modules_that_directly_import(each)} - seen
        seen = seen | nearest
        tests = filter(_is_test, (Path(*name.split(".")).with_suffix(".py") for name in sorted(nearest)))
        if found := list(tests):
            return found
    return []


def _is_test(path: Path) -> bool:
    return path.name.startswith("test_") and (PROJECT / path).exists()


class Limit:
    """A pytest plugin that stops a run at a time limit; the run succeeds if no test has failed by then."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Start the clock before the first test runs."""
        self.session, self.ends_at = session, time.monotonic() + LIMIT_S

    def pytest_runtest_logfinish(self) -> None:
        """Stop the run after a test if the time limit has passed."""
        if time.monotonic() > self.ends_at:
            self.session.shouldstop = f"{LIMIT_S} s are over; `make test` runs the rest"

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Report success for a run that the limit stopped and in which no test failed."""
        if session.shouldstop and not session.testsfailed:
            session.exitstatus = pytest.ExitCode.OK


def main(since: str = "HEAD") -> int:
    """Run the tests and return the exit status."""
    files = touched(changed_files(since))
    return int(pytest.main(["-q", "-x", "-m", "not slow and not spark", *files], plugins=[Limit()]))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
