"""Writer of rank logs (format rank-log/1) for a training loop, with the standard library only.

Each rank opens one writer and calls it once per recorded step:

    with RankLogWriter(landing, Run("gpt-175b", "r3", dp_size=8, pp_size=4), Rank(17, 4, 1)) as log:
        with log.step(1200) as step:
            with step.op("forward-compute", microbatch=0):
                ...

Lines go to `log_date=.../job_id=.../run_id=.../rank-00017.jsonl`, where log_date is the UTC date of the
line's t0_us. Each line is passed to the operating system in one write, so that a crash loses at most the last
line. A writer that is opened on an existing log appends to it.
"""

import gzip
import json
import math
import os
import re
import socket
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

RANK_LOG_FORMAT = "rank-log/1"
RUN_EVENTS_FORMAT = "run-events/1"

OP_NAMES = (
    "forward-compute",
    "backward-compute",
    "forward-send",
    "forward-recv",
    "backward-send",
    "backward-recv",
    "params-all-gather",
    "grads-reduce-scatter",
    "separate-grads-all-reduce",
    "layernorm-grads-all-reduce",
    "embedding-grads-all-reduce",
    "optimizer-clip-main-grad",
    "optimizer",
    "gc",
    "data-load",
)


EPOCH = date(1970, 1, 1)
READ_BYTES = 1 << 16
SAFE_NAME = re.compile(r"[A-Za-z0-9._+@=~-]+")
"""Job and run ids become names of folders. Every store accepts these characters unchanged."""


@dataclass(frozen=True)
class Run:
    """One run of a job as in its manifest; `fields` holds optional fields, such as team and gpu_hours."""

    job_id: str
    run_id: str
    dp_size: int
    pp_size: int = 1
    tp_size: int = 1
    cp_size: int = 1
    vpp_size: int = 1
    fields: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ValueError for ids that cannot be folder names."""
        for name in (self.job_id, self.run_id):
            if not SAFE_NAME.fullmatch(name):
                raise ValueError(
                    f"{name!r} cannot name a job or run: only letters, digits and ._+@=~- are allowed"
                )

    def folder(self, landing: Path, log_date: date | str) -> Path:
        """Return the folder of this run on a day."""
        day = landing / f"log_date={as_date(log_date).isoformat()}"
        return day / f"job_id={self.job_id}" / f"run_id={self.run_id}"

    def manifest(self) -> dict[str, Any]:
        """Return the fields of the manifest."""
        own = {name: value for name, value in asdict(self).items() if name != "fields"}
        world_size = self.dp_size * self.pp_size * self.tp_size * self.cp_size
        return {**own, "world_size": world_size, **self.fields}


@dataclass(frozen=True)
class Rank:
    """Coordinates of the calling process; the host is by default this machine's name.

    gpu_type : name of the rank's GPU; by default a Recorder that chooses CUDA events asks torch for the name
    """

    rank: int
    dp_rank: int
    pp_rank: int = 0
    tp_rank: int = 0
    cp_rank: int = 0
    host: str | None = field(default_factory=socket.gethostname)
    gpu: int | None = None
    gpu_type: str | None = None


class Step:
    """Ops of one step of one rank, in recorded order. Times are in microseconds."""

    def __init__(self, number: int, t0_us: int) -> None:
        self.number = number
        self.t0_us = t0_us
        self.left_out = 0  # number of dropped steps since the last line
        names = ("op", "start_us", "duration_us", "microbatch", "model_chunk")
        self.columns: dict[str, list[Any]] = {name: [] for name in names}
        self._zero_ns = time.perf_counter_ns()

    def record(
        self, op: str, start_us: float, duration_us: float, *, microbatch: int = -1, model_chunk: int = 0
    ) -> None:
        """Add an op that was timed elsewhere, as by CUDA events; start_us counts from the step's t0_us. [us]

        Raises ValueError, and adds nothing, for an unknown op or a time that is negative or not finite.
        """
        if op not in OP_NAMES:
            raise ValueError(f"unknown op {op!r}; known are {', '.join(OP_NAMES)}")
        for name, time_us in (("start_us", start_us), ("duration_us", duration_us)):
            if not (math.isfinite(time_us) and time_us >= 0):
                raise ValueError(f"{name} of {op} is {time_us!r}; a time is a finite number of at least 0")
        values = (op, float(start_us), float(duration_us), int(microbatch), int(model_chunk))
        for column, value in zip(self.columns.values(), values, strict=True):
            column.append(value)

    @contextmanager
    def op(self, op: str, *, microbatch: int = -1, model_chunk: int = 0) -> Iterator[None]:
        """Time the block as an op by the host's clock, which is right if the block waits for its GPU work."""
        start_ns = time.perf_counter_ns()
        yield
        end_ns = time.perf_counter_ns()
        start_us, duration_us = (start_ns - self._zero_ns) / 1000, (end_ns - start_ns) / 1000
        self.record(op, start_us, duration_us, microbatch=microbatch, model_chunk=model_chunk)


class RankLogWriter:
    """Writer that appends the steps of one rank to its rank log, in a new file for each UTC day.

    landing    : the landing folder; day, job and run folders are made as needed
    log_date   : day of the folder for all steps; by default the UTC day of each step's t0_us
    compress   : write .jsonl.gz, each line a complete gzip member
    The manifest is written beside the log, if it does not exist yet.
    """

    def __init__(
        self,
        landing: str | Path,
        run: Run,
        rank: Rank,
        *,
        log_date: date | str | None = None,
        compress: bool = False,
    ) -> None:
        self.landing, self.run, self.rank = Path(landing), run, rank
        self.compress = compress
        self._fixed_date = None if log_date is None else as_date(log_date)
        self._open_date: date | None = None
        self._descriptor: int | None = None

    def states(self, **fields: Any) -> None:
        """Add fields to a manifest that is not written yet; fields stated by the run take precedence."""
        self.run = replace(self.run, fields={**fields, **self.run.fields})

    def __enter__(self) -> "RankLogWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def step(self, number: int, t0_us: int | None = None) -> Iterator[Step]:
        """Collect the ops of one step, then write its line; a step that raises an error leaves no line."""
        step = Step(number, time.time_ns() // 1000 if t0_us is None else t0_us)
        yield step
        self.write(step)

    def write(self, step: Step) -> None:
        """Append the line of a finished step to the log, without buffering."""
        line = self._line(step)
        log_date = self._fixed_date or EPOCH + timedelta(microseconds=step.t0_us)
        descriptor = self._descriptor
        if descriptor is None or log_date != self._open_date or not _is_at(descriptor, self.path(log_date)):
            descriptor = self._open(log_date)
        end = os.fstat(descriptor).st_size
        try:
            write_whole(descriptor, gzip.compress(line) if self.compress else line)
        except OSError:
            # Half a line would spoil the line after it; half a gzip member would spoil the whole file.
            with suppress(OSError):
                os.ftruncate(descriptor, end)
            raise

    def close(self) -> None:
        """Close the current file; the next step reopens it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def path(self, log_date: date) -> Path:
        """Return the path of the rank log for a day."""
        suffix = "jsonl.gz" if self.compress else "jsonl"
        return self.run.folder(self.landing, log_date) / f"rank-{self.rank.rank:05d}.{suffix}"

    def _line(self, step: Step) -> bytes:
        ids = {"format": RANK_LOG_FORMAT, "job_id": self.run.job_id, "run_id": self.run.run_id}
        rank = {name: value for name, value in asdict(self.rank).items() if value is not None}
        left_out = {"left_out": step.left_out} if step.left_out else {}
        record = {**ids, **left_out, **rank, "step": step.number, "t0_us": step.t0_us, **step.columns}
        return json.dumps(record, separators=(",", ":"), allow_nan=False).encode() + b"\n"

    def _open(self, log_date: date) -> int:
        self.close()
        path = self.path(log_date)
        if not (path.parent / "job.json").exists():
            write_manifest(self.landing, self.run, log_date)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        if self.compress:
            os.ftruncate(descriptor, _end_of_last_member(path))
        elif not ends_with_newline(descriptor):
            write_whole(descriptor, b"\n")
        self._descriptor, self._open_date = descriptor, log_date
        return descriptor


def as_date(log_date: date | str) -> date:
    """Return a date given as a date or as text such as "2026-01-05". Raises ValueError for another text."""
    return date.fromisoformat(log_date) if isinstance(log_date, str) else log_date


def write_manifest(landing: str | Path, run: Run, log_date: date | str) -> Path:
    """Write job.json for a run and day atomically and return its path; call again once gpu_hours is known."""
    path = run.folder(Path(landing), log_date) / "job.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".job.json.{os.getpid()}.{time.monotonic_ns()}")
    temporary.write_text(json.dumps(run.manifest(), allow_nan=False) + "\n")
    return temporary.replace(path)


def finish_day(landing: str | Path, log_date: date | str) -> Path:
    """Write _SUCCESS, which states that all logs of this day are complete, and return its path."""
    path = Path(landing) / f"log_date={as_date(log_date).isoformat()}" / "_SUCCESS"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def write_whole(descriptor: int, data: bytes) -> None:
    """Write all bytes, in one system call if possible."""
    while data:
        data = data[os.write(descriptor, data) :]


def _is_at(descriptor: int, path: Path) -> bool:
    """Return whether the path still leads to the open file, because writes to a removed file are lost."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def ends_with_newline(descriptor: int) -> bool:
    """Return whether the file is empty or its last line is complete."""
    size = os.fstat(descriptor).st_size
    return size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"


def _end_of_last_member(path: Path) -> int:
    """Return the end of the last complete gzip member: nothing after a truncated one can be read. [B]"""
    end = 0
    with path.open("rb") as log:
        member = zlib.decompressobj(wbits=31)
        while rest := log.read(READ_BYTES):
            while rest:
                try:
                    member.decompress(rest)
                except zlib.error:
                    return end
                if not member.eof:
                    break
                rest = member.unused_data
                end = log.tell() - len(rest)
                member = zlib.decompressobj(wbits=31)
    return end
