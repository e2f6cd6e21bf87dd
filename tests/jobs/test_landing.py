"""The landing: files of days or of single units, with what fingerprints need to know of them."""

import hashlib
from collections.abc import Collection
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from jobs.landing.files import Landing
from tests.jobs.night import DAY, EMPTY_DAY, NEXT_DAY
from tests.jobs.night import Landing as Folders

ODD = ("plain", "a,b", "[x]*y?", "{c,d}", "50%20 off", "back\\slash")
"""Job ids that a glob, a URL or a list of names could take for something else."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    made = Folders(tmp_path_factory.mktemp("landing, of [some] {kind}"))
    for job_id in ODD:
        made.put(job_id, "rank-00000.jsonl", job_id.encode())
        made.put(job_id, "job.json", b"", day=NEXT_DAY)
    (made.root / f"log_date={DAY}" / "_SUCCESS").touch()
    return made


@pytest.mark.parametrize("job_id", ODD)
def test_one_unit_is_found_whatever_its_name(spark: SparkSession, folders: Folders, job_id: str) -> None:
    absent = (DAY, "absent", "r1")
    unit = next(each.unit for each in Landing(spark, str(folders.root), [DAY]).files if each.job_id == job_id)
    (file,) = Landing(spark, str(folders.root), [DAY], {unit, absent}).files
    path = folders.root / file.source_file
    assert (file.unit, file.size) == (unit, len(job_id))
    assert file.modified_us // 1000 == path.stat().st_mtime_ns // 1_000_000


def test_units_that_are_all_gone_have_no_files(spark: SparkSession, folders: Folders) -> None:
    landing = Landing(spark, str(folders.root), [DAY], {(DAY, "absent", "r1")})
    assert landing.files == []
    assert landing.digests() == {}


def test_digests_are_those_of_contents_also_of_nothing(spark: SparkSession, folders: Folders) -> None:
    landing = Landing(spark, str(folders.root), [DAY, NEXT_DAY])
    digests = landing.digests()
    wanted = {
        file.path: hashlib.sha256((folders.root / file.source_file).read_bytes()).hexdigest()
        for file in landing.files
    }
    assert digests == wanted
    assert len(wanted) == 2 * len(ODD)
    some = [file.path for file in landing.files if file.job_id == "a,b" and file.size]
    assert {path: digests[path] for path in some}.items() <= landing.digests(only=some).items()


def test_contents_are_of_the_files_asked_for_that_say_something(spark: SparkSession, tmp_path: Path) -> None:
    made = Folders(tmp_path)
    files = {"job.json": b"{}", "meta-X.yaml": b"a: 1", "meta-Y.yaml": b"", "rank-00000.jsonl": b"1\n"}
    for name, content in files.items():
        made.put("a,b", name, content)
    digests, contents = Landing(spark, str(tmp_path), [DAY]).digests_and_contents(("job.json", "meta-*.yaml"))
    named = {path.rsplit("/", 1)[1]: content for path, content in contents.items()}
    assert named == {name: files[name] for name in ("job.json", "meta-X.yaml")}
    assert {digests[path] for path in contents} == {
        hashlib.sha256(content).hexdigest() for content in named.values()
    }
    assert len(digests) == len(files)


def test_a_manifest_that_the_store_fails_on_once_is_read_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Folders(tmp_path).put("a,b", "job.json", b"{}")
    read, looks = Landing._whole, []

    def fail_once(landing: Landing, names: Collection[str], only: Collection[str] | None) -> list[Row]:
        looks.append(only)
        return read(landing, names, only) if len(looks) > 1 else []

    monkeypatch.setattr(Landing, "_whole", fail_once)
    digests, contents = Landing(spark, str(tmp_path), [DAY]).digests_and_contents(("job.json",))
    assert [*contents.values()] == [b"{}"]
    assert [*digests.values()] == [hashlib.sha256(b"{}").hexdigest()]


def test_a_file_too_large_to_be_hashed_has_no_digest(
    spark: SparkSession, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.landing._LARGEST_DIGESTED", 4)
    landing = Landing(spark, str(folders.root), [DAY])
    hashed = {file.job_id for file in landing.files if file.path in landing.digests()}
    assert hashed == {job_id for job_id in ODD if len(job_id) <= 4}


def test_a_day_is_finished_when_its_marker_is_there(spark: SparkSession, folders: Folders) -> None:
    days = [DAY, NEXT_DAY, EMPTY_DAY]
    assert Landing(spark, str(folders.root), days).finished_days() == {DAY}
    assert Landing(spark, str(folders.root / "absent"), days).finished_days() == set()
