"""A landing that grows while a test watches it, as ranks of a generated job log more lines."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path

from jobs.synthetic.log_files import run_folder, write_rank_logs
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.shape import JobIdentity, JobShape
from tests.support.random_jobs import generate_job


class GrowingRun:
    """A run whose log a test extends: each call of `log_to` adds the steps before a given step."""

    def __init__(
        self, root: Path, day: date, mechanisms: Sequence[Mechanism], steps: int, job_id: str = "alpha"
    ) -> None:
        job = generate_job(
            JobShape(dp_size=4, pp_size=1, steps=steps), mechanisms, 7, JobIdentity(job_id, "r1")
        )
        written = write_rank_logs(root / "whole", day, job)
        self.lines = {
            each.name: each.read_bytes().splitlines(keepends=True) for each in written.glob("rank-*.jsonl")
        }
        self.folder = run_folder(root / "landing", day, job_id, "r1")
        self.folder.mkdir(parents=True)
        (self.folder / "job.json").write_bytes((written / "job.json").read_bytes())

    def log_to(self, step: int, *, with_half_a_line: bool = True) -> None:
        """Write each rank's lines of the steps before `step`, and by default half of the line of `step`."""
        for name, lines in self.lines.items():
            half = lines[step][: len(lines[step]) // 2] if with_half_a_line and step < len(lines) else b""
            (self.folder / name).write_bytes(b"".join(lines[:step]) + half)
