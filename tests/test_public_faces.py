"""Public tables, views, commands, options and Python functions equal their recorded list.

tests/data/public_faces.txt has one line for each. After an intended change, `python -m
tests.test_public_faces` writes the list again, and jobs/CHANGELOG.md must mention the change.
"""

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Final

from jobs.console import COMMANDS
from jobs.reading import straggler
from jobs.runtime.project import PROJECT
from schemas.tables import TABLES
from schemas.views import VIEWS
from udfs.what_if import simulate_job

RECORD: Final = PROJECT / "tests" / "data" / "public_faces.txt"


def tables() -> Iterator[str]:
    """List tables with their columns, and views."""
    for name, table in TABLES.items():
        yield f"table {name}: {', '.join(f'{column.name} {column.type}' for column in table.columns)}"
    yield from (f"view {name}" for name in VIEWS)


def commands() -> Iterator[str]:
    """List commands with their arguments and options."""
    for name, entry in COMMANDS.items():
        parameters = import_module(f"jobs.{entry.module}").main.params
        yield f"command {name}: {', '.join(sorted(option for one in parameters for option in one.opts))}"


def _is_ours(member: object) -> bool:
    """Return whether a member of a class is defined in this project, also if it is inherited."""
    return inspect.isfunction(member) and member.__module__.partition(".")[0] in {"jobs", "udfs", "straggler"}


def functions() -> Iterator[str]:
    """List public functions and methods with their parameters."""
    found = {"udfs.what_if.simulate_job": simulate_job}
    for name in straggler.__all__:
        public = getattr(straggler, name)
        members = dict(inspect.getmembers(public, _is_ours)) if inspect.isclass(public) else {"": public}
        found |= {
            f"straggler.{name}.{member}".rstrip("."): value
            for member, value in members.items()
            if member[:1] != "_" and callable(value)
        }
    for name, function in found.items():
        parameters = inspect.signature(function).parameters.values()
        yield f"function {name}: {', '.join(str(one.replace(annotation=one.empty)) for one in parameters)}"


def faces() -> list[str]:
    """Return one line for each public table, view, command, option and Python function."""
    return sorted([*tables(), *commands(), *functions()])


def test_nothing_public_changes_unseen() -> None:
    """Public tables, views, commands, options and functions are exactly those of the recorded list."""
    assert faces() == RECORD.read_text().splitlines()


if __name__ == "__main__":
    RECORD.write_text("\n".join(faces()) + "\n")
