"""Runs that are killed, for real, and runs that are started together: a few of many."""

import pytest

from tests import kills, together

pytestmark = pytest.mark.slow


def test_whatever_is_killed_readers_see_a_publication_and_the_next_run_completes_it() -> None:
    assert kills.main(["--kills", "2", "--seed", "2"]) == 0


def test_two_runs_together_leave_what_they_leave_in_turn() -> None:
    assert together.main(["--times", "1"]) == 0
