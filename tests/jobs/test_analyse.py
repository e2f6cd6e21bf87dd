"""`analyse` gives the same figures of a run's folder as a night; other folders give an error."""

import gzip
import json
import math
import os
import re
import shutil
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import cast

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from jobs import make_fleet
from jobs.analyse import main
from jobs.landing.files import Landing
from jobs.landing.formats.manifest import SIZES
from jobs.landing.formats.rows import Bounds
from jobs.landing.one_run import NoRunError, runs_in
from jobs.landing.read_landing import Where, read_landing
from jobs.reading.analysis import analysis
from jobs.report import wording
from jobs.report.loss import of_unit
from jobs.synthetic.fleet import FIRST_DAY
from jobs.synthetic.run_events import write_events
from schemas.vocabulary import (
    JOB_CAUSES,
    JOB_SLOWDOWN,
    JOB_TIME,
    RANK_STEPS,
    RESULT_TABLES,
)
from tests.jobs.conftest import Ask, Said
from tests.jobs.landing.land import OneWorker
from udfs.kernel.diagnosis.diagnose import LEAST_SAVED
from udfs.what_if import simulate_job

SLOW_JOB = ("--jobs", "2", "--days", "1", "--most-ops", "3000", "--seed", "3")
FACTS = ("log_date", "job_id", "run_id")


@pytest.fixture(scope="module")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A landing of two generated jobs on one day; read-only."""
    folder = tmp_path_factory.mktemp("fleet") / "landing"
    assert make_fleet.main(["--landing", str(folder), *SLOW_JOB]) == 0
    return folder


@pytest.fixture(autouse=True)
def small_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.analyse.chart_library", lambda _: b"charts_library()")


@pytest.fixture
def run(landing: Path, tmp_path: Path) -> Path:
    """A copy of one run's folder that a test may modify."""
    return shutil.copytree(run_folders(landing)[0], tmp_path / "run")


Analyse = Callable[..., Said]


@pytest.fixture
def analyse(tmp_path: Path, call: Ask) -> Analyse:
    """Function that runs the command analyse on a folder, and writes the page to page.html."""
    return lambda folder, *more: call(main, folder, "--page", tmp_path / "page.html", *more)


def run_folders(landing: Path) -> list[Path]:
    return sorted(each.parent for each in landing.glob("log_date=*/job_id=*/run_id=*/job.json"))


def test_figures_are_those_of_a_night_over_the_same_folder(landing: Path, tmp_path: Path) -> None:
    where = Where(str(landing), str(tmp_path), "run", Bounds())
    landed = read_landing(cast("SparkSession", OneWorker()), Landing(str(landing), [FIRST_DAY]), where)
    staged = [
        pq.read_table(tmp_path / file.table / file.path, partitioning=None)
        for file in landed.staged
        if file.table == RANK_STEPS
    ]
    rows = {job_id: table for table in staged for job_id in table["job_id"].unique().to_pylist()}
    facts = {row["job_id"]: row for row in landed.jobs.to_pylist(maps_as_pydicts="strict")}
    for account in landed.accounts:
        job_id = account.unit[1]
        manifest = facts[job_id] | {"log_date": FIRST_DAY}
        of_job = rows[job_id].filter([each == job_id for each in rows[job_id]["job_id"].to_pylist()])
        night = simulate_job(of_job, manifest)
        (run,) = runs_in(landing / f"log_date={FIRST_DAY}" / f"job_id={job_id}")
        found = analysis(run)
        assert found.unit == account.unit
        assert found.tables.job["slowdown"] > 1
        for name in RESULT_TABLES:
            assert (
                found.results[name]
                .drop_columns(FACTS)
                .equals(night[name].cast(found.results[name].drop_columns(FACTS).schema))
            )


@pytest.mark.parametrize(("name", "slowdown"), [("ST", 1.1787022), ("SE", 1.5373615)])
def test_published_traces_have_their_slowdown(published_traces: Path, name: str, slowdown: float) -> None:
    (run,) = runs_in(published_traces / name)
    found = analysis(run)
    assert found.tables.job["status"] == "analysed"
    assert found.tables.job["slowdown"] == pytest.approx(slowdown, rel=1e-6)


def test_events_of_the_run_say_what_its_hours_were_spent_on(
    run: Path, analyse: Analyse, tmp_path: Path
) -> None:
    fields = json.loads((run / "job.json").read_text())
    at_us = 1_767_571_200_000_000
    minutes = {"start": 0, "first_step": 36, "failure": 60, "restart": 96}
    events = [{"event": name, "at_us": at_us + 60_000_000 * minute} for name, minute in minutes.items()]
    write_events(run, events, fields["job_id"], fields["run_id"])
    (run / "job.json").write_text(json.dumps(fields | {"gpu_hours": 2.0 * fields["world_size"]}))
    status, said, _ = analyse(run)
    assert status == 0
    assert "2 starts, 1 failure, 0 checkpoints." in said
    assert "How its GPU-hours were spent" in (tmp_path / "page.html").read_text()
    (row,) = analysis(runs_in(run)[0]).tables.further[JOB_TIME]
    assert row["startup_gpu_hours"] == pytest.approx(0.6 * fields["world_size"])
    assert row["outage_s"] == 36 * 60
    (run / "events.jsonl").unlink()
    assert "checkpoints" not in analyse(run)[1]


def test_a_misspelt_field_and_hours_that_are_too_many_are_each_said_once(run: Path, analyse: Analyse) -> None:
    fields = json.loads((run / "job.json").read_text())
    (run / "job.json").write_text(json.dumps(fields | {"gpu_hours": 1e9, "iteration": 3}))
    said = analyse(run).out
    assert said.count('Not used: "iteration" is not a field of job.json: did you mean iterations?\n') == 1
    assert said.count("gpu_hours is 1e+09") == 1


@pytest.mark.parametrize("t0_us", [2**63 - 1, 253_402_300_800_000_000])
def test_times_beyond_the_calendar_leave_the_files_day(run: Path, analyse: Analyse, t0_us: int) -> None:
    for log in run.glob("rank-*.jsonl"):
        lines = [json.loads(each) | {"t0_us": t0_us} for each in log.read_text().splitlines()]
        log.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    status, said, _ = analyse(run)
    assert status == 0
    assert "Neither the folder nor t0_us names a day" in said


@pytest.mark.parametrize("in_us", [1e6, 1e3], ids=["seconds", "milliseconds"])
def test_times_that_are_no_date_make_none(run: Path, analyse: Analyse, in_us: float) -> None:
    """If times are in ms or s instead of us, the output says that the day is not known."""
    line = f", {FIRST_DAY}: "
    assert line in analyse(run).out.partition("\n")[0]
    for log in run.glob("rank-*.jsonl"):
        lines = [json.loads(each) for each in log.read_text().splitlines()]
        for each in lines:
            each["t0_us"] = int(each["t0_us"] / in_us)
            for name in ("start_us", "duration_us"):
                each[name] = [value / in_us for value in each[name]]
        log.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    first, second, *_ = analyse(run).out.splitlines()
    assert ", day not known: " in first
    assert second == "Neither the folder nor t0_us names a day: lines of all days are analysed."
    assert "1970" not in first


def test_a_run_in_the_folder_of_another_day_is_named(landing: Path, analyse: Analyse, tmp_path: Path) -> None:
    copied = run_folders(landing)[0]
    other = FIRST_DAY + timedelta(1)
    moved = tmp_path / f"log_date={other}" / copied.relative_to(landing / f"log_date={FIRST_DAY}")
    shutil.copytree(copied, moved)
    said = f"All of its lines are of another day, the first of {FIRST_DAY}: is it in the wrong folder?"
    assert [said in analyse(folder).out for folder in (copied, moved)] == [False, True]
    since_boot_us = 5_000_000
    for log in moved.glob("rank-*.jsonl"):
        lines = [json.loads(each) for each in log.read_text().splitlines()]
        begin_us = since_boot_us - min(each["t0_us"] for each in lines)
        moved_back = [each | {"t0_us": each["t0_us"] + begin_us} for each in lines]
        log.write_text("".join(f"{json.dumps(each)}\n" for each in moved_back))
    none = f"None of its lines is of that day: t0_us is {since_boot_us}, not in microseconds since 1970.\n"
    assert none in analyse(moved).out


def test_it_prints_the_answer_and_writes_one_page(run: Path, analyse: Analyse, tmp_path: Path) -> None:
    log = min(run.glob("rank-*.jsonl*"))
    log.write_text(log.read_text() + '{"format": "rank-log/1"\n')
    lines = sum(each.read_text().count("\n") for each in run.glob("rank-*"))
    status, said, _ = analyse(run)
    slowdown = analysis(runs_in(run)[0]).tables.job["slowdown"]
    assert status == 0
    for words in (
        *(f"slowdown {slowdown:.2f}", "recorded, ", "status: analysed"),
        *(f"Rejected lines: 1 of {lines}: 1 not_json", f"{log.name}, line ", f"Page: {tmp_path}/page.html"),
    ):
        assert words in said
    text = (tmp_path / "page.html").read_text()
    assert "charts_library()" in text
    assert not re.search(r'(?:src|href)="\.', text), "the page needs no other file"
    assert "See it op by op" not in text, "the section's commands need a warehouse"
    assert "not_json</th>" in text


def test_a_layout_that_lines_contradict_comes_with_the_one_that_mends_it(run: Path, analyse: Analyse) -> None:
    fields = json.loads((run / "job.json").read_text())
    log = min(run.glob("rank-*.jsonl"))
    slip = json.loads(log.read_text().splitlines()[0]) | {"step": 10_000, "dp_rank": 10**8}
    log.write_text(f"{log.read_text()}{json.dumps(slip)}\n")
    dp_size, pp_size = fields["dp_size"], fields["pp_size"]
    assert dp_size != pp_size
    for wrong in ({"dp_size": pp_size, "pp_size": dp_size}, {"dp_size": 1, "world_size": pp_size}):
        (run / "job.json").write_text(json.dumps(fields | wrong))
        status, said, _ = analyse(run)
        assert (status, "manifest with a wrong or missing layout" in said) == (1, True)
        (template,) = [each for each in said.splitlines() if each.startswith("  {")]
        assert json.loads(template) == {name: fields[name] for name in ("job_id", "run_id", *SIZES)}


def test_a_wrong_field_that_is_no_size_comes_without_a_layout(run: Path, analyse: Analyse) -> None:
    """If a field other than a size is wrong, the command names the field and suggests no layout."""
    fields = json.loads((run / "job.json").read_text())
    (run / "job.json").write_text(json.dumps(fields | {"gpu_hours": "2560"}))
    status, said, _ = analyse(run)
    assert (status, "gpu_hours is '2560', not " in said or 'gpu_hours is "2560", not ' in said) == (1, True)
    assert "The lines suggest" not in said


def test_a_layout_that_is_suggested_has_a_place_for_each_rank(run: Path, analyse: Analyse) -> None:
    """The suggested layout has a place for each rank, even if only every eighth rank has a log."""
    fields = json.loads((run / "job.json").read_text())
    (run / "job.json").unlink()
    for log in sorted(run.glob("rank-*.jsonl"), reverse=True):
        lines = [json.loads(each) for each in log.read_text().splitlines()]
        log.unlink()
        if lines[0]["tp_rank"] or lines[0].get("cp_rank"):
            continue
        rank = 8 * (fields["dp_size"] * lines[0]["pp_rank"] + lines[0]["dp_rank"])
        text = "".join(f"{json.dumps(each | {'rank': rank})}\n" for each in lines)
        log.with_name(f"eighth-{rank}").write_text(text)
    for log in run.glob("eighth-*"):
        log.rename(run / f"rank-{int(log.name.partition('-')[2]):05d}.jsonl")

    def suggested() -> dict[str, int]:
        (template,) = [each for each in analyse(run).out.splitlines() if each.startswith("  {")]
        sizes: dict[str, int] = json.loads(template)
        return sizes

    template = suggested()
    assert template["tp_size"] == 8
    log = max(run.glob("rank-*.jsonl"))
    (run / "job.json").write_text(json.dumps(template | {"dp_size": 1, "tp_size": None, "world_size": None}))
    whole = log.read_text()
    log.write_text(
        whole + json.dumps(json.loads(whole.splitlines()[0]) | {"rank": -1, "step": 10_000}) + "\n"
    )
    assert suggested()["tp_size"] == 8, "a line with an impossible rank is ignored"
    log.write_text(whole)
    (run / "job.json").write_text(json.dumps(template | {"dp_size": 2 * template["dp_size"]}))
    assert suggested() == template, "world_size shows that dp_size is wrong"
    (run / "job.json").write_text(json.dumps(template))
    assert analyse(run).status == 0


@pytest.mark.parametrize("least", [LEAST_SAVED, 1.0])
def test_what_is_lost_is_the_sum_of_its_causes_for_readers_and_programs(
    run: Path, analyse: Analyse, monkeypatch: pytest.MonkeyPatch, least: float
) -> None:
    """The loss in the printed text is the sum of the losses of all causes in the JSON."""
    monkeypatch.setattr("udfs.kernel.diagnosis.diagnose.LEAST_SAVED", least)
    _, said, _ = analyse(run)
    (found,) = json.loads(analyse(run, "--format", "json")[1])
    lost = math.fsum(row["lost_fraction"] for row in found[JOB_CAUSES])
    hours = math.fsum(row["lost_gpu_hours"] for row in found[JOB_CAUSES])
    assert hours == pytest.approx(lost * found["gpu_hours"])
    of_all = f"{wording.hours(hours)} of its {wording.hours(found['gpu_hours'])} GPU-hours"
    assert f"{wording.percent(lost)} of its time is lost, {of_all}" in said
    assert (f"Unexplained: {of_unit(lost, hours)} lost" in said) == (least == 1.0)


@pytest.mark.parametrize("stated", [True, False], ids=["hours", "no-hours"])
def test_rows_of_causes_add_up_to_what_is_lost_as_printed(run: Path, analyse: Analyse, stated: bool) -> None:
    fields = json.loads((run / "job.json").read_text())
    fields |= {"gpu_hours": 70.0 if stated else None}
    (run / "job.json").write_text(json.dumps(fields))
    said = analyse(run).out
    rows = said.partition("─\n")[2].partition("all that is lost")[0]
    assert "unexplained" in rows
    amount = r"^\S+(?: \S+)* {2,}([\d.,]+)" + ("" if stated else " %")
    column = [Decimal(each.replace(",", "")) for each in re.findall(amount, rows, re.MULTILINE)]
    total = re.search(r"^all that is lost +([\d.,]+)( %)?$", said, re.MULTILINE)
    assert total is not None
    assert len(column) >= 2
    assert sum(column) == Decimal(total[1].replace(",", ""))
    in_headline = f"{total[1]} of its 70 GPU-hours" if stated else f"{total[1]} % of its time is lost"
    assert in_headline in said


def test_rejects_add_up_to_what_is_lost_of_them(run: Path, analyse: Analyse) -> None:
    log = min(run.glob("rank-*.jsonl"))
    text = log.read_text()
    first = json.loads(text.splitlines()[0])
    bad = ["{", "{", json.dumps(first | {"step": 10_000, "rank": -1}), "[]", "7"]
    log.write_text(text + "".join(f"{each}\n" for each in bad))
    _, said, _ = analyse(run)
    (counts,) = [each for each in said.splitlines() if each.startswith("Rejected lines: 5 of ")]
    assert sum(map(int, re.findall(r"(\d+) [a-z]", counts.rpartition(": ")[2]))) == 5
    shown = said.partition(counts)[2].partition("\n\n")[0].strip().splitlines()
    assert (len(shown), shown[-1]) == (4, "  and 2 more: --format json lists all")


def test_a_log_without_lines_does_not_say_that_none_was_read(
    published_traces: Path, analyse: Analyse
) -> None:
    assert "\nRejects: none.\n" in analyse(published_traces / "ST").out


def test_gpu_hours_that_are_not_believed_come_with_the_reason(run: Path, analyse: Analyse) -> None:
    fields = json.loads((run / "job.json").read_text())
    most = fields["world_size"] * 90
    (run / "job.json").write_text(json.dumps(fields | {"gpu_hours": 10 * most}))
    said = analyse(run).out
    assert f"its stated GPU-hours are not believed (gpu_hours is {10 * most:.6g}: " in said
    assert f" GPUs have at most {most:,} in three days and a quarter more)." in said


def test_a_run_without_a_manifest_fails_with_the_reason(run: Path, analyse: Analyse, tmp_path: Path) -> None:
    fields = json.loads((run / "job.json").read_text())
    (run / "job.json").unlink()
    status, said, _ = analyse(run)
    assert status == 1
    assert "Not analysed: no manifest (job.json)" in said
    assert (
        "What to do: put a job.json beside the logs, with the job's layout, and analyse them again.\n" in said
    )
    (template,) = [each for each in said.splitlines() if each.startswith("  {")]
    assert json.loads(template) == {name: fields[name] for name in ("job_id", "run_id", *SIZES)}
    assert "Rejects: none" in said
    assert "and analyse them again" in (tmp_path / "page.html").read_text()


def test_a_run_that_lacks_workers_names_them_and_why_nothing_was_read(run: Path, analyse: Analyse) -> None:
    lost, misspelt, *_ = sorted(run.glob("rank-*.jsonl"))
    missing = [json.loads(each.read_text().splitlines()[0]) for each in (lost, misspelt)]
    lost.unlink()
    misspelt.write_text(misspelt.read_text().replace('"forward-compute"', '"forward-comput"'))
    status, said, _ = analyse(run)
    assert status == 1
    assert all(f"dp_rank {each['dp_rank']}, pp_rank {each['pp_rank']}" in said for each in missing)
    assert f"{misspelt.name}: none of its " in said
    assert 'could be read: unknown op "forward-comput": did you mean forward-compute?' in said


def test_logs_without_a_line_are_named(run: Path, analyse: Analyse) -> None:
    empty, single, blank, *_ = sorted(run.glob("rank-*.jsonl"))
    empty.write_bytes(b"")
    blank.write_text("\n\n")
    single.write_text("{\n")
    said = analyse(run).out
    assert f"\n{empty.name}: it has no line\n" in said
    assert f"\n{blank.name}: it has no line\n" in said
    assert f"\n{single.name}: its only line could not be read: not JSON: it breaks off: " in said


def test_files_of_other_names_are_named_where_workers_are_missing(run: Path, analyse: Analyse) -> None:
    (run / "notes.log").write_text("nothing")
    assert "notes.log" not in analyse(run).out, "such files are named only if workers are missing"
    first, second, *_ = sorted(run.glob("rank-*.jsonl"))
    first.rename(run / "rank0.jsonl")
    second.rename(run / f"{second.name}.tmp")
    said = analyse(run).out
    assert f"Not read because of their names: notes.log, {second.name}.tmp, rank0.jsonl. A rank's log" in said


def test_logs_of_which_none_has_the_right_name_are_named(run: Path, analyse: Analyse) -> None:
    logs = sorted(run.glob("rank-*.jsonl"))
    for log in logs:
        log.rename(log.with_suffix(".txt"))
    said = analyse(run).out
    assert f"Not read because of their names: {logs[0].stem}.txt, " in said
    assert "Rejects: none; no line was read." in said


def test_a_manifest_that_is_no_json_is_one_mistake_and_a_broken_line_another(
    run: Path, analyse: Analyse, tmp_path: Path
) -> None:
    folder = tmp_path / "another-name"
    shutil.copytree(run, folder)
    (folder / "job.json").write_text('{\n  "job_id": "j",\n}')
    log, *_ = sorted(folder.glob("rank-*.jsonl"))
    log.write_text('{"format":"rank-\n' + log.read_text())
    said = analyse(folder).out
    assert "Not analysed: job.json is not JSON: " in said
    assert "(line 3, column 1): correct it." in said
    assert "could be read" not in said
    (lines, files) = [each for each in said.splitlines() if each.startswith("Rejected ")]
    assert lines.startswith("Rejected lines: 1 of ")
    assert (lines.endswith(": 1 not_json"), files) == (True, "Rejected files: 1: 1 unreadable_file")


def test_a_packed_log_of_broken_bytes_is_a_reject(run: Path, analyse: Analyse) -> None:
    log, *_ = sorted(run.glob("rank-*.jsonl"))
    packed = bytearray(gzip.compress(log.read_bytes()))
    packed[12:30] = b"\xff" * 18
    log.with_name(f"{log.name}.gz").write_bytes(packed)
    log.unlink()
    assert "Rejected files: 1: 1 unreadable_file" in analyse(run).out


def test_several_runs_are_listed_and_one_is_taken_by_its_name(landing: Path, analyse: Analyse) -> None:
    folders = run_folders(landing)
    jobs = [json.loads((folder / "job.json").read_text())["job_id"] for folder in folders]
    status, _, said = analyse(landing)
    assert status == 2
    assert "2 runs; name the folder of one, or choose by --job-id" in said
    listed = said.splitlines()[:-1]
    assert len(listed) == 2, "one line for each run"
    assert all(
        f"{folder}: job {job}, run " in line for folder, job, line in zip(folders, jobs, listed, strict=True)
    )
    status, _, said = analyse(landing, "--job-id", f"{jobs[0]}x")
    assert (status, "did you mean" in said) == (2, True)
    assert analyse(landing, "--job-id", jobs[0]).status == 0


def test_one_text_names_a_run_among_several(landing: Path, analyse: Analyse) -> None:
    _, unit = (run.unit for run in runs_in(landing))
    text = f"{unit.job_id}/{unit.run_id}@{unit.log_date}"
    said = analyse(landing, "--job-id", text)
    assert said.status == 0
    assert said.out.startswith(f"job {unit.job_id}, run {unit.run_id}, {unit.log_date}: ")
    for more, message in [
        ((f"{unit.job_id}/x",), "no run x among 2 runs: "),
        ((f"{unit.job_id}@2020-01-01",), "no log date 2020-01-01 among 2 runs: "),
        ((text, "--run-id", "x"), f"{text} names the run {unit.run_id}, and x is given beside it: "),
        ((f"{text}..{unit.log_date + timedelta(1)}",), "names several days"),
    ]:
        status, out, err = analyse(landing, "--job-id", *more)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert message in err


@pytest.mark.parametrize("job_id", ["team/llm", "llm@home"])
def test_a_name_that_reads_as_a_run_or_a_day_is_a_name(run: Path, analyse: Analyse, job_id: str) -> None:
    manifest = run / "job.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"job_id": job_id}))
    for log in run.glob("rank-*"):
        log.unlink()
    shutil.copytree(run, run.parent / "other")
    status, _, said = analyse(run.parent, "--job-id", job_id)
    assert (status, "2 runs; name the folder of one" in said) == (2, True)


def test_a_folder_without_a_run_says_what_was_wanted_and_found(tmp_path: Path, analyse: Analyse) -> None:
    (tmp_path / "notes.txt").write_text("none")
    with pytest.raises(NoRunError, match=r"looked for rank-\*\.jsonl.*; found notes.txt"):
        runs_in(tmp_path)
    (tmp_path / "my-logs").mkdir()
    beside = tmp_path / "log_date=2026-01-05"
    beside.mkdir()
    (beside / "health.jsonl").write_text("")
    with pytest.raises(NoRunError, match=r"found log_date=2026-01-05/health.jsonl, notes.txt"):
        runs_in(tmp_path)
    with pytest.raises(NoRunError, match=r"found health.jsonl$"):
        runs_in(beside)
    status, _, said = analyse(tmp_path / "my-log")
    assert (status, said.count("\n")) == (2, 1)
    assert said.endswith("my-log does not exist: did you mean my-logs?\n")


@pytest.mark.parametrize("job_id", ["red \x1b[31m", "half \ud83d"])
def test_odd_names_are_spelt_out_and_end_nothing(run: Path, analyse: Analyse, job_id: str) -> None:
    odd = run.rename(run.with_name(os.fsdecode(b"run-\xff")))
    for file in odd.iterdir():
        named = json.loads((odd / "job.json").read_text())["job_id"]
        if file.name != "job.json":
            file.write_text(file.read_text().replace(json.dumps(named), json.dumps(job_id)))
    manifest = odd / "job.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"job_id": job_id}))
    said = analyse(odd).out
    assert "\x1b" not in said
    assert r"job red \x1b[31m" in said or r"job run-\xff" in said


def test_a_day_is_no_name_of_a_run_outside_a_landing(run: Path, analyse: Analyse) -> None:
    status, _, said = analyse(run, "--log-date", f"{FIRST_DAY}")
    assert (status, "no folder here names a log date: omit --log-date" in said) == (2, True)


def test_a_page_without_a_name_goes_beside_the_logs_and_never_into_a_landing_or_the_current_folder(
    published_traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Ask
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    alone = tmp_path / "alone" / "logs"
    landed = tmp_path / "landed" / "landing" / "log_date=2026-01-05" / "job_id=j" / "run_id=r"
    for folder in (alone, landed):
        shutil.copytree(published_traces / "ST", folder)
        status, out, _ = call(main, folder)
        (page,) = folder.parents[0 if folder is alone else 3].glob("*.html")
        assert (status, out.splitlines()[-1]) == (0, f"Page: {page}")
    assert list((tmp_path / "here").iterdir()) == []


def test_an_answer_whose_page_cannot_be_written_is_an_answer(
    run: Path, call: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the page cannot be written beside the logs, the analysis is printed with a note, and succeeds."""
    monkeypatch.setattr(Path, "write_bytes", lambda *_: (_ for _ in ()).throw(PermissionError(13, "Denied")))
    status, out, said = call(main, run)
    assert (status, "Page:" in out, said.count("\n")) == (0, False, 1)
    assert "no page written (" in said
    assert said.endswith(": Denied): --page names another place\n")
    status, out, _ = call(main, run, "--format", "json")
    assert (status, json.loads(out)[0]["page"]) == (0, None)


def test_a_page_that_cannot_be_is_refused_before_the_run_is_read(run: Path, analyse: Analyse) -> None:
    status, out, said = analyse(run, "--page", str(run / "none" / "page.html"))
    assert (status, out, "--page" in said) == (2, "", True)


def test_a_rank_log_of_several_is_no_run_and_its_folder_is_named(
    run: Path, analyse: Analyse, tmp_path: Path
) -> None:
    """The log of one of several ranks is refused, and the error names the folder of the run."""
    first, second, *others = sorted(run.glob("rank-*.jsonl"))
    for each in others:
        each.unlink()
    said = f"{first} is the log of a single rank: give the run's folder, {run}\n"
    status, _, error = analyse(first)
    assert (status, error.endswith(said)) == (2, True)
    (run / "job.json").unlink()
    assert analyse(first)[2].endswith(said)
    assert not (tmp_path / "page.html").exists()
    second.unlink()
    assert "Not analysed: no manifest" in analyse(first).out


@pytest.mark.parametrize("name", ["job.json", "events.jsonl", "meta-0.yaml"])
def test_a_file_beside_the_logs_is_no_run_and_their_folder_is_named(
    run: Path, analyse: Analyse, name: str
) -> None:
    (run / name).touch()
    status, out, said = analyse(run / name)
    assert (status, out) == (2, "")
    assert said.endswith(f"{run / name} is not a log of ops: give its folder instead, {run}\n")


def test_files_that_are_no_logs_are_no_run(tmp_path: Path, analyse: Analyse) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "truth.json").write_text('{"seed": 1}')
    status, out, said = analyse(folder)
    assert (status, out) == (1, "")
    assert f"{folder} holds no run: no file has a known format; found truth.json; " in said
    assert not (tmp_path / "page.html").exists()
    (folder / "train.log").write_text("elapsed time per iteration (ms): 714.9")
    assert "Megatron's timers" in analyse(folder).out


def test_one_file_will_do(tmp_path: Path, published_traces: Path) -> None:
    log = published_traces.parent / "logs" / "timeline" / "timeline-ST.json.gz"
    (run,) = runs_in(log)
    assert [file.name for file in run.files] == [log.name]
    assert analysis(run).results[JOB_SLOWDOWN]["slowdown"].to_pylist() == [pytest.approx(1.1787022, rel=1e-6)]
