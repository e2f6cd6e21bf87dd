"""Kills runs at random instants, and checks what readers see then, and after the next run.

`python -m tests.kills --kills 60 --seed 1`: nights, a backfill, late data (which revises later days), upkeep;
SIGKILL of the JVM, of Python, or of both. After each kill all tables together must be as of one publication
of an undisturbed run, and after the next run as at its end. The exit status is 1 where once they were not.
--store: landing and warehouses lie in a store, a local S3 server.
"""

import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import count, islice
from pathlib import Path
from typing import Any, Final
from unittest import mock

import psutil
from deltalake import DeltaTable

from jobs.emitter.rank_log_writer import finish_day
from jobs.runtime.places import is_url, storage_options
from jobs.runtime.project import PROJECT
from jobs.synthetic.log_files import write_rank_logs
from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.shape import JobIdentity, JobShape
from schemas.vocabulary import PIPELINE_RUNS, PUBLICATIONS, RUN_STARTED
from tests.support.commands import SHORT_LIVED
from tests.support.random_jobs import generate_job
from tests.support.stores import BUCKET, copied, s3_server, upload

DAYS: Final = [date(2026, 1, 5) + timedelta(days=age) for age in range(4)]
TARGETS: Final = ("jvm", "python", "both")

_SHAPE: Final = JobShape(dp_size=2, pp_size=1, steps=12)
_OTHERWISE: Final = frozenset({"files"})
"""Columns in which equal runs differ: times of files."""


@dataclass(frozen=True)
class Run:
    """A command, the warehouse that it starts from, and its result if undisturbed.

    states : digest of all tables together as of each publication, the last one before the run first
    """

    name: str
    arguments: Sequence[str]
    landing: str
    before: str
    after: str
    states: Sequence[str]
    seconds: float


@contextmanager
def ground(*, store: bool) -> Iterator[tuple[Path, str]]:
    """Yield a folder, and the root of warehouses: the folder, or with `store` a bucket of a server."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kills-")))
        if store:
            stack.enter_context(mock.patch.dict(os.environ, stack.enter_context(s3_server()).environment))
        yield folder, f"s3://{BUCKET}" if store else str(folder)


def rows_of(warehouse: str, name: str, version: int | None = None) -> list[dict[str, Any]]:
    """Rows of a table, without Spark."""
    path = f"{warehouse}/{name}"
    table = DeltaTable(path, version=version, storage_options=storage_options(path)).to_pyarrow_table()
    return list(table.to_pylist(maps_as_pydicts="strict"))


def publications(warehouse: str) -> dict[int, dict[str, int]]:
    """Versions of the tables, by the number of their publication."""
    path = f"{warehouse}/{PUBLICATIONS}"
    if not DeltaTable.is_deltatable(path, storage_options=storage_options(path)):
        return {}
    found = {row["publication"]: row["versions"] for row in rows_of(warehouse, PUBLICATIONS)}
    return dict(sorted(found.items()))


def state(warehouse: str, versions: dict[str, int]) -> str:
    """Digest of all tables together at these versions; sums to 11 digits."""
    digest = hashlib.sha256()
    for name, version in sorted(versions.items()):
        rows = sorted(repr(_plain(row)) for row in rows_of(warehouse, name, version))
        if rows:
            digest.update(repr((name, rows)).encode())
    return digest.hexdigest()


def seen(warehouse: str) -> str:
    """State that a new reader sees."""
    found = publications(warehouse)
    return state(warehouse, found[max(found)]) if found else state(warehouse, {})


def _plain(row: dict[str, Any]) -> list[tuple[str, Any]]:
    return [
        (name, float(f"{value:.11g}") if isinstance(value, float) else value)
        for name, value in sorted(row.items())
        if name not in _OTHERWISE
    ]


def start(run: Run, warehouse: str, *more: str) -> subprocess.Popen[bytes]:
    """Start a run on a warehouse, in a separate process group, with more arguments."""
    where = ["--landing", run.landing, "--warehouse", warehouse]
    return subprocess.Popen(
        [sys.executable, "-m", f"jobs.{run.name}", *run.arguments, *where, *more],
        cwd=PROJECT,
        env={**os.environ, "SPARK_SUBMIT_OPTS": SHORT_LIVED},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def undisturbed(after: str, name: str, arguments: Sequence[str], landing: str, before: str) -> Run:
    """Do a run to its end on a copy of a warehouse."""
    copied(before, after)
    run = Run(name, arguments, landing, before, after, (), 0.0)
    started, first = time.monotonic(), max(publications(before), default=0)
    status = start(run, after).wait()
    if status:
        raise RuntimeError(f"{name}: exit status {status} without any kill")
    made = [versions for number, versions in publications(after).items() if number > first]
    states = (seen(before), *(state(after, versions) for versions in made))
    return Run(name, arguments, landing, before, after, states, time.monotonic() - started)


def scenario(folder: Path, root: str) -> Iterator[Run]:
    """A backfill, nights, a night and a refresh whose day has late data, and upkeep.

    folder, root : see ground
    """
    landing, late, empty = landings = [folder / name for name in ("landing", "late", "empty")]
    empty.mkdir(parents=True)
    for day in DAYS:
        for job, slow in (("alpha", 1.5), ("beta", 1.0)):
            _write(landing, day, job, slow)
        finish_day(landing, day)
    shutil.copytree(landing, late)
    _write(late, DAYS[1], "alpha", 2.0)
    if is_url(root):
        for each in landings:
            upload(each, f"{root}/{each.name}")
    on_time, changed, nothing = (f"{root}/{each.name}" for each in landings)
    after = (f"{root}/after-{number}" for number in count())
    first, second, third, last = map(str, DAYS)
    whole = ["--from", first, "--to", last]
    yield (filled := undisturbed(next(after), "backfill", whole, on_time, nothing))
    yield undisturbed(next(after), "run_nightly", ["--log-date", second], changed, filled.after)
    yield (night := undisturbed(next(after), "run_nightly", ["--log-date", first], on_time, nothing))
    yield undisturbed(next(after), "run_nightly", ["--log-date", third], on_time, night.after)
    yield undisturbed(next(after), "refresh_changed_days", ["--log-date", last], changed, filled.after)
    yield undisturbed(next(after), "maintain_tables", ["--log-date", last], on_time, filled.after)


def _write(landing: Path, day: date, job: str, slow: float) -> None:
    identity = JobIdentity(job, "r1", fields={"gpu_hours": 96.0, "model": "m"})
    write_rank_logs(landing, day, generate_job(_SHAPE, [WeakGpu(1, 0, slow)], 7, identity))


def kill(process: subprocess.Popen[bytes], target: str) -> None:
    """Kill a run's JVM, its Python, or all of it, if it still runs; wait for its end."""
    if target == "both" and process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    elif process.poll() is None:
        below = psutil.Process(process.pid).children(recursive=True)
        jvm = [each for each in below if each.name() == "java"]
        victims = jvm if target == "jvm" and jvm else [psutil.Process(process.pid)]
        for victim in victims:
            victim.kill()
    process.wait()


def disturbed(run: Run, warehouse: str, after_s: float, target: str) -> list[str]:
    """Kill a run, check, run again, check again; returns the errors."""
    copied(run.before, warehouse)
    process = start(run, warehouse)
    time.sleep(after_s)
    kill(process, target)
    wrong = [] if seen(warehouse) in run.states else ["a reader sees what no publication was"]
    if start(run, warehouse).wait():
        wrong.append("the next run failed")
    elif seen(warehouse) != run.states[-1]:
        wrong.append("after the next run the tables are others than those of an undisturbed one")
    elif any(row["outcome"] == RUN_STARTED for row in rows_of(warehouse, PIPELINE_RUNS)):
        wrong.append("pipeline_runs has a run that neither runs nor was killed")
    if not is_url(warehouse):
        shutil.rmtree(warehouse)
    return wrong


def main(argv: Sequence[str] | None = None) -> int:
    """Kill the requested number of times; returns the exit status."""
    parser = argparse.ArgumentParser(prog="kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-a-time", type=int, default=1)
    parser.add_argument("--store", action="store_true")
    args = parser.parse_args(argv)
    draw, started = random.Random(args.seed), time.monotonic()  # noqa: S311  # nothing secret
    counts: Counter[str] = Counter()
    failures = 0
    with ground(store=args.store) as (folder, root):
        runs = list(islice(scenario(folder, root), args.kills))
        plan = [(runs[number % len(runs)], draw.choice(TARGETS)) for number in range(args.kills)]
        moments_s = [run.seconds * draw.uniform(0.25, 1.0) for run, _ in plan]

        def one(number: int) -> list[str]:
            run, target = plan[number]
            return disturbed(run, f"{root}/warehouse-{number}", moments_s[number], target)

        with ThreadPoolExecutor(args.at_a_time) as pool:
            for number, wrong in enumerate(pool.map(one, range(args.kills))):
                run, target = plan[number]
                failures += bool(wrong)
                counts[target] += 1
                verdict = "; ".join(wrong) or "as it should be"
                moment = f"{target} after {moments_s[number]:.1f} s"
                sys.stdout.write(f"{number + 1} {run.name}, {moment}: {verdict}\n")
                sys.stdout.flush()
    killed = ", ".join(f"{count} {target}" for target, count in sorted(counts.items()))
    sys.stdout.write(f"{args.kills} kills ({killed}), seed {args.seed}: {failures} wrong, ")
    sys.stdout.write(f"{time.monotonic() - started:.0f} s\n")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
