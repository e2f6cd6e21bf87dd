"""Test the command that converts other tools' logs to rank logs, or with --check only describes them."""

import gzip
import json
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs import analyse
from jobs.convert import main
from jobs.landing.formats import json_stream, megascan
from tests.jobs.conftest import Ask
from tests.jobs.landing.formats.foreign_logs import LOGS, as_json
from tests.jobs.landing.formats.test_timeline import STAGE, op
from tests.jobs.landing.land import land
from tests.jobs.test_json_answers import KEYS
from tests.support.line_cases import line
from tests.support.night import DAY
from udfs.what_if import simulate_job

TO = ["--job-id", "j", "--run-id", "r", "--log-date", str(DAY)]


def test_check_prints_the_result_and_writes_nothing(tmp_path: Path, call: Ask) -> None:
    folder = tmp_path / "run"
    shutil.copytree(LOGS / "megascan", folder)
    before = sorted(tmp_path.rglob("*"))
    status, printed, _ = call(main, folder, "--check")
    assert status == 1, "the same status as that of analyse"
    for words in (
        "format: megascan; transfers absent",
        "pp_size 4, tp_size 1, cp_size 1, vpp_size 4, world_size 4",
        "5,120 ops of 4 ranks in 20 steps",
        "Not analysed: computes without transfers (computes without transfers in 18 steps",
        "files: LICENSE, not a name of a log",
        "ms without a name",
    ):
        assert words in printed
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("log", "words", "exit_status"),
    [
        ("timeline/timeline-ST.json.gz", "6,784 ops of 8 ranks in 32 steps", 0),
        ("timeline/timeline-SE.json.gz", "112,320 ops of 64 ranks in 45 steps", 1),
        ("kineto/nccl_data.json.gz", "world_size 2\nunderstood: 42 ops of 1 rank in 3 steps", 1),
        ("kineto/dlrm_kineto.tar.gz", "understood: 88 ops of 8 ranks in 1 step", 0),
        ("kineto/dlrm_kineto.tar.gz", "came last: rank 7, to 5 of 8 collectives of world", 0),
    ],
)
def test_the_page_of_formats_shows_what_a_check_prints(
    log: str, words: str, exit_status: int, tmp_path: Path, call: Ask
) -> None:
    path = LOGS / log
    if ".tar" in log:
        with tarfile.open(path) as archive:
            archive.extractall(tmp_path, filter="data")
        (path,) = tmp_path.iterdir()
        (path / "job.json").write_text('{"dp_size": 8}')
    status, printed, _ = call(main, path, "--check")
    assert (status, words in printed) == (exit_status, True)


@pytest.mark.parametrize(
    ("log", "status"), [("timeline/timeline-ST.json.gz", "analysed"), ("megascan", "partial_trace")]
)
def test_what_was_converted_gives_what_the_log_itself_gives(log: str, status: str, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    assert main([str(LOGS / log), "--landing", str(landing), *TO]) == 0
    itself = landing / f"log_date={DAY}" / "job_id=itself" / "run_id=r"
    itself.mkdir(parents=True)
    for file in (LOGS / log).glob("*.gz") if (LOGS / log).is_dir() else [LOGS / log]:
        shutil.copy(file, itself)
    assert land(landing, tmp_path / "staging").tables["rejects"] == []
    staged = (tmp_path / "staging" / "rank_steps").rglob("*.parquet")
    rows = pa.concat_tables([pq.ParquetFile(file).read() for file in staged])
    manifest = json.loads((landing / f"log_date={DAY}" / "job_id=j" / "run_id=r" / "job.json").read_text())
    results = []
    for job_id in ("j", "itself"):
        own = rows.filter(pa.array([each == job_id for each in rows["job_id"].to_pylist()]))
        (job,) = simulate_job(own, manifest | {"log_date": DAY})["job_slowdown"].to_pylist()
        results.append(job)
    assert [each["status"] for each in results] == [status, status]
    compared = ("slowdown", "discrepancy") if status == "analysed" else ("slowdown_low", "slowdown_high")
    for name in compared:
        assert results[0][name] == pytest.approx(results[1][name], rel=1e-9), name


@pytest.mark.parametrize(
    ("content", "exit_status", "words"),
    [
        (b"elapsed time per iteration (ms): 714.9", 1, "Megatron's timers: sums over.*Record single ops"),
        (b"loss 2.3", 1, "not a known format. jobs/landing/formats/README.md lists"),
        (as_json([op(), STAGE])[:-9], 1, "error: run.log: not JSON to its end"),
        (b"", 1, "error: nothing to convert: run.log: it is empty"),
    ],
)
def test_what_cannot_be_converted_says_why(
    content: bytes, exit_status: int, words: str, tmp_path: Path, call: Ask
) -> None:
    (tmp_path / "run.log").write_bytes(content)
    status, _, said = call(main, tmp_path / "run.log", "--check")
    assert status == exit_status
    assert re.search(words, said)


def test_rank_logs_need_no_conversion_and_other_names_for_them_are_said(tmp_path: Path, call: Ask) -> None:
    (tmp_path / "worker0.jsonl").write_bytes(line())
    status, _, said = call(main, tmp_path, "--check")
    assert status == 1
    assert "worker0.jsonl: lines of rank-log/1: name it rank-*.jsonl" in said
    (tmp_path / "worker0.jsonl").rename(tmp_path / "rank-0.jsonl")
    status, printed, _ = call(main, tmp_path, "--check")
    assert status == 1
    first, *judged = printed.splitlines()
    assert first.startswith("rank-0.jsonl: a landing reads it unchanged. Nothing to convert: ")
    assert first.endswith(f"straggler analyse {tmp_path}")
    _, analysed, _ = call(analyse.main, tmp_path, "--page", tmp_path / "page.html")
    assert judged[0].startswith("Not analysed: no manifest (job.json)")
    assert "\n".join(judged) in analysed
    _, printed, _ = call(main, tmp_path, "--check", "--format", "json")
    (found,) = json.loads(printed)
    assert sorted(found) == json.loads(KEYS.read_bytes())["convert"]
    assert (found["status"], found["ops"]) == ("no_manifest", None)


def test_a_path_that_does_not_exist_and_a_file_as_landing_are_named(tmp_path: Path, call: Ask) -> None:
    (tmp_path / "trace.json").write_bytes(as_json([op(), STAGE]))
    for missing in ("trce.json", "none/trace.json"):
        status, out, said = call(main, tmp_path / missing, "--check")
        assert (status, out, said.count("\n"), "does not exist" in said) == (2, "", 1, True)
    status, _, said = call(main, tmp_path / "trace.json", "--landing", tmp_path / "trace.json", *TO)
    assert (status, "Errno" in said) == (1, False)
    assert said.endswith("/run_id=r: Not a directory\n")


def test_nothing_is_written_over_and_a_target_is_needed(tmp_path: Path, call: Ask) -> None:
    (tmp_path / "t.json").write_bytes(as_json([op(), STAGE]))
    first, second = (call(main, tmp_path / "t.json", "--landing", tmp_path / "landing", *TO) for _ in "12")
    assert (first.status, second.status, "is not empty" in second.err) == (0, 1, True)
    assert call(main, tmp_path / "t.json").status == 2


def test_a_date_under_which_a_night_would_leave_out_every_line_is_refused(tmp_path: Path, call: Ask) -> None:
    log = LOGS / "kineto" / "nccl_data.json.gz"
    status, _, said = call(
        main, log, "--landing", tmp_path, "--job-id", "j", "--run-id", "r", "--log-date", "2031-01-05"
    )
    (day,) = re.findall(r"a night of 2031-01-05 leaves all of them out. Use --log-date (\S+)", said)
    assert (status, list(tmp_path.rglob("*.json*"))) == (1, [])
    assert call(main, log, "--landing", tmp_path, *TO[:4], "--log-date", day).status == 0


@pytest.mark.parametrize("begin_s", [4_000_000, 10**12], ids=["since-boot", "beyond-the-calendar"])
def test_times_that_are_no_dates_are_not_said_to_be_of_a_day(tmp_path: Path, call: Ask, begin_s: int) -> None:
    trace = json.loads(gzip.decompress((LOGS / "kineto" / "nccl_data.json.gz").read_bytes()))
    trace["baseTimeNanoseconds"] = 0
    first = min(event["ts"] for event in trace["traceEvents"] if "ts" in event)
    for event in trace["traceEvents"]:
        if "ts" in event:
            event["ts"] += begin_s * 1e6 - first
    (tmp_path / "t.json").write_text(json.dumps(trace))
    status, _, said = call(main, tmp_path / "t.json", "--landing", tmp_path / "landing", *TO)
    assert (status, said.count("\n")) == (1, 1)
    assert re.search(rf"t0_us is {begin_s}\d+, not in microseconds since 1970: a night of {DAY} leaves", said)


def test_a_step_landed_twice_is_stored_once(tmp_path: Path, call: Ask) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for name, dur in (("a.json", 2.0), ("b.json", 3.0)):
        (run / name).write_bytes(as_json([op(dur=dur), STAGE]))
    status, printed, _ = call(main, run, "--landing", tmp_path / "landing", *TO)
    assert status == 0
    assert "understood: 1 op of 1 rank in 1 step, 1 row" in printed
    assert "left out: 1 x steps of a rank: rank 0, step 7 is already in a.json" in printed
    (log,) = tmp_path.rglob("rank-*.jsonl.gz")
    (written,) = gzip.decompress(log.read_bytes()).splitlines()
    assert json.loads(written)["duration_us"] == [2.0]


def test_a_job_json_says_what_files_do_not_and_broken_files_cost_no_others(
    tmp_path: Path, call: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(megascan, "_ROWS_TOGETHER", 5)
    monkeypatch.setattr(json_stream, "_PIECE", 1 << 12)
    for file in (LOGS / "megascan").glob("*.gz"):
        content = file.read_bytes()
        (tmp_path / file.name).write_bytes(content[:-9] if "pipeline-3" in file.name else content)
    (tmp_path / "job.json").write_text(json.dumps({"job_id": "other", "team": "nlp", "gpuhours": 8}))
    landing = tmp_path / "landing"
    status, printed, _ = call(main, tmp_path, "--landing", landing, *TO)
    assert status == 0
    assert "3,840 ops of 3 ranks in 20 steps" in printed
    assert "broken: benchmark-data-0-pipeline-3-tensor-0.json.gz: broken gzip" in printed
    assert 'not used: "gpuhours" is not a field of job.json: did you mean gpu_hours?\n' in printed
    (manifest,) = landing.rglob("job.json")
    fields: dict[str, Any] = json.loads(manifest.read_text())
    assert not {"gpuhours", "refused_claims"} & fields.keys()
    assert (fields["job_id"], fields["team"], fields["pp_size"]) == ("j", "nlp", 4)
    assert len(list(landing.rglob("rank-*"))) == 3


def test_files_of_one_name_are_told_apart_or_refused(tmp_path: Path, call: Ask) -> None:
    """Several files of one name are refused; a file that is given twice is read once."""
    paths = [tmp_path / f"{rank}" / "t.json" for rank in range(2)]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(as_json([op(), STAGE]))
    status, _, said = call(main, *paths, "--check")
    assert (status, "t.json is the name of several files" in said) == (2, True)
    status, printed, _ = call(main, paths[0], paths[0], "--check")
    assert "1 op of 1 rank in 1 step, 1 row" in printed
