"""Try some of the damaged inputs that `python -m tests.jobs.landing.fuzz` tries by the hundred thousand."""

import pytest

from jobs.landing.unit_rows import left_out_of
from tests.jobs.landing.fuzz import READERS, read_one


@pytest.mark.parametrize("name", READERS)
def test_no_bytes_end_a_reader(name: str) -> None:
    for number in range(20 if name.startswith(("unit", "health")) else 200):
        read_one(name, number, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_few_thousand_more_end_none(name: str) -> None:
    for number in range(1000, 1100):
        read_one(name, number, seed=2)


def test_a_count_that_no_column_holds_is_the_most_that_it_holds() -> None:
    """A count too large for its column is stored as the largest value of the column's type."""
    assert left_out_of({"ms without a name": 10**300, "others": 2}) == {
        "ms without a name": 2**63 - 1,
        "others": 2,
    }
    read_one("unit: megascan", 37249, seed=32)
