"""Time commands on a folder, a store, and a store that delays each request by 20 ms; count requests.

Each request to the slower store takes 20 ms longer. `python -m tests.benchmarks.stores` runs the demo's
nights, and then questions, a report and upkeep. With `--units 500`, the same day of 500 tiny units is run
repeatedly in place of the demo's days. With `--requests FILE`, every request to the store is written to FILE.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO
from unittest import mock

from jobs.emitter.rank_log_writer import finish_day
from jobs.make_demo import make_landing
from jobs.runtime.project import PROJECT
from jobs.synthetic.fleet import FIRST_DAY
from jobs.synthetic.log_files import write_rank_logs
from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.shape import JobIdentity, JobShape
from tests.benchmarks.figures import watched
from tests.support.random_jobs import generate_job
from tests.support.stores import BUCKET, Server, s3_server, upload

PLACES: Final = ("folder", "store", "late")
DELAY_S: Final = 0.02
_TINY: Final = JobShape(dp_size=2, pp_size=1, steps=12)
_QUESTION: Final = "SELECT * FROM fix_first"
_HEAD: Final = "| command | where | s | CPU s | requests | logs | driver MB | JVM MB | workers MB |"


@dataclass(frozen=True)
class Place:
    """A folder or bucket that contains a landing and a warehouse; `server` is None for a folder."""

    name: str
    root: str
    server: Server | None = None

    def start(self, arguments: Sequence[str]) -> "subprocess.Popen[bytes]":
        """Start a command on the warehouse in this folder or bucket, and return its process."""
        where = ["--warehouse", f"{self.root}/warehouse"]
        return subprocess.Popen(
            [sys.executable, "-m", "jobs.console", *arguments, *where],
            cwd=PROJECT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )


def tiny(landing: Path, units: int, most: int) -> list[str]:
    """Generate a day of units that differ only in name, with two workers and twelve steps each.

    Returns the day `most` times, because its night is run that often.
    """
    template = landing.with_name("template")
    job = generate_job(_TINY, [WeakGpu(1, 0, 1.5)], 7, JobIdentity("JOB", "r1", fields={"gpu_hours": 96.0}))
    write_rank_logs(template, FIRST_DAY, job)
    (run,) = template.glob("log_date=*/job_id=*/run_id=*")
    files = {file.name: file.read_text() for file in run.iterdir()}
    for number in range(units):
        name = f"job-{number:06d}"
        folder = landing / f"log_date={FIRST_DAY}" / f"job_id={name}" / "run_id=r1"
        folder.mkdir(parents=True)
        for file, text in files.items():
            (folder / file).write_text(text.replace('"JOB"', f'"{name}"'))
    finish_day(landing, FIRST_DAY)
    return [FIRST_DAY.isoformat()] * most


def commands(days: Sequence[str], landing: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (name in the printed table, arguments) of each command to time, in the order of their runs."""
    for number, day in enumerate(days):
        kind = "the first" if number == 0 else "warm"
        yield f"night, {kind}", ["night", "--landing", landing, "--log-date", day]
    yield "question", ["query", _QUESTION]
    yield "report", ["report", "--log-date", days[-1]]
    yield "refresh, nothing late", ["refresh", "--landing", landing, "--log-date", days[-1]]
    again = ["backfill", "--landing", landing, "--from", days[0], "--to", days[-1]]
    yield "backfill, nothing due", again
    yield "maintain", ["maintain", "--landing", landing, "--log-date", days[-1]]


def measure(place: Place, days: Sequence[str], logs: int, kept: TextIO | None, only: str) -> None:
    """Run and time the commands on one landing and warehouse; print a line of the table for each command.

    days : log dates of the nights
    logs : number of log files of the last day
    kept : file for the requests
    only : beginning of the names of commands that run; empty for all
    """
    for name, arguments in commands(days, f"{place.root}/landing"):
        if not name.startswith(only):
            continue
        if place.server is not None:
            place.server.requests()
        started = time.perf_counter()
        process = place.start(arguments)
        with watched(process.pid) as peak:
            _, said = process.communicate()
        took_s = time.perf_counter() - started
        if process.returncode:
            raise RuntimeError(f"{name} in {place.name}: {said.decode()[-2000:]}")
        asked = place.server.requests() if place.server else []
        read = logs if name.startswith("night") else 0
        cpu_s = sum(peak.cpu_s.values())
        memory = f"{peak.driver:.0f} | {peak.jvm:.0f} | {peak.workers:.0f} |"
        print(
            f"| {name} | {place.name} | {took_s:.1f} | {cpu_s:.0f} | {len(asked)} | {read} | {memory}",
            flush=True,
        )
        for each in asked if kept else ():
            print(name, place.name, each.method, each.path, each.query, sep="\t", file=kept)


def main() -> None:
    """Run the benchmark on the folder, the store and the slow store in turn."""
    parser = argparse.ArgumentParser(prog="tests.benchmarks.stores", description=__doc__)
    parser.add_argument("--units", type=int, default=0, help="tiny units of a night, in place of the demo")
    parser.add_argument("--nights", type=int, default=3, help="number of nights, from the first")
    parser.add_argument("--places", nargs="*", choices=PLACES, default=PLACES)
    parser.add_argument("--only", default="", help="what the commands' names in the table begin with")
    parser.add_argument("--requests", type=Path)
    args = parser.parse_args()
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stores-")))
        landing = root / "landing"
        if args.units:
            days = tiny(landing, args.units, args.nights)
        else:
            days = [day.isoformat() for day in make_landing(landing, 0)]
        days = days[: args.nights]
        logs = len(list(landing.glob(f"log_date={days[-1]}/*/*/*")))
        kept = stack.enter_context(args.requests.open("w")) if args.requests else None
        print(f"{_HEAD}\n|{'---|' * 9}")
        for name in args.places:
            if name == "folder":
                place = Place(name, str(root))
            else:
                server = stack.enter_context(s3_server())
                stack.enter_context(mock.patch.dict(os.environ, server.environment))
                upload(landing, f"s3://{BUCKET}/landing")
                server.delay(DELAY_S if name == "late" else 0.0)
                place = Place(name, f"s3://{BUCKET}", server)
            measure(place, days, logs, kept, args.only)
            shutil.rmtree(root / "warehouse", ignore_errors=True)


if __name__ == "__main__":
    main()
