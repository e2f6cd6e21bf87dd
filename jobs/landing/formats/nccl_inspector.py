"""Reader of NCCL Inspector logs, which show the last rank of each collective but allow no replay.

nccl_inspector.md, beside this file, says what is read and what a log must contain.
"""

from collections.abc import Iterator
from typing import BinaryIO, Final

import msgspec

from jobs.landing.formats.arrivals import Arrivals, Attendance
from jobs.landing.formats.foreign import SourceFile
from jobs.landing.formats.rows import Bounds, Reject, text_of
from schemas.vocabulary import Reason

_BY_THE_GPU: Final = ("kernel_gpu", "kernel_cpu", None)
"""Values of coll_timing_source for times of a kernel, by the GPU's clock or a CPU's; older versions, which
time kernels too, state none."""

NO_REPLAY: Final = (
    "NCCL Inspector: how long ranks were in collectives, not when. collective_arrival says which came last; "
    "for a replay put rank logs, or traces of torch.profiler of every rank, beside its logs"
)
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


def recognises(head: bytes) -> bool:
    """Return whether a file with this head is a log of NCCL Inspector."""
    first = head.lstrip().split(b"\n", 1)[0]
    return first.startswith(b"{") and b'"header"' in first and any(each in first for each in _FIELDS)


def read_arrivals(file: SourceFile, found: Arrivals, bounds: Bounds) -> Iterator[Reject]:
    """Add the collectives in one process's log; yield rejected lines.

    Raises FileError for a truncated file; the caller then drops the collectives that were added.
    """
    with file.opened() as opened:
        for number, line in _lines(opened, bounds.line_bytes):
            each = _attendance(line, number, bounds)
            if isinstance(each, Reject):
                yield each
            elif isinstance(each, str):
                found.left_out[each] += 1
            else:
                found.add(each)


def _lines(opened: BinaryIO, most: int) -> Iterator[tuple[int, bytes]]:
    """Yield number and text of each line that is not blank; overlong lines are cut one byte beyond `most`."""
    number = 0
    while line := opened.readline(most + 1):
        number += 1
        rest = line
        while len(rest) > most and not rest.endswith(b"\n"):
            rest = opened.readline(most + 1)
        if not line.isspace():
            yield number, line


def _attendance(line: bytes, number: int, bounds: Bounds) -> Attendance | Reject | str:
    """Parse a line; return an attendance, a reject, or why the line has no usable time in a collective."""
    if len(line) > bounds.line_bytes:
        return Reject(Reason.LINE_TOO_LONG, f"more than {bounds.line_bytes} bytes", number, text_of(line))
    try:
        read = _DECODE(line)
    except msgspec.ValidationError as error:
        return Reject(Reason.MISSING_FIELD, str(error), number, text_of(line))
    except (msgspec.DecodeError, RecursionError) as error:
        return Reject(Reason.NOT_JSON, str(error), number, text_of(line))
    if read.coll_perf is None:
        return "lines of single sends and recvs"
    done = read.coll_perf
    if done.coll_timing_source not in _BY_THE_GPU:
        return "collectives that were not timed by a kernel"
    host = read.metadata.hostname if read.metadata is not None else None
    meeting = (done.coll, done.coll_sn)  # NCCL numbers each kind of collective separately
    header = read.header
    return Attendance(header.id, meeting, header.rank, header.n_ranks, done.coll_exec_time_us, host)
