"""The fast writer of log files writes exactly the rows of a generated job."""

import gzip
import json
from datetime import date
from pathlib import Path

import pytest

from jobs.synthetic import log_files
from schemas.vocabulary import OP_TYPES
from tests.support.random_jobs import named_job


@pytest.mark.parametrize("name", ["context_parallelism", *range(5)])
@pytest.mark.parametrize(("compress", "rows_at_once"), [(False, 1000), (True, 1000), (False, 5)])
def test_lines_have_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | int, compress: bool, rows_at_once: int
) -> None:
    monkeypatch.setattr(log_files, "ROWS_AT_ONCE", rows_at_once)
    job = named_job(name)
    folder = log_files.write_rank_logs(tmp_path, date(2026, 1, 5), job, compress=compress)
    assert folder == tmp_path / "log_date=2026-01-05/job_id=generated/run_id=r0"
    assert json.loads((folder / "job.json").read_text()) == job.manifest
    opened = gzip.open if compress else open
    found = [line for path in sorted(folder.glob("rank-*")) for line in opened(path, "rb")]
    rows = job.rank_steps.sort_by([("rank", "ascending"), ("step", "ascending")]).to_pylist()
    ids = {"format": "rank-log/1", "job_id": "generated", "run_id": "r0"}
    assert all(line.endswith(b"\n") for line in found)
    assert [json.loads(line) for line in found] == [
        {**ids, **row, "op": [OP_TYPES[code] for code in row["op"]]} for row in rows
    ]
