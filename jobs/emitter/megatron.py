"""Timers for Megatron-LM (core 0.12 and later) in place of `config.timers`, which Megatron runs around ops.

timers = RankLogTimers(config.timers, recorder, first_step=iteration)
timers.install(config, optimizer.config)
"""

import functools
import importlib
from collections.abc import Callable
from typing import Any

from .line_thread import warn
from .recorder import Recorder, Request, never_raises
from .step_clocks import Mark

REQUESTS = {
    "send_next": "forward-send",
    "recv_prev": "forward-recv",
    "send_prev": "backward-send",
    "recv_next": "backward-recv",
}
"""Keys of the handles of transfers that Megatron starts without waiting for them, and the op of each."""
REFUSED = {
    "overlap_moe_expert_parallel_comm": "combined 1F1B interleaves a forward and a backward in one compute",
    "hybrid_context_parallel": "its ranks run different microbatches",
}


def refusal(config: Any) -> str | None:
    """Return why jobs with this config cannot be replayed; None if they can."""
    for name, reason in REFUSED.items():
        if getattr(config, name, False):
            return f"{name}: {reason}"
    graphs = f"{getattr(config, 'cuda_graph_impl', '')} {getattr(config, 'cuda_graph_scope', '')}"
    if "full_iteration" in graphs:
        return "full-iteration CUDA graphs call no timers"
    return None


def waits_for_transfers(config: Any) -> bool:
    """Return whether a stage waits for each transfer before it continues; False if some may overlap."""
    has_pipeline = getattr(config, "pipeline_model_parallel_size", 1) > 1
    return has_pipeline and getattr(config, "overlap_p2p_comm", None) is False


def is_tied(model: Any) -> bool:
    """Return whether the first and last stages share the embedding, and so reduce its gradients together."""
    while hasattr(model, "module"):
        model = model.module
    return bool(getattr(model, "share_embeddings_and_output_weights", False))


def follow_microbatches(timers: Any) -> None:
    """Wrap Megatron's functions that run a microbatch through a model chunk, to learn the numbers of both."""
    schedules: Any = importlib.import_module("megatron.core.pipeline_parallel.schedules")
    forward, backward = schedules.forward_step, schedules.backward_step

    @functools.wraps(forward)
    def forward_step(step_function: Any, data_iterator: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
        chunk, microbatch = timers.next_microbatch(model)
        timers.computes(chunk, microbatch)
        if data_iterator is not None:
            data_iterator = timers.recorder.loads(data_iterator, microbatch=microbatch, model_chunk=chunk)
        result = forward(step_function, data_iterator, model, *args, **kwargs)
        timers.forwarded(result[0])
        return result

    @functools.wraps(backward)
    def backward_step(input_tensor: Any, output_tensor: Any, *args: Any, **kwargs: Any) -> Any:
        timers.goes_back(output_tensor)
        return backward(input_tensor, output_tensor, *args, **kwargs)

    schedules.forward_step, schedules.backward_step = forward_step, backward_step


def follow_transfers(timers: Any) -> None:
    """Wrap Megatron's function that makes all transfers; since core 0.14 it is a method."""
    module = importlib.import_module("megatron.core.pipeline_parallel.p2p_communication")
    holder: Any = getattr(module, "P2PCommunicator", module)
    communicate: Callable[..., Any] = holder._communicate  # noqa: SLF001  # what all its callers go through

    @functools.wraps(communicate)
    def followed(*args: Any, **kwargs: Any) -> Any:
        result = communicate(*args, **kwargs)
        timers.moves(result[-1], **kwargs)
        return result

    holder._communicate = followed  # noqa: SLF001  # the same


STEP = "forward-backward"
TRANSFERS = {
    "forward-recv": ("forward-recv",),
    "forward-send": ("forward-send",),
    "backward-recv": ("backward-recv",),
    "backward-send": ("backward-send",),
    "forward-send-backward-recv": ("forward-send", "backward-recv"),
    "backward-send-forward-recv": ("backward-send", "forward-recv"),
    "forward-send-forward-recv": ("forward-send", "forward-recv"),
    "backward-send-backward-recv": ("backward-send", "backward-recv"),
    "forward-backward-send-forward-backward-recv": (
        "forward-send",
        "backward-send",
        "forward-recv",
        "backward-recv",
    ),
}
"""Megatron's timers of transfers, and their ops. Transfers made in one call become ops with the same start
and end, as in the published traces."""
TAIL = {
    "all-grads-sync": "grads-reduce-scatter",
    "layernorm-grads-all-reduce": "layernorm-grads-all-reduce",
    "non-tensor-parallel-grads-all-reduce": "layernorm-grads-all-reduce",  # its name from 0.14 on
    "embedding-grads-all-reduce": "embedding-grads-all-reduce",
    "optimizer-clip-main-grad": "optimizer-clip-main-grad",
    "params-all-gather": "params-all-gather",
    "optimizer": "optimizer",
}


class RankLogTimers:
    """Timers that forward every call to the old timers, without barriers, and record each timed op.

    Megatron asks its timers for a barrier by default. A barrier would make all ranks start an op together,
    and so hide which rank was late.
    """

    def __init__(self, old: Any, recorder: Recorder, *, first_step: int = 0) -> None:
        self.old, self.recorder, self.next_step = old, recorder, first_step
        self._timers: dict[str, _Timer] = {}
        self._chunks: dict[int, int] = {}
        self._is_over = True
        self._moved: set[str] | None = None
        self._is_waited_for: set[str] = set()
        self._forget_step()
        recorder.after_load.append(self._loaded)

    def __call__(self, name: str, log_level: int | None = None) -> "_Timer":
        """Return the timer with this name."""
        if name not in self._timers:
            old = None if self.old is None else self.old(name, log_level)
            self._timers[name] = _Timer(name, self, old)
        return self._timers[name]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__.get("old"), name)

    def __deepcopy__(self, _: object) -> "RankLogTimers":
        return self  # a copied config has the same timers

    def install(self, *configs: Any) -> None:
        """Install these timers in the configs, or warn if a config cannot be replayed."""
        for config in configs:
            if reason := refusal(config):
                return warn("nothing is recorded: %s", reason)
        follow_microbatches(self)
        follow_transfers(self)
        if configs and waits_for_transfers(configs[0]):
            self.recorder.writer.states(blocking_transfers=list(REQUESTS.values()))
        for config in configs:
            config.timers = self
        return None

    # Called by the timers, and by the wrapped functions of Megatron.

    @never_raises
    def started(self, name: str) -> None:
        """Record the start of a timed op."""
        if name == STEP and self._is_over:
            self._begin()
        mark = self.recorder.mark()
        if name == "params-all-gather" and self._computes["backward"]:
            # Megatron gathers the next step's parameters while the optimizer's timer is still running.
            self._add_tail("optimizer", self._starts.pop("optimizer", None), mark)
            self._begin()
            mark = self.recorder.mark()
        self._starts[name] = mark
        if name in TRANSFERS:
            self._moved = None
            self._is_waited_for.clear()

    @never_raises
    def stopped(self, name: str) -> None:
        """Record the timed op that ends now."""
        start, end = self._starts.pop(name, None), self.recorder.mark()
        if name == STEP:
            self._is_over = True
            for request in self._requests:
                request.is_left()
        elif name in ("forward-compute", "backward-compute"):
            self._computes[name.removesuffix("-compute")] += 1
            self.recorder.add(name, start, end, *self._place)
        elif name in TRANSFERS:
            for op in TRANSFERS[name]:
                # The replay pairs the k-th transfer of a type with the k-th compute. A call that moved no
                # data is therefore recorded if its compute has no transfer yet. A transfer with a pending
                # request is recorded when the request is waited for.
                has_moved = self._moved is None or op in self._moved
                is_due = has_moved or self._transfers[op] < self._computes[op.split("-", maxsplit=1)[0]]
                if is_due and op not in self._is_waited_for:
                    self._transfers[op] += 1
                    self.recorder.add(op, start, end)
        elif name in TAIL:
            self._add_tail(name, start, end)

    @never_raises
    def computes(self, chunk: int, microbatch: int) -> None:
        """Set the microbatch and chunk that the next compute is recorded with."""
        self._place = (microbatch, chunk)

    @never_raises
    def forwarded(self, output: Any) -> None:
        """Remember the output of the current forward, to recognise its backward later."""
        self._outputs[id(output)] = self._place

    @never_raises
    def goes_back(self, output: Any) -> None:
        """Mark the next compute as the backward of this output."""
        self._place = self._outputs.pop(id(output), (self._computes["backward"], 0))

    @never_raises
    def _loaded(self) -> None:
        """Restart the forward's timer after a data load, because Megatron loads data inside its forwards."""
        if "forward-compute" in self._starts:
            self._starts["forward-compute"] = self.recorder.mark()

    def next_microbatch(self, model: Any) -> tuple[int, int]:
        """Return numbers of a model chunk and its next microbatch; a chunk runs microbatches in order."""
        self._is_tied = is_tied(model)
        chunk = self._chunks.setdefault(id(model), len(self._chunks))
        microbatch = self._forwards.get(chunk, 0)
        self._forwards[chunk] = microbatch + 1
        return chunk, microbatch

    @never_raises
    def moves(self, requests: Any, /, **what: Any) -> None:
        """Record which transfers a call made, and wrap its pending requests so that waits are recorded."""
        sent = {"send_next": what["tensor_send_next"], "send_prev": what["tensor_send_prev"]}
        moved = [name for name, tensor in sent.items() if tensor is not None]
        moved += [name for name in ("recv_prev", "recv_next") if what[name]]
        self._moved = {REQUESTS[name] for name in moved}
        if isinstance(requests, dict):
            start = next((self._starts[name] for name in TRANSFERS if name in self._starts), None)
            for name in REQUESTS.keys() & requests.keys():
                self._is_waited_for.add(REQUESTS[name])
                self._transfers[REQUESTS[name]] += 1
                requests[name] = Request(requests[name], self.recorder, REQUESTS[name], start)
                self._requests.append(requests[name])

    def _begin(self) -> None:
        if self._computes["forward"] and not self._computes["backward"]:
            self.recorder.discard()  # forwards without a backward are an evaluation
        elif self._computes["backward"]:
            self.next_step += 1
        self._is_over = False
        self._forget_step()
        self.recorder.begin(self.next_step)

    def _forget_step(self) -> None:
        self._starts: dict[str, Mark | None] = {}
        self._computes = {"forward": 0, "backward": 0}
        self._forwards: dict[int, int] = {}
        self._transfers = dict.fromkeys(REQUESTS.values(), 0)
        self._requests: list[Request] = []
        self._outputs: dict[int, tuple[int, int]] = {}
        self._place, self._is_tied = (-1, 0), False

    def _add_tail(self, name: str, start: Mark | None, end: Mark | None) -> None:
        if name == "embedding-grads-all-reduce" and not self._is_tied:
            return  # the timer runs, but no collective does
        self.recorder.add(TAIL[name], start, end)
        if name == "optimizer-clip-main-grad" and "optimizer" in self._starts:
            self._starts["optimizer"] = end  # the optimizer's timer runs around the clip


class _Timer:
    """Timer with one name, which tells RankLogTimers when it starts and stops, and calls Megatron's timer."""

    def __init__(self, name: str, timers: RankLogTimers, old: Any) -> None:
        self._name, self._timers, self._old = name, timers, old

    def start(self, barrier: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002  # Megatron's own signature
        self._timers.started(self._name)
        if self._old is not None:
            self._old.start()

    def stop(self, barrier: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002  # Megatron's own signature
        self._timers.stopped(self._name)
        if self._old is not None:
            self._old.stop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__.get("_old"), name)
