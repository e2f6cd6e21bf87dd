"""In a day full of bad input, each defect rejects only its own line, file or unit."""

import gzip
import logging
import re
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from jobs.landing.files import LandedFile
from jobs.landing.files import Landing as Listed
from jobs.night.ingest import run
from jobs.runtime.settings import Settings
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import HOST_HEALTH, INGESTED_TABLES, JOBS, RANK_STEPS, REJECTS, SOURCE_FILES
from tests.jobs.landing.formats.test_published_trace import ops, parquet
from tests.jobs.landing.land import Landed, Rejected, land
from tests.support.line_cases import BAD_LINES, JOB, ODD_LINES, PLAIN_LINES, RUN, line, row
from tests.support.night import DAY, EMPTY_DAY, Landing

META = (
    b"trial_name: t\nrun_id: 0\ndp_size: 2\ndsp_size: 1\npp_size: 2\ntp_size: 1\nvpp_size: 1\nworld_size: 4\n"
)
ODD_ID = "a b+c%20d{1}[x]*;=&'\"#"
GOOD_LINES = PLAIN_LINES | ODD_LINES
LONG = [line(job_id="long", rank=0, step=step) for step in range(400)]


def write_lines(landing: Landing) -> None:
    """Write, for each case, a log whose line 4 is the case, among good and blank lines."""
    landing.manifest(JOB)
    texts = [bad.text for bad in BAD_LINES.values()] + [
        with_step(name, text) for name, (text, _) in GOOD_LINES.items()
    ]
    for number, text in enumerate(texts):
        around = [line(rank=0, step=10_000 + 2 * number), line(rank=0, step=10_001 + 2 * number)]
        landing.log(JOB, f"rank-case-{number:05d}.jsonl", [around[0], b"", b" \t\r", text, around[1]])


def with_step(name: str, text: bytes) -> bytes:
    """Return the case's good line with a step that no other case has, so that all cases fit in one run."""
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
    landing.put("files", "rank-late.jsonl", line(job_id="files", rank=3, step=0) + b"\n" + line()[:50])
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
    landing.log("twice", "rank-other.jsonl", [line(job_id="twice", rank=1, step=1, gpu=7, note="odd")])


def write_manifests(landing: Landing) -> None:
    for job_id in ("no manifest", "torn manifest", "empty manifest", "list manifest"):
        landing.log(job_id, "rank-any.jsonl", [line(job_id=job_id, rank=99), line(job_id=job_id, rank=-1)])
    landing.put("torn manifest", "job.json", b'{"job_id": "torn')
    landing.put("empty manifest", "job.json", b"")
    landing.put("list manifest", "job.json", b"[]")
    landing.manifest("wrong product", world_size=8)
    landing.manifest("wrong fields", job_id="other", team=7, started_at="now", gpu_hours=12)
    landing.manifest("only a manifest", started_at="0001-01-01T00:00:00Z", labels={"a": "b"})
    landing.manifest("007", "0")
    landing.log(
        "007", "rank-1.jsonl", [line(job_id="007", run_id="0"), line(job_id=7, run_id=0, step=3)], "0"
    )
    landing.manifest("1", "true")
    numbers = [
        line(job_id="1", run_id="true"),
        line(job_id=1, run_id=True, step=3),
        line(job_id="1", run_id=True),
    ]
    landing.log("1", "rank-1.jsonl", numbers, "true")
    landing.manifest(ODD_ID, ODD_ID)
    landing.log(ODD_ID, "rank-1.jsonl", [line(job_id=ODD_ID, run_id=ODD_ID)], ODD_ID)
    landing.manifest("tp", tp_size=2, world_size=8)
    landing.log("tp", "rank-1.jsonl", [line("tp_rank", job_id="tp"), line(job_id="tp", step=3)])


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


NEGATIVE: Final = ("rank-any.jsonl", 2, "rank_out_of_range")
TORN: Final = ("job.json", None, "unreadable_file")
NO_TIME: Final = ("trace-X.parquet", 3, "negative_time")
NO_TRACE: Final = ("trace-X.parquet", None, "unreadable_file")


WANTED: Final[dict[str, tuple[list[tuple[int, int]], Rejected, str | None]]] = {
    "files": (
        [(1, step) for step in range(5)] + [(2, step) for step in range(500)] + [(3, 0)],
        [
            ("rank-00003.jsonl.gz", None, "unreadable_file"),
            ("rank-00004.jsonl.gz", None, "unreadable_file"),
            ("rank-late.jsonl", 2, "not_json"),
        ],
        None,
    ),
    "long": (
        [(0, step) for step in range(400)],
        [
            ("rank-00000.jsonl", 151, "duplicate_rank_step"),
            ("rank-00000.jsonl", 153, "not_json"),
            ("rank-00000.jsonl", 404, "not_json"),
            ("rank-00000.jsonl", 405, "duplicate_rank_step"),
        ],
        None,
    ),
    "twice": (
        [(1, 2), (1, 3)],
        [
            ("rank-00001.jsonl", 1, "contested_rank_step"),
            ("rank-00001.jsonl.gz", 1, "contested_rank_step"),
            ("rank-00001.jsonl.gz", 2, "duplicate_rank_step"),
            ("rank-other.jsonl", 1, "contested_rank_step"),
        ],
        None,
    ),
    "no manifest": ([(99, 2)], [NEGATIVE], "no_manifest"),
    "torn manifest": ([(99, 2)], [TORN, NEGATIVE], "no_manifest"),
    "empty manifest": ([(99, 2)], [TORN, NEGATIVE], "no_manifest"),
    "list manifest": ([(99, 2)], [NEGATIVE], "bad_layout"),
    "wrong product": ([], [], "bad_layout"),
    "wrong fields": ([], [], "bad_layout"),
    "only a manifest": ([], [], None),
    "007": ([(1, 2)], [("rank-1.jsonl", 2, "bad_type")], None),
    "1": ([(1, 2)], [("rank-1.jsonl", 2, "bad_type"), ("rank-1.jsonl", 3, "bad_type")], None),
    ODD_ID: ([(1, 2)], [], None),
    "tp": ([(1, 3)], [("rank-1.jsonl", 1, "missing_field")], None),
    "trace": ([(2, 1), (2, 2)], [NO_TIME], None),
    "trace without meta": ([(2, 1), (2, 2)], [NO_TIME], "no_manifest"),
    "trace with torn meta": (
        [(2, 1), (2, 2)],
        [("meta-X.yaml", None, "unreadable_file"), NO_TIME],
        "no_manifest",
    ),
    **{f"{how} trace": ([], [NO_TRACE], None) for how in ("torn", "empty", "bare")},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Landing:
    landing = Landing(tmp_path_factory.mktemp("landing [of] {all} kinds"))
    for write in (write_lines, write_files, write_duplicates, write_manifests, write_traces):
        write(landing)
    return landing


@pytest.fixture(scope="module")
def day(made: Landing, tmp_path_factory: pytest.TempPathFactory) -> Landed:
    return land(made.root, tmp_path_factory.mktemp("staging"))


def test_the_line_before_and_after_every_defect_is_stored(day: Landed) -> None:
    expected = [row(rank=0, step=10_000 + number) for number in range(2 * len(BAD_LINES | GOOD_LINES))]
    for number, (_, good) in enumerate(GOOD_LINES.values()):
        expected.append(good | {"step": 100 + number} if good["step"] == 2 else good)
    stored = [{**each} for each in day.of(RANK_STEPS, JOB)]
    for each in stored:
        del each["source_file"]
    assert sorted(stored, key=repr) == sorted(({**stored[0], **each} for each in expected), key=repr)


def test_every_line_with_a_defect_is_rejected_and_no_other(day: Landed) -> None:
    found = {each["source_file"].rsplit("/", 1)[1]: each for each in day.of(REJECTS, JOB)}
    assert len(found) == len(day.of(REJECTS, JOB)) == len(BAD_LINES)
    for number, (defect, bad) in enumerate(BAD_LINES.items()):
        reject = found[f"rank-case-{number:05d}.jsonl"]
        assert (reject["line"], reject["reason"]) == (4, bad.reason), defect
        assert reject["text"] == bad.text.decode("utf-8", "replace")[:2000], defect
        assert bad.detail in reject["detail"], defect


def test_every_line_is_accounted_for_and_blank_ones_are_none(day: Landed) -> None:
    files = day.of(SOURCE_FILES, JOB)
    assert {(each["lines"], each["rows"] + each["rejects"]) for each in files} == {(3, 3)}
    assert len(files) == len(BAD_LINES | GOOD_LINES)
    accounts = {each.pop("source_file").rsplit("/", 1)[1]: each for each in day.of(SOURCE_FILES, "files")}
    of_packed, of_torn = (accounts.pop(f"rank-0000{n}.jsonl.gz") for n in (2, 3))
    assert (of_packed["lines"], of_packed["rows"], of_torn["lines"]) == (500, 500, None)
    counts = ("bytes", "lines", "rows", "rejects")
    assert {name: tuple(each[count] for count in counts) for name, each in sorted(accounts.items())} == {
        "rank-00001.jsonl": (accounts["rank-00001.jsonl"]["bytes"], 5, 5, 0),
        "rank-00004.jsonl.gz": (9, None, 0, 1),
        "rank-00005.jsonl": (0, 0, 0, 0),
        "rank-late.jsonl": (accounts["rank-late.jsonl"]["bytes"], 2, 1, 1),
    }


@pytest.mark.parametrize("job_id", WANTED)
def test_each_bad_thing_loses_itself_alone(day: Landed, job_id: str) -> None:
    status = day.job(job_id)["manifest_status"]
    assert (day.steps(job_id), day.rejected(job_id), status) == WANTED[job_id]


def test_repeats_name_the_file_of_the_first_and_keep_its_row(day: Landed) -> None:
    first = day.of(REJECTS, "long")[0]
    assert first["detail"].startswith("rank 0, step 3 is already in log_date=")
    assert first["text"] == LONG[3].decode()
    assert {each["gpu"] for each in day.of(RANK_STEPS, "twice")} == {0, 3}


def test_what_a_manifest_lacks_is_null_and_what_it_has_is_kept(day: Landed) -> None:
    job: dict[str, Any] = day.job("no manifest")
    job.pop("manifest_status")
    assert job.pop("manifest_detail") == "the folder has no job.json"
    assert (job.pop("source_format"), job.pop("transfers")) == ("rank-log/1", "measured")
    assert set(job.values()) == {None}
    assert (day.job("wrong fields")["gpu_hours"], day.job("wrong product")["world_size"]) == (12, 8)
    job = day.job("only a manifest")
    assert (job["labels"], job["started_at"].year) == ({"a": "b"}, 1)
    assert (day.job("trace")["cp_size"], day.job("trace")["labels"]) == (
        1,
        {"trial_name": "t", "run_id": "0"},
    )


def test_every_run_folder_is_a_unit_and_nothing_else(made: Landing, day: Landed) -> None:
    units = [(str(each["log_date"]), each["job_id"], each["run_id"]) for each in day.tables[JOBS]]
    folders = made.root.glob("log_date=*/job_id=*/run_id=*")
    named = [tuple(part.split("=", 1)[1] for part in folder.parts[-3:]) for folder in folders]
    assert sorted(units) == sorted(named)
    (file,) = day.of(SOURCE_FILES, ODD_ID)
    assert file["source_file"] == f"log_date=2026-01-05/job_id={ODD_ID}/run_id={ODD_ID}/rank-1.jsonl"


def test_rows_of_a_unit_lie_together_in_order(day: Landed) -> None:
    order = ("job_id", "run_id", "pp_rank", "step", "dp_rank", "cp_rank", "tp_rank", "rank")
    keys = [[(row[name] is not None, row[name]) for name in order] for row in day.tables[RANK_STEPS]]
    starts = [place for place in range(1, len(keys)) if keys[place] < keys[place - 1]]
    assert len(starts) <= 1, "each of the two tasks sorts its rows"


class OfAnother(Listed):
    """A landing that reports user 4711 as owner of all its files."""

    @property
    def units(self) -> dict[Unit, list[LandedFile]]:
        return {unit: [file._replace(owner=4711) for file in files] for unit, files in super().units.items()}


def test_ingest_publishes_the_day_and_again_the_same_and_nothing_of_an_empty_day(
    spark: SparkSession,
    test_settings: Settings,
    made: Landing,
    day: Landed,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paths = test_settings.paths.model_copy(update={"landing": str(made.root), "warehouse": str(tmp_path)})
    settings = test_settings.model_copy(update={"paths": paths})
    rows_of = {HOST_HEALTH: [], **day.tables}
    wanted = {name: sorted(repr(sorted(row.items())) for row in rows) for name, rows in rows_of.items()}

    def stored() -> dict[str, list[str]]:
        warehouse = Warehouse(spark, str(tmp_path))
        found = {}
        for name in INGESTED_TABLES:
            rows = warehouse.read(TABLES[name]).toArrow().to_pylist(maps_as_pydicts="strict")
            dated = name in {JOBS, SOURCE_FILES}
            bare = [{key: row[key] for key in row if dated or key != "log_date"} for row in rows]
            found[name] = sorted(repr(sorted(row.items())) for row in bare)
        return found

    for _ in range(2):
        counts = run(spark, settings, [DAY])
        assert counts[RANK_STEPS] == len(day.tables[RANK_STEPS])
        assert stored() == wanted
    assert "its logs are of user" not in caplog.text
    assert caplog.text.count("misplaced and not read: log_date=") == 2
    monkeypatch.setattr("jobs.night.ingest.Landing", OfAnother)
    with caplog.at_level(logging.WARNING):
        run(spark, settings, [DAY], {Unit(DAY, "twice", RUN)})
        counts = run(spark, settings, [EMPTY_DAY])
    assert f"job twice, run {RUN}: its logs are of user 4711, those read before were of user" in caplog.text
    assert {counts.get(table, 0) for table in INGESTED_TABLES} == {0} == {counts["ingest.units"]}
    assert "nothing to ingest: no run folder of 2026-01-07" in caplog.text
    assert {name: len(rows) for name, rows in stored().items()} == {k: len(v) for k, v in wanted.items()}
