"""Write small traces in the format of torch.profiler, for jobs with known times."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from schemas.vocabulary import OP_TYPES

Times = npt.NDArray[np.float64]

MAIN: Final = 100
AUTOGRAD: Final = 200
COMPUTE: Final = 7
BASE_NS: Final = 1_767_571_200_000_000_000

NCCL: Final = {
    "params-all-gather": (
        "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "_allgather_base",
    ),
    "grads-reduce-scatter": ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(...)", "_reduce_scatter_base"),
    "separate-grads-all-reduce": ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)", "allreduce"),
    "optimizer-clip-main-grad": ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)", "allreduce"),
}
SEND_RECV: Final = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


class Trace:
    """One rank's trace under construction; times are in microseconds since BASE_NS."""

    def __init__(self, rank: int, world_size: int, groups: Mapping[str, Sequence[int]]) -> None:
        config = [
            {"pg_name": str(number), "pg_desc": name, "pg_size": len(ranks), "ranks": list(ranks)[:30]}
            for number, (name, ranks) in enumerate(groups.items())
        ]
        self.info: dict[str, Any] = {
            "backend": "nccl",
            "rank": rank,
            "world_size": world_size,
            "pg_config": config,
        }
        self.events: list[dict[str, Any]] = []
        self._sequence: dict[str, int] = defaultdict(int)
        self.span("autograd::engine::evaluate_function: AddBackward0", 0.0, 1.0, AUTOGRAD, "cpu_op")

    def span(
        self, name: str, start_us: float, end_us: float, thread: int = MAIN, cat: str = "user_annotation"
    ) -> None:
        """Add a CPU event to the trace."""
        times = {"ts": round(start_us, 3), "dur": round(end_us - start_us, 3)}
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": thread, **times, "args": {}}
        )

    def kernel(
        self,
        name: str,
        times_us: tuple[float, float],
        launch_us: float,
        thread: int = MAIN,
        args: Mapping[str, object] | None = None,
    ) -> None:
        """Add a kernel and its launch; with `args`, it is an NCCL kernel on a separate stream."""
        correlation = len(self.events)
        self.span("cudaLaunchKernel", launch_us, launch_us + 0.1, thread, "cuda_runtime")
        self.events[-1]["args"] = {"correlation": correlation}
        start_us, duration_us = (round(each, 3) for each in times_us)
        stream = COMPUTE if args is None else COMPUTE + 1
        event = {
            "ph": "X",
            "cat": "kernel",
            "name": name,
            "pid": 0,
            "tid": stream,
            "ts": start_us,
            "dur": duration_us,
        }
        self.events.append({**event, "args": {"correlation": correlation, "grid": [1, 2, 3], **(args or {})}})

    def collective(
        self, op: str, times_us: tuple[float, float], launch_us: float, thread: int, group: str, size: int
    ) -> None:
        """Add the NCCL kernel of a collective, with its launch."""
        name, collective = NCCL[op]
        self._sequence[group] += 1
        args = {"Collective name": collective, "Group size": size, "Process Group Description": group}
        self.kernel(name, times_us, launch_us, thread, {**args, "Seq": self._sequence[group]})

    def text(self) -> bytes:
        """Return the content of the trace file."""
        fields = {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0}, {"id": 1}],
            "distributedInfo": self.info,
        }
        behind = {"traceName": "x.json", "displayTimeUnit": "ms", "baseTimeNanoseconds": BASE_NS}
        return json.dumps({**fields, "traceEvents": self.events, **behind}, indent=2).encode()


class Durations(NamedTuple):
    """Durations of a job without a pipeline; transfers last from the moment when all ranks have started them.

    forward, backward : float64, shape (step, unit, dp_rank). [us]
    gather, reduce : shape (step, unit); unit 0 is reduced last. [us]
    optimizer : shape (step, dp_rank). [us]
    """

    forward: Times
    backward: Times
    gather: Times
    reduce: Times
    optimizer: Times

    def ideal(self) -> "Durations":
        """Return ideal durations: the mean of computes, and the median of transfers."""
        reduce = np.full_like(self.reduce, np.median(self.reduce[:, 1:]))
        reduce[:, 0] = np.median(self.reduce[:, 0])
        return Durations(
            np.full_like(self.forward, self.forward.mean()),
            np.full_like(self.backward, self.backward.mean()),
            np.full_like(self.gather, np.median(self.gather) if self.gather.size else 0.0),
            reduce,
            np.full_like(self.optimizer, self.optimizer.mean()),
        )


def random_durations(
    seed: int, *, is_sharded: bool, steps: int = 12, units: int = 4, ranks: int = 3
) -> Durations:
    """Draw durations of a job with one slow rank; without `is_sharded`, gradients are reduced as by DDP."""
    rng = np.random.default_rng(seed)

    def times(mean_us: float, *shape: int) -> Times:
        return np.round(mean_us * rng.uniform(0.8, 1.3, shape), 3)

    durations = Durations(
        times(4000.0, steps, units if is_sharded else 1, ranks),
        times(8000.0, steps, units, ranks),
        times(900.0, steps, units if is_sharded else 0),
        times(1500.0, steps, units),
        times(700.0, steps, ranks),
    )
    durations.backward[:, :, -1] *= 1.4
    return durations


Timed = tuple[str, int, Times, Times]
"""Op on all ranks: (op type, unit, starts, ends); starts and ends have shape (dp_rank,). [us]"""


def replay(durations: Durations, step: int) -> list[Timed]:
    """Replay a step by plain loops; return the ops in the order of their launches."""
    ops: list[Timed] = []
    computed, moved = np.zeros(durations.optimizer.shape[1]), np.zeros(durations.optimizer.shape[1])
    for unit, forward_us in enumerate(durations.forward[step]):
        if durations.gather.size:
            start = moved
            moved = np.full_like(start, start.max() + durations.gather[step, unit])
            ops.append(("params-all-gather", unit, start, moved))
            computed = np.maximum(computed, moved)
        ops.append(("forward-compute", unit, computed, computed + forward_us))
        computed = computed + forward_us
    for unit in reversed(range(durations.backward.shape[1])):
        ops.append(("backward-compute", unit, computed, computed + durations.backward[step, unit]))
        computed = computed + durations.backward[step, unit]
        start = np.maximum(computed, moved)
        moved = np.full_like(start, start.max() + durations.reduce[step, unit])
        last = "separate-grads-all-reduce" if not durations.gather.size else "grads-reduce-scatter"
        ops.append((last, unit, start, moved))
    ops.append(("optimizer", 0, moved, moved + durations.optimizer[step]))
    return ops


def slowdown(durations: Durations) -> float:
    """Compute T / T_ideal from replays by plain loops."""
    steps = range(len(durations.optimizer))
    ideal = durations.ideal()
    times = [[replay(each, step)[-1][3].max() for step in steps] for each in (durations, ideal)]
    return float(np.mean(times[0]) / np.mean(times[1]))


def data_parallel_traces(durations: Durations) -> list[bytes]:
    """Return the traces of a data-parallel job; one file per rank."""
    ranks = durations.optimizer.shape[1]
    traces = [Trace(rank, ranks, {"default_pg": range(ranks)}) for rank in range(ranks)]
    zero_us = 1000.0
    for step in range(len(durations.optimizer)):
        ops = replay(durations, step)
        for rank, trace in enumerate(traces):
            trace.span(f"ProfilerStep#{step + 5}", zero_us - 100.0, zero_us + 1000.0)
            for number, (op, _, start, end) in enumerate(ops):
                times = (zero_us + start[rank], end[rank] - start[rank])
                thread = MAIN if op in ("params-all-gather", "forward-compute", "optimizer") else AUTOGRAD
                launch_us = zero_us - 90.0 + number
                if op in NCCL:
                    trace.collective(op, times, launch_us, thread, "default_pg", ranks)
                else:
                    for half in (0.0, times[1] / 2):
                        trace.kernel("gemm", (times[0] + half, times[1] / 2), launch_us + half / 1e6, thread)
        zero_us += max(end.max() for _, _, _, end in ops) + 2000.0
    return [trace.text() for trace in traces]


def ops_of(row: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    return [
        (OP_TYPES[op], microbatch, chunk)
        for op, microbatch, chunk in zip(row["op"], row["microbatch"], row["model_chunk"], strict=True)
    ]


def without_collective(text: bytes, number: int) -> bytes:
    trace = json.loads(text)
    trace["traceEvents"] = [each for each in trace["traceEvents"] if each["args"].get("Seq") != number]
    return json.dumps(trace).encode()
