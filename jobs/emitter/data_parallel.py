"""Hooks for DDP: each rank runs whole microbatches, and gradients are reduced at the end of a backward.

    follow_ddp(model, recorder)
    for number, batch in enumerate(batches):
        with recorder.step(number):
            loss_function(model(batch)).backward()
            with recorder.op("optimizer"):
                optimizer.step()

The op `grads-reduce-scatter` is the wait for the reductions that are still running when the backward ends.
Reductions that end earlier delay nothing, and are not recorded.
"""

from collections.abc import Iterator
from typing import Any

import torch

from .recorder import Recorder, never_raises
from .step_clocks import Mark


def follow_ddp(model: Any, recorder: Recorder) -> None:
    """Record forwards, backwards, and the wait for gradient reduction after each backward.

    Communication hooks of the model stay as they are.
    """
    _Follower(model, recorder)


class _Follower:
    """Hooks of one DDP model; microbatches are numbered from the start of each step."""

    def __init__(self, model: Any, recorder: Recorder) -> None:
        self.recorder, self._model = recorder, model
        self._start: Mark | None = None
        self._microbatch, self._step = -1, recorder.number
        model.register_forward_pre_hook(self._forwards)
        model.register_forward_hook(self._forwarded)

    @never_raises
    def _forwards(self, *_: Any) -> None:
        if not torch.is_grad_enabled():
            return
        self._microbatch = self._microbatch + 1 if self._step == self.recorder.number else 0
        self._step, self._start = self.recorder.number, self.recorder.mark()

    @never_raises
    def _forwarded(self, _module: Any, _inputs: Any, output: Any) -> None:
        if self._start is not None and torch.is_grad_enabled():
            next(with_gradients(output)).register_hook(self._goes_back)

    @never_raises
    def _goes_back(self, _gradient: Any) -> None:
        """End the forward op, which thus includes the loss, and start the backward op."""
        self._passes("forward-compute", self._microbatch)
        when_gradients_are_there(self._went_back)

    @never_raises
    def _went_back(self) -> None:
        self._passes("backward-compute", self._microbatch)
        if self._model.require_backward_grad_sync:
            when_gradients_are_there(self._reduced)  # after DDP's callback, which waits for other ranks

    @never_raises
    def _reduced(self) -> None:
        self._passes("grads-reduce-scatter", -1)

    def _passes(self, op: str, microbatch: int) -> None:
        """Record an op from the end of the previous one until now."""
        start, self._start = self._start, self.recorder.mark()
        self.recorder.add(op, start, self._start, microbatch)


def with_gradients(output: Any) -> Iterator[Any]:
    """Yield the tensors of an output that require gradients."""
    if isinstance(output, torch.Tensor):
        if output.requires_grad:
            yield output
        return
    for part in output.values() if isinstance(output, dict) else output:
        if isinstance(part, torch.Tensor | list | tuple | dict):
            yield from with_gradients(part)


def when_gradients_are_there(call: Any) -> None:
    """Queue a callback for the end of the current backward; callbacks run in the order of queueing."""
    torch.autograd.Variable._execution_engine.queue_callback(call)  # noqa: SLF001  # it has no other name
