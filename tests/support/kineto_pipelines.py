"""Write traces of generated pipeline jobs with the annotations of torch.distributed.pipelining."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from jobs.synthetic.job import GeneratedJob
from jobs.synthetic.shape import JobShape
from schemas.vocabulary import OP_TYPES
from tests.support.kineto_traces import AUTOGRAD, BASE_NS, MAIN, NCCL, SEND_RECV, Trace
from tests.support.random_jobs import FAULTS, NOISY, generate_job

UNRECORDED: Final = frozenset({"gc", "layernorm-grads-all-reduce", "embedding-grads-all-reduce"})


def piped(shape: JobShape) -> GeneratedJob:
    return generate_job(
        replace(shape, steps=12, overlapped=True, absent=UNRECORDED), FAULTS, 7, workload=NOISY
    )


def pipeline_traces(job: GeneratedJob) -> list[bytes]:
    """Return the traces of a generated pipeline job; one file per rank."""
    sizes = job.manifest
    dp, pp = sizes["dp_size"], sizes["pp_size"]
    traces: dict[int, Trace] = {}
    for row in sorted(job.rank_steps.to_pylist(), key=lambda row: int(row["step"])):
        stage, replica = row["pp_rank"], row["dp_rank"]
        groups = {
            "default_pg": range(dp * pp),
            "mesh_pp": range(replica, dp * pp, dp),
            "mesh_dp": range(stage * dp, stage * dp + dp),
        }
        trace = traces.setdefault(row["rank"], Trace(row["rank"], dp * pp, groups))
        _write_step(trace, row, sizes)
    return [traces[rank].text() for rank in sorted(traces)]


_SHORT: Final = {"forward": "F", "backward": "B", "send": "SEND", "recv": "RECV"}


def _write_step(trace: Trace, row: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
    """Write the launches of a row's ops, in order of their starts."""
    zero_us = row["t0_us"] - BASE_NS / 1e3
    trace.span(f"ProfilerStep#{row['step']}", zero_us - 1000.0, zero_us + 2000.0)
    names = [OP_TYPES[op] if isinstance(op, int) else op for op in row["op"]]
    ops = sorted(
        zip(row["start_us"], names, row["duration_us"], row["microbatch"], row["model_chunk"], strict=True)
    )
    actions = _actions([op[1] for op in ops], [op[3:] for op in ops], row["pp_rank"], sizes)
    for number, (start_us, name, duration_us, _, _) in enumerate(ops):
        times, launch_us = (zero_us + start_us, duration_us), zero_us - 989.5 + number
        if actions[number]:
            trace.span(f"PP:{actions[number]}", launch_us - 0.5, launch_us + 0.4)
        if name in NCCL:
            trace.collective(name, times, launch_us, MAIN, "mesh_dp", sizes["dp_size"])
        elif name.endswith(("send", "recv")) and actions[number]:
            trace.kernel(SEND_RECV, times, launch_us, args={"Process Group Description": "mesh_pp"})
        elif name.endswith(("compute", "optimizer")):
            trace.kernel("gemm", times, launch_us, AUTOGRAD if name == "backward-compute" else MAIN)


def _actions(
    names: Sequence[str], labels: Sequence[tuple[int, int]], pp_rank: int, sizes: Mapping[str, int]
) -> list[str]:
    """Return the name of the pipeline action that launches each op; empty for transfers without data."""
    found = []
    done: dict[str, int] = defaultdict(int)
    computes = {
        way: [label for name, label in zip(names, labels, strict=True) if name == f"{way}-compute"]
        for way in ("forward", "backward")
    }
    if names.count("backward-send") > len(computes["backward"]):
        done["backward-send"] = -1  # the first backward-send precedes the first gradient
    ends = (0, sizes["vpp_size"] * sizes["pp_size"] - 1)
    for name, (_, own_chunk) in zip(names, labels, strict=True):
        way, kind = name.split("-")[0], name.split("-")[-1]
        action, chunk = "", own_chunk
        if kind in ("compute", "send", "recv"):
            place = done[name]
            done[name] += 1
            if 0 <= place < len(computes[way]):
                microbatch, chunk = computes[way][place]
                end = ends[(way == "forward") == (kind == "send")]
                if kind == "compute":
                    action = f"{_SHORT[way]}{microbatch}"
                elif chunk * sizes["pp_size"] + pp_rank != end:
                    action = f"{_SHORT[kind]}_{_SHORT[way]}{microbatch}"
        elif name not in {"optimizer", "optimizer-clip-main-grad"}:
            action = "UNSHARD" if name == "params-all-gather" else "REDUCE_GRAD"
        found.append(action and f"{max(chunk, 0) * sizes['pp_size'] + pp_rank}{action}")
    return found
