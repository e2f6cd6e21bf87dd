"""A night in which nearly everything is wrong: each bad thing loses itself and nothing else."""

import gzip
import logging
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from jobs.ingest_rank_logs import run
from jobs.runtime.settings import Settings
from schemas.vocabulary import INGESTED_TABLES
from tests.jobs.landing.formats.test_published_trace import ops, parquet
from tests.support.line_cases import BAD_LINES, JOB, ODD_LINES, PLAIN_LINES, line, row
from tests.support.night import DAY, EMPTY_DAY, NEXT_DAY, Landing, Tables

META = (
    b"trial_name: t\nrun_id: 0\ndp_size: 2\ndsp_size: 1\npp_size: 2\ntp_size: 1\nvpp_size: 1\nworld_size: 4\n"
)
ODD_ID = "a b+c%20d{1}[x]*;=&'\"#"
GOOD_LINES = PLAIN_LINES | ODD_LINES
LONG = [line(job_id="long", rank=0, step=step) for step in range(400)]


class Night(NamedTuple):
    """What one run over three days, of which the last has no folder, left behind."""

    tables: Tables
    counts: dict[str, int]
    settings: Settings


def write_lines(landing: Landing) -> None:
    """One rank log per case: a good line, two blank ones, the case on line 4, and another good line."""
    landing.manifest(JOB)
    texts = [bad.text for bad in BAD_LINES.values()] + [
        with_step(name, text) for name, (text, _) in GOOD_LINES.items()
    ]
    for number, text in enumerate(texts):
        around = [line(rank=0, step=10_000 + 2 * number), line(rank=0, step=10_001 + 2 * number)]
        landing.log(JOB, f"rank-{number:05d}.jsonl", [around[0], b"", b" \t\r", text, around[1]])


def with_step(name: str, text: bytes) -> bytes:
    """The good line of a case with a step of its own, so that all can stand in one run."""
    return re.sub(rb'("step": ?)2\b', rb"\g<1>%d" % (100 + [*GOOD_LINES].index(name)), text)


def write_files(landing: Landing) -> None:
    good = [line(job_id="files", rank=1, step=step) for step in range(5)]
    landing.manifest("files")
    landing.log("files", "rank-00001.jsonl", good)
    packed = [line(job_id="files", rank=2, step=step) for step in range(500)]
    content = gzip.compress(b"\n".join(packed))
    landing.put("files", "rank-00002.jsonl.gz", content)
    landing.put("files", "rank-00003.jsonl.gz", content[: len(content) // 2])
    landing.put("files", "rank-00004.jsonl.gz", b"not gzip\n")
    landing.put("files", "rank-00005.jsonl", b"")
    landing.put("files", "rank-00006.jsonl", line(job_id="files", rank=3, step=0) + b"\n" + line()[:50])
    landing.put("files", "rank-00007.jsonl.tmp", b"not one of ours")
    landing.put("files", ".rank-00008.jsonl.crc", b"hidden")
    (landing.root / f"log_date={DAY}" / "_SUCCESS").touch()
    (landing.root / f"log_date={DAY}" / "rank-00000.jsonl").write_bytes(b"not in a run folder\n")


def write_duplicates(landing: Landing) -> None:
    landing.manifest("long")
    lines = [*LONG[:150], LONG[3], b"", b"torn", *LONG[150:], b"torn too", LONG[399]]
    landing.log("long", "rank-00000.jsonl", lines)
    landing.manifest("twice")
    logs = [line(job_id="twice", rank=1, step=step, gpu=gpu) for step in (1, 2) for gpu in (0,)]
    landing.log("twice", "rank-00001.jsonl", logs)
    landing.log("twice", "rank-00001.jsonl.gz", [*logs, line(job_id="twice", rank=1, step=3)])
    landing.log("twice", "rank-00002.jsonl", [line(job_id="twice", rank=1, step=1, gpu=7, note="odd")])


def write_manifests(landing: Landing) -> None:
    for job_id in ("no manifest", "torn manifest", "empty manifest", "list manifest"):
        landing.log(job_id, "rank-00000.jsonl", [line(job_id=job_id, rank=99), line(job_id=job_id, rank=-1)])
    landing.put("torn manifest", "job.json", b'{"job_id": "torn')
    landing.put("empty manifest", "job.json", b"")
    landing.put("list manifest", "job.json", b"[]")
    landing.manifest("wrong product", world_size=8)
    landing.manifest("wrong fields", job_id="other", team=7, started_at="now", gpu_hours=12)
    landing.manifest("only a manifest", started_at="0001-01-01T00:00:00Z", labels={"a": "b"})
    landing.manifest("007", "0")
    landing.log(
        "007", "rank-0.jsonl", [line(job_id="007", run_id="0"), line(job_id=7, run_id=0, step=3)], "0"
    )
    landing.manifest("1", "true")
    numbers = [
        line(job_id="1", run_id="true"),
        line(job_id=1, run_id=True, step=3),
        line(job_id="1", run_id=True),
    ]
    landing.log("1", "rank-0.jsonl", numbers, "true")
    landing.manifest(ODD_ID, ODD_ID)
    landing.log(ODD_ID, "rank-0.jsonl", [line(job_id=ODD_ID, run_id=ODD_ID)], ODD_ID)
    landing.manifest("tp", tp_size=2, world_size=8)
    landing.log("tp", "rank-0.jsonl", [line("tp_rank", job_id="tp"), line(job_id="tp", step=3)])


def write_traces(landing: Landing) -> None:
    trace = parquet(
        ops({"step": 1}, {"step": 1, "start_ts": 1.0}, {"step": 2}, {"step": 3, "duration": -1.0})
    )
    for job_id in ("trace", "trace without meta", "trace with torn meta"):
        landing.put(job_id, "trace-X.parquet", trace)
    landing.put("trace", "meta-X.yaml", META)
    landing.put("trace with torn meta", "meta-X.yaml", b"a: [1")
    for job_id, content in (
        ("torn trace", trace[:-9]),
        ("empty trace", b""),
        ("bare trace", parquet(ops({})[["step"]])),
    ):
        landing.put(job_id, "trace-X.parquet", content)
        landing.put(job_id, "meta-X.yaml", META)


@pytest.fixture(scope="module")
def night(spark: SparkSession, test_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Night:
    landing = Landing(tmp_path_factory.mktemp("landing [of] {all} kinds"))
    for write in (write_lines, write_files, write_duplicates, write_manifests, write_traces):
        write(landing)
    landing.manifest("tomorrow", day=NEXT_DAY)
    landing.log("tomorrow", "rank-0.jsonl", [line(job_id="tomorrow")], day=NEXT_DAY)
    paths = test_settings.paths.model_copy(
        update={"landing": str(landing.root), "warehouse": str(tmp_path_factory.mktemp("warehouse"))}
    )
    settings = test_settings.model_copy(update={"paths": paths})
    counts = run(spark, settings, [DAY, NEXT_DAY, EMPTY_DAY])
    return Night(Tables(spark, settings), counts, settings)


def test_the_line_before_and_after_every_defect_is_stored(night: Night) -> None:
    expected = [row(rank=0, step=10_000 + number) for number in range(2 * len(BAD_LINES | GOOD_LINES))]
    for number, (_, good) in enumerate(GOOD_LINES.values()):
        expected.append(good | {"step": 100 + number} if good["step"] == 2 else good)
    stored = [{**each} for each in night.tables.of("rank_steps", JOB)]
    for each in stored:
        del each["source_file"]
    assert sorted(stored, key=repr) == sorted(({**stored[0], **each} for each in expected), key=repr)


@pytest.mark.parametrize("defect", BAD_LINES)
def test_line_with_a_defect_is_rejected(night: Night, defect: str) -> None:
    bad = BAD_LINES[defect]
    name = f"rank-{[*BAD_LINES].index(defect):05d}.jsonl"
    (reject,) = (each for each in night.tables.of("rejects", JOB) if each["source_file"].endswith(name))
    assert (reject["line"], reject["reason"]) == (4, bad.reason)
    assert reject["text"] == bad.text.decode("utf-8", "replace")[:2000]
    assert bad.detail in reject["detail"]


def test_no_good_line_is_rejected(night: Night) -> None:
    assert len(night.tables.of("rejects", JOB)) == len(BAD_LINES)


def test_every_line_is_accounted_for_and_blank_ones_are_none(night: Night) -> None:
    files = night.tables.of("source_files", JOB)
    assert {(each["lines"], each["rows"] + each["rejects"]) for each in files} == {(3, 3)}
    assert len(files) == len(BAD_LINES | GOOD_LINES)


def test_truncated_gzip_is_one_reject_and_none_of_its_lines_is_stored(night: Night) -> None:
    rejected = night.tables.rejected("files")
    assert [each for each in rejected if each[0].endswith(".gz")] == [
        ("rank-00003.jsonl.gz", None, "unreadable_file"),
        ("rank-00004.jsonl.gz", None, "unreadable_file"),
    ]
    expected = [(1, step) for step in range(5)] + [(2, step) for step in range(500)] + [(3, 0)]
    assert night.tables.steps("files") == expected


def test_torn_last_line_without_newline_is_rejected(night: Night) -> None:
    assert ("rank-00006.jsonl", 2, "not_json") in night.tables.rejected("files")


def test_unreadable_and_empty_files_are_in_the_accounting(night: Night) -> None:
    files = {each["source_file"].rsplit("/", 1)[1]: each for each in night.tables.of("source_files", "files")}
    assert {name: (each["lines"], each["rows"], each["rejects"]) for name, each in files.items()} == {
        "rank-00001.jsonl": (5, 5, 0),
        "rank-00002.jsonl.gz": (500, 500, 0),
        "rank-00003.jsonl.gz": (None, 0, 1),
        "rank-00004.jsonl.gz": (None, 0, 1),
        "rank-00005.jsonl": (0, 0, 0),
        "rank-00006.jsonl": (2, 1, 1),
    }
    assert (files["rank-00004.jsonl.gz"]["bytes"], files["rank-00005.jsonl"]["bytes"]) == (9, 0)


def test_equal_rank_and_step_in_one_file_keeps_the_first(night: Night) -> None:
    assert night.tables.steps("long") == [(0, step) for step in range(400)]
    assert night.tables.rejected("long") == [
        ("rank-00000.jsonl", 151, "duplicate_rank_step"),
        ("rank-00000.jsonl", 153, "not_json"),
        ("rank-00000.jsonl", 404, "not_json"),
        ("rank-00000.jsonl", 405, "duplicate_rank_step"),
    ]
    first = night.tables.of("rejects", "long")[0]
    assert first["detail"].startswith("rank 0, step 3 is already in log_date=")
    assert first["text"] == LONG[3].decode()


def test_equal_rank_and_step_in_several_files_keeps_the_first_file(night: Night) -> None:
    assert night.tables.steps("twice") == [(1, 1), (1, 2), (1, 3)]
    assert {each["gpu"] for each in night.tables.of("rank_steps", "twice")} == {0, 3}
    assert night.tables.rejected("twice") == [
        ("rank-00001.jsonl.gz", 1, "duplicate_rank_step"),
        ("rank-00001.jsonl.gz", 2, "duplicate_rank_step"),
        ("rank-00002.jsonl", 1, "duplicate_rank_step"),
    ]
    assert all(each["text"].startswith('{"format"') for each in night.tables.of("rejects", "twice"))


@pytest.mark.parametrize(
    ("job_id", "status", "rejects"),
    [
        ("no manifest", "no_manifest", []),
        ("torn manifest", "no_manifest", [("job.json", None, "unreadable_file")]),
        ("empty manifest", "no_manifest", [("job.json", None, "unreadable_file")]),
        ("list manifest", "bad_layout", []),
    ],
)
def test_without_a_manifest_lines_are_stored(
    night: Night, job_id: str, status: str, rejects: list[tuple[str, int | None, str]]
) -> None:
    job = night.tables.job(job_id)
    assert (job.pop("manifest_status"), bool(job.pop("manifest_detail"))) == (status, True)
    assert (job.pop("source_format"), job.pop("transfers")) == ("rank-log/1", "measured")
    assert set(job.values()) == {None}
    assert night.tables.steps(job_id) == [(99, 2)]
    assert night.tables.rejected(job_id) == [*rejects, ("rank-00000.jsonl", 2, "rank_out_of_range")]


def test_manifest_whose_product_is_not_world_size_is_bad_layout(night: Night) -> None:
    job = night.tables.job("wrong product")
    assert (job["manifest_status"], job["world_size"]) == ("bad_layout", 8)
    assert "world_size is 8" in job["manifest_detail"]


def test_manifest_with_wrong_fields_names_them_and_keeps_the_others(night: Night) -> None:
    job = night.tables.job("wrong fields")
    assert (job["manifest_status"], job["gpu_hours"], job["team"]) == ("bad_layout", 12, None)
    for named in ("job_id", "team", "started_at"):
        assert f"{named} is " in job["manifest_detail"]


def test_a_folder_with_a_manifest_alone_is_a_unit(night: Night) -> None:
    job = night.tables.job("only a manifest")
    assert (job["manifest_status"], job["labels"], job["started_at"].year) == (None, {"a": "b"}, 1)


def test_ids_are_text_whatever_they_look_like(night: Night) -> None:
    units = {(each["job_id"], each["run_id"]) for each in night.tables.rows["rank_steps"]}
    assert {("007", "0"), ("1", "true"), (ODD_ID, ODD_ID)} <= units
    assert night.tables.rejected("007") == [("rank-0.jsonl", 2, "bad_type")]
    assert night.tables.rejected("1") == [("rank-0.jsonl", 2, "bad_type"), ("rank-0.jsonl", 3, "bad_type")]
    assert night.tables.rejected(ODD_ID) == []
    (file,) = night.tables.of("source_files", ODD_ID)
    assert file["source_file"] == f"log_date=2026-01-05/job_id={ODD_ID}/run_id={ODD_ID}/rank-0.jsonl"


def test_missing_tp_rank_with_tensor_parallelism_is_rejected(night: Night) -> None:
    assert night.tables.rejected("tp") == [("rank-0.jsonl", 1, "missing_field")]
    assert night.tables.steps("tp") == [(1, 3)]


def test_a_published_trace_without_manifest_is_stored_too(night: Night) -> None:
    good, bare = night.tables.job("trace"), night.tables.job("trace without meta")
    assert (good["manifest_status"], good["cp_size"], good["labels"]) == (
        None,
        1,
        {"trial_name": "t", "run_id": "0"},
    )
    assert (
        bare["manifest_status"]
        == night.tables.job("trace with torn meta")["manifest_status"]
        == "no_manifest"
    )
    for job_id in ("trace", "trace without meta", "trace with torn meta"):
        assert night.tables.steps(job_id) == [(2, 1), (2, 2)]
        assert ("trace-X.parquet", 3, "negative_time") in night.tables.rejected(job_id)
    assert ("meta-X.yaml", None, "unreadable_file") in night.tables.rejected("trace with torn meta")


@pytest.mark.parametrize("job_id", ["torn trace", "empty trace", "bare trace"])
def test_unreadable_parquet_is_one_reject(night: Night, job_id: str) -> None:
    assert night.tables.rejected(job_id) == [("trace-X.parquet", None, "unreadable_file")]
    assert night.tables.steps(job_id) == []
    assert night.tables.job(job_id)["manifest_status"] is None


def test_every_run_folder_is_a_unit_and_nothing_else(night: Night) -> None:
    units = [(str(each["log_date"]), each["job_id"], each["run_id"]) for each in night.tables.rows["jobs"]]
    folders = Path(night.settings.paths.landing).glob("log_date=*/job_id=*/run_id=*")
    named = [tuple(part.split("=", 1)[1] for part in folder.parts[-3:]) for folder in folders]
    assert sorted(units) == sorted(named)


def test_rows_of_the_same_unit_lie_together_in_order(spark: SparkSession, night: Night) -> None:
    order = ("log_date", "job_id", "run_id", "pp_rank", "step", "dp_rank", "cp_rank", "tp_rank", "rank")
    stored = spark.read.format("delta").load(f"{night.settings.paths.warehouse}/rank_steps")
    in_files: dict[str, list[list[Any]]] = {}
    for each in stored.select("_metadata.file_path", *order).collect():
        in_files.setdefault(each["file_path"], []).append([(value is not None, value) for value in each[1:]])
    assert all(keys == sorted(keys) for keys in in_files.values())


def test_a_day_ingested_again_gives_the_same_tables(spark: SparkSession, night: Night) -> None:
    counts = run(spark, night.settings, [DAY])
    assert counts["rank_steps"] == night.counts["rank_steps"] - 1
    assert Tables(spark, night.settings).sets() == night.tables.sets()


def test_an_empty_day_is_a_warning_and_no_rows(
    spark: SparkSession, night: Night, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        counts = run(spark, night.settings, [EMPTY_DAY])
    assert {counts[table] for table in INGESTED_TABLES} == {0}
    assert counts["ingest.units"] == 0
    assert "nothing to ingest: no run folder of 2026-01-07" in caplog.text
    assert Tables(spark, night.settings).sets() == night.tables.sets()
