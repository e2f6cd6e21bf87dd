"""Hooks for torch.distributed.pipelining: GPipe, 1F1B and interleaved 1F1B, with stage i on rank i mod ranks.

follow_schedule(schedule, recorder)
for number, batch in enumerate(batches):
    with recorder.step(number):
        schedule.step(batch)
"""

import functools
import importlib
from collections.abc import Callable
from typing import Any

from .line_thread import warn
from .recorder import Recorder, Request, never_raises
from .step_clocks import Mark

TRANSFERS = {
    "get_fwd_recv_ops": "forward-recv",
    "get_fwd_send_ops": "forward-send",
    "get_bwd_recv_ops": "backward-recv",
    "get_bwd_send_ops": "backward-send",
}
"""Methods of a stage that return its transfers, and the op of these transfers."""
REFUSED = ("ZeroBubble", "ZBV", "DualPipe")


def refusal(schedule: Any, stages: list[Any]) -> str | None:
    """Return why steps of this schedule cannot be replayed; None if they can."""
    name = type(schedule).__name__
    if any(word in name for word in REFUSED):
        return f"{name} splits the backward, which no replay can follow"
    if any(stage.stage_index % stage.group_size != stage.group_rank for stage in stages):
        return f"{name} places stages in a V: stage i must be on rank i mod ranks"
    return None


def follow_schedule(schedule: Any, recorder: Recorder) -> None:
    """Record computes and transfers of a schedule, or warn if the schedule cannot be replayed."""
    stages = list(getattr(schedule, "_stages", None) or [schedule._stage])  # noqa: SLF001  # it has no other name
    if reason := refusal(schedule, stages):
        return warn("nothing is recorded: %s", reason)
    follower = _Follower(recorder, is_interleaved=len(stages) > 1)
    for stage in stages:
        follower.follow_stage(stage)
    follower.follow_loss(schedule)
    follower.follow_transfers(importlib.import_module("torch.distributed.pipelining.schedules"))
    return None


class _Follower:
    """Wrapper of the functions that a pipeline schedule calls, which records each call as an op."""

    def __init__(self, recorder: Recorder, *, is_interleaved: bool) -> None:
        self.recorder, self._is_interleaved = recorder, is_interleaved
        self._names: dict[int, str] = {}
        self._until_loss: tuple[Mark | None, int, int] | None = None

    def follow_stage(self, stage: Any) -> None:
        forward, backward = stage.forward_one_chunk, stage.backward_one_chunk
        chunk = stage.stage_index // stage.group_size

        @functools.wraps(forward)
        def forward_one_chunk(microbatch: int, *args: Any, **kwargs: Any) -> Any:
            start = self._begins("forward", has_peer=not stage.is_first)
            output = forward(microbatch, *args, **kwargs)
            self._forwarded(stage, start, microbatch, chunk)
            return output

        @functools.wraps(backward)
        def backward_one_chunk(microbatch: int, *args: Any, **kwargs: Any) -> Any:
            if not kwargs.get("full_backward", True):
                self.recorder.give_up("the schedule splits the backward, which no replay can follow")
            start = self._begins("backward", has_peer=not stage.is_last)
            result = backward(microbatch, *args, **kwargs)
            self._ends("backward", start, microbatch, chunk, has_peer=not stage.is_first)
            return result

        stage.forward_one_chunk, stage.backward_one_chunk = forward_one_chunk, backward_one_chunk
        for method, op in TRANSFERS.items():
            setattr(stage, method, self._naming(getattr(stage, method), op))

    def follow_loss(self, schedule: Any) -> None:
        """Count the loss as part of the last stage's forward."""
        loss = schedule._loss_fn  # noqa: SLF001  # it has no other name
        if loss is None:
            return

        @functools.wraps(loss)
        def with_loss(*args: Any, **kwargs: Any) -> Any:
            result = loss(*args, **kwargs)
            self._loss_is_there()
            return result

        schedule._loss_fn = with_loss  # noqa: SLF001  # the same

    def follow_transfers(self, schedules: Any) -> None:
        """Wrap the function of torch's module `schedules` by which all schedules make transfers."""
        batch = schedules._batch_p2p  # noqa: SLF001  # what all schedules go through

        @functools.wraps(batch)
        def batch_p2p(operations: list[Any], *args: Any, **kwargs: Any) -> Any:
            start = self.recorder.mark()
            works = batch(operations, *args, **kwargs)
            return works if start is None else self._requests(operations, works, start) or works

        schedules._batch_p2p = batch_p2p  # noqa: SLF001  # the same

    def _naming(self, method: Callable[..., Any], op: str) -> Callable[..., Any]:
        @functools.wraps(method)
        def named(*args: Any, **kwargs: Any) -> Any:
            operations = method(*args, **kwargs)
            self._names.update((id(operation), op) for operation in operations)
            return operations

        return named

    @never_raises
    def _requests(self, operations: list[Any], works: list[Any], start: Mark) -> list[Any]:
        """Wrap torch's handles of transfers; one handle may stand for several, which then end together."""
        names = [self._names.pop(id(operation)) for operation in operations]
        if len(works) == len(names):
            return [
                Request(work, self.recorder, name, start) for work, name in zip(works, names, strict=True)
            ]
        whole = works[0]
        for name in names:
            whole = Request(whole, self.recorder, name, start)
        return [whole, *works[1:]]

    @never_raises
    def _begins(self, direction: str, *, has_peer: bool) -> Mark | None:
        start = self.recorder.mark()
        if not has_peer and self._is_interleaved:
            self.recorder.add(f"{direction}-recv", start, start)  # the k-th recv belongs to the k-th compute
        return start

    @never_raises
    def _ends(
        self, direction: str, start: Mark | None, microbatch: int, chunk: int, *, has_peer: bool
    ) -> None:
        end = self.recorder.mark()
        self.recorder.add(f"{direction}-compute", start, end, microbatch, chunk)
        if not has_peer and self._is_interleaved:
            self.recorder.add(f"{direction}-send", end, end)

    @never_raises
    def _forwarded(self, stage: Any, start: Mark | None, microbatch: int, chunk: int) -> None:
        if stage.is_last and stage.has_backward:
            self._until_loss = (start, microbatch, chunk)
        else:
            self._ends("forward", start, microbatch, chunk, has_peer=not stage.is_last)

    @never_raises
    def _loss_is_there(self) -> None:
        if self._until_loss is not None:
            start, microbatch, chunk = self._until_loss
            self._ends("forward", start, microbatch, chunk, has_peer=False)
            self._until_loss = None
