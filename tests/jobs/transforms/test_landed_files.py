"""Files of the landing, told apart and spread over partitions."""

from datetime import date
from typing import Any

import pytest

from jobs.landing.files import (
    MANIFEST,
    META,
    PACKED_RANK_LOG,
    RANK_LOG,
    TRACE,
    LandedFile,
    by_unit,
    log_files,
)

DAY = date(2026, 1, 5)


def landed(job_id: str, name: str, size: int = 100) -> LandedFile:
    return LandedFile(DAY, job_id, "r", f"log_date=2026-01-05/job_id={job_id}/run_id=r/{name}", name, size)


def job(job_id: str, **fields: object) -> dict[str, Any]:
    sizes = dict.fromkeys(("dp_size", "pp_size", "tp_size", "cp_size", "world_size"), 2)
    return {"log_date": DAY, "job_id": job_id, "run_id": "r", "manifest_status": None} | sizes | fields


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("rank-00017.jsonl", RANK_LOG),
        ("rank-00017.jsonl.gz", PACKED_RANK_LOG),
        ("trace-SE.parquet", TRACE),
        ("meta-SE.yaml", META),
        ("job.json", MANIFEST),
        ("rank-00017.jsonl.tmp", None),
        ("rank.jsonl", None),
    ],
)
def test_a_file_is_what_its_name_says(name: str, pattern: str | None) -> None:
    found = [
        each
        for each in (RANK_LOG, PACKED_RANK_LOG, TRACE, META, MANIFEST)
        if landed("a", name).is_one_of(each)
    ]
    assert found == ([pattern] if pattern else [])


def test_only_good_manifests_bound_ranks() -> None:
    files = [landed("a", "rank-0.jsonl"), landed("b", "rank-0.jsonl"), landed("b", "job.json")]
    rows = log_files(files, [job("a"), job("b", manifest_status="bad_layout")], 4).to_pylist()
    assert [(row["job_id"], row["world_size"], row["dp_size"]) for row in rows] == [
        ("a", 2, 2),
        ("b", None, None),
    ]


def test_traces_have_no_lines() -> None:
    rows = log_files([landed("a", "rank-0.jsonl"), landed("a", "trace-X.parquet")], [], 4).to_pylist()
    assert [(row["source_file"][-15:], row["has_lines"]) for row in rows] == [
        ("=r/rank-0.jsonl", True),
        ("trace-X.parquet", False),
    ]


def buckets(sizes: dict[str, int], partitions: int) -> list[int]:
    files = [landed(job_id, "rank-0.jsonl", size) for job_id, size in sizes.items()]
    rows = log_files(files, [], partitions).to_pylist()
    return [row["bucket"] for row in sorted(rows, key=lambda row: str(row["job_id"]))]


def test_units_are_spread_by_their_bytes_and_neighbours_stay_together() -> None:
    assert buckets(dict.fromkeys("abcdefgh", 100), 4) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert buckets({"a": 600, "b": 100, "c": 100}, 2) == [0, 1, 1]


def test_there_are_never_more_partitions_than_units() -> None:
    assert buckets({"a": 100}, 4) == [0]
    assert buckets({"a": 0, "b": 0}, 4) == [0, 0]


def test_many_bytes_make_more_partitions_than_asked_for() -> None:
    assert max(buckets({f"{number:02}": 256 << 20 for number in range(10)}, 2)) == 9


def test_every_folder_with_a_file_is_a_unit() -> None:
    files = [landed("a", "job.json"), landed("b", "notes.txt"), landed("a", "rank-0.jsonl")]
    assert [(unit[1], len(found)) for unit, found in by_unit(files).items()] == [("a", 2), ("b", 1)]
