"""GPU types and contradictions in rank logs are merged from all parts of a unit into its row of jobs."""

import json
from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from jobs.landing import accounts
from jobs.landing.accounts import CONTRADICTORY, LEFT_OUT_TYPES, Outside, UnitAccount, join_parts
from jobs.landing.files import Landing as LandedFiles
from jobs.landing.formats.rows import Bounds
from jobs.landing.one_run import read_run, runs_in
from jobs.landing.read_landing import Where, read_landing
from jobs.landing.usable import Used
from schemas.gpu_types import MOST_TYPES
from schemas.unit import Unit
from tests.jobs.landing.land import OneWorker
from tests.support.line_cases import JOB, RUN, SIZES, line
from tests.support.night import DAY, Landing

UNIT = Unit(date(2026, 1, 5), "gpt", "r1")


def account(job: dict[str, Any] | None, **types: str) -> UnitAccount:
    return UnitAccount(UNIT, job, gpu_types={host: set(names.split()) for host, names in types.items()})


def test_what_the_manifest_says_stays_and_lines_add_other_hosts() -> None:
    first = account({"gpu_types": {"a": "H100"}, "left_out": None}, a="A100", b="A100")
    first.add_gpu_types([account(None, c="H100", b="A100")])
    assert first.job == {"gpu_types": {"a": "H100", "b": "A100", "c": "H100"}, "left_out": None}


def test_a_host_of_several_types_is_left_out_and_counted() -> None:
    first = account({"gpu_types": None, "left_out": {"others": 2}}, a="A100", b="A100 H100")
    first.add_gpu_types([account(None, a="H100", c="H100")])
    assert first.job == {"gpu_types": {"c": "H100"}, "left_out": {"others": 2, CONTRADICTORY: 2}}


def test_more_hosts_than_a_row_can_hold_state_nothing_and_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(accounts, "MOST_TYPE_TEXT", 9)
    first, parts = (
        account({"gpu_types": {"z": "T4"}}, a="A100"),
        [account(None, b="T4"), account(None, a="A100")],
    )
    first.add_gpu_types(parts)
    assert first.job == {"gpu_types": {"z": "T4", "a": "A100", "b": "T4"}}
    monkeypatch.setattr(accounts, "MOST_TYPE_TEXT", 7)
    first.job = {"gpu_types": {"z": "T4"}}
    first.add_gpu_types(parts)
    assert first.job == {"gpu_types": {"z": "T4"}, "left_out": {LEFT_OUT_TYPES: 2}}


def test_without_types_nothing_changes_and_further_parts_have_no_row() -> None:
    job: dict[str, Any] = {"gpu_types": None, "left_out": None}
    first, second = account(dict(job)), account(None, a="A100")
    first.add_gpu_types([])
    second.add_gpu_types([])
    assert (first.job, second.job) == (job, None)


def test_parts_of_a_unit_are_joined_and_units_kept_apart() -> None:
    other = UnitAccount(Unit(date(2026, 1, 5), "other", "r1"), {"gpu_types": None}, gpu_types={"a": {"T4"}})
    first = account({"gpu_types": None}, a="A100")
    join_parts([first, other, account(None, b="H100")])
    assert first.job == {"gpu_types": {"a": "A100", "b": "H100"}, "refused_claims": None}
    assert other.job == {"gpu_types": {"a": "T4"}, "refused_claims": None}


def test_a_run_is_read_with_the_types_that_its_manifest_and_its_lines_state(tmp_path: Path) -> None:
    manifest = {"job_id": JOB, "run_id": RUN, **SIZES, "gpu_types": {"node-0123": "H100"}}
    (tmp_path / "job.json").write_text(json.dumps(manifest))
    stated = [line(gpu_type="H100"), line(gpu_type="A100", step=3), line(host="b", gpu_type="T4", step=4)]
    (tmp_path / "rank-00001.jsonl").write_bytes(b"\n".join([*stated, b""]))
    (run,) = runs_in(tmp_path)
    read = read_run(run, Bounds())
    assert read.account.job is not None
    assert read.account.job["gpu_types"] == {"node-0123": "H100", "b": "T4"}
    assert read.rows.num_rows == 2
    assert read.rejects["reason"].to_pylist() == ["identity_mismatch"]


@pytest.mark.parametrize(("ranks", "strays", "status"), [(12, 4, "bad_layout"), (4, 1, None), (40, 2, None)])
def test_a_manifest_that_a_tenth_of_the_lines_contradict_is_a_bad_layout(
    tmp_path: Path, ranks: int, strays: int, status: str | None
) -> None:
    """A manifest's status is bad_layout if at least two lines, and a tenth of all lines, contradict it."""
    manifest = {"job_id": JOB, "run_id": RUN, **SIZES}
    (tmp_path / "job.json").write_text(json.dumps(manifest))
    good = [line(step=step) for step in range(ranks)]
    outside = [line(dp_rank=2, step=step) for step in range(strays)]
    (tmp_path / "rank-00001.jsonl").write_bytes(b"\n".join([*good, *outside, b""]))
    (run,) = runs_in(tmp_path)
    read = read_run(run, Bounds())
    assert read.account.job is not None
    assert read.account.job["manifest_status"] == status
    assert read.rejects["reason"].to_pylist() == ["rank_out_of_range"] * strays
    if status is not None:
        detail = "4 of 16 lines contradict the layout, as one whose dp_rank is 2, not below dp_size 2"
        assert read.account.job["manifest_detail"] == detail


def test_lines_of_all_parts_contradict_a_manifest_together() -> None:
    first, other = account({"manifest_status": None, "gpu_types": None}), account(None)
    first.outside, other.outside = Outside(1, "a"), Outside(1, "b")
    join_parts([first, other])
    assert first.job is not None
    assert first.job["manifest_status"] == "bad_layout"


def test_a_row_of_jobs_has_what_rows_refer_to_and_a_host_of_each_further_type() -> None:
    """`jobs.gpu_types` lists all hosts of stored rows, and one host of each further GPU type."""
    types = {"a": "T0", "b": "T1", "c": "T0", "d": "T2", "e": "T2", **{f"f{n}": f"F{n}" for n in range(99)}}
    first = account({"gpu_types": types, "iterations": {1: 5, 2: 6, 3: 6}}, z="H100")
    other = account(None)
    first.used, other.used = Used({"a"}, {2}), Used({"b"}, set())
    join_parts([first, other])
    assert first.job is not None
    kept = {"a": "T0", "b": "T1", "d": "T2", **{f"f{n}": f"F{n}" for n in range(MOST_TYPES - 1)}}
    assert first.job["gpu_types"] == {**kept, "z": "H100"}
    assert first.job["iterations"] == {2: 6}
    assert (first.gpu_types, first.used, other.used) == ({}, Used(), Used())


def test_only_rows_that_are_stored_refer_to_a_manifest(tmp_path: Path) -> None:
    stated = {"gpu_types": {"node-0123": "H100", "b": "H100", "c": "H100"}, "part_of": "w", "role": "a"}
    steps = {"iterations": {"2": 1, "3": 1, "4": 2}}
    (tmp_path / "job.json").write_text(json.dumps({"job_id": JOB, "run_id": RUN, **SIZES, **stated, **steps}))
    (tmp_path / "rank-00001.jsonl").write_bytes(line() + b"\n" + line(step=3, host="b", rank=7) + b"\n")
    (run,) = runs_in(tmp_path)
    read = read_run(run, Bounds())
    assert read.account.job is not None
    (step,) = set(read.rows["step"].to_pylist())
    assert read.account.job["gpu_types"] == {"node-0123": "H100"}
    assert list(read.account.job["iterations"]) == [step]


def test_manifests_come_to_the_driver_by_task(tmp_path: Path) -> None:
    """The driver receives manifests in one Arrow chunk for each task, not for each unit, to save memory."""
    made, units = Landing(tmp_path / "landing"), [f"job-{number}" for number in range(30)]
    for job_id in units:
        made.manifest(job_id, world_size=1)
        made.log(job_id, "rank-00000.jsonl", [line(job_id=job_id)])
    spark = OneWorker()
    where = Where(str(made.root), str(tmp_path / "staging"), "run", Bounds())
    landed = read_landing(cast("SparkSession", spark), LandedFiles(str(made.root), [DAY]), where)
    assert sorted(landed.jobs["job_id"].to_pylist()) == sorted(units)
    assert landed.jobs["job_id"].num_chunks <= len(spark.collect()) + 1 < len(units) / 2


def test_a_file_is_not_its_namesake_in_a_folder_below(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for folder in (tmp_path / "a", tmp_path):
        (folder / "t.json").write_text("[]")
    (run,) = runs_in(tmp_path / "t.json")
    assert (run.folder, [Path(file.path) for file in run.files]) == (str(tmp_path), [tmp_path / "t.json"])
