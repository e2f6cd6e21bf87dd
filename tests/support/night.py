"""A landing to which tests of a night add valid and invalid files."""

import gzip
import json
from collections.abc import Iterable
from datetime import date
from pathlib import Path

from tests.support.line_cases import RUN, SIZES

DAY = date(2026, 1, 5)
NEXT_DAY = date(2026, 1, 6)
EMPTY_DAY = date(2026, 1, 7)


class Landing:
    """A landing folder, with methods that write files into the folders of runs."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, job_id: str, name: str, content: bytes, run_id: str = RUN, day: date = DAY) -> str:
        """Write a file to the folder of a run; return the source_file that its rows must have."""
        source_file = f"log_date={day}/job_id={job_id}/run_id={run_id}/{name}"
        path = self.root / source_file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return source_file

    def log(self, job_id: str, name: str, lines: Iterable[bytes], run_id: str = RUN, day: date = DAY) -> str:
        """Write a rank log, compressed if its name has the suffix of a compressed file."""
        content = b"".join(line + b"\n" for line in lines)
        return self.put(
            job_id, name, gzip.compress(content) if name.endswith(".gz") else content, run_id, day
        )

    def manifest(self, folder: str, run: str = RUN, day: date = DAY, **changes: object) -> str:
        """Write a job.json that is valid except for the given changes."""
        manifest = {"job_id": folder, "run_id": run, **SIZES} | changes
        return self.put(folder, "job.json", json.dumps(manifest).encode(), run, day)
