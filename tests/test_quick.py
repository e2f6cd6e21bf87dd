"""`make quick` chooses the tests nearest to the changed files."""

from pathlib import Path

from tests.quick import ALWAYS, touched


def chosen(path: str) -> list[str]:
    return touched([Path(path)])[len(ALWAYS) :]


def test_a_changed_module_runs_its_own_test_then_those_of_importers() -> None:
    """If a module changes, its own tests run first, and then those of the modules that import it."""
    first, *others = chosen("udfs/kernel/selection.py")
    assert first == "tests/udfs/kernel/test_selection.py"
    assert "tests/schemas/test_views.py" not in others


def test_a_module_that_no_test_imports_runs_those_of_its_importers() -> None:
    """If a module that no test imports changes, the tests of the modules that import it run."""
    assert "tests/udfs/kernel/recorded/test_signs.py" in chosen("udfs/kernel/correlation.py")


def test_a_changed_file_of_data_runs_the_tests_of_its_room() -> None:
    """If a data file changes, the tests in its folder run, because nothing imports data files."""
    found = chosen("schemas/views/fix_first.sql")
    assert "tests/schemas/test_views.py" in found
    assert not any("tests/udfs" in path for path in found)
