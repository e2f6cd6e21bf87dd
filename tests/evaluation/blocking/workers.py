"""Simulate workers that issue calls one after the other, where the caller chooses which op types block.

The simulation shares no code with the kernel. Arrays have shape (step, dp_rank), and all times are in
seconds.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
FORWARD, BACKWARD = 0, 1
NAMES: Final = ("forward", "backward")
NOTHING_S: Final = 20e-6
"""Duration of a call whose data have already arrived."""


class Message(NamedTuple):
    """Key of the data of one microbatch that are sent to a neighbouring stage."""

    direction: int
    microbatch: int
    sender: int


class Transfer(NamedTuple):
    """One end of a message: its send or its recv."""

    message: Message
    is_send: bool

    @property
    def op(self) -> str:
        return f"{NAMES[self.message.direction]}-{'send' if self.is_send else 'recv'}"


class Compute(NamedTuple):
    """One forward or backward compute of a worker."""

    direction: int
    microbatch: int


Call = tuple[Transfer, ...]


class Job(NamedTuple):
    """Settings of a simulated job with or without blocking transfers.

    blocking  : op types whose end a worker awaits before its next action.
    is_eager  : a send ends when its data are copied, even if its recv is not posted yet.
    is_fused  : a send and a recv that Megatron fuses are one call.
    is_gpipe  : a worker runs all forwards before its first backward; else 1F1B.
    """

    pp: int
    dp: int
    microbatches: int
    steps: int
    blocking: frozenset[str]
    is_eager: bool
    is_fused: bool
    is_gpipe: bool


class Times(NamedTuple):
    """Durations of the ops of a job, each as float64 of shape (step, dp_rank).

    compute  : [direction, stage, microbatch].
    transfer : [direction, sending stage, microbatch]; until a message's data have arrived.
    copy     : same index; until an eager send has copied its data.
    reduce, update : [stage].
    launch_s : between the moment an op could start and its start.
    late     : [stage], host time before the first op.
    is_measured : a transfer begins when both of its ends are posted, as in logs; else an eager send's data
               may move before its recv is posted.
    """

    compute: Floats
    transfer: Floats
    copy: Floats
    reduce: Floats
    update: Floats
    late: Floats
    launch_s: float
    is_measured: bool = False


class Op(NamedTuple):
    """One executed op, with start and end of shape (step, dp_rank)."""

    op: str
    microbatch: int
    start_s: Floats
    end_s: Floats
    message: Message | None = None


@dataclass
class _Worker:
    """State of one stage in all replicas during the simulation."""

    program: list[Call | Compute]
    free_s: Floats
    ops: list[Op] = field(default_factory=list)
    at: int = 0
    posted: Floats | None = None
    issued: dict[str, list[Transfer]] = field(default_factory=dict)
    ready_s: dict[Transfer, Floats] = field(default_factory=dict)
    computed_s: dict[tuple[int, int], Floats] = field(default_factory=dict)


def program(job: Job, stage: int) -> list[Call | Compute]:
    """Return the actions of a stage's workers in order, which is the same whether or not transfers block."""
    warm = job.microbatches if job.is_gpipe else min(job.pp - stage - 1, job.microbatches)
    left = job.microbatches - warm
    found: list[Call | Compute] = []

    def end(direction: int, microbatch: int, *, is_send: bool) -> list[Transfer]:
        step = 1 if direction == FORWARD else -1
        sender = stage if is_send else stage - step
        has_peer = 0 <= sender < job.pp and 0 <= sender + step < job.pp
        return [Transfer(Message(direction, microbatch, sender), is_send)] if has_peer else []

    def call(first: list[Transfer], then: list[Transfer]) -> None:
        if job.is_fused:
            found.append((*first, *then))
        else:
            found.extend([tuple(first), tuple(then)])

    for i in range(warm):
        found.append(tuple(end(FORWARD, i, is_send=False)))
        found.append(Compute(FORWARD, i))
        found.append(tuple(end(FORWARD, i, is_send=True)))
    if left:
        found.append(tuple(end(FORWARD, warm, is_send=False)))
    for i in range(left):
        found.append(Compute(FORWARD, warm + i))
        send, recv = end(FORWARD, warm + i, is_send=True), end(BACKWARD, i, is_send=False)
        # With blocking rendezvous transfers, two neighbours that both send first would wait for each other
        # forever.
        call(*((send, recv) if job.is_eager else (recv, send)))
        found.append(Compute(BACKWARD, i))
        call(
            end(BACKWARD, i, is_send=True), end(FORWARD, warm + i + 1, is_send=False) if i < left - 1 else []
        )
    for i in range(left, job.microbatches):
        found.append(tuple(end(BACKWARD, i, is_send=False)))
        found.append(Compute(BACKWARD, i))
        found.append(tuple(end(BACKWARD, i, is_send=True)))
    return [each for each in found if each]


class Pipeline:
    """Simulate all steps of one job at once."""

    def __init__(self, job: Job, times: Times) -> None:
        self.job, self.times = job, times
        self.workers = [_Worker(program(job, stage), times.late[stage]) for stage in range(job.pp)]
        self.posts: dict[Transfer, Floats] = {}

    def run(self) -> list[list[Op]]:
        """Return the executed ops of each stage."""
        while any(worker.at < len(worker.program) for worker in self.workers):
            if not sum(self._advance(stage) for stage in range(self.job.pp)):
                raise ValueError("workers wait for each other in a circle")
        self._finish()
        return [worker.ops for worker in self.workers]

    def _advance(self, stage: int) -> int:
        """Run all actions of a stage that are possible now, and return how many ran."""
        worker, before = self.workers[stage], len(self.posts)
        first = worker.at
        self._post_streams(worker)
        while worker.at < len(worker.program) and self._next(worker, stage):
            worker.at += 1
        return worker.at - first + len(self.posts) - before

    def _next(self, worker: _Worker, stage: int) -> bool:
        each = worker.program[worker.at]
        ran = self._compute(worker, stage, *each) if isinstance(each, Compute) else self._call(worker, each)
        self._post_streams(worker)
        return ran

    def _compute(self, worker: _Worker, stage: int, direction: int, microbatch: int) -> bool:
        start_s = worker.free_s
        recv = Transfer(Message(direction, microbatch, stage + (1 if direction else -1)), is_send=False)
        if recv.op not in self.job.blocking and 0 <= recv.message.sender < self.job.pp:
            arrived_s = self.end_s(recv)
            if arrived_s is None:
                return False
            start_s = np.maximum(start_s, arrived_s)
        start_s = start_s + self.times.launch_s
        end_s = start_s + self.times.compute[direction, stage, microbatch]
        worker.ops.append(Op(f"{NAMES[direction]}-compute", microbatch, start_s, end_s))
        worker.free_s = worker.computed_s[direction, microbatch] = end_s
        return True

    def _call(self, worker: _Worker, call: Call) -> bool:
        waited = [each for each in call if each.op in self.job.blocking]
        if worker.posted is None:
            worker.posted = worker.free_s + self.times.launch_s
            self.posts |= dict.fromkeys(waited, worker.posted)
            for each in call:
                if each not in waited:
                    self._issue(worker, each)
        ends = [self.end_s(each) for each in waited]
        known = [end_s for end_s in ends if end_s is not None]
        if len(known) < len(ends):
            return False
        if waited:
            worker.free_s = np.max(np.array(known), axis=0)
            worker.ops += [Op(each.op, -1, worker.posted, worker.free_s, each.message) for each in waited]
        worker.posted = None
        return True

    def _issue(self, worker: _Worker, transfer: Transfer) -> None:
        """Add a non-blocking transfer to the queue of its stream."""
        direction, microbatch, _ = transfer.message
        before = direction, microbatch if transfer.is_send else microbatch - 1
        worker.ready_s[transfer] = worker.computed_s.get(before, worker.free_s)
        worker.issued.setdefault(transfer.op, []).append(transfer)

    def _post_streams(self, worker: _Worker) -> None:
        """Post the first transfer in each stream's queue, if the stream's previous transfer has ended."""
        for transfers in worker.issued.values():
            done_s = np.array(0.0)
            for transfer in transfers:
                if transfer not in self.posts:
                    ready_s = np.maximum(worker.ready_s[transfer], done_s)
                    self.posts[transfer] = ready_s + self.times.launch_s
                end_s = self.end_s(transfer)
                if end_s is None:
                    break
                done_s = end_s

    def end_s(self, transfer: Transfer) -> Floats | None:
        """Return when a transfer ends, or None as long as the other end of its message is not posted. [s]"""
        message = transfer.message
        both = [self.posts.get(Transfer(message, is_send)) for is_send in (True, False)]
        sent_s, posted_s = both
        place = message.direction, message.sender, message.microbatch
        length_s: Floats = self.times.transfer[place]
        if transfer.is_send and self.job.is_eager and sent_s is not None:
            copied_s: Floats = sent_s + self.times.copy[place]
            return copied_s
        if sent_s is None or posted_s is None:
            return None
        moves_early = self.job.is_eager and not self.times.is_measured
        arrived_s: Floats = (
            np.maximum(sent_s + length_s, posted_s + NOTHING_S)
            if moves_early
            else np.maximum(sent_s, posted_s) + length_s
        )
        return arrived_s

    def _finish(self) -> None:
        """Record the remaining transfers, then the gradient reduction and the optimizer."""
        for worker in self.workers:
            self._post_streams(worker)
        starts = []
        for stage, worker in enumerate(self.workers):
            for transfer in (each for issued in worker.issued.values() for each in issued):
                end_s = self.end_s(transfer)
                if end_s is None:
                    raise ValueError(f"{transfer} has no peer")
                worker.ops.append(Op(transfer.op, -1, self.posts[transfer], end_s, transfer.message))
            start_s = worker.free_s + self.times.launch_s
            if self.job.dp > 1:
                met_s = np.broadcast_to(start_s.max(axis=1, keepdims=True), start_s.shape)
                end_s = met_s + self.times.reduce[stage]
                worker.ops.append(Op("grads-reduce-scatter", -1, start_s, end_s))
                start_s = end_s + self.times.launch_s
            starts.append(start_s)
        for worker, start_s, update_s in zip(self.workers, starts, self.times.update, strict=True):
            worker.ops.append(Op("optimizer", -1, start_s, start_s + update_s))
