"""Fast as they are written, the lines hold exactly the job's rows."""

import gzip
import json
from datetime import date
from pathlib import Path

import pytest

from jobs.synthetic import log_files
from jobs.synthetic.job import GeneratedJob
from jobs.synthetic.log_files import write_rank_logs
from schemas.vocabulary import OP_TYPES
from tests.support.random_jobs import named_job, random_job

DAY = date(2026, 1, 5)


def _read(folder: Path) -> list[dict[str, object]]:
    found = []
    for path in sorted(folder.glob("rank-*")):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        assert data.endswith(b"\n")
        found += [json.loads(line) for line in data.decode().splitlines()]
    return found


def _wanted(job: GeneratedJob) -> list[dict[str, object]]:
    rows = job.rank_steps.sort_by([("rank", "ascending"), ("step", "ascending")]).to_pylist()
    ids = {"format": "rank-log/1", "job_id": "generated", "run_id": "r0"}
    return [{**ids, **row, "op": [OP_TYPES[code] for code in row["op"]]} for row in rows]


@pytest.mark.parametrize("compress", [False, True])
def test_lines_have_the_rows(tmp_path: Path, *, compress: bool) -> None:
    job = named_job("context_parallelism")
    folder = write_rank_logs(tmp_path, DAY, job, compress=compress)
    assert folder == tmp_path / "log_date=2026-01-05/job_id=generated/run_id=r0"
    assert _read(folder) == _wanted(job)
    assert json.loads((folder / "job.json").read_text()) == job.manifest


def test_lines_are_the_same_however_many_are_made_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = named_job("usual")
    monkeypatch.setattr(log_files, "ROWS_AT_ONCE", 5)
    assert _read(write_rank_logs(tmp_path, DAY, job)) == _wanted(job)


@pytest.mark.parametrize("seed", range(5))
def test_lines_of_unequal_length(tmp_path: Path, seed: int) -> None:
    job = random_job(seed)
    assert _read(write_rank_logs(tmp_path, DAY, job)) == _wanted(job)
