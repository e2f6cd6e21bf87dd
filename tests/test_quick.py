"""Which tests `make quick` chooses."""

from pathlib import Path

from tests.quick import ALWAYS, touched


def test_a_changed_module_runs_its_own_test_then_those_of_importers() -> None:
    """The nearest test fails first."""
    first, *others = touched([Path("udfs/kernel/correlation.py")])[len(ALWAYS) :]
    assert first == "tests/udfs/kernel/test_correlation.py"
    assert "tests/udfs/kernel/test_selection.py" not in others


def test_a_changed_file_of_data_runs_the_tests_of_its_room() -> None:
    """SQL and pages have no importers."""
    assert "tests/schemas/test_views.py" in touched([Path("schemas/views/fix_first.sql")])
    assert not any("tests/udfs" in path for path in touched([Path("schemas/views/fix_first.sql")]))
