"""The calls that Megatron's schedules make are recorded as the expected ops.

Substitutes make these calls here; `make real-run` runs Megatron itself.
"""

import copy
import json
import logging
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from jobs.emitter import Rank, RankLogWriter, Recorder, Run
from jobs.emitter.megatron import RankLogTimers
from schemas.vocabulary import TRANSFER_OPS

PACKAGE = "megatron.core.pipeline_parallel"


class OldTimers:
    """Substitute for Megatron's timers that lists the calls it receives."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, dict[str, bool]]] = []

    def __call__(self, name: str, log_level: int | None = None) -> Any:
        def noted(what: str) -> Any:
            return lambda **how: self.calls.append((name, what, how))

        return SimpleNamespace(start=noted("start"), stop=noted("stop"), elapsed=lambda: log_level)

    def log(self) -> str:
        return "logged"


class Peer:
    """A receive request whose message arrives 2 ms after `wait` is called."""

    def wait(self) -> str:
        time.sleep(0.002)
        return "arrived"


@pytest.fixture
def schedules(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Substitutes for the two Megatron modules whose functions the emitter wraps."""
    steps: Any = ModuleType(f"{PACKAGE}.schedules")
    steps.forward_step = lambda function, data, _model, output: (output, function and function(data))
    steps.backward_step = lambda _input, _output: None
    transfers: Any = ModuleType(f"{PACKAGE}.p2p_communication")
    transfers.P2PCommunicator = type("P2PCommunicator", (), {"_communicate": communicate})
    for module in (steps, transfers):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    steps.transfers = transfers.P2PCommunicator()
    return steps


def communicate(_self: object, *, requests: Any = None, **_: object) -> tuple[None, None, Any]:
    return None, None, requests


class Job:
    """One rank of a job that calls the emitter's timers in the same order as Megatron."""

    def __init__(self, landing: Path, schedules: Any, **config: Any) -> None:
        self.landing, self.schedules, self.old = landing, schedules, OldTimers()
        writer = RankLogWriter(landing, Run("j", "r", dp_size=1, pp_size=2), Rank(0, 0))
        self.recorder = Recorder(writer)
        self.config = SimpleNamespace(timers=self.old, **config)
        self.timers = RankLogTimers(self.old, self.recorder, first_step=100)
        self.timers.install(self.config)
        self.model = SimpleNamespace(share_embeddings_and_output_weights=False)

    def timed(self, *names: str) -> None:
        for name in names:
            self.timers(name, log_level=1).start(barrier=True)
            self.timers(name).stop()

    def compute(self, output: object, model: object = None) -> None:
        self.timers("forward-compute").start()
        self.schedules.forward_step(None, None, model or self.model, output)
        self.timers("forward-compute").stop()

    def loads_and_computes(self, batches: Any, output: object) -> None:
        self.timers("forward-compute").start()
        self.schedules.forward_step(next, batches, self.model, output)
        self.timers("forward-compute").stop()

    def back(self, output: object) -> None:
        self.timers("backward-compute").start()
        self.schedules.backward_step(None, output)
        self.timers("backward-compute").stop()

    def moves(self, name: str, requests: Any = None, **what: Any) -> None:
        nothing = {"tensor_send_next": None, "tensor_send_prev": None, "recv_prev": False, "recv_next": False}
        self.timers(name).start()
        self.schedules.transfers._communicate(requests=requests, **{**nothing, **what})
        self.timers(name).stop()

    def lines(self) -> list[dict[str, Any]]:
        self.recorder.close()
        logs = self.landing.rglob("rank-*.jsonl")
        return [json.loads(line) for log in logs for line in log.read_text().splitlines()]


@pytest.mark.parametrize(
    ("config", "stated"),
    [
        ({"overlap_p2p_comm": False, "pipeline_model_parallel_size": 2}, True),
        ({"overlap_p2p_comm": True, "pipeline_model_parallel_size": 2}, False),
        ({"overlap_p2p_comm": False, "pipeline_model_parallel_size": 1}, False),
        ({}, False),
    ],
)
def test_the_manifest_states_that_transfers_block_where_nothing_overlaps(
    config: dict[str, Any], stated: bool, tmp_path: Path, schedules: Any
) -> None:
    fields = Job(tmp_path, schedules, **config).recorder.writer.run.manifest()
    assert ("blocking_transfers" in fields) is stated
    assert sorted(fields.get("blocking_transfers", TRANSFER_OPS)) == sorted(TRANSFER_OPS)


def started(landing: Path, schedules: Any) -> Job:
    job = Job(landing, schedules)
    job.timers("forward-backward").start()
    return job


def ops(line: dict[str, Any]) -> list[str]:
    return sorted(line["op"])


def test_batched_transfers_are_ops_of_equal_times(tmp_path: Path, schedules: Any) -> None:
    job = started(tmp_path, schedules)
    job.compute("out")
    job.back("out")
    job.moves(
        "forward-backward-send-forward-backward-recv",
        tensor_send_next=1,
        tensor_send_prev=1,
        recv_prev=True,
        recv_next=True,
    )
    job.timers("forward-backward").stop()
    (line,) = job.lines()
    assert ops(line)[-2:] == ["forward-recv", "forward-send"]
    assert len(set(zip(line["start_us"][2:], line["duration_us"][2:], strict=True))) == 1
    assert len(line["op"]) == 6


def test_a_transfer_that_moves_nothing_only_keeps_the_count(tmp_path: Path, schedules: Any) -> None:
    job = started(tmp_path, schedules)
    job.moves("forward-send-forward-recv", recv_prev=True)
    job.compute("out")
    job.moves("forward-send-forward-recv")  # moves nothing, but counts as the first send
    job.moves("forward-send-forward-recv")  # a call without transfers
    job.back("out")
    (line,) = job.lines()
    assert ops(line) == ["backward-compute", "forward-compute", "forward-recv", "forward-send"]


def test_a_backward_is_of_the_microbatch_and_chunk_of_its_output(tmp_path: Path, schedules: Any) -> None:
    job = Job(tmp_path, schedules)
    other = SimpleNamespace()
    job.timers("forward-backward").start()
    outputs = [object() for _ in range(4)]
    for output, model in zip(outputs, [job.model, job.model, other, other], strict=True):
        job.compute(output, model)
    for output in (outputs[2], outputs[0], outputs[3], outputs[1]):
        job.back(output)
    (line,) = job.lines()
    places = list(zip(line["op"], line["microbatch"], line["model_chunk"], strict=True))
    assert [place[1:] for place in places[:4]] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert [place[1:] for place in places[4:]] == [(0, 1), (0, 0), (1, 1), (1, 0)]


@pytest.mark.parametrize("is_waited_for", [True, False])
def test_an_overlapped_transfer_lasts_until_it_was_waited_for(
    tmp_path: Path, schedules: Any, is_waited_for: bool
) -> None:
    job = started(tmp_path, schedules)
    requests: dict[str, Any] = {"send_next": Peer(), "recv_prev": Peer()}
    job.moves("forward-send-forward-recv", requests, tensor_send_next=1, recv_prev=True)
    job.compute("out")
    if is_waited_for:
        assert requests["send_next"].wait() == requests["recv_prev"].wait() == "arrived"
    job.back("out")
    job.timers("forward-backward").stop()
    requests["send_next"].wait()
    (line,) = job.lines()
    assert ops(line)[2:] == ["forward-recv", "forward-send"], "each transfer is recorded once"
    ends = {op: s + d for op, s, d in zip(line["op"], line["start_us"], line["duration_us"], strict=True)}
    for op in ("forward-send", "forward-recv"):
        assert (ends[op] > ends["forward-compute"]) is is_waited_for


def test_the_gather_of_the_parameters_is_the_next_steps(tmp_path: Path, schedules: Any) -> None:
    job = Job(tmp_path, schedules)
    for _ in range(2):
        job.timers("forward-backward").start()
        job.compute("out")
        job.back("out")
        job.timed("all-grads-sync", "non-tensor-parallel-grads-all-reduce", "embedding-grads-all-reduce")
        job.timers("forward-backward").stop()
        job.timers("optimizer").start()
        job.timed("optimizer-clip-main-grad", "params-all-gather")
        job.timers("optimizer").stop()
    first, second = job.lines()
    tail = ["grads-reduce-scatter", "layernorm-grads-all-reduce", "optimizer", "optimizer-clip-main-grad"]
    computes = ["backward-compute", "forward-compute"]
    assert ops(first) == [*computes, *tail], "no op for embeddings, which are not shared"
    assert ops(second) == sorted([*computes, *tail, "params-all-gather"])
    assert (first["step"], second["step"]) == (100, 101)
    at = {
        op: (s, s + d) for op, s, d in zip(first["op"], first["start_us"], first["duration_us"], strict=True)
    }
    rounded_us = 3 * 0.05  # three numbers are rounded: two starts and a duration
    assert at["optimizer"][0] == pytest.approx(
        at["optimizer-clip-main-grad"][1], rel=0.0, abs=rounded_us + 1e-6
    )


def test_evaluations_are_not_steps(tmp_path: Path, schedules: Any) -> None:
    job = Job(tmp_path, schedules)
    for is_training in (True, False, True):
        job.timers("forward-backward").start()
        job.compute("out")
        if is_training:
            job.back("out")
        job.timers("forward-backward").stop()
    assert [line["step"] for line in job.lines()] == [100, 101]


def test_the_old_timers_are_called_without_barriers(tmp_path: Path, schedules: Any) -> None:
    job = Job(tmp_path, schedules)
    job.timed("forward-backward", "some-other-timer")
    assert job.old.calls == [
        (name, what, {}) for name in ("forward-backward", "some-other-timer") for what in ("start", "stop")
    ]
    assert job.timers.log() == "logged"
    assert job.timers("forward-backward").elapsed() == 1
    assert copy.deepcopy(job.config).timers is job.timers


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"overlap_moe_expert_parallel_comm": True}, "combined 1F1B"),
        ({"cuda_graph_scope": ["CudaGraphScope.full_iteration"]}, "full-iteration CUDA graphs"),
    ],
)
def test_what_no_replay_can_follow_is_refused(
    tmp_path: Path, schedules: Any, config: dict[str, Any], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "straggler_emitter"):
        job = Job(tmp_path, schedules, **config)
    assert words in caplog.text
    assert job.config.timers is job.old


def test_a_forward_begins_when_its_load_is_over(tmp_path: Path, schedules: Any) -> None:
    job = started(tmp_path, schedules)
    batches = iter([1, 2])
    for output in ("a", "b"):
        job.loads_and_computes(batches, output)
    for output in ("a", "b"):
        job.back(output)
    (line,) = job.lines()
    ends_us = [start + length for start, length in zip(line["start_us"], line["duration_us"], strict=True)]
    loads = [place for place, op in enumerate(line["op"]) if op == "data-load"]
    forwards = [place for place, op in enumerate(line["op"]) if op == "forward-compute"]
    for microbatch, (load, forward) in enumerate(zip(loads, forwards, strict=True)):
        assert line["microbatch"][load] == line["microbatch"][forward] == microbatch
        assert ends_us[load] <= line["start_us"][forward]
