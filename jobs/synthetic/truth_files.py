"""The truth beside the logs: one file per unit under `<landing>/_truth`, which no ingest reads."""

import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final

from jobs.synthetic.rank_log_files import run_folder

TRUTH: Final = "_truth"
"""Folder in the landing; the ingest reads `log_date=` folders alone."""
TRUTH_FILE: Final = "truth.json"
HOSTS_FILE: Final = "hosts.json"


def write_truth(landing: Path, log_date: date, job_id: str, run_id: str, record: Mapping[str, Any]) -> Path:
    """Write the truth about one unit, its ids with it; returns the file's path."""
    path = run_folder(landing / TRUTH, log_date, job_id, run_id) / TRUTH_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    ids = {"log_date": log_date.isoformat(), "job_id": job_id, "run_id": run_id}
    path.write_text(json.dumps({**ids, **record}, allow_nan=False) + "\n")
    return path


def read_truth(landing: Path) -> list[dict[str, Any]]:
    """Read the truth about all units, by log date, job and run."""
    paths = (landing / TRUTH).glob(f"log_date=*/job_id=*/run_id=*/{TRUTH_FILE}")
    return [json.loads(path.read_text()) for path in sorted(paths)]


def write_sick_hosts(landing: Path, spells: Sequence[Mapping[str, Any]]) -> Path:
    """Write which hosts were sick and when; returns the file's path."""
    path = landing / TRUTH / HOSTS_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(list(spells), allow_nan=False) + "\n")
    return path
