"""Rank-steps of a unit with many files: each file is compared with what is known, not with each row of it."""

from collections.abc import Iterator
from datetime import date

from jobs.landing.accounts import UnitPart
from jobs.landing.files import LandedFile
from jobs.landing.formats.rows import LISTS, SCALARS, Rows
from jobs.landing.rank_steps import RankSteps
from schemas.unit import Unit

DAY = date(2026, 1, 5)


class AskedOnly(dict[tuple[int, int], str]):
    """Rows of other files, of which a job of 20,000 ranks has as many as this one has, 20,000 times."""

    def __iter__(self) -> Iterator[tuple[int, int]]:
        raise AssertionError("it took 11 minutes to walk them all for each of 20,000 files")


def test_rows_of_other_files_are_asked_and_not_walked() -> None:
    taken = AskedOnly({(rank, 7): "rank-of-another-part.jsonl" for rank in range(100, 200)})
    steps = RankSteps(UnitPart(Unit(DAY, "wide", "r1"), [], [], taken=taken))
    for rank, expected in ((3, []), (150, ["duplicate_rank_step"])):
        file = LandedFile(DAY, "wide", "r1", f"rank-{rank:05d}.jsonl", "", 0)
        row = dict.fromkeys(SCALARS) | {"rank": rank, "step": 7} | {name: [] for name in LISTS}
        kept, refused = steps.believed(Rows.of([row], [1]), file, str)
        assert [each.reason for each in refused] == expected
        assert len(kept.scalars) == 1 - len(expected)
