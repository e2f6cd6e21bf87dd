"""Simulate when every op of a pipeline starts and ends, for all steps and replicas at once.

Each worker runs its computes in order, and a compute needs the data of a neighbouring stage. The receive of
the data is posted early or when they are needed; their send follows the compute that made them. Both end when
the data have arrived; a buffered send ends already when its data are copied. The next compute of the sender
never waits for its sends. All members of a collective end together.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tests.evaluation.shapes.layout import BACKWARD, FORWARD, Floats, Layout, order_of_computes
from tests.evaluation.shapes.recorded import Recorded
from tests.evaluation.shapes.times import Times

LAUNCH_S: Final = 8e-6
"""Delay between the moment when an op could start and its start. [s]"""
NOTHING_S: Final = 5e-6
"""Recorded length of a transfer that moves no data. [s]"""
COPY: Final = 0.3
"""A buffered send ends after this share of the transfer time."""
_NAMES: Final = ("forward", "backward")


@dataclass
class _Worker:
    """State of one stage within a step, for all replicas at once.

    Lists of two entries are indexed by direction: forward, backward.
    """

    order: list[tuple[int, int, int]]
    free_s: Floats
    ordinal: dict[tuple[int, int, int], int] = field(default_factory=dict)
    computed: list[list[tuple[int, int, Floats]]] = field(default_factory=lambda: [[], []])
    sent_s: list[list[Floats]] = field(default_factory=lambda: [[], []])
    received_s: list[Floats | None] = field(default_factory=lambda: [None, None])
    ends_s: list[Floats] = field(default_factory=list)
    last_of_chunk_s: list[dict[int, Floats]] = field(default_factory=lambda: [{}, {}])
    gathered_s: list[Floats] = field(default_factory=list)


class Pipeline:
    """Simulate all steps of a job separately; each step begins when all workers are ready."""

    def __init__(self, layout: Layout, times: Times) -> None:
        self.layout, self.times = layout, times
        self.recorded = [Recorded() for _ in range(layout.pp)]
        self.workers = [
            _Worker(order_of_computes(layout, stage), times.late_start[stage] + LAUNCH_S)
            for stage in range(layout.pp)
        ]

    def run(self) -> list[Recorded]:
        """Simulate the steps and return the recorded ops of each stage."""
        if self.layout.dp > 1:
            self._gather()
        left = sum(len(worker.order) for worker in self.workers)
        while left:
            done = sum(self._compute_next(stage) for stage in range(self.layout.pp))
            if not done:
                raise ValueError("the order of computes makes the stages wait for each other")
            left -= done
        self._finish_sends()
        self._finish_steps()
        return self.recorded

    def _gather(self) -> None:
        for stage, worker in enumerate(self.workers):
            stream_s = worker.free_s
            for chunk in range(self.layout.vpp):
                stream_s = self._together(
                    stage, "params-all-gather", stream_s, self.times.gather[stage, chunk], chunk
                )
                worker.gathered_s.append(stream_s)

    def _together(self, stage: int, op: str, ready_s: Floats, length_s: Floats, chunk: int = 0) -> Floats:
        """Record a collective of a stage's replicas that takes `length_s`, shape (step,); return its end."""
        start_s = ready_s + LAUNCH_S
        end_s = np.broadcast_to((start_s.max(axis=1) + length_s)[:, None], start_s.shape)
        return self.recorded[stage].add(op, start_s, end_s, chunk=chunk)

    def _source(self, stage: int, direction: int, chunk: int) -> tuple[int, int] | None:
        """Return the (stage, chunk) whose data a compute needs; None for the model's outermost layers."""
        pp, vpp = self.layout.pp, self.layout.vpp
        number = chunk * pp + stage + (-1 if direction == FORWARD else 1)
        return (number % pp, number // pp) if 0 <= number < pp * vpp else None

    def _compute_next(self, stage: int) -> bool:
        """Run the next compute of a stage; return False if none remains or its data are missing."""
        worker = self.workers[stage]
        if len(worker.ends_s) == len(worker.order):
            return False
        direction, chunk, microbatch = worker.order[len(worker.ends_s)]
        source = self._source(stage, direction, chunk)
        ready_s = worker.free_s
        if source is not None:
            number = self.workers[source[0]].ordinal.get((direction, source[1], microbatch))
            if number is None:
                return False
            ready_s = np.maximum(ready_s, self._exchange(source[0], stage, direction, number))
        elif self.layout.vpp > 1:
            start_s = self._posted(worker, direction) + LAUNCH_S
            ready_s = np.maximum(ready_s, self._receive(stage, direction, start_s, start_s + NOTHING_S))
        self._compute(stage, direction, chunk, microbatch, ready_s)
        return True

    def _compute(self, stage: int, direction: int, chunk: int, microbatch: int, ready_s: Floats) -> None:
        worker, recorded = self.workers[stage], self.recorded[stage]
        if direction == FORWARD and self.layout.dp > 1:
            ready_s = np.maximum(ready_s, worker.gathered_s[chunk])
        if direction == FORWARD and self.layout.has_loads and (stage, chunk) == (0, 0):
            start_s = ready_s + LAUNCH_S
            ready_s = recorded.add("data-load", start_s, start_s + self.times.load[microbatch], microbatch)
        start_s = ready_s + LAUNCH_S
        end_s = start_s + self.times.compute[direction, stage, chunk, microbatch]
        recorded.add(f"{_NAMES[direction]}-compute", start_s, end_s, microbatch, chunk)
        worker.free_s = end_s
        worker.ends_s.append(end_s)
        worker.ordinal[direction, chunk, microbatch] = len(worker.computed[direction])
        worker.computed[direction].append((chunk, microbatch, end_s))
        worker.last_of_chunk_s[direction][chunk] = end_s

    def _posted(self, worker: _Worker, direction: int) -> Floats:
        """Return when a receive is posted: after the last compute of its direction, or when needed. [s]"""
        if not self.layout.is_early:
            posted_s = worker.free_s
        elif worker.computed[direction]:
            posted_s = worker.computed[direction][-1][2]
        elif direction == BACKWARD and len(worker.ends_s) > 1:
            posted_s = worker.ends_s[-2]
        else:
            posted_s = worker.free_s
        before_s = worker.received_s[direction]
        return posted_s if before_s is None else np.maximum(posted_s, before_s)

    def _receive(self, stage: int, direction: int, start_s: Floats, end_s: Floats) -> Floats:
        self.workers[stage].received_s[direction] = end_s
        return self.recorded[stage].add(f"{_NAMES[direction]}-recv", start_s, end_s)

    def _exchange(self, source: int, stage: int, direction: int, number: int) -> Floats:
        """Record a send and its receive; return when the data have arrived. [s]"""
        sender = self.workers[source]
        while len(sender.sent_s[direction]) < number:
            self._send_nothing(source, direction)
        chunk, microbatch, _ = sender.computed[direction][number]
        length_s = self.times.transfer[direction, source, chunk, microbatch]
        send_s = self._send_start(sender, direction) + LAUNCH_S
        post_s = self._posted(self.workers[stage], direction) + LAUNCH_S
        if self.layout.is_buffered:
            arrived_s = np.maximum(send_s + length_s, post_s + NOTHING_S)
            sent_s = send_s + COPY * length_s
        else:
            arrived_s = sent_s = np.maximum(send_s, post_s) + length_s
        sender.sent_s[direction].append(sent_s)
        self.recorded[source].add(f"{_NAMES[direction]}-send", send_s, sent_s)
        return self._receive(stage, direction, post_s, arrived_s)

    @staticmethod
    def _send_start(sender: _Worker, direction: int) -> Floats:
        sent_s = sender.sent_s[direction]
        made_s = sender.computed[direction][len(sent_s)][2]
        return np.maximum(made_s, sent_s[-1]) if sent_s else made_s

    def _send_nothing(self, stage: int, direction: int) -> None:
        sender = self.workers[stage]
        start_s = self._send_start(sender, direction) + LAUNCH_S
        sender.sent_s[direction].append(start_s + NOTHING_S)
        self.recorded[stage].add(f"{_NAMES[direction]}-send", start_s, start_s + NOTHING_S)

    def _finish_sends(self) -> None:
        """Record the remaining sends; with several chunks a stage, also those at the model's ends."""
        if self.layout.vpp == 1:
            return
        for stage, worker in enumerate(self.workers):
            for direction in (FORWARD, BACKWARD):
                while len(worker.sent_s[direction]) < len(worker.computed[direction]):
                    self._send_nothing(stage, direction)

    def _finish_steps(self) -> None:
        """Record the ops after the computes: gc, layernorm, embedding, gradients, clip and optimizer."""
        layout, times = self.layout, self.times
        ready = [
            self._local(stage, "layernorm-grads-all-reduce", times.layernorm[stage], self._swept(stage))
            for stage in range(layout.pp)
        ]
        if layout.pp > 1:
            first_s, last_s = ready[0] + LAUNCH_S, ready[-1] + LAUNCH_S
            met_s = np.maximum(first_s, last_s) + times.embedding
            for stage, start_s in ((0, first_s), (layout.pp - 1, last_s)):
                ready[stage] = self.recorded[stage].add("embedding-grads-all-reduce", start_s, met_s)
        if layout.dp > 1:
            ready = [self._reduced(stage, ready_s) for stage, ready_s in enumerate(ready)]
        starts = [ready_s + times.late_clip[stage] + LAUNCH_S for stage, ready_s in enumerate(ready)]
        met_s = np.broadcast_to(np.max(starts, axis=(0, 2))[:, None], layout.lanes)
        for stage, start_s in enumerate(starts):
            clipped_s = self.recorded[stage].add(
                "optimizer-clip-main-grad", start_s, met_s + times.clip[stage]
            )
            self._local(stage, "optimizer", times.optimizer[stage], clipped_s)

    def _local(self, stage: int, op: str, length_s: Floats, ready_s: Floats) -> Floats:
        start_s = ready_s + LAUNCH_S
        return self.recorded[stage].add(op, start_s, start_s + length_s)

    def _swept(self, stage: int) -> Floats:
        """Return when a stage's own work ends, including garbage collection and overlapped reductions. [s]"""
        worker, times = self.workers[stage], self.times
        ready_s = worker.free_s
        if self.layout.has_gc:
            ready_s = self._local(stage, "gc", times.gc[stage], ready_s)
        if self.layout.dp > 1 and self.layout.is_overlapped:
            stream_s = worker.gathered_s[-1]
            last_s = worker.last_of_chunk_s[BACKWARD]
            for chunk in reversed(range(self.layout.vpp)):
                start_s = np.maximum(stream_s, last_s[chunk]) + times.late_scatter[stage]
                stream_s = self._together(
                    stage, "grads-reduce-scatter", start_s, times.scatter[stage, chunk], chunk
                )
            ready_s = np.maximum(ready_s, stream_s)
        return ready_s

    def _reduced(self, stage: int, ready_s: Floats) -> Floats:
        times = self.times
        if self.layout.is_overlapped:
            return self._together(stage, "separate-grads-all-reduce", ready_s, times.separate[stage])
        ready_s = ready_s + times.late_scatter[stage]
        for chunk in range(self.layout.vpp):
            ready_s = self._together(
                stage, "grads-reduce-scatter", ready_s, times.scatter[stage, chunk], chunk
            )
        return ready_s
