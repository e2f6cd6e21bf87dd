"""The fleet's landing: the same bytes from any number of processes, the truth beside it."""

import hashlib
import json
import sys
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from jobs.make_fleet import main
from jobs.synthetic.fleet import FIRST_DAY, write_fleet
from jobs.synthetic.plan_fleet import plan_fleet
from jobs.synthetic.simulation import LABELS
from schemas.vocabulary import OP_CODES
from tests.jobs.commands import start

SMALL = ["--jobs", "12", "--days", "2", "--most-ops", "3000"]


def make(landing: Path, *more: str) -> int:
    return main(["--landing", str(landing), *SMALL, *more])


def contents(landing: Path) -> dict[str, str]:
    return {
        str(path.relative_to(landing)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in landing.rglob("*")
        if path.is_file()
    }


def read_truth(landing: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in landing.rglob("_truth/**/truth.json")]


@pytest.fixture(scope="module")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    assert make(folder) == 0
    return folder


def test_same_bytes_from_two_processes(tmp_path: Path, landing: Path) -> None:
    assert make(tmp_path / "two", "--workers", "2") == 0
    assert contents(tmp_path / "two") == contents(landing)
    assert make(tmp_path / "other", "--seed", "1") == 0
    assert contents(tmp_path / "other").keys() != contents(landing).keys()


def test_the_landing_is_the_contracts(landing: Path) -> None:
    days = sorted(path.name for path in landing.iterdir())
    assert days == ["_truth", "log_date=2026-01-05", "log_date=2026-01-06"]
    for day in days[1:]:
        names = {path.name.split("=")[0] for path in (landing / day).iterdir()}
        assert names == {"_SUCCESS", "job_id"}
    for folder in landing.glob("log_date=*/job_id=*/run_id=*"):
        manifest = json.loads((folder / "job.json").read_text())
        assert manifest["job_id"] == folder.parent.name.removeprefix("job_id=")
        logs = sorted(folder.glob("rank-*.jsonl"))
        assert len(list(folder.iterdir())) == len(logs) + 1


def test_lines_lie_under_the_day_of_their_time_and_hosts_are_the_pools(landing: Path) -> None:
    fleet = plan_fleet(12, 2, 0, FIRST_DAY, 3000)
    hosts = {job.job_id: set(job.hosts) for job in fleet.jobs}
    found = Counter[str]()
    for path in landing.glob("log_date=*/job_id=*/run_id=*/rank-*.jsonl"):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            day = datetime.fromtimestamp(record["t0_us"] / 1e6, UTC).date()
            assert path.parts[-4] == f"log_date={day}"
            assert record["host"] in hosts[record["job_id"]]
            assert set(record["op"]) <= set(OP_CODES)
            found[record["job_id"]] += 1
    assert found.keys() == hosts.keys()


def test_the_truth_about_every_unit(landing: Path) -> None:
    truth = read_truth(landing)
    units = {
        tuple(part.split("=")[1] for part in path.parts[-3:])
        for path in landing.glob("log_date=*/job_id=*/run_id=*")
    }
    assert {(unit["log_date"], unit["job_id"], unit["run_id"]) for unit in truth} == units
    for unit in truth:
        assert set(unit["time_saved_fraction"]) == set(LABELS)
        assert unit["actual_step_s"] > 0
        steps = {
            json.loads(line)["step"]
            for path in landing.glob(f"log_date={unit['log_date']}/job_id={unit['job_id']}/*/rank-*.jsonl")
            for line in path.read_text().splitlines()
        }
        for mechanism in unit["mechanisms"]:
            assert set(mechanism["slowed_steps"]) <= steps
    spells = json.loads((landing / "_truth" / "hosts.json").read_text())
    ill = [
        mechanism["parameters"]["host"]
        for unit in truth
        for mechanism in unit["mechanisms"]
        if mechanism["mechanism"] == "SickHost"
    ]
    assert ill
    assert set(ill) <= {spell["host"] for spell in spells}


def test_first_day_and_number_of_ops(tmp_path: Path) -> None:
    fleet = plan_fleet(2, 1, 0, date(2026, 3, 1), 2000)
    ops = write_fleet(tmp_path, fleet)
    lines = [
        json.loads(line) for path in tmp_path.rglob("rank-*.jsonl") for line in path.read_text().splitlines()
    ]
    assert ops == sum(len(line["op"]) for line in lines) > 0
    assert (tmp_path / "log_date=2026-03-01" / "_SUCCESS").exists()


def test_silent_where_nobody_watches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert make(tmp_path / "landing") == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--jobs", "0"], "0 is less than 1"),
        (["--seed", "-1"], "-1 is less than 0"),
        (["--first-day", "yesterday"], "is not a date"),
        (["--workers", "many"], "'many' is not a whole number"),
        (["--ops", "9"], "--ops goes with --history"),
        (["--history"], "--most-ops goes with a fleet"),
    ],
)
def test_wrong_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    with pytest.raises(SystemExit) as end:
        make(tmp_path, *arguments)
    assert end.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_history_needs_ops_enough_and_a_fleet_its_number_of_jobs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    landing = ["--landing", str(tmp_path / "landing")]
    for arguments, complaint in (
        (["--history", "--jobs", "5", "--ops", "1000"], "name more --ops or fewer --jobs"),
        ([], "a fleet needs --jobs"),
    ):
        with pytest.raises(SystemExit) as end:
            main([*landing, *arguments])
        assert end.value.code == 2
        assert complaint in capsys.readouterr().err


def test_a_folder_with_contents_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "precious").write_text("logs")
    with pytest.raises(SystemExit) as end:
        make(tmp_path)
    assert end.value.code == 2
    assert "is not an empty folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_a_history_is_the_same_from_two_processes_and_says_what_was_planned(tmp_path: Path) -> None:
    some = ["--history", "--jobs", "6", "--days", "4", "--ops", "200000", "--landing"]
    assert main([*some, str(tmp_path / "one")]) == 0
    assert main([*some, str(tmp_path / "two"), "--workers", "2"]) == 0
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
    fix, *jobs = map(json.loads, (tmp_path / "one/_truth/plan.jsonl").read_text().splitlines())
    assert fix == {"fix_day": "2026-01-07", "team": "research"}
    written = Counter(path.parent.name for path in (tmp_path / "one").glob("log_date=*/job_id=*/run_id=*"))
    assert written == {f"job_id={job['job_id']}": job["days"] for job in jobs}


def test_as_a_command(tmp_path: Path) -> None:
    arguments = ["--landing", str(tmp_path / "landing"), "--jobs", "1", "--most-ops", "1000"]
    done = start([sys.executable, "-m", "jobs.make_fleet", *arguments])
    assert (done.returncode, done.stdout) == (0, "")
    assert len(read_truth(tmp_path / "landing")) == 1
