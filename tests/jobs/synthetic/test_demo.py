"""The demo's logs have the same bytes each time, and are valid except for planted faults."""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.synthetic.demo import JOBS, SICK_HOST, demo_fleet, demo_whole, write_demo
from jobs.synthetic.job import GeneratedJob
from jobs.synthetic.mechanisms.mechanism import Windowed
from jobs.synthetic.simulation import Simulation, true_savings
from schemas.vocabulary import FIXABLE_CAUSES, OP_CODES
from tests.oracle import WhatIf, what_if
from tests.oracle.readers import read_layout, read_rank_steps

FLEET = demo_fleet(seed=0)
BY_ID = {job.job_id: job for job in FLEET.jobs}


def _ran(job_id: str, day: int | None = None) -> tuple[GeneratedJob, Simulation]:
    """Return the logs and the simulation of a job of the demo on a day, by default its first."""
    return FLEET.recorded(BY_ID[job_id], BY_ID[job_id].days[0] if day is None else day)


def _found(job_id: str) -> WhatIf:
    generated, _ = _ran(job_id)
    return what_if(read_rank_steps(generated.rank_steps), read_layout(generated.manifest))


def _digest(landing: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(path for path in landing.rglob("*") if path.is_file()):
        found.update(str(path.relative_to(landing)).encode() + path.read_bytes())
    return found.hexdigest()


@pytest.fixture(scope="module")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("landing")
    write_demo(folder)
    return folder


def test_same_seed_same_bytes(tmp_path: Path, landing: Path) -> None:
    write_demo(tmp_path / "again")
    assert _digest(tmp_path / "again") == _digest(landing)
    write_demo(tmp_path / "other", seed=1)
    assert _digest(tmp_path / "other") != _digest(landing)


def test_three_days_of_a_dozen_jobs(landing: Path) -> None:
    days = sorted(landing.glob("log_date=*"))
    assert [day.name for day in days] == [f"log_date=2026-01-0{5 + day}" for day in range(3)]
    for day, folder in enumerate(days):
        assert (folder / "_SUCCESS").exists()
        jobs = {path.name.removeprefix("job_id=") for path in folder.glob("job_id=*")}
        roles = {run.plan.identity.job_id for run in demo_whole().runs} if day == 0 else set()
        assert jobs == {job.job_id for job in FLEET.jobs if day in job.days} | roles
        assert len(jobs) >= 11


def test_only_the_planted_damage_breaks_lines(landing: Path) -> None:
    broken = []
    for path in sorted(landing.rglob("rank-*.jsonl*")):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for line in data.decode().splitlines():
            try:
                record: dict[str, Any] = json.loads(line)
            except json.JSONDecodeError:
                broken.append((path.parts[-4], path.parts[-3], "torn"))
                continue
            if unknown := set(record["op"]) - set(OP_CODES):
                broken.append((path.parts[-4], path.parts[-3], *sorted(unknown)))
    assert broken == [
        ("log_date=2026-01-05", "job_id=gpt-70b", "torn"),
        ("log_date=2026-01-06", "job_id=recsys-9b", "optimiser"),
    ]


def test_missing_files(landing: Path) -> None:
    without_manifest = [
        path.parent.name for path in landing.glob("*/*/*") if not (path / "job.json").exists()
    ]
    assert without_manifest == ["job_id=orphan-13b"]
    tuning = landing / "log_date=2026-01-07/job_id=tuning-7b/run_id=r1"
    assert len(list(tuning.glob("rank-*"))) == 15


@pytest.mark.parametrize(
    ("job_id", "worker"), [("gpt-175b", (2, 1)), ("speech-3b", (5, 0)), ("gpt-70b", None), ("code-13b", None)]
)
def test_slow_workers_are_found(job_id: str, worker: tuple[int, int] | None) -> None:
    found = _found(job_id)
    assert found.slow_worker_share is not None
    assert (found.slow_worker_share > 0.8) == (worker is not None)
    if worker is not None:
        assert max(found.worker_slowdown, key=lambda cell: found.worker_slowdown[cell]) == worker


def test_other_planted_faults_are_found() -> None:
    assert (_found("gpt-70b").last_stage_share or 0.0) > 0.9
    uneven = _found("long-context-7b")
    assert uneven.slowdown > 1.15
    assert (uneven.forward_backward_correlation or 0.0) > 0.99
    assert _found("vision-22b").discrepancy > 0.05
    flapping = _found("moe-8x22b")
    assert flapping.op_type_slowdown["forward-pp-comm"] > 1.1


def test_every_cause_occurs_alone() -> None:
    """Each cause is the only cause of some job of the demo; one sick host slows three jobs."""
    found = set()
    slowed = []
    for job in JOBS:
        truth = true_savings(_ran(job.job_id, job.days[1])[1])
        slowed += [job.job_id for each in truth.mechanisms if each["culprits"].get("hosts") == [SICK_HOST]]
        fractions = truth.time_saved_fraction
        causes = {cause for cause, fraction in fractions.items() if fraction > 0.025}
        assert len(causes) == (len(job.mechanisms) > 0), job.job_id
        found |= causes
    assert found == set(FIXABLE_CAUSES)
    assert slowed == ["gpt-175b", "chat-70b", "draft-13b"]


@pytest.mark.parametrize(
    ("job_id", "hit", "worker"),
    [
        ("reason-13b", [(0, 14)] * 3, [2, 1]),
        ("agent-34b", [None, (7, 14), (0, 14)], None),
        ("video-9b", [None, (0, 14), (0, 14)], [2, 1]),
    ],
)
def test_faults_have_their_onsets(
    job_id: str, hit: list[tuple[int, int] | None], worker: list[int] | None
) -> None:
    for day, window in enumerate(hit):
        _, simulation = _ran(job_id, day)
        found = [each["culprits"] for each in true_savings(simulation).mechanisms]
        slowed = [each.window.mask(14) for each in simulation.plan.mechanisms if isinstance(each, Windowed)]
        assert [np.flatnonzero(mask)[[0, -1]].tolist() for mask in slowed] == (
            [] if window is None else [[window[0], window[1] - 1]]
        )
        assert worker is None or all(each["workers"] == [worker] for each in found)


@pytest.mark.parametrize("job_id", [job.job_id for job in JOBS if job.planted.startswith("nothing")])
def test_healthy_jobs_are_healthy(job_id: str) -> None:
    assert _found(job_id).slowdown < 1.03
