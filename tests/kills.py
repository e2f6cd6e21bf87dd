"""Kill runs at random moments, and check which tables readers see after each kill and after the next run.

`python -m tests.kills --kills 60 --seed 1` kills nights, backfills, refreshes of late data (which revise
later days) and upkeep by SIGKILL of the JVM, of Python, or of both. After each kill, readers must see all
tables as of one publication of an undisturbed run. The next run may be killed too. After a run that ends by
itself, all tables must be as at the end of an undisturbed run. The exit status is 1 if a check failed. With
--store, landing and warehouse are in a local S3 server. With --first 7, the series begins with the seventh
warehouse.
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
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
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
from tests.support.stores import BUCKET, copied, removed, s3_server, upload

DAYS: Final = [date(2026, 1, 5) + timedelta(days=age) for age in range(4)]
TARGETS: Final = ("jvm", "python", "both")
RUNS: Final = 6  # number of runs that `scenario` yields
_IN_A_ROW: Final = 3  # most kills of one warehouse; each kill, and the final run, needs a start of Spark

_SHAPE: Final = JobShape(dp_size=2, pp_size=1, steps=12)
_OTHERWISE: Final = frozenset({"files"})
"""Columns that may differ between equal runs, because they contain times of files."""


@dataclass(frozen=True)
class Run:
    """A command, the warehouse on which it starts, and the warehouse after it if the command is not killed.

    states : digests of all tables, as of the last publication before the run and of each publication in
    it
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
    """Yield a folder, and the root of the warehouses: the folder itself, or with `store` a bucket's URL."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kills-")))
        if store:
            stack.enter_context(mock.patch.dict(os.environ, stack.enter_context(s3_server()).environment))
        yield folder, f"s3://{BUCKET}" if store else str(folder)


def rows_of(warehouse: str, name: str, version: int | None = None) -> list[dict[str, Any]]:
    """Return the rows of a table, without Spark."""
    path = f"{warehouse}/{name}"
    table = DeltaTable(path, version=version, storage_options=storage_options(path)).to_pyarrow_table()
    return list(table.to_pylist(maps_as_pydicts="strict"))


def publications(warehouse: str) -> dict[int, dict[str, int]]:
    """Return the Delta version of each table in each publication, by the publication's number."""
    path = f"{warehouse}/{PUBLICATIONS}"
    if not DeltaTable.is_deltatable(path, storage_options=storage_options(path)):
        return {}
    return {row["publication"]: row["versions"] for row in rows_of(warehouse, PUBLICATIONS)}


def state(warehouse: str, versions: dict[str, int]) -> str:
    """Return a digest of all tables at the given versions; floats are rounded to 11 digits."""
    digests = [(name, _digest(warehouse, name, version)) for name, version in sorted(versions.items())]
    return hashlib.sha256(repr([each for each in digests if each[1]]).encode()).hexdigest()


@cache  # most tables do not change between publications
def _digest(warehouse: str, name: str, version: int) -> str:
    """Return a digest of the rows of a table; empty if the table has no rows."""
    rows = sorted(repr(_plain(row)) for row in rows_of(warehouse, name, version))
    return hashlib.sha256(repr(rows).encode()).hexdigest() if rows else ""


def seen(warehouse: str) -> str:
    """Return a digest of the tables as a reader would see them now."""
    return state(warehouse, max(publications(warehouse).items(), default=(0, {}))[1])


def _plain(row: dict[str, Any]) -> list[tuple[str, Any]]:
    return [
        (name, float(f"{value:.11g}") if isinstance(value, float) else value)
        for name, value in sorted(row.items())
        if name not in _OTHERWISE
    ]


def start(run: Run, warehouse: str, *more: str) -> subprocess.Popen[bytes]:
    """Start a run on a warehouse in its own process group; `more` are additional arguments."""
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
    """Run a command to its end on the copy `after` of the warehouse `before`, and return it as a Run."""
    copied(before, after)
    run = Run(name, arguments, landing, before, after, (), 0.0)
    started, first = time.monotonic(), max(publications(before), default=0)
    status = start(run, after).wait()
    if status:
        raise RuntimeError(f"{name}: exit status {status} without any kill")
    made = [versions for number, versions in sorted(publications(after).items()) if number > first]
    states = (seen(before), *(state(after, versions) for versions in made))
    return Run(name, arguments, landing, before, after, states, time.monotonic() - started)


def scenario(folder: Path, root: str) -> Iterator[Run]:
    """Yield the runs to kill: a backfill, nights, a refresh of late data, and maintenance.

    folder, root : results of `ground`
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
    """Kill a run's JVM, its Python process, or both, and wait until the run has ended."""
    if target == "both":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        below = psutil.Process(process.pid).children(recursive=True)
        jvm = [each for each in below if each.name() == "java"]
        for victim in jvm if target == "jvm" and jvm else [psutil.Process(process.pid)]:
            with suppress(psutil.NoSuchProcess):  # the process has just ended
                victim.kill()
    process.wait()


def disturbed(run: Run, warehouse: str, draw: random.Random, most: int) -> Iterator[tuple[str, str]]:
    """Start a run and kill it, up to `most` times, then let it end; yield each kill and any error."""
    copied(run.before, warehouse)
    status = None
    for _ in range(most):
        moment_s, target = run.seconds * draw.uniform(0.25, 1.0), draw.choice(TARGETS)
        process = start(run, warehouse)
        with suppress(subprocess.TimeoutExpired):
            status = process.wait(moment_s)
            break
        kill(process, target)
        is_known = seen(warehouse) in run.states
        yield (
            f"{target} after {moment_s:.1f} s",
            "" if is_known else "a reader sees tables that are no publication",
        )
    yield "", _ended(run, warehouse, start(run, warehouse).wait() if status is None else status)
    removed(warehouse)


def _ended(run: Run, warehouse: str, status: int) -> str:
    """Return an error if a warehouse is wrong after a run that followed a kill; empty if it is right."""
    if status:
        return f"the next run failed with exit status {status}"
    if seen(warehouse) != run.states[-1]:
        return "after the next run, tables differ from those of an undisturbed run"
    is_open = any(row["outcome"] == RUN_STARTED for row in rows_of(warehouse, PIPELINE_RUNS))
    return "pipeline_runs has a run without an end" if is_open else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Kill runs until the number of kills is reached, and print each result; return the exit status."""
    parser = argparse.ArgumentParser(prog="kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=1, help="number of the first warehouse")
    parser.add_argument("--store", action="store_true")
    args = parser.parse_args(argv)
    started, killed, failures = time.monotonic(), Counter[str](), 0
    with ground(store=args.store) as (folder, root):
        made, runs = scenario(folder, root), list[Run]()
        for number in count(args.first):
            place = (number - 1) % RUNS
            runs += islice(made, max(0, place + 1 - len(runs)))
            draw = random.Random(f"{args.seed} {number}")  # noqa: S311  # not a secret
            most = min(_IN_A_ROW, args.kills - killed.total())
            for what, wrong in disturbed(runs[place], f"{root}/warehouse-{number}", draw, most):
                killed.update(what.split()[:1])
                failures += bool(wrong)
                verdict = f"{what or 'to its end'}: {wrong or 'as it should be'}"
                print(f"{number} {runs[place].name}, {verdict}", flush=True)
            if killed.total() >= args.kills:
                break
    counts = ", ".join(f"{count} {target}" for target, count in sorted(killed.items()))
    print(f"{killed.total()} kills ({counts}): {failures} wrong, {time.monotonic() - started:.0f} s")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
