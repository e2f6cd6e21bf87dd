"""Kill runs at random moments, and start two runs at a time: readers see only whole publications."""

import random
from collections.abc import Iterator
from itertools import count

import pytest

from tests import kills, together

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def in_store() -> Iterator[tuple[kills.Run, str]]:
    """Yield an undisturbed backfill in a store, and the URL of a folder for backfills that are killed."""
    with kills.ground(store=True) as (folder, root):
        yield next(kills.scenario(folder, root)), root


def test_whatever_is_killed_readers_see_a_publication_and_the_next_run_completes_it() -> None:
    assert kills.main(["--kills", "1", "--seed", "2"]) == 0


def test_whatever_is_killed_in_a_store(in_store: tuple[kills.Run, str]) -> None:
    run, root = in_store
    for number in count(1):
        draw = random.Random(f"2 {number}")  # noqa: S311  # no secrets
        verdicts = list(kills.disturbed(run, f"{root}/killed-{number}", draw, most=1))
        assert not any(wrong for _, wrong in verdicts), verdicts
        if len(verdicts) > 1:  # a run was killed before its end
            break


def test_two_runs_together_in_a_store_leave_what_they_leave_in_turn(in_store: tuple[kills.Run, str]) -> None:
    run, root = in_store
    assert together.at_a_time(run, run, f"{root}/together", apart_s=1.8, waits=True) == ""
