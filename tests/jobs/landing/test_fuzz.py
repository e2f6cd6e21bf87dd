"""A few of the inputs that `python -m tests.jobs.landing.fuzz` tries by the hundred thousand."""

import random
from collections.abc import Callable

import pytest

from tests.jobs.landing.fuzz import READERS


@pytest.mark.parametrize("reader", READERS)
def test_no_bytes_end_a_reader(reader: Callable[[random.Random], None]) -> None:
    for number in range(200):
        reader(random.Random(number))  # noqa: S311  # nothing is secret here
