"""`convert --check` and `analyse` say the same about a folder, and suggest the same layout."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from jobs import analyse, convert
from jobs.landing.formats.manifest import SIZES
from jobs.synthetic.log_files import write_rank_logs
from tests.jobs.conftest import Ask
from tests.jobs.landing.formats.foreign_logs import LOGS
from tests.jobs.landing.formats.test_megatron_console import console
from tests.support.kineto_traces import data_parallel_traces, random_durations
from tests.support.line_cases import line
from tests.support.night import DAY
from tests.udfs.simulate.test_implausible import JOB, scaled


@pytest.fixture(autouse=True)
def small_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.analyse.chart_library", lambda _: b"charts_library()")


def megascan(folder: Path) -> None:
    for file in (LOGS / "megascan").iterdir():
        shutil.copy(file, folder)


def one_of_two_ranks(folder: Path) -> None:
    shutil.copy(LOGS / "kineto" / "nccl_data.json.gz", folder)


def printed(folder: Path) -> None:
    (folder / "train.log").write_text(console([700.0] * 12))


def below(folder: Path) -> None:
    (folder / "traces").mkdir()
    printed(folder / "traces")
    (folder / "traces" / "notes.txt").write_text("loss 2.3")


def timers(folder: Path) -> None:
    (folder / "train.log").write_text("(min, max) time across ranks (ms):\n")


def named_job(folder: Path) -> None:
    kineto(folder, {"job_id": "another"})


def rank_logs(folder: Path) -> None:
    (folder / "rank-1.jsonl").write_bytes(line())


def in_seconds(folder: Path) -> None:
    rows = pa.Table.from_pylist([*map(scaled(1e-6), JOB.rank_steps.to_pylist())], JOB.rank_steps.schema)
    write_rank_logs(folder, DAY, replace(JOB, rank_steps=rows))


def wrong_sizes(folder: Path) -> None:
    kineto(folder, {"world_size": 5, "team": "nlp"})


def kineto(folder: Path, manifest: dict[str, object]) -> None:
    for rank, text in enumerate(data_parallel_traces(random_durations(3, is_sharded=False, steps=12))):
        (folder / f"rank{rank}.json").write_bytes(text)
    (folder / "job.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("put", "words"),
    [
        (megascan, "Not analysed: computes without transfers"),
        (
            one_of_two_ranks,
            "Not analysed: profile of some ranks of the job (1 of 2 ranks recorded, in 3 steps",
        ),
        (printed, "Not analysed: step times and no ops (12 step times, of steps 10 to 120: 0.7 s"),
        (below, "Not analysed: step times and no ops"),
        (timers, "Megatron's timers: sums over an iteration"),
        (named_job, "A step takes "),
        (in_seconds, "us: are these seconds?)."),
        (rank_logs, "Not analysed: no manifest (job.json)"),
        (
            wrong_sizes,
            "Not analysed: manifest with a wrong or missing layout, or another wrong field (world_size",
        ),
    ],
)
def test_both_say_the_same_of_one_folder(
    put: Callable[[Path], None], words: str, tmp_path: Path, call: Ask
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    put(folder)
    ended, answer, _ = call(analyse.main, folder, "--page", tmp_path / "page.html")
    status, checked, error = call(convert.main, folder, "--check")
    assert status == ended
    said = answer.splitlines()
    (sentence,) = [line for line in said if words in line and not line.startswith(" ")][:1]
    if error:
        assert error.removeprefix("convert: error: ").strip() in sentence
    else:
        assert sentence in checked.splitlines()
    templates = [[each for each in lines if each.startswith("  {")] for lines in (said, checked.splitlines())]
    assert templates[0] == templates[1]
    assert bool(templates[0]) is (put in (rank_logs, wrong_sizes))


def test_rank_logs_are_checked_as_those_of_the_job_that_is_named(tmp_path: Path, call: Ask) -> None:
    rank_logs(tmp_path)
    status, out, _ = call(convert.main, tmp_path, "--check", "--job-id", "other")
    assert status == 1
    assert 'its only line could not be read: job_id is "gpt", but the folder or job.json says "other"' in out


def test_a_bad_layout_shows_the_job_json_that_mends_it(tmp_path: Path, call: Ask) -> None:
    wrong_sizes(tmp_path)
    out = call(analyse.main, tmp_path, "--page", tmp_path / "page.html").out
    (template,) = [each for each in out.splitlines() if each.startswith("  {")]
    assert {name: json.loads(template)[name] for name in SIZES} == {
        **dict.fromkeys(SIZES, 1),
        "dp_size": 3,
        "vpp_size": 4,
        "world_size": 3,
    }
    (tmp_path / "job.json").write_text(template)
    mended = call(analyse.main, tmp_path, "--page", tmp_path / "page.html")
    assert (mended.status, "A step takes" in mended.out) == (0, True)
