"""Counts of things are worded in the singular or the plural."""

import pytest

from jobs.runtime.plural import plural


@pytest.mark.parametrize(
    ("count", "one", "said"),
    [(0, "unit", "0 units"), (1, "more unit", "1 more unit"), (1234, "job", "1,234 jobs")],
)
def test_one_thing_has_no_s(count: int, one: str, said: str) -> None:
    assert plural(count, one) == said
