"""NCCL Inspector's logs: who came last."""

import io
import json
from functools import partial

from jobs.landing.formats import nccl_inspector
from jobs.landing.formats.arrivals import Attendance, arrivals
from jobs.landing.formats.foreign import SourceFile
from jobs.landing.formats.rows import Bounds, FileError
from schemas.collective_arrival import TABLE
from schemas.vocabulary import (
    REASON_LINE_TOO_LONG,
    REASON_MISSING_FIELD,
    REASON_NOT_JSON,
    REASON_UNREADABLE_FILE,
)


def line(
    rank: int, number: int, inside_us: float, coll: str = "AllReduce", source: str = "kernel_gpu"
) -> bytes:
    """One line as NCCL 2.30's plugin writes it."""
    told = {
        "header": {"id": "0x7f8c496ae9f661", "rank": rank, "n_ranks": 2, "nnodes": 2},
        "metadata": {"inspector_output_format_version": "v4.0", "hostname": f"node-{rank}", "pid": 7},
        "coll_perf": {
            "coll": coll,
            "coll_sn": number,
            "coll_msg_size_bytes": 65536,
            "coll_exec_time_us": inside_us,
            "coll_timing_source": source,
            "coll_algobw_gbs": 19.1,
            "coll_busbw_gbs": 18.5,
        },
    }
    return json.dumps(told).encode() + b"\n"


def read(*texts: bytes, bounds: Bounds | None = None) -> nccl_inspector.Evidence:
    files = [
        SourceFile(f"node-{number}-pid7.log", partial(io.BytesIO, text)) for number, text in enumerate(texts)
    ]
    return nccl_inspector.read_arrivals(files, bounds or Bounds())


def test_the_rank_that_was_in_a_collective_for_the_shortest_time_came_last() -> None:
    found = read(
        line(0, 1, 500) + line(0, 2, 100) + line(0, 1, 90, "AllGather"),
        line(1, 1, 100) + line(1, 2, 300) + line(1, 1, 80, "AllGather"),
    )
    assert found.arrivals.schema.equals(TABLE.value_schema)
    assert [tuple(row.values())[1:] for row in found.arrivals.to_pylist()] == [
        (0, "node-0", 3, 1, 200 / 3, 410 / 3),
        (1, "node-1", 3, 2, 410 / 3, 200 / 3),
    ]
    assert (found.rejects, found.left_out) == ({}, {})


def test_a_collective_of_which_a_rank_is_not_recorded_says_nothing() -> None:
    found = read(line(0, 1, 500) + line(0, 2, 100), line(1, 2, 300))
    assert found.arrivals["collectives"].to_pylist() == [1, 1]
    assert found.left_out == {"collectives of which a rank is not recorded": 1}


def test_times_of_the_host_are_no_evidence() -> None:
    host = "collective_cpu"
    sends = b'{"header": {"id": "0x1", "rank": 0, "n_ranks": 2}, "p2p_perf": {"p2p": "Send"}}\n'
    found = read(line(0, 1, 500, source=host) + sends, line(1, 1, 300, source=host))
    assert found.arrivals.num_rows == 0
    assert found.left_out == {"collectives timed by collective_cpu": 2, "lines of single sends and recvs": 1}


def test_a_bad_line_loses_itself_alone() -> None:
    long = b'"' + b"x" * 3000 + b'"\n'
    bad = b"\n{\n" + b'{"header": {"id": "0x1"}}\n' + long
    found = read(bad + line(0, 1, 500), line(1, 1, 300), bounds=Bounds(line_bytes=1000))
    assert [(each.reason, each.line) for each in found.rejects["node-0-pid7.log"]] == [
        (REASON_NOT_JSON, 2),
        (REASON_MISSING_FIELD, 3),
        (REASON_LINE_TOO_LONG, 4),
    ]
    assert found.arrivals["collectives"].to_pylist() == [1, 1]


def test_a_file_that_breaks_off_loses_itself_alone() -> None:
    class Broken(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            found = super().readline(size)
            if not found:
                raise FileError(REASON_UNREADABLE_FILE, "the packed file breaks off")
            return found

    files = [
        SourceFile("a.log", lambda: io.BytesIO(line(0, 1, 500))),
        SourceFile("b.log", lambda: Broken(line(1, 1, 300))),
    ]
    found = nccl_inspector.read_arrivals(files, Bounds())
    assert [each.reason for each in found.rejects["b.log"]] == [REASON_UNREADABLE_FILE]
    assert found.left_out == {"collectives of which a rank is not recorded": 1}


def test_a_tie_goes_to_the_lower_rank() -> None:
    found, missing = arrivals([Attendance("world", 1, rank, 3, 100.0) for rank in (2, 1, 0)])
    assert (found["times_last"].to_pylist(), missing) == ([1, 0, 0], 0)


def test_a_log_is_recognised_by_its_first_line() -> None:
    assert nccl_inspector.recognises(line(0, 1, 5.0))
    assert not nccl_inspector.recognises(b'{"format": "rank-log/1"}\n' + line(0, 1, 5.0))
    assert not nccl_inspector.recognises(b'{"schemaVersion": 1, "traceEvents": []}')
