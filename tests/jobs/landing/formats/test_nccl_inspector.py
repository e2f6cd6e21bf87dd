"""Logs of NCCL Inspector give how often each rank came last to a collective."""

import io
import json
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pytest

from jobs.landing.formats import nccl_inspector
from jobs.landing.formats.arrivals import Arrivals, Attendance
from jobs.landing.formats.foreign import SourceFile
from jobs.landing.formats.rows import Bounds, Reject
from schemas.ingested_tables import COLLECTIVE_ARRIVAL as TABLE
from schemas.vocabulary import Reason


def line(
    rank: int, number: int, inside_us: float, coll: str = "AllReduce", source: str = "kernel_gpu"
) -> bytes:
    """Return a log line as the plugin of NCCL 2.30 writes it.

    number : sequence number of the collective
    inside_us : time that the rank spent in the collective
    """
    record = {
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
    return json.dumps(record).encode() + b"\n"


class Read(NamedTuple):
    arrivals: pa.Table
    rejects: dict[str, list[Reject]]
    left_out: dict[str, int]


def read(*files: bytes, bounds: Bounds | None = None) -> Read:
    found, rejects = Arrivals(1000), dict[str, list[Reject]]()
    for number, each in enumerate(files):
        name = f"node-{number}-pid7.log"
        file = SourceFile(name, partial(io.BytesIO, each))
        rejects[name] = list(nccl_inspector.read_arrivals(file, found, bounds or Bounds()))
    return Read(found.table(), {name: each for name, each in rejects.items() if each}, found.left_out)


def test_the_rank_that_was_in_a_collective_for_the_shortest_time_came_last() -> None:
    found = read(
        line(0, 1, 500) + line(0, 2, 100) + line(0, 1, 90, "AllGather"),
        line(1, 1, 100) + line(1, 2, 300) + line(1, 1, 80, "AllGather"),
    )
    assert found.arrivals.schema.equals(TABLE.value_schema)
    assert [tuple(row.values())[1:] for row in found.arrivals.to_pylist()] == [
        (0, "node-0", 3, 1, 200 / 3, 410 / 3, 0),
        (1, "node-1", 3, 2, 410 / 3, 200 / 3, 0),
    ]
    assert (found.rejects, found.left_out) == ({}, {})


def test_a_collective_with_an_unrecorded_rank_is_ignored() -> None:
    found = read(line(0, 1, 500) + line(0, 2, 100), line(1, 2, 300))
    assert found.arrivals["collectives"].to_pylist() == [1, 1]
    assert found.left_out == {"collectives with an unrecorded rank": 1}


def test_of_a_communicator_with_ranks_that_left_nothing_the_last_of_the_others_is_known() -> None:
    of_three = [
        each.replace(b'"n_ranks": 2', b'"n_ranks": 5')
        for each in (line(0, 1, 500) + line(0, 2, 100), line(1, 1, 100) + line(1, 2, 300), line(2, 1, 700))
    ]
    found = read(*of_three).arrivals.select(["rank", "collectives", "times_last", "unrecorded_ranks"])
    assert [tuple(row.values()) for row in found.to_pylist()] == [(0, 1, 0, 2), (1, 1, 1, 2), (2, 1, 0, 2)]
    assert read(*of_three).left_out == {"collectives with an unrecorded rank": 1}
    assert read(of_three[0]).arrivals.num_rows == 0


def test_times_of_the_host_are_no_evidence() -> None:
    host = "collective_cpu"
    sends = b'{"header": {"id": "0x1", "rank": 0, "n_ranks": 2}, "p2p_perf": {"p2p": "Send"}}\n'
    found = read(line(0, 1, 500, source=host) + sends, line(1, 1, 300, source=host))
    assert found.arrivals.num_rows == 0
    assert found.left_out == {
        "collectives that were not timed by a kernel": 2,
        "lines of single sends and recvs": 1,
    }


def test_a_bad_line_loses_itself_alone() -> None:
    long = b'"' + b"x" * 3000 + b'"\n'
    bad = b"\n{\n" + b'{"header": {"id": "0x1"}}\n' + long
    found = read(bad + line(0, 1, 500), line(1, 1, 300), bounds=Bounds(line_bytes=1000))
    assert [(each.reason, each.line) for each in found.rejects["node-0-pid7.log"]] == [
        (Reason.NOT_JSON, 2),
        (Reason.MISSING_FIELD, 3),
        (Reason.LINE_TOO_LONG, 4),
    ]
    assert found.arrivals["collectives"].to_pylist() == [1, 1]


ONE = Attendance("world", 1, 0, 2, 100.0)
IMPOSSIBLE = {"collectives of a single rank, or with impossible numbers": 1}


@pytest.mark.parametrize(
    ("attendances", "counted", "left_out"),
    [
        # of ranks with equal times, the lowest came last
        ([ONE._replace(rank=rank, size=3) for rank in (2, 1, 0)], [(1, 1), (1, 0), (1, 0)], {}),
        # a rank that is logged twice counts once
        ([ONE, ONE], [], {"collectives with an unrecorded rank": 1}),
        ([ONE, ONE, ONE._replace(rank=1, inside_us=50.0)], [(1, 0), (1, 1)], {}),
        # a fourth rank is beyond the limit of three
        (
            [ONE._replace(meeting=number, rank=rank) for number in (1, 2) for rank in (0, 1)],
            [(1, 1), (1, 0)],
            {"ranks in collectives beyond the first 3": 1, "collectives with an unrecorded rank": 1},
        ),
        *(
            ([each], [], IMPOSSIBLE)
            for each in (
                *(ONE._replace(rank=rank) for rank in (-1, 2**31)),
                *(ONE._replace(size=size) for size in (1, 2**40)),
                *(ONE._replace(inside_us=inside_us) for inside_us in (-1.0, 1e300)),
            )
        ),
    ],
)
def test_who_counts_as_last(
    attendances: list[Attendance], counted: list[tuple[int, int]], left_out: dict[str, int]
) -> None:
    found = Arrivals(3)
    for each in attendances:
        found.add(each)
    rows = found.table().to_pylist()
    assert [(row["collectives"], row["times_last"]) for row in rows] == counted
    assert found.left_out == left_out


def test_a_log_is_recognised_by_its_first_line() -> None:
    assert nccl_inspector.recognises(line(0, 1, 5.0))
    assert not nccl_inspector.recognises(b'{"format": "rank-log/1"}\n' + line(0, 1, 5.0))
    assert not nccl_inspector.recognises(b'{"schemaVersion": 1, "traceEvents": []}')


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_do_not_depend_on_how_a_process_hashes_names(sign: int) -> None:
    """Sums do not depend on Python's hash seed, so that a rerun gives identical rows."""

    class Name(int):
        def __hash__(self) -> int:
            return sign * (1000 + int(self))

    arrivals, times_us = Arrivals(1000), [1.1**number for number in range(100)]
    for number, inside_us in enumerate(times_us):
        for rank, us in ((0, inside_us), (1, 0.0)):
            arrivals.add(Attendance("dp", Name(number), rank, 2, us))
    assert arrivals.table()["mean_late_us"].to_pylist() == [0.0, sum(times_us) / 100]
