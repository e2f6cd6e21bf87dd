"""Each file of a large unit is compared with other files' rows by lookup, not by a scan of all rows."""

import gzip
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from jobs.landing.accounts import UnitPart
from jobs.landing.files import LandedFile
from jobs.landing.formats.rows import LISTS, SCALARS, Rows
from jobs.landing.rank_steps import RankSteps
from schemas.unit import Unit
from tests.jobs.landing.land import land
from tests.support.line_cases import line
from tests.support.night import Landing

DAY = date(2026, 1, 5)


class AskedOnly(dict[tuple[int, int], str]):
    """A dict that may be asked for a key but not iterated, as a scan of a large unit's rows is too slow."""

    def __iter__(self) -> Iterator[tuple[int, int]]:
        raise AssertionError("a scan of all rows for each of 20,000 files took 11 minutes")


def test_rows_of_other_files_are_asked_and_not_walked() -> None:
    taken = AskedOnly({(rank, 7): "rank-of-another-part.jsonl" for rank in range(100, 200)})
    steps = RankSteps(UnitPart(Unit(DAY, "wide", "r1"), [], [], taken=taken))
    for rank, expected in ((3, []), (150, ["duplicate_rank_step"])):
        file = LandedFile(DAY, "wide", "r1", f"rank-{rank:05d}.jsonl", "", 0)
        row = dict.fromkeys(SCALARS) | {"rank": rank, "step": 7} | {name: [] for name in LISTS}
        kept, refused = steps.believed(Rows.of([row], [1]), file, str)
        assert [each.reason for each in refused] == expected
        assert len(kept.scalars) == 1 - len(expected)


def test_a_file_that_breaks_off_states_no_gpu_types(tmp_path: Path) -> None:
    landing = Landing(tmp_path / "landing")
    landing.manifest("types")
    cut = [line(job_id="types", rank=1, gpu_type="A100", host=host) for host in ("node-0123", "node-9")]
    landing.put("types", "rank-00001.jsonl.gz", gzip.compress(b"\n".join([*cut, b""]))[:-8])
    landing.log("types", "rank-00002.jsonl", [line(job_id="types", rank=2, gpu_type="H100")])
    job = land(landing.root, tmp_path / "staging").job("types")
    assert (job["gpu_types"], job["left_out"]) == ({"node-0123": "H100"}, None)


def test_a_file_that_breaks_off_makes_no_copies_contested(tmp_path: Path) -> None:
    landing, own = Landing(tmp_path / "landing"), {"job_id": "copied", "rank": 1}
    landing.manifest("copied")
    text = line(**own, t0_us=1)
    landing.put("copied", "rank-0001.jsonl.gz", gzip.compress(text + b"\n" + text + b"\n")[:-8])
    for name in ("rank-001.jsonl", "rank-01.jsonl"):
        landing.log("copied", name, [line(**own)])
    found = land(landing.root, tmp_path / "staging")
    assert found.reasons("copied") == {
        "rank-0001.jsonl.gz": "unreadable_file",
        "rank-01.jsonl": "duplicate_rank_step",
    }
    assert len(found.steps("copied")) == 1
