"""Logs of tools that no replay can be made of are named, and what to switch on instead."""

import pickle
from typing import Any

import pytest

from jobs.landing.formats.foreign import RefusalError
from jobs.landing.formats.known import format_of
from tests.jobs.landing.formats.foreign_logs import read


class Bomb:
    """Unpickling it runs code."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a pickle was opened",)


LOGS = {
    "Megatron's timers: sums over an iteration": b" iteration 10/ 100 | elapsed time per iteration (ms): 7 |",
    "Megatron's timers": b"(min, max) time across ranks (ms):\n  forward-backward ...: (1.0, 2.0)",
    "Megatron's StragglerDetector": b"^^^^ MnRtt/Rnk: 3453.08ms/8 | MxRtt/Rnk: 3468.20ms/0",
    "NVIDIA Resiliency Extension: scores of ranks": b"GPU relative performance:\n Worst performing 5:",
    "Megatron's OpenTelemetry spans: spans in the time of the host": b'{"resourceSpans":[{"scopeSpans":[]}]}',
    "DeepSpeed's wall clock breakdown: sums over a step": b"[Rank 0] time (ms) | fwd_microstep: 12.3 |",
    "PyTorch Flight Recorder: .*not opened": pickle.dumps({"pg_config": {}, "entries": [Bomb()]}),
    "PyTorch Flight Recorder": b'{"version": "2.9", "nccl_version": "2.21", "entries": []}',
}


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
