"""NCCL Inspector: how long each rank was in each collective, as evidence of who came last; never a replay.

What is read, and what a log needs: nccl_inspector.md beside this file.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa

from jobs.landing.formats.arrivals import Attendance, arrivals
from jobs.landing.formats.foreign import SourceFile
from jobs.landing.formats.rows import Bounds, FileError, Reject, text_of
from schemas.vocabulary import REASON_LINE_TOO_LONG, REASON_MISSING_FIELD, REASON_NOT_JSON

_BY_THE_GPU: Final = ("kernel_gpu", "kernel_cpu", None)
"""Times of kernels, by the GPU's clock or seen from a CPU; older versions say nothing and time kernels."""

_FIELDS: Final = (b'"coll_perf"', b'"p2p_perf"')


class _Header(msgspec.Struct):
    id: str
    rank: int
    n_ranks: int


class _Performance(msgspec.Struct):
    coll: str
    coll_sn: int
    coll_exec_time_us: float
    coll_timing_source: str | None = None


class _Metadata(msgspec.Struct):
    hostname: str | None = None


class _Line(msgspec.Struct):
    header: _Header
    coll_perf: _Performance | None = None
    metadata: _Metadata | None = None


_DECODE: Final = msgspec.json.Decoder(_Line).decode


class Evidence(NamedTuple):
    """What the logs of one run say.

    arrivals : rows of collective_arrival, without the unit's key
    rejects : lines that are none, by file; a whole file that breaks off
    left_out : what is no evidence, in words, and how often
    """

    arrivals: pa.Table
    rejects: Mapping[str, Sequence[Reject]]
    left_out: Mapping[str, int]


def recognises(head: bytes) -> bool:
    """Whether a file that begins like this is a log of NCCL Inspector."""
    first = head.lstrip().split(b"\n", 1)[0]
    return first.startswith(b"{") and b'"header"' in first and any(each in first for each in _FIELDS)


def read_arrivals(files: Sequence[SourceFile], bounds: Bounds) -> Evidence:
    """Read the logs of one run, one file per process.

    A bad line loses itself alone, a file that breaks off itself alone.
    """
    rejects: dict[str, list[Reject]] = {}
    left_out: Counter[str] = Counter()
    found: list[Attendance] = []
    for file in files:
        own: list[Attendance] = []
        try:
            for each in _attendances(file, bounds, left_out):
                if isinstance(each, Reject):
                    rejects.setdefault(file.name, []).append(each)
                else:
                    own.append(each)
        except FileError as error:
            rejects[file.name] = [error.reject]
            continue
        found += own
    table, missing = arrivals(found)
    if missing:
        left_out["collectives of which a rank is not recorded"] = missing
    return Evidence(table, rejects, left_out)


def _attendances(file: SourceFile, bounds: Bounds, left_out: Counter[str]) -> Iterator[Attendance | Reject]:
    with file.opened() as opened:
        number = 0
        while line := opened.readline(bounds.line_bytes + 1):
            number += 1
            if len(line) > bounds.line_bytes:
                while line and not line.endswith(b"\n"):
                    line = opened.readline(bounds.line_bytes)
                yield Reject(REASON_LINE_TOO_LONG, f"more than {bounds.line_bytes} bytes", number)
            elif not line.isspace():
                found = _attendance(line, number)
                if isinstance(found, str):
                    left_out[found] += 1
                else:
                    yield found


def _attendance(line: bytes, number: int) -> Attendance | Reject | str:
    """One line: who was in a collective, a reject, or what it is that is no evidence."""
    try:
        read = _DECODE(line)
    except msgspec.ValidationError as error:
        return Reject(REASON_MISSING_FIELD, str(error), number, text_of(line))
    except msgspec.DecodeError as error:
        return Reject(REASON_NOT_JSON, str(error), number, text_of(line))
    if read.coll_perf is None:
        return "lines of single sends and recvs"
    done = read.coll_perf
    if done.coll_timing_source not in _BY_THE_GPU:
        return f"collectives timed by {done.coll_timing_source}"
    host = read.metadata.hostname if read.metadata is not None else None
    meeting = (done.coll, done.coll_sn)  # NCCL numbers each kind of collective on its own
    header = read.header
    return Attendance(header.id, meeting, header.rank, header.n_ranks, done.coll_exec_time_us, host)
