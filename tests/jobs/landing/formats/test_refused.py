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


@pytest.mark.parametrize(
    ("content", "tool", "instead"),
    [
        (
            b" iteration 10/ 100 | consumed samples: 160 | elapsed time per iteration (ms): 714.9 |",
            "Megatron's timers: sums over an iteration",
            "Record single ops",
        ),
        (
            b"(min, max) time across ranks (ms):\n  forward-backward ...: (1.0, 2.0)",
            "Megatron's timers",
            "Record",
        ),
        (b"^^^^ MnRtt/Rnk: 3453.08ms/8 | MxRtt/Rnk: 3468.20ms/0", "Megatron's StragglerDetector", "Record"),
        (
            b"GPU relative performance:\n Worst performing 5/512 ranks:\n  Rank=76 Node=a Score=0.91",
            "NVIDIA Resiliency Extension: scores of ranks",
            "Record",
        ),
        (
            b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"forward","startTimeUnixNano":"1"}]}]}]}',
            "Megatron's OpenTelemetry spans: spans in the time of the host",
            "Record",
        ),
        (
            b"[Rank 0] time (ms) | fwd_microstep: 12.3 | bwd_microstep: 24.1 | step_microstep: 3.1",
            "DeepSpeed's wall clock breakdown: sums over a step",
            "Record",
        ),
        (
            pickle.dumps({"version": "2.9", "pg_config": {}, "entries": [Bomb()]}),
            "PyTorch Flight Recorder: .*not opened",
            "Record",
        ),
        (b'{"version": "2.9", "nccl_version": "2.21", "entries": []}', "PyTorch Flight Recorder", "Record"),
        (pickle.dumps(Bomb()), "a pickle: a pickle may run code: it is not opened", "Write JSON"),
    ],
)
def test_a_log_of_no_use_is_refused_by_name(content: bytes, tool: str, instead: str) -> None:
    with pytest.raises(RefusalError, match=f"(?s){tool}.*{instead}"):
        read({"run.log": content})


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"epoch 1 loss 2.3\n", b'{"format":"rank-log/1"}'])
def test_what_is_of_no_known_tool_is_not_recognised(content: bytes) -> None:
    assert format_of(content) is None
