"""A log that cannot be replayed is refused with its tool's name, and with advice on how to record ops."""

import pickle
from typing import Any

import pytest

from jobs.landing.formats.foreign import RefusalError
from jobs.landing.formats.known import format_of
from tests.jobs.landing.formats.foreign_logs import read


class Bomb:
    """An object that runs code if it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a pickle was opened",)


LOGS = {
    "Megatron's timers: sums over an iteration": b"rank 0: elapsed time per iteration (ms): 7 |",
    "Megatron's timers": b"(min, max) time across ranks (ms):\n  forward-backward ...: (1.0, 2.0)",
    "Megatron's StragglerDetector": b"^^^^ MnRtt/Rnk: 3453.08ms/8 | MxRtt/Rnk: 3468.20ms/0",
    "NVIDIA Resiliency Extension: scores of ranks": b"GPU relative performance:\n Worst performing 5:",
    "Megatron's OpenTelemetry spans: spans in the time of the host": b'{"resourceSpans":[{"scopeSpans":[]}]}',
    "DeepSpeed's wall clock breakdown: sums over a step": b"[Rank 0] time (ms) | fwd_microstep: 12.3 |",
    "PyTorch Flight Recorder: .*not opened": pickle.dumps({"pg_config": {}, "entries": [Bomb()]}),
    "PyTorch Flight Recorder": b'{"version": "2.9", "nccl_version": "2.21", "entries": []}',
}

OTHERS = {
    "Ascend's profiler": b'[{"name":"process_name","ph":"M","pid":2,"args":{"name":"Ascend Hardware"}}]',
    r"Ascend's profiler \(torch_npu": b'{"config": {}, "torch_npu_version": "2.1.0", "cann_version": "8.0"}',
    "a Chakra execution trace": b'{"schema": "1.1.1-chakra.0.0.4", "pid": 7, "nodes": []}',
    "a Chakra execution trace: operators": b'{"schema": "1.0.1", "pid": 7, "nodes": [{"id": 2}]}',
    "Chakra": b"\x07\n\x050.0.4\x1f\x08\x02\x12\x05aten::",
    "rocprof": b'{"rocprofiler-sdk-tool": [{"metadata": {"pid": 1}, "buffer_records": {}}]}',
    "rocprof: kernels": b'{"traceEvents":[{"ph":"X","name":"k","args":{"BeginNs":"17","EndNs":"19"}}]}',
}
"""Beginnings of other profilers' files, as documented; these profilers do not show the ops of a step."""


@pytest.mark.parametrize("tool", OTHERS)
def test_a_profile_of_another_kind_is_refused_by_name(tool: str) -> None:
    with pytest.raises(RefusalError, match=f"(?s){tool}.*Record"):
        read({"run.json": OTHERS[tool]})


@pytest.mark.parametrize("tool", LOGS)
def test_a_log_of_no_use_is_refused_by_name(tool: str) -> None:
    with pytest.raises(RefusalError, match=f"(?s){tool}.*Record single ops"):
        read({"run.log": LOGS[tool]})


def test_a_pickle_is_not_opened() -> None:
    with pytest.raises(RefusalError, match=r"a pickle may run code: it is not opened.*Write JSON"):
        read({"run.log": pickle.dumps(Bomb())})


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"epoch 1 loss 2.3\n", b'{"format":"rank-log/1"}'])
def test_what_is_of_no_known_tool_is_not_recognised(content: bytes) -> None:
    assert format_of(content) is None
