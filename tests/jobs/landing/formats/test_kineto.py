"""A job's torch.profiler traces give its known slowdown; a step's ops follow from the order of launches."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from jobs.synthetic.shape import JobShape
from schemas.vocabulary import OP_TYPES
from tests.jobs.landing.formats.foreign_logs import outcome, read
from tests.support.kineto_pipelines import piped, pipeline_traces
from tests.support.kineto_traces import (
    AUTOGRAD,
    BASE_NS,
    MAIN,
    Trace,
    data_parallel_traces,
    ops_of,
    random_durations,
    slowdown,
)
from tests.support.random_jobs import USUAL, VIRTUAL

NANOSECONDS: Final = 1e-7
"""Relative tolerance: the profiler rounds times to nanoseconds, and ops take milliseconds."""
NO_OP_TRANSFERS: Final = 1e-3
"""Relative tolerance: the generated job, unlike its trace, has transfers of 10 us that move no data."""


@pytest.mark.parametrize("is_sharded", [False, True], ids=["DDP", "FSDP"])
def test_the_slowdown_of_a_data_parallel_job_is_that_of_its_known_durations(is_sharded: bool) -> None:
    durations = random_durations(3, is_sharded=is_sharded)
    run, parts, rows, *_ = read(data_parallel_traces(durations))
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
    run, _, rows, *_ = read(pipeline_traces(job))
    known, found = outcome(job.rank_steps, job.manifest), outcome(rows, run.manifest)
    assert run.source_format == "kineto-pp"
    assert dict(run.left_out) == {}
    assert run.manifest == {name: job.manifest[name] for name in run.manifest}
    for name in ("slowdown", "last_stage_share", "slow_worker_share", "actual_step_s"):
        assert found[name] == pytest.approx(known[name], rel=tolerance), name


def test_a_pipeline_gathers_and_reduces_once_for_each_chunk() -> None:
    job = piped(USUAL)
    texts = [json.loads(text) for text in pipeline_traces(job)]
    for trace in texts:  # each backward then also launches a reduce-scatter, each forward an all-gather
        for event in list(trace["traceEvents"]):
            if event["name"] in ("PP:0F1", "PP:0B0"):
                add_collective(trace["traceEvents"], event)
    run, _, rows, *_ = read([json.dumps(trace).encode() for trace in texts])
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
    run, _, rows, *_ = read([json.dumps(trace).encode(), *texts[1:]])
    known, found = outcome(job.rank_steps, job.manifest), outcome(rows, run.manifest)
    assert found["slowdown"] == pytest.approx(known["slowdown"], rel=NANOSECONDS)
    assert run.left_out == {"reduce-scatter without a place": 12}


Launched = tuple[str, int, Mapping[str, object] | None]
"""A kernel's name, the thread that launches it, and the attributes that NCCL gives it, if any."""


def one_step(*kernels: Launched) -> Trace:
    """Return one step of one of two ranks: kernels of 10 us that run one after the other."""
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
AGAIN: Final[Launched] = ("ncclDevKernel_AllGather_RING_LL", AUTOGRAD, {})
EXCHANGE: Final[Launched] = ("ncclDevKernel_SendRecv", MAIN, {"Collective name": "all_to_allv"})
STEPS: Final[dict[str, tuple[list[Launched], list[tuple[str, int, int]], dict[str, int]]]] = {
    "microbatches and units in the order of launches": (
        [
            *(GATHER, FORWARD, FORWARD, GATHER, FORWARD, AGAIN, BACKWARD, REDUCE, BACKWARD, REDUCE),
            *(GATHER, FORWARD, BACKWARD, REDUCE, BACKWARD, REDUCE, FORWARD, CLIP, FORWARD, FORWARD),
        ],
        [
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
        ],
        {
            "all-gather without a place": 2,
            "reduce-scatter without a place": 2,
            "kernels between gradients and clipping": 1,
        },
    ),
    "a compute is cut where an all-to-all is waited for": (
        [FORWARD, EXCHANGE, FORWARD, BACKWARD, REDUCE],
        [
            ("forward-compute", 0, 0),
            ("forward-compute", 0, 1),
            ("backward-compute", 0, 1),
            ("separate-grads-all-reduce", -1, 1),
        ],
        {"all-to-all without a place": 1},
    ),
    "a step that begins within its backward pass": (
        [BACKWARD, FORWARD, BACKWARD, REDUCE],
        [],
        {"steps without a whole pass": 1},
    ),
}


@pytest.mark.parametrize("case", STEPS)
def test_a_step_is_read_off_the_order_of_launches(case: str) -> None:
    kernels, ops, left_out = STEPS[case]
    found = read([one_step(*kernels).text()])
    assert [each for row in found.rows.to_pylist() for each in ops_of(row)] == ops
    assert found.run.left_out == left_out


def test_a_kernel_belongs_to_the_step_in_which_it_was_launched() -> None:
    trace = one_step(FORWARD, BACKWARD, REDUCE)
    trace.span("ProfilerStep#8", 1000.0, 2000.0)  # begins while the kernels of step 7 run
    trace.kernel("gemm", (3000.0, 10.0), 50.0)  # launched before step 7
    trace.kernel("gemm", (3020.0, 10.0), 2500.0)  # launched after step 8
    trace.events.append({**trace.events[-1], "args": {"correlation": 10**6}})
    run, _, rows, *_ = read([trace.text()])
    assert rows["step"].to_pylist() == [7]
    assert [len(ops) for ops in rows["op"].to_pylist()] == [3]
    assert run.left_out == {
        "kernels outside of steps": 2,
        "kernels without a launch": 1,
        "steps without a whole pass": 1,
    }


def test_copies_on_other_streams_are_no_compute() -> None:
    trace = one_step(FORWARD, BACKWARD, REDUCE)
    trace.kernel("copy", (500.0, 5.0), 109.0)
    trace.events[-1]["tid"] = 99
    rows = read([trace.text()]).rows
    assert rows.to_pylist()[0]["start_us"][0] == 0.0
    assert rows["t0_us"].to_pylist() == [BASE_NS // 1000 + 1000]


def test_an_all_reduce_behind_the_optimizer_clips_nothing() -> None:
    trace = one_step(FORWARD, BACKWARD, REDUCE, CLIP, FORWARD, CLIP, FORWARD)
    for start_us in (50.0, 113.5):  # one in the step before, and one in this step
        trace.span("Optimizer.step#AdamW.step", start_us, start_us + 1.0)
    run, _, rows, *_ = read([trace.text()])
    assert [name for name, _, _ in ops_of(rows.to_pylist()[0])][-2:] == [
        "optimizer-clip-main-grad",
        "optimizer",
    ]
    assert rows.to_pylist()[0]["duration_us"][-1] == 50.0  # from the first kernel's start to the second's end
    assert run.left_out == {"all-reduce without a place": 1}


def test_collectives_of_tensor_parallelism_are_part_of_the_computes() -> None:
    inside: Launched = (CLIP[0], MAIN, {"Process Group Description": "mesh_tp", "Group size": 2})
    reduce: Launched = (REDUCE[0], AUTOGRAD, {"Process Group Description": "mesh_dp", "Group size": 2})
    texts = []
    for rank in (0, 1):  # ranks of two groups, which number collectives separately
        trace = one_step(
            FORWARD, inside, FORWARD, BACKWARD, (*reduce[:2], {**(reduce[2] or {}), "Seq": rank})
        )
        trace.info |= {"world_size": 4, "rank": rank}
        trace.info["pg_config"] += [
            {"pg_name": "1", "pg_desc": name, "pg_size": 2, "ranks": ranks}
            for name, ranks in (("mesh_tp", [0, 1]), ("mesh_dp", [rank, rank + 2]))
        ]
        texts.append(trace.text())
    run, parts, rows, *_ = read(texts)
    assert [part.rejects for part in parts] == [[], []]
    assert ops_of(rows.to_pylist()[0])[:2] == [("forward-compute", 0, 0), ("backward-compute", 0, 0)]
    assert run.left_out == {"all-reduce without a place": 2}


def test_recvs_posted_out_of_order_are_matched_with_their_computes() -> None:
    text = pipeline_traces(piped(USUAL))[2].replace(b"RECV_F0", b"RECV_F9")
    swapped = text.replace(b"RECV_F1", b"RECV_F0").replace(b"RECV_F9", b"RECV_F1")
    run, _, rows, *_ = read([swapped])
    row = rows.to_pylist()[0]
    recv = OP_TYPES.index("forward-recv")
    starts = [start for op, start in zip(row["op"], row["start_us"], strict=True) if op == recv]
    mine = [mb for op, mb in zip(row["op"], row["microbatch"], strict=True) if op == recv]
    assert mine == [0, 1, 2, 3]
    assert starts[0] == starts[1]
    assert run.left_out == {"RECV_F posted out of order": 12}
