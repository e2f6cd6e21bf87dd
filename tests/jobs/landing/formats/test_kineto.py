"""Traces of torch.profiler: jobs whose slowdown is known, published traces, and what is refused."""

import gzip
import io
import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from jobs.landing.formats import kineto, kineto_stream
from jobs.landing.formats.foreign import ForeignRun, Part, Refusal, SourceFile
from jobs.landing.formats.kineto_arrivals import read_arrivals
from jobs.landing.formats.kineto_place import place_of
from jobs.landing.formats.kineto_stream import DistributedInfo, Group
from jobs.landing.formats.rows import Bounds, FileError, joined, table_of
from jobs.synthetic.job import GeneratedJob, generate_job
from jobs.synthetic.shape import JobShape
from schemas.vocabulary import OP_TYPES, REASON_MISSING_FIELD, REASON_UNREADABLE_FILE
from tests.kineto_traces import (
    AUTOGRAD,
    BASE_NS,
    MAIN,
    Trace,
    data_parallel_traces,
    pipeline_traces,
    random_durations,
    slowdown,
)
from tests.random_jobs import FAULTS, NOISY, USUAL, VIRTUAL
from udfs.what_if import simulate_job

DATA: Final = Path(__file__).parents[3] / "data" / "logs" / "kineto"
NANOSECONDS: Final = 1e-7
"""Relative: the profiler writes whole nanoseconds, ops take milliseconds."""
NO_OP_TRANSFERS: Final = 1e-3
"""Relative: the generated job records 10 us for transfers that move nothing, a trace has none of them."""
UNRECORDED: Final = frozenset({"gc", "layernorm-grads-all-reduce", "embedding-grads-all-reduce"})


def files_of(texts: Sequence[bytes]) -> list[SourceFile]:
    return [SourceFile(f"rank-{number}.json", partial(io.BytesIO, text)) for number, text in enumerate(texts)]


def read_all(
    texts: Sequence[bytes], manifest: Mapping[str, Any] | None = None
) -> tuple[ForeignRun, list[Part], pa.Table]:
    run = kineto.read(files_of(texts), manifest or {}, Bounds())
    parts = list(run.parts)
    return run, parts, table_of(joined([part.rows for part in parts]))


def outcome(rows: pa.Table, manifest: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = simulate_job(rows, manifest)["job_slowdown"].to_pylist()[0]
    return found


def ops_of(row: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    return [
        (OP_TYPES[op], microbatch, chunk)
        for op, microbatch, chunk in zip(row["op"], row["microbatch"], row["model_chunk"], strict=True)
    ]


def piped(shape: JobShape) -> GeneratedJob:
    return generate_job(
        replace(shape, steps=12, overlapped=True, absent=UNRECORDED), FAULTS, 7, workload=NOISY
    )


@pytest.mark.parametrize("is_sharded", [False, True], ids=["DDP", "FSDP"])
def test_the_slowdown_of_a_data_parallel_job_is_that_of_its_known_durations(is_sharded: bool) -> None:
    durations = random_durations(3, is_sharded=is_sharded)
    run, parts, rows = read_all(data_parallel_traces(durations))
    found = outcome(rows, run.manifest)
    assert (run.source_format, run.transfers, dict(run.left_out)) == ("kineto-dp", "measured", {})
    assert [part.rejects for part in parts] == [[], [], []]
    assert (found["status"], found["steps"]) == ("analysed", 12)
    assert found["slowdown"] == pytest.approx(slowdown(durations), rel=NANOSECONDS)
    assert found["slowdown"] > 1.1
    assert found["discrepancy"] < NANOSECONDS


@pytest.mark.parametrize(
    ("shape", "tolerance"), [(USUAL, NANOSECONDS), (VIRTUAL, NO_OP_TRANSFERS)], ids=["1F1B", "interleaved"]
)
def test_the_slowdown_of_a_pipeline_is_that_of_the_job_whose_ops_were_traced(
    shape: JobShape, tolerance: float
) -> None:
    job = piped(shape)
    run, _, rows = read_all(pipeline_traces(job))
    known, found = outcome(job.rank_steps, job.manifest), outcome(rows, run.manifest)
    assert run.source_format == "kineto-pp"
    assert dict(run.left_out) == {}
    assert run.manifest == {name: job.manifest[name] for name in run.manifest}
    for name in ("slowdown", "last_stage_share", "slow_worker_share", "actual_step_s"):
        assert found[name] == pytest.approx(known[name], rel=tolerance), name


def test_a_pipeline_gathers_and_reduces_once_for_each_chunk() -> None:
    job = piped(USUAL)
    texts = [json.loads(text) for text in pipeline_traces(job)]
    for trace in texts:  # every backward now launches a reduce-scatter, every forward an all-gather
        for event in list(trace["traceEvents"]):
            if event["name"] in ("PP:0F1", "PP:0B0"):
                add_collective(trace["traceEvents"], event)
    run, _, rows = read_all([json.dumps(trace).encode() for trace in texts])
    assert run.left_out == {"all-gather without a place": 24, "reduce-scatter without a place": 24}
    assert outcome(rows, run.manifest)["ops"] == outcome(job.rank_steps, job.manifest)["ops"]


def add_collective(events: list[dict[str, Any]], action: Mapping[str, Any]) -> None:
    word = "AllGather" if "F" in action["name"] else "ReduceScatter"
    at = {
        "pid": 1,
        "tid": MAIN,
        "ts": action["ts"] + 0.1,
        "dur": 0.1,
        "ph": "X",
        "args": {"correlation": 10**6},
    }
    at["args"] = {"correlation": 10**6 + len(events)}
    events.append({**at, "cat": "cuda_runtime", "name": "cudaLaunchKernel"})
    events.append({**at, "cat": "kernel", "name": f"ncclDevKernel_{word}_x"})


def test_a_pipeline_of_one_replica_reduces_nothing() -> None:
    job = piped(replace(USUAL, dp_size=1))
    texts = [text.replace(b"UNSHARD", b"RESHARD") for text in pipeline_traces(job)]
    trace = json.loads(texts[0])
    for event in list(trace["traceEvents"]):
        if event["name"] == "PP:0B3":
            add_collective(trace["traceEvents"], event)
    run, _, rows = read_all([json.dumps(trace).encode(), *texts[1:]])
    known, found = outcome(job.rank_steps, job.manifest), outcome(rows, run.manifest)
    assert found["slowdown"] == pytest.approx(known["slowdown"], rel=NANOSECONDS)
    assert run.left_out == {"reduce-scatter without a place": 12}


def test_it_does_not_matter_where_the_text_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = data_parallel_traces(random_durations(3, is_sharded=True, steps=2))
    _, _, whole = read_all(texts)
    monkeypatch.setattr(kineto_stream, "_BATCH_BYTES", 997)
    _, _, cut = read_all([json.dumps(json.loads(text)).encode() for text in texts])
    assert cut.equals(whole)


def test_times_are_unix_times_whether_or_not_the_file_has_a_base() -> None:
    text = data_parallel_traces(random_durations(3, is_sharded=False, steps=1, ranks=1))[0]
    trace = json.loads(text)
    for event in trace["traceEvents"]:
        event["ts"] += trace["baseTimeNanoseconds"] / 1000
    del trace["baseTimeNanoseconds"]
    _, _, relative = read_all([text])
    _, _, absolute = read_all([json.dumps(trace).encode()])
    assert relative["t0_us"].to_pylist() == absolute["t0_us"].to_pylist() == [BASE_NS // 1000 + 1000]


def test_a_base_with_a_part_of_a_microsecond_loses_nothing() -> None:
    text = data_parallel_traces(random_durations(3, is_sharded=False, steps=1, ranks=1))[0]
    _, _, rows = read_all([text.replace(str(BASE_NS).encode(), str(BASE_NS + 1500).encode())])
    row = rows.to_pylist()[0]
    assert row["t0_us"] + row["start_us"][0] == BASE_NS // 1000 + 1001.5


def test_several_windows_of_a_rank_come_together_by_step() -> None:
    durations = random_durations(3, is_sharded=False, steps=4, ranks=1)
    trace = json.loads(data_parallel_traces(durations)[0])
    middle_us = sorted(e["ts"] for e in trace["traceEvents"] if e["name"].startswith("ProfilerStep#"))[2]
    autograd, events = trace["traceEvents"][:1], trace["traceEvents"][1:]
    windows = ([e for e in events if (e["ts"] < middle_us) == is_first] for is_first in (True, False))
    texts = [json.dumps({**trace, "traceEvents": autograd + window}).encode() for window in windows]
    _, parts, rows = read_all(texts)
    assert [len(part.rows.lines) for part in parts] == [2, 2]
    assert rows["step"].to_pylist() == [5, 6, 7, 8]


@pytest.mark.parametrize("lost", [0, 2])
def test_a_file_that_breaks_off_loses_itself_alone(lost: int) -> None:
    texts = data_parallel_traces(random_durations(3, is_sharded=False, steps=2))
    texts[lost] = texts[lost][: len(texts[lost]) // 2]
    _, parts, _ = read_all(texts)
    assert [len(part.rows.lines) for part in parts] == [0 if number == lost else 2 for number in range(3)]
    assert [reject.reason for reject in parts[lost].rejects] == [REASON_UNREADABLE_FILE]
    assert "breaks off" in parts[lost].rejects[0].detail


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        (b"{}", "traceEvents"),
        (b'{"traceEvents": [', "breaks off"),
        (b'{"traceEvents": [{"ph": "X"}, {"ts": "soon"}, {"ph": "X"}]}', "another type than usual.*ts"),
        (b'{"traceEvents": [{"ph": "X"}', "breaks off"),
    ],
)
def test_what_is_no_trace_is_an_unreadable_file(text: bytes, detail: str) -> None:
    with pytest.raises(FileError, match=detail) as raised:
        kineto.read(files_of([text]), {}, Bounds())
    assert raised.value.reject.reason == REASON_UNREADABLE_FILE


def test_numbers_that_json_lacks_are_taken_for_missing() -> None:
    text = data_parallel_traces(random_durations(3, is_sharded=False, steps=1, ranks=1))[0]
    odd = text.replace(b'"grid": [', b'"memory bandwidth (GB/s)": inf, "grid": [')
    assert odd != text
    assert read_all([odd])[2].equals(read_all([text])[2])


Launched = tuple[str, int, Mapping[str, object] | None]
"""A kernel's name, the thread that launches it, and what NCCL says."""


def one_step(*kernels: Launched) -> Trace:
    """One rank of two in one step: kernels of 10 us, one after the other."""
    trace = Trace(0, 2, {"default_pg": range(2)})
    trace.span("ProfilerStep#7", 100.0, 200.0)
    for number, (name, thread, args) in enumerate(kernels):
        trace.kernel(name, (1000.0 + 20 * number, 10.0), 110.0 + number, thread, args)
    return trace


FORWARD: Final = ("gemm", MAIN, None)
BACKWARD: Final = ("gemm", AUTOGRAD, None)
GATHER: Final[Launched] = ("ncclDevKernel_AllGather_RING_LL", MAIN, {})
REDUCE: Final[Launched] = ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", AUTOGRAD, {})
CLIP: Final[Launched] = ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", MAIN, {})


def test_microbatches_and_units_are_read_off_the_order_of_launches() -> None:
    again: Launched = ("ncclDevKernel_AllGather_RING_LL", AUTOGRAD, {})
    run, _, rows = read_all(
        [
            one_step(
                *(GATHER, FORWARD, FORWARD, GATHER, FORWARD, again, BACKWARD, REDUCE, BACKWARD, REDUCE),
                *(GATHER, FORWARD, BACKWARD, REDUCE, BACKWARD, REDUCE, FORWARD, CLIP, FORWARD, FORWARD),
            ).text()
        ]
    )
    assert ops_of(rows.to_pylist()[0]) == [
        ("params-all-gather", -1, 0),
        ("forward-compute", 0, 0),
        ("params-all-gather", -1, 1),
        ("forward-compute", 0, 1),
        ("backward-compute", 0, 1),
        ("forward-compute", 1, 0),
        ("backward-compute", 1, 1),
        ("grads-reduce-scatter", -1, 1),
        ("backward-compute", 1, 0),
        ("separate-grads-all-reduce", -1, 0),
        ("optimizer-clip-main-grad", -1, 0),
        ("optimizer", -1, 0),
    ]
    assert run.left_out == {
        "all-gather without a place": 2,
        "reduce-scatter without a place": 2,
        "kernels between gradients and clipping": 1,
    }


def test_a_compute_is_cut_where_an_all_to_all_is_waited_for() -> None:
    exchange: Launched = ("ncclDevKernel_SendRecv", MAIN, {"Collective name": "all_to_allv"})
    run, _, rows = read_all([one_step(FORWARD, exchange, FORWARD, BACKWARD, REDUCE).text()])
    assert ops_of(rows.to_pylist()[0])[:2] == [("forward-compute", 0, 0), ("forward-compute", 0, 1)]
    assert run.left_out == {"all-to-all without a place": 1}


def test_a_kernel_belongs_to_the_step_in_which_it_was_launched() -> None:
    trace = one_step(FORWARD, BACKWARD, REDUCE)
    trace.span("ProfilerStep#8", 1000.0, 2000.0)  # begins while the kernels of step 7 run
    trace.kernel("gemm", (3000.0, 10.0), 50.0)  # launched before step 7
    trace.kernel("gemm", (3020.0, 10.0), 2500.0)  # and behind step 8
    trace.events.append({**trace.events[-1], "args": {"correlation": 10**6}})
    run, _, rows = read_all([trace.text()])
    assert rows["step"].to_pylist() == [7]
    assert [len(ops) for ops in rows["op"].to_pylist()] == [3]
    assert run.left_out == {
        "kernels outside of steps": 2,
        "kernels without a launch": 1,
        "steps without a whole pass": 1,
    }


def test_a_step_that_begins_amid_its_backward_pass_is_left_out() -> None:
    run = kineto.read(files_of([one_step(BACKWARD, FORWARD, BACKWARD, REDUCE).text()]), {}, Bounds())
    assert [len(part.rows.lines) for part in run.parts] == [0]
    assert run.left_out == {"steps without a whole pass": 1}


def test_copies_on_other_streams_are_no_compute() -> None:
    trace = one_step(FORWARD, BACKWARD, REDUCE)
    trace.kernel("copy", (500.0, 5.0), 109.0)
    trace.events[-1]["tid"] = 99
    _, _, rows = read_all([trace.text()])
    assert rows.to_pylist()[0]["start_us"][0] == 0.0
    assert rows["t0_us"].to_pylist() == [BASE_NS // 1000 + 1000]


def test_an_all_reduce_behind_the_optimizer_clips_nothing() -> None:
    trace = one_step(FORWARD, BACKWARD, REDUCE, CLIP, FORWARD, CLIP, FORWARD)
    trace.span("Optimizer.step#AdamW.step", 113.5, 114.5)
    run, _, rows = read_all([trace.text()])
    assert [name for name, _, _ in ops_of(rows.to_pylist()[0])][-2:] == [
        "optimizer-clip-main-grad",
        "optimizer",
    ]
    assert rows.to_pylist()[0]["duration_us"][-1] == 50.0  # both kernels and what lies between
    assert run.left_out == {"all-reduce without a place": 1}


def test_collectives_of_tensor_parallelism_are_part_of_the_computes() -> None:
    inside: Launched = (CLIP[0], MAIN, {"Process Group Description": "mesh_tp", "Group size": 2})
    trace = one_step(FORWARD, inside, FORWARD, BACKWARD, REDUCE)
    trace.info["world_size"] = 4
    trace.info["pg_config"] += [
        {"pg_name": "1", "pg_desc": name, "pg_size": 2, "ranks": ranks}
        for name, ranks in (("mesh_tp", [0, 1]), ("mesh_dp", [0, 2]))
    ]
    run, _, rows = read_all([trace.text()])
    assert ops_of(rows.to_pylist()[0])[:2] == [("forward-compute", 0, 0), ("backward-compute", 0, 0)]
    assert run.left_out == {"all-reduce without a place": 1}


def test_a_rank_that_lost_a_collective_is_a_reject_and_not_compared_with_others() -> None:
    texts = data_parallel_traces(random_durations(3, is_sharded=False, steps=2))
    texts[1] = without_collective(texts[1], 2)
    _, parts, _ = read_all(texts)
    assert [len(part.rows.lines) for part in parts] == [2, 1, 2]
    assert [(reject.reason, reject.detail) for reject in parts[1].rejects] == [
        (
            REASON_MISSING_FIELD,
            "rank 1, step 5: 1 collectives of another rank are not there, 0 are there that it has not",
        )
    ]


def without_groups(text: bytes) -> bytes:
    trace = json.loads(text)
    del trace["distributedInfo"]["pg_config"]
    return json.dumps(trace).encode()


def test_without_groups_the_manifest_tells_the_layout() -> None:
    job = piped(USUAL)
    texts = pipeline_traces(job)
    _, _, named = read_all(texts)
    _, _, told = read_all([without_groups(text) for text in texts], job.manifest)
    assert told.equals(named)


@pytest.mark.parametrize(
    ("ranks", "rank", "position"),
    [
        (list(range(64, 94)), 70, 6),
        (list(range(64, 94)), 100, 36),
        ("[64, 65, 66, ...]", 100, 36),
        ([64, 65, 67], 100, 100 // 8 % 64),
        (list(range(64, 94)), 300, 300 // 8 % 64),
    ],
)
def test_a_list_of_ranks_that_is_cut_goes_on_as_it_began(
    ranks: list[int] | str, rank: int, position: int
) -> None:
    groups = [Group("1", "mesh_tp", 8), Group("2", "DATA_PARALLEL_GROUP", 64, ranks)]
    place = place_of(DistributedInfo(rank, 512, groups), {})
    assert (place.sizes["dp"], place.coordinates["dp"]) == (64, position)


def test_replicas_of_a_mesh_are_dp_ranks_unless_each_is_sharded_again() -> None:
    replicas, shards = (
        Group("1", "mesh_dp_replicate", 4, [0, 2, 4, 6]),
        Group("2", "mesh_dp_shard", 2, [0, 1]),
    )
    tensor = Group("2", "mesh_tp", 2, [0, 1])
    assert place_of(DistributedInfo(4, 8, [replicas, tensor]), {}).row()["dp_rank"] == 2
    with pytest.raises(Refusal, match=r"hybrid sharding"):
        place_of(DistributedInfo(4, 8, [replicas, shards]), {})


def pipeline_with(action: str) -> bytes:
    text: bytes = pipeline_traces(piped(USUAL))[0]
    return text.replace(b'"PP:0F1"', json.dumps(f"PP:{action}").encode())


def data_parallel(change: Callable[[dict[str, Any]], object]) -> bytes:
    trace = json.loads(data_parallel_traces(random_durations(3, is_sharded=False, steps=1))[0])
    change(trace)
    return json.dumps(trace).encode()


def drop(name: str) -> Callable[[dict[str, Any]], None]:
    def change(trace: dict[str, Any]) -> None:
        trace["traceEvents"] = [each for each in trace["traceEvents"] if not each["name"].startswith(name)]

    return change


def in_groups_of(size: int) -> Callable[[dict[str, Any]], None]:
    def change(trace: dict[str, Any]) -> None:
        for event in trace["traceEvents"]:
            if "Group size" in event["args"]:
                event["args"] |= {"Group size": size, "Process Group Description": "mesh_dp_shard"}

    return change


@pytest.mark.parametrize(
    ("text", "manifest", "reason"),
    [
        (lambda: pipeline_with("0I1"), {}, "0I1: a zero-bubble schedule.*Schedule1F1B"),
        (lambda: pipeline_with("0W1"), {}, "0W1: a zero-bubble schedule"),
        (lambda: pipeline_with("(0F1;0B0)OVERLAP_F_B"), {}, "overlaps passes"),
        (lambda: pipeline_with("7F1"), {}, "7F1 ran on pp_rank 0 of 4: stages lie in a V"),
        (lambda: data_parallel(drop("ProfilerStep")), {}, "no ProfilerStep.*prof.step"),
        (lambda: data_parallel(drop("cudaLaunch")), {}, "no kernel with its launch.*ProfilerActivity"),
        (lambda: data_parallel(drop("autograd")), {}, "no backward pass.*CUDA graphs"),
        (lambda: data_parallel(lambda trace: trace.pop("distributedInfo")), {}, "does not say its rank"),
        (lambda: without_groups(data_parallel(lambda trace: None)), {}, "nobody tells the layout.*job.json"),
        (lambda: data_parallel(lambda trace: None), {"pp_size": 2}, "do not make up the 3 ranks"),
        (lambda: data_parallel(lambda trace: None), {"pp_size": 3}, "a pipeline without PP: annotations"),
        (lambda: pipeline_with("0F1"), {"pp_size": 8}, "job.json says pp_size 8.*trace 4"),
        (lambda: data_parallel(in_groups_of(2)), {}, "groups of 2 of 3 ranks .hybrid sharding"),
    ],
)
def test_a_log_that_no_replay_can_be_made_of_is_refused_with_a_way_out(
    text: Callable[[], bytes], manifest: Mapping[str, Any], reason: str
) -> None:
    with pytest.raises(Refusal, match=reason) as raised:
        read_all([text()], manifest)
    assert raised.value.tool == "torch.profiler (Kineto)"
    assert raised.value.instead


def test_recvs_that_are_posted_out_of_order_are_matched_with_their_own_computes() -> None:
    text = pipeline_traces(piped(USUAL))[2].replace(b"RECV_F0", b"RECV_F9")
    swapped = text.replace(b"RECV_F1", b"RECV_F0").replace(b"RECV_F9", b"RECV_F1")
    run, _, rows = read_all([swapped])
    row = rows.to_pylist()[0]
    recv = OP_TYPES.index("forward-recv")
    starts = [start for op, start in zip(row["op"], row["start_us"], strict=True) if op == recv]
    mine = [mb for op, mb in zip(row["op"], row["microbatch"], strict=True) if op == recv]
    assert mine == [0, 1, 2, 3]
    assert starts[0] == starts[1]
    assert run.left_out == {"RECV_F posted out of order": 12}


def without_collective(text: bytes, number: int) -> bytes:
    trace = json.loads(text)
    trace["traceEvents"] = [each for each in trace["traceEvents"] if each["args"].get("Seq") != number]
    return json.dumps(trace).encode()


def test_collectives_meet_by_their_numbers_where_one_is_lost() -> None:
    texts = data_parallel_traces(random_durations(3, is_sharded=False, steps=2))
    lost, missing = read_arrivals(files_of([texts[0], without_collective(texts[1], 2), texts[2]]))
    left, _ = read_arrivals(files_of([without_collective(text, 2) for text in texts]))
    assert (lost, missing) == (left, 1)


def published() -> list[bytes]:
    with tarfile.open(DATA / "dlrm_kineto.tar.gz") as archive:
        members = sorted((each for each in archive.getmembers() if each.isfile()), key=lambda each: each.name)
        return [opened.read() for each in members if (opened := archive.extractfile(each)) is not None]


def test_published_traces_of_dlrm_are_too_few_steps() -> None:
    sizes = {"dp_size": 8, "pp_size": 1, "tp_size": 1, "cp_size": 1, "world_size": 8}
    run, _, rows = read_all(published(), sizes)
    found = outcome(rows, run.manifest)
    assert (found["status"], found["workers"]) == ("too_few_steps", 8)
    assert run.left_out == {"send-recv without a place": 40, "kernels without a launch": 128}
    assert found["discrepancy"] > 0.2  # its all-to-alls have no place in the model of a step


def test_published_traces_of_dlrm_say_who_came_last() -> None:
    found, missing = read_arrivals(files_of(published()))
    rows = {row["rank"]: row for row in found.to_pylist()}
    assert (missing, {row["collectives"] for row in rows.values()}) == (0, {8})
    assert {rank: row["times_last"] for rank, row in rows.items() if row["times_last"]} == {4: 1, 5: 2, 7: 5}
    # By the starts of kernels, which are each rank's own clock, they waited 1,534 and 11,125 us in all.
    waits_us = np.array([rows[7]["mean_wait_us"], rows[1]["mean_wait_us"]]) * 8
    assert waits_us == pytest.approx([1534, 11125], abs=8 * 7)  # ends agree to 7 us


def test_a_published_trace_of_one_rank_of_two_misses_workers() -> None:
    text = gzip.decompress((DATA / "nccl_data.json.gz").read_bytes())
    assert kineto.recognises(text[: 64 << 10])
    run, _, rows = read_all([text])
    assert run.manifest == {
        "world_size": 2,
        "dp_size": 2,
        "pp_size": 1,
        "tp_size": 1,
        "cp_size": 1,
        "vpp_size": 5,
    }
    assert outcome(rows, run.manifest)["status"] == "missing_workers"
    assert rows["step"].to_pylist() == [4, 5, 6]


@pytest.mark.parametrize(
    ("head", "is_own"),
    [
        (published()[0][: 64 << 10], True),
        (b'{"traceEvents": [{"ph": "X", "cat": "cpu_op"', True),
        (b'{"traceEvents": [{"ph": "X", "name": "forward-compute", "pid": 0}', False),
        (b'[{"ph": "X", "cat": "cpu_op"', False),
        (b'{"format": "rank-log/1"}', False),
    ],
)
def test_a_trace_is_recognised_by_how_it_begins(head: bytes, is_own: bool) -> None:
    assert kineto.recognises(head) is is_own
