"""A generated fleet has the same bytes from one process or two; its true causes are in a separate file."""

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from jobs.make_fleet import main
from jobs.synthetic.fleet import FIRST_DAY, write_fleet
from jobs.synthetic.plan_fleet import plan_fleet
from schemas.vocabulary import FIXABLE_CAUSES, OP_CODES

SMALL = ["--jobs", "12", "--days", "2", "--most-ops", "3000"]
HISTORY = ["--history", "--jobs", "6", "--days", "4", "--ops", "200000"]
RUNS = "log_date=*/job_id=*/run_id=*"


def make(landing: Path, *arguments: str) -> int:
    return main(["--landing", str(landing), *arguments])


def contents(landing: Path) -> dict[str, str]:
    return {
        str(path.relative_to(landing)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in landing.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    assert make(folder, *SMALL) == 0
    return folder


@pytest.mark.parametrize("size", [SMALL, HISTORY])
def test_same_bytes_from_two_processes(tmp_path: Path, size: list[str]) -> None:
    for name, more in (("one", ()), ("two", ("--workers", "2")), ("other", ("--seed", "1"))):
        assert make(tmp_path / name, *size, *more) == 0
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
    assert contents(tmp_path / "other").keys() != contents(tmp_path / "one").keys()


def test_the_landing_is_the_contracts(landing: Path) -> None:
    hosts = {job.job_id: set(job.hosts) for job in plan_fleet(12, 2, 0, FIRST_DAY, 3000).jobs}
    days = sorted(path.name for path in landing.iterdir())
    assert days == ["_truth", "log_date=2026-01-05", "log_date=2026-01-06"]
    for day in days[1:]:
        names = {path.name.split("=")[0] for path in (landing / day).iterdir()}
        assert names == {"_SUCCESS", "job_id"}
    for folder in landing.glob(RUNS):
        logs = list(folder.glob("rank-*.jsonl"))
        job_id = json.loads((folder / "job.json").read_text())["job_id"]
        assert len(list(folder.iterdir())) == len(logs) + 1 > 1
        for record in (json.loads(line) for path in logs for line in path.read_text().splitlines()):
            written = datetime.fromtimestamp(record["t0_us"] / 1e6, UTC).date()
            assert folder.parts[-3:-1] == (f"log_date={written}", f"job_id={job_id}")
            assert record["host"] in hosts[job_id]
            assert set(record["op"]) <= set(OP_CODES)
    assert {path.parent.name for path in landing.glob(RUNS)} == {f"job_id={job_id}" for job_id in hosts}


def test_the_truth_about_every_unit(landing: Path) -> None:
    units = {path.relative_to(landing) for path in landing.glob(RUNS)}
    truths = list(landing.rglob("_truth/**/truth.json"))
    assert {path.parent.relative_to(landing / "_truth") for path in truths} == units
    sick = set()
    for path in truths:
        unit = json.loads(path.read_text())
        assert set(unit["time_saved_fraction"]) == set(FIXABLE_CAUSES)
        assert unit["actual_step_s"] > 0
        logs = (landing / path.parent.relative_to(landing / "_truth")).glob("rank-*.jsonl")
        steps = {json.loads(line)["step"] for log in logs for line in log.read_text().splitlines()}
        for mechanism in unit["mechanisms"]:
            assert set(mechanism["slowed_steps"]) <= steps
            if mechanism["mechanism"] == "SickHost":
                sick.add(mechanism["parameters"]["host"])
    spells = json.loads((landing / "_truth" / "hosts.json").read_text())
    assert set() != sick <= {spell["host"] for spell in spells}


def test_what_was_planned_exists(tmp_path: Path) -> None:
    assert make(tmp_path / "history", *HISTORY) == 0
    fix, *jobs = map(json.loads, (tmp_path / "history/_truth/plan.jsonl").read_text().splitlines())
    assert fix == {"fix_day": "2026-01-07", "team": "research"}
    written = [path.parent.name for path in (tmp_path / "history").glob(RUNS)]
    assert sorted(written) == sorted(f"job_id={job['job_id']}" for job in jobs for _ in range(job["days"]))


def test_ops_are_those_written(tmp_path: Path) -> None:
    fleet = plan_fleet(2, 1, 0, FIRST_DAY, 2000)
    ops = write_fleet(tmp_path, fleet)
    lines = [line for path in tmp_path.rglob("rank-*.jsonl") for line in path.read_text().splitlines()]
    assert ops == sum(len(json.loads(line)["op"]) for line in lines) > 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([*SMALL, "--jobs", "0"], "0 is less than 1"),
        ([*SMALL, "--seed", "-1"], "-1 is less than 0"),
        ([*SMALL, "--first-day", "yesterday"], "is not a date"),
        ([*SMALL, "--ops", "9"], "--ops is for --history"),
        ([*SMALL, "--history"], "--most-ops is for a fleet"),
        ([*HISTORY, "--ops", "1000"], "name more --ops or fewer --jobs"),
        ([], "a fleet needs --jobs"),
    ],
)
def test_wrong_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    assert make(tmp_path / "landing", *arguments) == 2
    assert complaint in capsys.readouterr().err


def test_a_folder_with_contents_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "precious").write_text("logs")
    assert make(tmp_path, *SMALL) == 2
    assert "is not an empty folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
