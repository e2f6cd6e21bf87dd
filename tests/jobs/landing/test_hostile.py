"""If some units are made to stop a night, only these fail: the rows of good jobs are complete."""

import gzip
import os
import pickle
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO, Final
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.landing import row_buffer
from jobs.landing.files import LandedFile
from jobs.landing.files import Landing as Listed
from jobs.landing.formats.rows import Bounds
from jobs.landing.read_landing import tasks_of
from jobs.landing.stores import _Folder
from jobs.runtime.project import PROJECT
from schemas.unit import Unit
from schemas.vocabulary import SOURCE_FILES
from tests.jobs.landing.formats.test_published_trace import ops, parquet
from tests.jobs.landing.land import Landed, Rejected, land
from tests.support.line_cases import RUN, line
from tests.support.night import DAY, Landing

GOOD = [(rank, step) for rank in range(4) for step in range(3)]
PREFIX = f"log_date={DAY}/"
MB = 1 << 20
LAND = """
import pickle, sys
from tests.jobs.landing.land import land
sys.stdout.buffer.write(pickle.dumps(land(*sys.argv[1:])))
"""


def put_good(landing: Landing, job_id: str = "good") -> None:
    landing.manifest(job_id)
    for rank in range(4):
        lines = [line(job_id=job_id, rank=rank, step=step) for step in range(3)]
        landing.log(job_id, f"rank-{rank:05d}.jsonl", lines)


def packed(size: int, around: tuple[bytes, bytes]) -> Iterator[bytes]:
    """Yield pieces of a gzip file: two lines, and between them a line of `size` zeros. [bytes]"""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    yield packer.compress(around[0] + b"\n")
    for _ in range(size // MB):
        yield packer.compress(b"0" * MB)
    yield packer.compress(b"\n" + around[1] + b"\n") + packer.flush()


def put_huge(landing: Landing) -> None:
    """Write small files that unpack to huge ones, a huge line, and a large file without content."""
    job = "huge"
    landing.manifest(job)
    ends = line(job_id=job, rank=0, step=1), line(job_id=job, rank=0, step=2)
    landing.put(job, "rank-00000.jsonl.gz", b"".join(packed(1000 * MB, ends)))
    long = landing.root / landing.put(job, "rank-long.jsonl", ends[0] + b"\n")
    with long.open("ab") as file:
        for _ in range(300):
            file.write(b"1" * MB)
        file.write(b"\n" + ends[1] + b"\n")
    with (landing.root / landing.put(job, "trace-sparse.parquet", b"PAR1")).open("r+b") as file:
        file.truncate(1 << 30)
    one = pa.Table.from_pandas(ops({}), preserve_index=False)
    many = pa.concat_tables([one] * 1000).combine_chunks()
    with pq.ParquetWriter(landing.root / landing.put(job, "trace-many.parquet", b""), many.schema) as writer:
        for _ in range(9000 // 100):
            writer.write_table(pa.concat_tables([many] * 100), row_group_size=100_000)


def put_slow(landing: Landing) -> None:
    """Write input for which a naive parser needs quadratic time or deep recursion."""
    twice = b"{" + b",".join([b'"a":1'] * 60_000) + b"}"
    landing.put("keys", "job.json", twice)
    landing.log("keys", "rank-0.jsonl", [twice, line(job_id="keys")[:-1] + b"," + twice[1:]])
    landing.put("list", "meta-list.yaml", b"a: [" + b"1," * 900_000 + b"]")
    landing.put("list", "trace-a.parquet", parquet(ops({})))
    for name, content in (("large", '"\\UFFFFFFFF"'), ("half", '"\\uD800"'), ("deep", "[" * 100_000)):
        landing.put(name, "meta-a.yaml", f"trial_name: {content}\n".encode())
        landing.put(name, "trace-a.parquet", parquet(ops({})))
    deep = line(job_id="deep lines")[:-1] + b',"x":' + b"[" * 600 + b"]" * 600 + b"}"
    landing.log("deep lines", "rank-1.jsonl", [deep, line(job_id="deep lines")])


def put_odd_names(landing: Landing) -> None:
    for job_id in ("köln", "日本", "a:b"):
        put_good(landing, job_id)
        run = landing.root / f"{PREFIX}job_id={job_id}/run_id={RUN}"
        (run / "rank-00003.jsonl").rename(run / "rank-0:3-日.jsonl")
    raw = os.fsencode(landing.root / f"{PREFIX}job_id=raw") + b"\xff/run_id=r3"
    folder = Path(os.fsdecode(raw))
    folder.mkdir(parents=True)
    (folder / os.fsdecode(b"rank-\xfe.jsonl")).write_bytes(line(job_id="raw"))


@pytest.fixture(scope="module")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Landing:
    made = Landing(tmp_path_factory.mktemp("hostile"))
    for put in (put_good, put_huge, put_slow, put_odd_names):
        put(made)
    (made.root / f"{PREFIX}job_id=good/run_id={RUN}/rank-9.jsonl").symlink_to("/etc/passwd")
    os.mkfifo(made.root / f"{PREFIX}job_id=good/run_id={RUN}/rank-8.jsonl")
    (made.root / "log_date=soon").mkdir()
    return made


@pytest.fixture(scope="module", params=["C", "C.UTF-8"])
def found(
    request: pytest.FixtureRequest, landing: Landing, tmp_path_factory: pytest.TempPathFactory
) -> Landed:
    staging = tmp_path_factory.mktemp("staging")
    command = [sys.executable, "-c", LAND, str(landing.root), str(staging)]
    done = subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        cwd=PROJECT,
        env={"PATH": os.environ["PATH"], "LC_ALL": request.param},
    )
    found: Landed = pickle.loads(done.stdout)  # noqa: S301  # written by our own process
    return found


@pytest.mark.parametrize("job_id", ["good", "köln", "日本", "a:b"])
def test_the_good_jobs_are_exact(found: Landed, job_id: str) -> None:
    assert found.steps(job_id) == GOOD
    assert found.job(job_id)["manifest_status"] is None


def test_memory_stays_small(found: Landed) -> None:
    assert found.peak_mb < 1500


NAMED: Final[dict[str, tuple[list[tuple[int, int]], Rejected]]] = {
    "huge": (
        [(0, 1), (0, 2)],  # from the good lines around a line that is too long
        [
            ("rank-00000.jsonl.gz", None, "file_too_large"),
            ("rank-long.jsonl", 2, "line_too_long"),
            ("trace-many.parquet", None, "file_too_large"),
            ("trace-sparse.parquet", None, "unreadable_file"),
        ],
    ),
    "keys": (
        [],
        [
            ("job.json", None, "unreadable_file"),
            ("rank-0.jsonl", 1, "not_json"),
            ("rank-0.jsonl", 2, "not_json"),
        ],
    ),
    **dict.fromkeys(("large", "half", "deep"), ([(2, 16)], [("meta-a.yaml", None, "unreadable_file")])),
    "list": ([(2, 16)], [("meta-list.yaml", None, "file_too_large")]),
    "deep lines": ([(1, 2)], [("rank-1.jsonl", 1, "nested_too_deeply")]),
    "raw\\xff": ([], [("rank-\\xfe.jsonl", 1, "identity_mismatch")]),
}
"""Stored (rank, step) and rejects of each hostile job; only `huge` has a valid manifest."""


@pytest.mark.parametrize("job_id", NAMED)
def test_what_is_huge_slow_deep_or_no_text_is_named(found: Landed, job_id: str) -> None:
    assert (found.steps(job_id), found.rejected(job_id)) == NAMED[job_id]
    assert found.job(job_id)["manifest_status"] == (None if job_id == "huge" else "no_manifest")


def test_what_is_no_file_is_named_and_nothing_of_the_system_is_read(found: Landed) -> None:
    assert found.details("good") == {
        "rank-8.jsonl": "not a file but a FIFO",
        "rank-9.jsonl": "a link out of the landing",
    }


def test_every_log_is_accounted_for(found: Landed, landing: Landing) -> None:
    """Every log file that the test itself lists has an account or is misplaced."""
    day = os.fsencode(landing.root / PREFIX)
    names = [name for _, _, files in os.walk(day) for name in files]
    logs = [name for name in names if not name.startswith((b"job.json", b"meta-"))]
    accounts = found.tables[SOURCE_FILES]
    assert len(accounts) + len(found.misplaced) == len(logs)
    for each in accounts:
        assert each["lines"] in (None, each["rows"] + each["rejects"])


def test_a_hundred_thousand_files_are_too_many(tmp_path: Path) -> None:
    made = Landing(tmp_path / "landing")
    put_good(made)
    for number in range(40):
        made.put("many", f"rank-{number:05d}.jsonl", line(job_id="many", rank=number, step=1))
    found = land(made.root, tmp_path / "staging", Bounds(unit_files=30))
    assert found.steps("good") == GOOD
    assert found.steps("many") == [(rank, 1) for rank in range(30)]
    assert found.rejected("many") == [
        (f"rank-{number:05d}.jsonl", None, "too_many_files") for number in range(30, 40)
    ]


def test_beyond_a_number_of_rejects_a_file_of_little_else_is_one(tmp_path: Path) -> None:
    """A file with more bad lines than the limit of rejects, and fewer good ones, becomes a single reject."""
    made = Landing(tmp_path / "landing")
    good = [line(job_id="j", step=step) for step in range(60)]
    made.manifest("j")
    made.log("j", "rank-00000.jsonl", [b"{}"] * 70)
    made.put("j", "rank-00002.jsonl.gz", gzip.compress(b"{}\n" * 100_000))
    made.log("j", "rank-00001.jsonl", [*good, *[b"[]"] * 50])
    found = land(made.root, tmp_path / "staging", Bounds(rejects=100))
    files = {row["source_file"].rsplit("/", 1)[1]: row for row in found.of(SOURCE_FILES, "j")}
    assert {name: (row["lines"], row["rows"], row["rejects"]) for name, row in files.items()} == {
        "rank-00000.jsonl": (70, 0, 70),
        "rank-00001.jsonl": (110, 60, 50),
        "rank-00002.jsonl.gz": (None, 0, 1),
    }
    of_file = ("rank-00002.jsonl.gz", None, "too_many_rejects")
    assert [each for each in found.rejected("j") if "00002" in each[0]] == [of_file]


def test_files_that_vanish_or_break_while_they_are_read_cost_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Landing(tmp_path / "landing")
    put_good(made)
    for name in ("rank-1.jsonl", "rank-2.jsonl", "trace-x.parquet", "meta-x.yaml"):
        made.put("going", name, line(job_id="going") + b"\n")
    opened = _Folder.open

    def fail(store: _Folder, path: str, size: int | None = None) -> BinaryIO | nullcontext[Mock]:
        if "job_id=going" not in path:
            return opened(store, path, size)
        if path.endswith("rank-1.jsonl"):
            gives = [line(job_id="going") + b"\n", OSError(5, "Input/output error")]
            return nullcontext(Mock(read=Mock(side_effect=gives)))
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(_Folder, "open", fail)
    found = land(made.root, tmp_path / "staging")
    assert found.steps("good") == GOOD
    assert found.steps("going") == []
    gone = "not readable to its end: No such file or directory"
    assert found.details("going") == {
        "rank-1.jsonl": "not readable to its end: Input/output error",
        **dict.fromkeys(("rank-2.jsonl", "trace-x.parquet", "meta-x.yaml"), gone),
    }


def test_a_file_that_grows_while_it_is_read_is_read_to_its_end(tmp_path: Path) -> None:
    made = Landing(tmp_path / "landing")
    made.log("a", "rank-1.jsonl", [line(job_id="a", step=1)])
    units = listed(made)
    made.log("a", "rank-1.jsonl", [line(job_id="a", step=step) for step in (1, 2)])
    ((file,),) = units.values()
    assert file.size < (made.root / file.source_file).stat().st_size
    found = land(made.root, tmp_path / "staging")
    assert found.steps("a") == [(1, 1), (1, 2)]


def listed(made: Landing) -> dict[Unit, list[LandedFile]]:
    return Listed(str(made.root), [DAY]).units


def test_more_than_a_task_can_hold_leaves_early_and_comes_back_where_a_file_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_buffer, "_MOST_BUFFERED", 1000)
    made = Landing(tmp_path / "landing")
    put_good(made)
    whole = b"\n".join(line(job_id="good", rank=0, step=step) for step in range(100, 9000))
    made.put("good", "rank-5-of.jsonl.gz", gzip.compress(whole)[:-4])
    made.put("good", "rank-6-of.jsonl.gz", gzip.compress(whole))
    found = land(made.root, tmp_path / "staging")
    assert found.steps("good") == sorted([*GOOD, *((0, step) for step in range(100, 9000))])
    left = (tmp_path / "staging").rglob("*.parquet")
    assert sum(pq.read_metadata(path).num_rows for path in left) == len(found.steps("good")) + 1


def test_a_unit_split_over_tasks_keeps_the_first_of_equal_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.landing.read_landing._TASK_BYTES", 1000)
    monkeypatch.setattr("jobs.landing.read_landing._LARGE_UNIT", 2000)
    made = Landing(tmp_path / "landing")
    put_good(made)
    tasks = tasks_of(listed(made), 1, Bounds())
    assert [len(task) for task in tasks] == [1] * len(tasks)
    assert len(tasks) > 1
    again = [line(job_id="good", rank=rank, step=1) for rank in (0, 3)]
    made.log("good", "rank-again.jsonl", [*again, line(job_id="good", rank=1, step=7)])
    found = land(made.root, tmp_path / "staging")
    assert found.steps("good") == sorted([*GOOD, (1, 7)])
    assert found.rejected("good") == [("rank-again.jsonl", line, "duplicate_rank_step") for line in (1, 2)]
    assert found.job("good")["manifest_status"] is None
    staged = (tmp_path / "staging").rglob("*.parquet")
    assert sum(pq.read_metadata(path).num_rows for path in staged) == len(GOOD) + 1 + 2
