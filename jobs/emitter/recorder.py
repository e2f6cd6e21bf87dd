"""Recorder of the ops of some steps of one rank, which never disturbs the training.

During a step the recorder only takes time marks. After the step it reads them, and a separate thread writes
the step's line, so that a slow store delays no training. Steps that a stalled store or a full disk does not
accept are dropped, and the next line states how many. An exception in a hook ends the recording. In both
cases one warning is logged, and the training goes on.
"""

import functools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, TypeVar

from .line_thread import LineThread, warn
from .rank_log_writer import RankLogWriter, Step
from .step_clocks import CudaClock, HostClock, Mark, OpenStep, Pieces, StepClock


class Loads:
    """Iterator over the items of another iterator, which reports to the recorder how long each item took.

    The host's clock times loads, because they run on the host, even if the GPU's clock times the other ops.
    """

    def __init__(self, iterator: Any, recorder: Any, microbatch: int | None, model_chunk: int) -> None:
        self._iterator = iterator if hasattr(iterator, "__next__") else iter(iterator)
        self._recorder, self._microbatch, self._model_chunk = recorder, microbatch, model_chunk

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        start_ns = time.perf_counter_ns()
        batch = next(self._iterator)
        self._recorder.loaded(start_ns, time.perf_counter_ns(), self._microbatch, self._model_chunk)
        return batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__.get("_iterator"), name)


NO_WAIT_US = 1000
"""A transfer whose wait is at most this long had ended before, at a time that no host can know. [us]"""
Call = TypeVar("Call", bound=Callable[..., Any])


def never_raises(method: Call) -> Call:
    """Decorate a method so that its exceptions end the recording, not the training, and return None."""

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is not worth a training run
            self.recorder.give_up(f"{method.__name__}: {error!r}")
            return None

    return guarded  # type: ignore[return-value]  # the same call


SKIPPED = nullcontext()
"""Stands for TimedOp in steps that are not recorded, where ops must cost nothing."""


class TimedOp:
    """Context manager that records its block as one op, unless the block raises.

    It is a class, because contextlib's generators take three times as long.
    """

    __slots__ = ("about", "recorder", "start")

    def __init__(self, recorder: "Recorder", *about: Any) -> None:
        self.recorder, self.about = recorder, about

    def __enter__(self) -> None:
        self.start = self.recorder.mark()

    def __exit__(self, error: object, *_: object) -> None:
        if error is None:
            name, microbatch, model_chunk = self.about
            self.recorder.add(name, self.start, self.recorder.mark(), microbatch, model_chunk)


class Recorder:
    """Recorder that times the ops of every n-th step of one rank and writes them with `writer`.

    every, burst : steps with number % every < burst are recorded; all ranks need the same values
    clock        : by default CUDA events where torch has a GPU, else the host's clock
    """

    def __init__(
        self, writer: RankLogWriter, *, every: int = 1, burst: int = 1, clock: StepClock | None = None
    ) -> None:
        self.writer, self.every, self.burst = writer, every, burst
        self.recorder = self  # `never_raises` calls its give_up
        self.number: int | None = None  # of the present step, recorded or not
        self.before_end: list[Callable[[], None]] = []  # called when a step is over, recorded or not
        self.after_load: list[Callable[[], None]] = []  # called when a load of a recorded step is over
        self._clock = clock
        self._step: OpenStep | None = None
        self._has_given_up = False
        self._lines = LineThread(f"rank {writer.rank.rank}", "steps", self._write, self.give_up)

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is not None:
            self.discard()
        self.close()

    @never_raises
    def begin(self, number: int) -> None:
        """End the previous step and begin this one; if this step is recorded, first wait for the GPU."""
        self.end()
        self.number = number
        if self._has_given_up or number % self.every >= self.burst:
            return
        if self._clock is None:
            torch = sys.modules.get("torch")
            self._clock = HostClock()
            if torch and torch.cuda.is_available():
                self._clock = CudaClock(torch.cuda)
                rank = self.writer.rank
                self.writer.rank = replace(rank, gpu_type=rank.gpu_type or torch.cuda.get_device_name())
        self._clock.settle()
        self._step = OpenStep(number, self._clock)

    @never_raises
    def end(self) -> None:
        """End the step: read its time marks and queue its line for writing."""
        for add_what_is_left in self.before_end:
            add_what_is_left()
        step, self._step = self._step, None
        if step is None or self._clock is None or not step.has_begun:
            return
        self._clock.settle()
        self._lines.put(step.line(self._clock))

    def discard(self) -> None:
        """Drop the current step."""
        self._step = None

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Record a step; a step that raises an error leaves no line."""
        self.begin(number)
        try:
            yield
        except BaseException:
            self.discard()
            raise
        self.end()

    @never_raises
    def mark(self) -> Mark | None:
        """Return a mark of the present time; None if the current step is not recorded."""
        return None if self._step is None or self._clock is None else self._clock.mark()

    @never_raises
    def add(
        self,
        op: str,
        start: Mark | None,
        end: Mark | None,
        microbatch: int = -1,
        chunk: int = 0,
        pieces: Pieces = (),
    ) -> None:
        """Add an op between two time marks of the current step; do nothing if a mark is None.

        pieces : parts of the op that ran before a wait; they count as if they had ended exactly at `start`
        """
        if self._step is not None and start is not None and end is not None:
            self._step.spans.append((op, start, end, microbatch, chunk, pieces))

    def op(self, name: str, *, microbatch: int = -1, model_chunk: int = 0) -> AbstractContextManager[None]:
        """Time the block as one op."""
        return SKIPPED if self._step is None else TimedOp(self, name, microbatch, model_chunk)

    def loads(self, iterator: Any, *, microbatch: int | None = None, model_chunk: int = 0) -> Loads:
        """Return an iterator that records each `next` as a data load.

        microbatch : whose data are loaded; by default each load is that of the chunk's next microbatch
        """
        return Loads(iterator, self, microbatch, model_chunk)

    @never_raises
    def loaded(self, start_ns: int, end_ns: int, microbatch: int | None, model_chunk: int) -> None:
        """Add a data load between two readings of `time.perf_counter_ns`. [ns]"""
        if self._step is not None:
            self._step.loaded(start_ns, end_ns, microbatch, model_chunk)
            for goes_on in self.after_load:
                goes_on()

    def wait(self, op: str, start: Mark | None, request: Any, *args: Any) -> Any:
        """Wait for a transfer that began at `start`, record it, and return the result of the wait.

        A recv is recorded from the start of the wait, because before the wait it delays nothing.
        """
        if start is None or self._clock is None:
            return request.wait(*args)
        if op.endswith("-recv"):
            with self.op(op):
                return request.wait(*args)
        if isinstance(self._clock, CudaClock):
            self._arrived(op, start, request)
            return request.wait(*args)
        called = self.mark()
        done = request.wait(*args)
        self._sent(op, start, called, self.mark())
        return done

    @never_raises
    def _sent(self, op: str, start: Mark, called: Mark | None, end: Mark | None) -> None:
        """Add a send timed by the host's clock; a send without a wait has zero length."""
        if self._clock is not None and called is not None and end is not None:
            has_waited = self._clock.us_between(called, end) > NO_WAIT_US
            self.add(op, start, end if has_waited else start)

    @never_raises
    def _arrived(self, op: str, start: Mark, request: Any) -> None:
        if isinstance(self._clock, CudaClock):
            self.add(op, start, self._clock.arrived(op, request.wait))

    def give_up(self, reason: str) -> None:
        """Stop recording, and warn once."""
        self._step = None
        if not self._has_given_up:
            self._has_given_up = True
            warn("rank %s: recording has stopped, training continues: %s", self.writer.rank.rank, reason)

    def close(self, timeout_s: float = 10.0) -> None:
        """End the step and wait at most `timeout_s` for its line to be written. [s]"""
        self.end()
        self._lines.close(timeout_s)

    def _write(self, step: Step, left_out: int) -> None:
        step.left_out = left_out
        self.writer.write(step)


class Request:
    """Wrapper of a pending transfer's handle, which records the transfer when it is waited for."""

    def __init__(self, request: Any, recorder: Recorder, op: str, start: Mark | None) -> None:
        self._request, self._recorder, self._op, self._start = request, recorder, op, start

    def wait(self, *args: Any) -> Any:
        """Wait for the transfer, and record it once."""
        start, self._start = self._start, None
        return self._recorder.wait(self._op, start, self._request, *args)

    def is_left(self) -> None:
        """Record a transfer that is never waited for, such as Megatron's last send, with zero length."""
        start, self._start = self._start, None
        self._recorder.add(self._op, start, start)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._request, name)
