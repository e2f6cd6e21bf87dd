"""Published torch.profiler traces give the expected figures, and the ranks that came last to collectives."""

import gzip
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from jobs.landing.formats import kineto
from jobs.landing.formats.arrivals import Arrivals
from jobs.landing.formats.kineto import read_arrivals
from tests.jobs.landing.formats.foreign_logs import outcome, read, sources
from tests.support.kineto_traces import Trace, data_parallel_traces, random_durations, without_collective

DATA: Final = Path(__file__).parents[3] / "data" / "logs" / "kineto"


def arrivals_of(texts: Sequence[bytes]) -> tuple[list[dict[str, Any]], int]:
    found = Arrivals(10_000)
    for file in sources(texts):
        read_arrivals(file, found)
    rows = found.table().to_pylist()
    return rows, found.left_out.total()


def test_collectives_meet_by_their_numbers_where_one_is_lost() -> None:
    texts = data_parallel_traces(random_durations(3, is_sharded=False, steps=2))
    lost, missing = arrivals_of([texts[0], without_collective(texts[1], 2), texts[2]])
    left, _ = arrivals_of([without_collective(text, 2) for text in texts])
    assert (lost, missing) == (left, 1)


def test_groups_of_one_axis_share_a_name_and_differ_by_their_first_rank() -> None:
    texts = []
    for rank in range(4):
        trace = Trace(rank, 4, {"DATA_PARALLEL_GROUP": [rank % 2, rank % 2 + 2]})
        trace.span("ProfilerStep#5", 0.0, 900.0)
        trace.collective(
            "grads-reduce-scatter", (100.0 + rank, 500.0 - rank), 50.0, 200, "DATA_PARALLEL_GROUP", 2
        )
        texts.append(trace.text())
    rows, missing = arrivals_of(texts)
    assert {(row["communicator"], row["rank"]): row["times_last"] for row in rows} == {
        ("DATA_PARALLEL_GROUP", 0): 0,
        ("DATA_PARALLEL_GROUP", 2): 1,
        ("DATA_PARALLEL_GROUP from rank 1", 1): 0,
        ("DATA_PARALLEL_GROUP from rank 1", 3): 1,
    }
    assert missing == 0


def published() -> list[bytes]:
    with tarfile.open(DATA / "dlrm_kineto.tar.gz") as archive:
        members = sorted((each for each in archive.getmembers() if each.isfile()), key=lambda each: each.name)
        return [opened.read() for each in members if (opened := archive.extractfile(each)) is not None]


def test_published_traces_of_dlrm_are_too_few_steps() -> None:
    sizes = {"dp_size": 8, "pp_size": 1, "tp_size": 1, "cp_size": 1, "world_size": 8}
    run, _, rows, *_ = read(published(), sizes)
    found = outcome(rows, run.manifest)
    assert kineto.recognises(published()[0][: 64 << 10])
    assert (found["status"], found["workers"]) == ("too_few_steps", 8)
    assert run.left_out == {"send-recv without a place": 40, "kernels without a launch": 128}
    assert found["discrepancy"] > 0.2  # the replay has no all-to-alls


def test_published_traces_of_dlrm_say_who_came_last() -> None:
    found, missing = arrivals_of(published())
    rows = {row["rank"]: row for row in found}
    assert (missing, {row["collectives"] for row in rows.values()}) == (0, {8})
    assert {rank: row["times_last"] for rank, row in rows.items() if row["times_last"]} == {4: 1, 5: 2, 7: 5}
    # By the starts of kernels, on each rank's own clock, these two ranks waited 1,534 and 11,125 us.
    waits_us = np.array([rows[7]["mean_wait_us"], rows[1]["mean_wait_us"]]) * 8
    assert waits_us == pytest.approx([1534, 11125], abs=8 * 7)  # the ranks' ends agree to 7 us


def test_a_published_trace_of_one_rank_of_two_misses_workers() -> None:
    text = gzip.decompress((DATA / "nccl_data.json.gz").read_bytes())
    assert kineto.recognises(text[: 64 << 10])
    run, _, rows, *_ = read([text])
    assert run.manifest == {
        "world_size": 2,
        "dp_size": 2,
        "pp_size": 1,
        "tp_size": 1,
        "cp_size": 1,
        "vpp_size": 5,
    }
    job = outcome(rows, {**run.manifest, "source_format": run.source_format})
    assert (job["status"], job["recorded_ranks"]) == ("some_ranks", 1)
    assert rows["step"].to_pylist() == [4, 5, 6]
