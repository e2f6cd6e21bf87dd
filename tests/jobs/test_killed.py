"""Runs that are really killed, and runs that are started together: a few of many."""

from collections.abc import Sequence

import pytest

from tests import kills, together

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("where", [(), ("--store",)], ids=["folder", "store"])
def test_whatever_is_killed_readers_see_a_publication_and_the_next_run_completes_it(
    where: Sequence[str],
) -> None:
    assert kills.main(["--kills", "1", "--seed", "2", *where]) == 0


def test_two_runs_together_in_a_store_leave_what_they_leave_in_turn() -> None:
    assert together.main(["--times", "1", "--store"]) == 0
