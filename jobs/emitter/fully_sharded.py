"""Hooks for FSDP2, whose units gather parameters before they compute and reduce gradients afterwards.

    follow_fsdp(model, recorder)  # after fully_shard and all other settings of the model
    for number, batch in enumerate(batches):
        with recorder.step(number):
            loss_function(model(batch)).backward()
            with recorder.op("optimizer"):
                optimizer.step()

Each FSDP unit is one model chunk, and the root is chunk 0. A unit's forward compute lasts from the end of its
all-gather to the start of the next unit's. Its backward compute lasts from the end of its second all-gather
to the start of its gradient reduction. Neither includes the wait for a collective.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.distributed.fsdp import FSDPModule

from .data_parallel import when_gradients_are_there, with_gradients
from .line_thread import warn
from .recorder import Recorder, never_raises
from .step_clocks import Mark

GATHER, REDUCE, LAST_REDUCE = "params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce"
"""Op names of the collectives. A step's last gradient reduction follows its last compute, and its name tells
the replay that the other reductions overlap with computes."""


def follow_fsdp(model: Any, recorder: Recorder) -> None:
    """Record computes and collectives of a sharded model, or warn if the model cannot be replayed.

    Sets the run's vpp_size to the number of FSDP units, including the root.
    """
    run, units = recorder.writer.run, [unit for unit in model.modules() if isinstance(unit, FSDPModule)]
    if not isinstance(model, FSDPModule) or run.pp_size > 1:
        is_not = "is not a root of fully_shard" if run.pp_size == 1 else "is a stage of a pipeline"
        return warn("nothing is recorded: the model %s", is_not)
    recorder.writer.run = replace(run, vpp_size=len(units))
    return _Follower(recorder).follow(units)


class _Collective:
    """Wrapper of a unit's all-gather or reduce-scatter, which times each call and returns its result."""

    def __init__(self, old: Any, op: str, chunk: int, follower: "_Follower") -> None:
        self._old, self._op, self._chunk, self._follower = old, op, chunk, follower

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        start = self._follower.recorder.mark()
        work = self._old(*args, **kwargs)
        if work is None:  # otherwise FSDP waits for it elsewhere, and its end is not known
            self._follower.communicated(self._op, self._chunk, start, kwargs["group"].size())
        return work

    def __getattr__(self, name: str) -> Any:
        return getattr(self._old, name)


class _Follower:
    """Hooks of one sharded model; microbatches are numbered from the start of each step."""

    _start: Mark | None
    _nodes: set[Any]

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._direction: str | None = None  # of the present pass
        self._outputs: dict[int, list[Any]] = {}
        self._forget_step()
        recorder.before_end.append(self._add_all)

    @never_raises
    def follow(self, units: Iterable[Any]) -> None:
        """Register hooks on units, around FSDP's own hooks and their waits."""
        known = set()
        for chunk, unit in enumerate(units):
            unit.register_forward_pre_hook(partial(self._will_gather, chunk), prepend=True, with_kwargs=True)
            unit.register_forward_pre_hook(partial(self._has_gathered, chunk), with_kwargs=True)
            unit.register_forward_hook(partial(self._forwarded, chunk), prepend=True)
            unit.register_forward_hook(partial(self._has_forwarded, chunk))
            for group in unit._get_fsdp_state()._fsdp_param_groups:  # noqa: SLF001  # FSDP has setters only
                if id(group) not in known:  # modules that are sharded as one unit share a group
                    unit.set_custom_all_gather(_Collective(group._all_gather_comm, GATHER, chunk, self))  # noqa: SLF001  # the same
                    unit.set_custom_reduce_scatter(
                        _Collective(group._reduce_scatter_comm, REDUCE, chunk, self)  # noqa: SLF001  # the same
                    )
                known.add(id(group))

    @never_raises
    def _will_gather(self, chunk: int, _module: Any, *inputs: Any) -> None:
        self._nodes = _nodes_of(inputs)
        if chunk == 0:
            is_training = torch.is_grad_enabled()
            self._direction, self._start = "forward" if is_training else None, None
            self._microbatch += is_training
        elif self._direction == "forward":  # otherwise the unit is computed again for its backward
            self._cut()

    @never_raises
    def _has_gathered(self, chunk: int, _module: Any, *inputs: Any) -> None:
        if self._direction != "forward":
            return
        for node in _nodes_of(inputs) - self._nodes:  # FSDP's: in its backward FSDP reduces gradients
            node.register_prehook(self._will_reduce)
            if chunk:
                node.register_hook(partial(self._has_reduced, self._chunk))
        self._goes_on(chunk)

    @never_raises
    def _forwarded(self, chunk: int, _module: Any, _inputs: Any, output: Any) -> None:
        if self._direction == "forward":
            self._outputs[chunk] = list(with_gradients(output))
            self._when_it_goes_back(chunk, self._will_gather_again)

    @never_raises
    def _has_forwarded(self, chunk: int, *_: Any) -> None:
        self._when_it_goes_back(chunk, self._has_gathered_again)
        self._outputs.pop(chunk, None)

    def _when_it_goes_back(self, chunk: int, call: Callable[..., None]) -> None:
        for tensor in self._outputs.get(chunk, ()):
            tensor.register_hook(partial(call, chunk))

    @never_raises
    def _will_gather_again(self, _chunk: int, _gradient: Any) -> None:
        """When a unit's backward begins, end the previous compute: a forward or another unit's backward.

        The time between a forward and its backward counts as forward.
        """
        self._cut()
        if self._direction == "forward":
            self._direction = "backward"
            when_gradients_are_there(self._went_back)

    @never_raises
    def _has_gathered_again(self, chunk: int, _gradient: Any) -> None:
        if self._direction == "backward":
            self._goes_on(chunk or self._chunk)  # the root's backward begins in the last unit's chunk

    @never_raises
    def _will_reduce(self, *_: Any) -> None:
        self._cut()

    @never_raises
    def _has_reduced(self, chunk_before: int, *_: Any) -> None:
        if self._direction == "backward":
            self._goes_on(chunk_before)

    @never_raises
    def _went_back(self) -> None:
        self._cut()
        self._direction, end = None, self.recorder.mark()
        if end is not None:  # the root has a forward, so it needs a backward, even one without computes
            self._pieces.setdefault(("backward-compute", self._microbatch, 0), [(end, end)])

    @never_raises
    def communicated(self, op: str, chunk: int, start: Mark | None, ranks: int) -> None:
        """Keep a collective that ends now, if it is a chunk's first gather or last reduction in this step."""
        if start is None:
            return
        if op == GATHER:
            if self._direction == "forward" and self._microbatch == 0:
                self._gathers.setdefault(chunk, (start, self.recorder.mark()))
            return
        run = self.recorder.writer.run
        if ranks not in (run.dp_size, run.dp_size * run.cp_size):
            self.recorder.give_up(f"gradients meet among {ranks} ranks, but dp_size is {run.dp_size}")
        self._reduces.pop(chunk, None)
        self._reduces[chunk] = (start, self.recorder.mark())

    def _goes_on(self, chunk: int) -> None:
        self._chunk, self._start = chunk, self.recorder.mark()

    def _cut(self) -> None:
        """End the current piece of a compute, at a collective or at the end of the pass."""
        start, self._start = self._start, None
        if start is not None and self._direction is not None:
            compute = (f"{self._direction}-compute", self._microbatch, self._chunk)
            self._pieces.setdefault(compute, []).append((start, self.recorder.mark()))

    def _add_all(self) -> None:
        for chunk, gather in self._gathers.items():
            self.recorder.add(GATHER, *gather, chunk=chunk)
        for (op, microbatch, chunk), pieces in self._pieces.items():
            self.recorder.add(op, *pieces[-1], microbatch, chunk, pieces[:-1])
        last = next(reversed(self._reduces), None)
        for chunk, reduce in self._reduces.items():
            self.recorder.add(LAST_REDUCE if chunk == last else REDUCE, *reduce, chunk=chunk)
        self._forget_step()

    def _forget_step(self) -> None:
        self._start, self._nodes = None, set()
        self._microbatch, self._chunk = -1, 0
        self._gathers: dict[int, tuple[Mark, Mark]] = {}
        self._reduces: dict[int, tuple[Mark, Mark]] = {}
        self._pieces: dict[tuple[str, int, int], list[tuple[Mark, Mark]]] = {}


def _nodes_of(inputs: Any) -> set[Any]:
    """Return the autograd nodes that receive the gradients of the inputs."""
    return {tensor.grad_fn for tensor in with_gradients(inputs)} - {None}
