"""False claims of producers are refused: logs about other ranks, contradicting logs, too many GPU-hours."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from jobs.landing.claims import contradictions, new_owners, without_refused
from schemas.vocabulary import RANK_STEPS, REJECTS, SOURCE_FILES
from tests.jobs.landing.land import land
from tests.support.examples import table_rows
from tests.support.line_cases import line
from tests.support.night import Landing

JOB = "gpt"
STEPS = range(3)


def put(landing: Landing, name: str, rank: int, **changes: object) -> None:
    landing.log(JOB, name, [line(job_id=JOB, rank=rank, step=step, **changes) for step in STEPS])


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    made = Landing(tmp_path / "landing")
    made.manifest(JOB)
    return made


def contested(landing: Landing, tmp_path: Path) -> tuple[list[tuple[int, int]], set[str], list[str] | None]:
    """Return (rank, step) of stored rows, the reasons of rejects, and the job's refused claims."""
    found = land(landing.root, tmp_path / "staging")
    reasons = {row["reason"] for row in found.of(REJECTS, JOB)}
    for each in found.of(SOURCE_FILES, JOB):
        assert each["lines"] in (None, each["rows"] + each["rejects"])
    return found.steps(JOB), reasons, found.job(JOB)["refused_claims"]


def test_lines_of_another_rank_are_rejects_in_the_log_of_a_rank(landing: Landing, tmp_path: Path) -> None:
    """A line about rank 1 in rank 0's log is rejected, and rank 1's own line for that step is kept."""
    put(landing, "rank-00001.jsonl", 1)
    own, strange = line(job_id=JOB, rank=0, step=0), line(job_id=JOB, rank=1, step=0, host="innocent")
    landing.log(JOB, "rank-00000.jsonl", [own, strange])
    found = land(landing.root, tmp_path / "staging")
    assert found.steps(JOB) == [(0, 0), (1, 0), (1, 1), (1, 2)]
    assert found.rejected(JOB) == [("rank-00000.jsonl", 2, "identity_mismatch")]
    assert found.details(JOB) == {"rank-00000.jsonl": "a line of rank 1 in the log of rank 0"}
    assert "innocent" not in {row["host"] for row in found.of(RANK_STEPS, JOB)}


def test_a_name_without_a_rank_may_have_lines_of_any(landing: Landing, tmp_path: Path) -> None:
    put(landing, "rank-all.jsonl", 1)
    assert contested(landing, tmp_path) == ([(1, step) for step in STEPS], set(), None)


def test_where_two_files_differ_neither_is_believed_and_both_are_named(
    landing: Landing, tmp_path: Path
) -> None:
    put(landing, "rank-00001.jsonl", 1)
    put(landing, "rank-1.jsonl", 1, t0_us=7)
    put(landing, "rank-00000.jsonl", 0)
    steps, reasons, claims = contested(landing, tmp_path)
    assert (steps, reasons) == ([(0, step) for step in STEPS], {"contested_rank_step"})
    names = (f"{name} (of user {os.getuid()})" for name in ("rank-00001.jsonl", "rank-1.jsonl"))
    said = " and ".join(names)
    assert claims == [f"{said} contradict each other about 3 steps of a rank: both are rejected"]


def test_where_two_files_agree_the_first_stays(landing: Landing, tmp_path: Path) -> None:
    put(landing, "rank-00001.jsonl", 1)
    put(landing, "rank-00001.jsonl.gz", 1)
    steps, reasons, claims = contested(landing, tmp_path)
    assert (steps, reasons, claims) == ([(1, step) for step in STEPS], {"duplicate_rank_step"}, None)


def test_a_repeat_in_one_file_keeps_the_first(landing: Landing, tmp_path: Path) -> None:
    """If a file has a step twice, as after a restart from a checkpoint, the first of the lines is kept."""
    put(landing, "rank-00001.jsonl", 1)
    with (landing.root / landing.put(JOB, "rank-00002.jsonl", b"")).open("ab") as file:
        for t0_us in (1, 2):
            file.write(line(job_id=JOB, rank=2, step=0, t0_us=t0_us) + b"\n")
    steps, reasons, claims = contested(landing, tmp_path)
    assert (steps[-1], reasons, claims) == ((2, 0), {"duplicate_rank_step"}, None)


def test_a_file_that_breaks_off_contests_nothing(landing: Landing, tmp_path: Path) -> None:
    put(landing, "rank-00001.jsonl", 1)
    put(landing, "rank-1.jsonl.gz", 1, t0_us=7)
    file = next(landing.root.rglob("*.gz"))
    file.write_bytes(file.read_bytes()[:-4])
    steps, reasons, claims = contested(landing, tmp_path)
    assert (steps, reasons, claims) == ([(1, step) for step in STEPS], {"unreadable_file"}, None)


def test_files_of_a_split_unit_contest_each_other_too(
    landing: Landing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.landing.read_landing._TASK_BYTES", 100)
    monkeypatch.setattr("jobs.landing.read_landing._LARGE_UNIT", 200)
    put(landing, "rank-00000.jsonl", 0)
    put(landing, "rank-00001.jsonl", 1)
    put(landing, "rank-1.jsonl", 1, t0_us=7)
    put(landing, "rank-2.jsonl", 2)
    put(landing, "rank-2.jsonl.gz", 2)
    steps, reasons, claims = contested(landing, tmp_path)
    assert steps == [(rank, step) for rank in (0, 2) for step in STEPS]
    assert reasons == {"contested_rank_step", "duplicate_rank_step"}
    assert claims is not None
    assert len(claims) == 1
    assert "rank-1.jsonl contradict each other about 3 steps" in claims[0]


@pytest.mark.parametrize(
    ("world_size", "stated", "believed", "why"),
    [
        (4, 360.0, 360.0, None),
        (4, 1e9, None, ["gpu_hours is 1e+09: 4 GPUs have at most 360 in three days and a quarter more"]),
        (None, 1.0, None, ["gpu_hours is 1: without a world_size it says nothing"]),
        (None, None, None, None),
        (4, 0.0, 0.0, None),
    ],
)
def test_more_gpu_hours_than_a_job_can_have_are_not_believed(
    world_size: int | None, stated: float | None, believed: float | None, why: list[str] | None
) -> None:
    job: dict[str, Any] = {"gpu_hours": stated, "world_size": world_size, "refused_claims": None}
    assert without_refused(job) == job | {"gpu_hours": believed, "refused_claims": why}


def test_a_manifest_that_claims_too_much_says_so_in_jobs(landing: Landing, tmp_path: Path) -> None:
    landing.manifest(JOB, gpu_hours=1e9)
    put(landing, "rank-00001.jsonl", 1)
    job = land(landing.root, tmp_path / "staging").job(JOB)
    assert (job["gpu_hours"], job["manifest_status"]) == (None, None)
    assert job["refused_claims"] == [
        "gpu_hours is 1e+09: 4 GPUs have at most 360 in three days and a quarter more"
    ]


@pytest.mark.parametrize(("count", "left_out"), [(25, "5 more pairs of files"), (21, "1 more pair of files")])
def test_only_the_first_of_many_contradictions_are_named(count: int, left_out: str) -> None:
    found = contradictions(Counter({(f"a{number:02d}", "b"): 1 for number in range(count)}))
    assert found[0] == "a00 and b contradict each other about 1 step of a rank: both are rejected"
    assert (len(found), found[-1]) == (21, f"and {left_out}")


def test_units_whose_logs_have_another_owner_than_before_are_named() -> None:
    rows: list[dict[str, Any]] = [
        {"job_id": "a", "owner_uid": 1000},
        {"job_id": "b", "owner_uid": 1000},
        {"job_id": "c"},
    ]
    later = [*rows[:1], {"job_id": "b", "owner_uid": 1001}, {"job_id": "d", "owner_uid": 7}]
    before = table_rows(SOURCE_FILES, [{"owner_uid": None} | each for each in rows])
    (said,) = new_owners(before, table_rows(SOURCE_FILES, later))
    day, run_id = (before[name][0].as_py() for name in ("log_date", "run_id"))
    of = "its logs are of user 1001, those read before were of user 1000"
    assert said == f"{day}: job b, run {run_id}: {of}"


def test_ranks_of_a_worker_that_nothing_shows_count_only_up_to_a_bound() -> None:
    """A manifest's GPU-hours are refused if they need more ranks per worker than is plausible (1,024)."""
    sizes = {"world_size": 2**30, "tp_size": 2**28, "cp_size": 1, "refused_claims": None}
    found = without_refused({"gpu_hours": 9e8, **sizes})
    assert (found["gpu_hours"], len(found["refused_claims"])) == (None, 1)
    assert "no more than 1,024 ranks of a worker are believed, not 268,435,456" in found["refused_claims"][0]
    usual = {"gpu_hours": 4 * 1024 * 24.0, "world_size": 4 * 1024, "tp_size": 1024, "cp_size": 1}
    assert without_refused(usual) == usual


def test_claims_of_the_manifest_stay_beside_hours_that_are_not_believed() -> None:
    job: dict[str, Any] = {"gpu_hours": 1e9, "world_size": 8, "refused_claims": ["gpuType is not a field"]}
    first, second = without_refused(job)["refused_claims"]
    assert (first, second[:18]) == ("gpuType is not a field", "gpu_hours is 1e+09")
