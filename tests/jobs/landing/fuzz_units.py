"""Fuzz whole units of every format by damaging a file: errors become rejects, and no line is lost."""

import gzip
import io
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Final

import pyarrow.parquet as pq

from jobs.landing.accounts import UnitAccount, jobs_of, whole_unit
from jobs.landing.files import LandedFile
from jobs.landing.formats.rows import Bounds
from jobs.landing.read_unit import read_unit
from jobs.landing.stores import Store
from jobs.night.ingest import _source_files
from jobs.warehouse.staging import StagedFile, Staging
from schemas.unit import Unit
from schemas.vocabulary import RANK_STEPS, REJECTS, RUN_EVENTS
from tests.jobs.landing.formats import (
    test_megascan,
    test_megascan_aggregated,
    test_megatron_console,
    test_timeline,
)
from tests.jobs.landing.formats.foreign_logs import as_json
from tests.jobs.landing.formats.test_manifest import META
from tests.jobs.landing.formats.test_nccl_inspector import line as collective
from tests.jobs.landing.formats.test_published_trace import ops, parquet
from tests.jobs.landing.formats.test_refused import LOGS
from tests.support.examples import DAY
from tests.support.kineto_traces import data_parallel_traces, random_durations
from tests.support.line_cases import JOB, RUN, SIZES, line
from tests.support.random_jobs import generate_job

_UNIT: Final = Unit(DAY, JOB, RUN)
_BOUNDS: Final = Bounds(line_bytes=5000, file_bytes=1_000_000, trace_ops=5000)
_MANIFEST: Final = json.dumps({"job_id": JOB, "run_id": RUN, **SIZES, "labels": {"a": "b"}}).encode()
_EVENT: Final[dict[str, Any]] = {"format": "run-events/1", "job_id": JOB, "run_id": RUN, "at_us": 5}
Files = dict[str, bytes]
Mutate = Callable[[bytes, random.Random], bytes]


def _own() -> Files:
    return {
        "job.json": _MANIFEST,
        "rank-0.jsonl": b"\n".join(line(rank=0, pp_rank=0, step=step) for step in range(3)),
        "rank-1.jsonl.gz": gzip.compress(b"\n".join(line(step=step) for step in range(3)), mtime=0),
        "events.jsonl": b"\n".join(
            json.dumps(_EVENT | {"event": name}).encode() for name in ("start", "step")
        ),
        "node-1-pid7.log": collective(0, 1, 500) + collective(1, 1, 300),
    }


def _published() -> Files:
    return {"trace-a.parquet": parquet(ops({}, {"step": 17}, {"rank": 1})), "meta-a.yaml": META.encode()}


def _timeline() -> Files:
    events = [
        test_timeline.STAGE,
        *(test_timeline.op(ts=5.0 * step, args={"step": step}) for step in range(4)),
    ]
    return {"timeline.json": as_json(events)}


def _megascan() -> Files:
    return test_megascan.files_of(generate_job(replace(test_megascan.SHAPE, steps=3), [], 7))


def _on_one_time_line() -> list[dict[str, Any]]:
    return test_megascan_aggregated.aggregate(test_megascan.shared(), first=18)


def _aggregated() -> Files:
    return {"aggregated.json": as_json(_on_one_time_line())}


def _aggregated_in_complete_events() -> Files:
    sizes = {"dp_size": 4, "pp_size": 4, "tp_size": 1, "cp_size": 1, "vpp_size": 4, "world_size": 16}
    return {
        "aggregated.json": as_json(test_megascan_aggregated.complete(_on_one_time_line())),
        "job.json": json.dumps({"job_id": JOB, "run_id": RUN, **sizes}).encode(),
    }


def _console() -> Files:
    times_ms = test_megatron_console.SLOW_FROM_7_TO_9
    return {"node-0.log": test_megatron_console.console(times_ms).encode(), "job.json": _MANIFEST}


def _kineto() -> Files:
    texts = data_parallel_traces(random_durations(3, is_sharded=True, steps=1))
    return {f"rank-{rank}.json": text for rank, text in enumerate(texts)}


UNITS: Final[dict[str, Callable[[], Files]]] = {
    "rank logs": cache(_own),
    "published": cache(_published),
    "timeline": cache(_timeline),
    "megascan": cache(_megascan),
    "aggregated megascan": cache(_aggregated),
    "aggregated megascan, complete": cache(_aggregated_in_complete_events),
    "megatron console": cache(_console),
    "kineto": cache(_kineto),
    "inspector": lambda: {"a-pid1.log": collective(0, 1, 500), "b-pid2.log": collective(1, 1, 300)},
    **{f"refused {place}": partial(dict, {"a.log": log}) for place, log in enumerate(LOGS.values())},
}


class Memory(Store):
    """A store whose files are in memory."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        return io.BytesIO(self._files[path])


def read_changed(name: str, mutate: Mutate, chance: random.Random) -> None:
    """Read a unit with one damaged file, rarely with all damaged; fails if a line is lost."""
    files = dict(UNITS[name]())
    changed = list(files) if chance.random() < 0.1 else [chance.choice(list(files))]
    for each in changed:
        files[each] = mutate(files[each], chance)
    with TemporaryDirectory(dir="/dev/shm") as folder:  # a folder in memory allows a hundred units a second
        staging = Staging(folder, "run")
        landed = [
            LandedFile(*_UNIT, f"log_date={DAY}/job_id={JOB}/run_id={RUN}/{each}", each, len(files[each]))
            for each in sorted(files)
        ]
        account = read_unit(Memory(files), whole_unit(_UNIT, landed, _BOUNDS), _BOUNDS, staging)
        check(account, landed, files, list(_counted(folder, staging.close())))


def _counted(folder: str, staged: list[StagedFile]) -> Iterator[tuple[str, str]]:
    """Yield (table, file name) of each stored row."""
    for each in staged:
        found = pq.read_table(f"{folder}/{each.table}/{each.path}", partitioning=None)
        if "source_file" in found.column_names:
            yield from ((each.table, name) for name in found["source_file"].to_pylist())


def check(
    account: UnitAccount, landed: list[LandedFile], files: Files, stored: list[tuple[str, str]]
) -> None:
    """Fail unless the account lists each log, and counts each of its lines as a row or a reject.

    stored : table and file of each stored row
    """
    assert jobs_of([account]).num_rows == 1
    assert _source_files([account]).num_rows == sum(file.is_log for file in landed)
    for each in account.files:
        name = each.file.source_file
        assert stored.count((REJECTS, name)) == each.rejects, name
        assert stored.count((RANK_STEPS, name)) + stored.count((RUN_EVENTS, name)) == each.rows, name
        assert each.lines is None or each.lines == each.rows + each.rejects, name
        if each.lines is not None and name.endswith(".jsonl"):
            assert each.lines == sum(bool(part.strip()) for part in files[each.file.path].split(b"\n")), name
