"""Programs: the ops of every stage in one step, in order of issue, with the ops that each op waits for."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from jobs.synthetic.shape import JobShape

DP_COLLECTIVES = ("params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce")


@dataclass(frozen=True)
class Compute:
    """Forward or backward pass of one microbatch through one chunk of a stage."""

    direction: str
    microbatch: int
    chunk: int


def compute_order(shape: JobShape, pp_rank: int) -> list[Compute]:
    """List a stage's computes in scheduled order: warm-up, alternating forwards and backwards, cool-down.

    Source: Narayanan et al., SC '21 (arXiv 2104.04473), section 2.2.
    """
    forwards = [Compute("forward", mb, chunk) for mb, chunk in _passes(shape)]
    backwards = [Compute("backward", mb, shape.vpp_size - 1 - chunk) for mb, chunk in _passes(shape)]
    behind = shape.pp_size - 1 - pp_rank
    if shape.vpp_size > 1:
        behind = 2 * behind + (shape.vpp_size - 1) * shape.pp_size
    warm_up = min(behind, len(forwards))
    order = forwards[:warm_up]
    for forward, backward in zip(forwards[warm_up:], backwards, strict=False):
        order += [forward, backward]
    return order + backwards[len(forwards) - warm_up :]


def _passes(shape: JobShape) -> list[tuple[int, int]]:
    """List (microbatch, chunk) of the forwards; a virtual pipeline takes pp_size microbatches per chunk."""
    group = shape.pp_size if shape.vpp_size > 1 else 1
    return [
        (first + place, chunk)
        for first in range(0, shape.microbatches, group)
        for chunk in range(shape.vpp_size)
        for place in range(group)
    ]


@dataclass(eq=False)
class ProgramOp:
    """An op of the program; every dp replica runs it in every step.

    waits   : numbers of the ops that must have ended before this op starts
    meeting : ops with the same meeting start moving data at the same time; None for a local op
    call    : ops with the same call are issued and return together; None for an op issued alone
    chunk_in_model : chunk, counted over the model, of computes and transfers that move data, else -1
    moves_data : whether a transfer has a peer; a no-op transfer has none
    """

    number: int
    pp_rank: int
    op_type: str
    microbatch: int = -1
    model_chunk: int = -1
    chunk_in_model: int = -1
    waits: list[int] = field(default_factory=list)
    meeting: Hashable = None
    call: Hashable = None
    moves_data: bool = True

    @property
    def meets_replicas(self) -> bool:
        """Return whether the op waits for the same op of all other dp ranks."""
        return self.op_type in DP_COLLECTIVES or self.op_type == "optimizer-clip-main-grad"


def build_program(shape: JobShape) -> list[ProgramOp]:
    """List the ops of one step of one dp replica, stage after stage."""
    ops: list[ProgramOp] = []
    for pp_rank in range(shape.pp_size):
        _Stage(shape, pp_rank, ops).issue()
    return ops


def meetings(ops: Sequence[ProgramOp]) -> dict[Hashable, list[int]]:
    """Return the numbers of the ops of each meeting: ops that start moving data at the same time."""
    found: dict[Hashable, list[int]] = defaultdict(list)
    for op in ops:
        if op.meeting is not None:
            found[op.meeting].append(op.number)
    return found


class _Stage:
    """Appends the ops of one stage to a program; an op waits for the previous op of its stream."""

    def __init__(self, shape: JobShape, pp_rank: int, ops: list[ProgramOp]) -> None:
        self.shape = shape
        self.pp_rank = pp_rank
        self.ops = ops
        self.end_of_stream: dict[str, int] = {}
        self.order = compute_order(shape, pp_rank)
        self.has_data_parallelism = shape.dp_size * shape.cp_size > 1
        self.gather_of_chunk: dict[int, int] = {}
        self.compute_ops: list[int] = []

    def _add(self, op_type: str, waits: Sequence[int] = (), stream: str = "", chunk: int = -1) -> ProgramOp:
        op = ProgramOp(len(self.ops), self.pp_rank, op_type, model_chunk=chunk, waits=list(waits))
        if stream in self.end_of_stream:
            op.waits.append(self.end_of_stream[stream])
        if stream:
            self.end_of_stream[stream] = op.number
        self.ops.append(op)
        return op

    def _add_collective(self, op_type: str, number: int, chunk: int, waits: Sequence[int] = ()) -> ProgramOp:
        stream = "dp" if op_type != "separate-grads-all-reduce" else ""
        op = self._add(op_type, waits, stream, chunk)
        op.meeting = (op_type, self.pp_rank, chunk, number)
        return op

    def issue(self) -> None:
        if self.has_data_parallelism:
            for chunk in range(self.shape.vpp_size):
                for bucket in range(self.shape.buckets):
                    op = self._add_collective("params-all-gather", bucket, chunk)
                    self.gather_of_chunk[chunk] = op.number
        done: dict[str, list[int]] = {"forward": [], "backward": []}
        habit = self.shape.noop_transfers if self.shape.pp_size > 1 else "none"
        for place, compute in enumerate(self.order):
            if habit == "all" and compute.direction == "backward" and not done["backward"]:
                self._add_noop("backward-send", max(place - 2, 0))  # before the first gradient exists
            self._compute(place, compute, done[compute.direction])
            if habit != "none" and len(done[compute.direction]) == len(self.order) // 2:
                self._add_noop(f"{compute.direction}-recv", -1)  # after the last compute that needs a recv
        self._tail()

    def _chunk_in_model(self, compute: Compute) -> int:
        return compute.chunk * self.shape.pp_size + self.pp_rank

    def _compute(self, place: int, compute: Compute, done: list[int]) -> None:
        """Issue one compute between its recv and send.

        place : of the compute in the stage's order
        done : numbers of the earlier computes of the same direction; this compute is appended
        """
        in_model, last = self._chunk_in_model(compute), self.shape.last_chunk
        forward = compute.direction == "forward"
        waits = self._recv(place, compute, done)
        if forward and compute.chunk in self.gather_of_chunk:
            waits.append(self.gather_of_chunk.pop(compute.chunk))
        if self.shape.loads_data and forward and compute.chunk == 0:
            in_turn = self.shape.loads_in_turn
            load = self._add("data-load", waits if in_turn else (), "compute" if in_turn else "load")
            load.microbatch = compute.microbatch
            waits.append(load.number)
        op = self._add(f"{compute.direction}-compute", waits, "compute", compute.chunk)
        op.microbatch, op.chunk_in_model = compute.microbatch, in_model
        done.append(op.number)
        self.compute_ops.append(op.number)
        has_receiver = in_model != (last if forward else 0)
        if self.shape.pp_size > 1 and (has_receiver or self.shape.noop_transfers != "none"):
            send = self._add(f"{compute.direction}-send", [op.number], f"{compute.direction}-send")
            send.moves_data = has_receiver
            if (
                self.shape.batched
            ):  # with the next recv: of the same direction in a virtual pipeline, else of the other
                key = (compute.direction, len(done)) if self.shape.vpp_size > 1 else (place + 1,)
                send.call = (self.pp_rank, *key)
            if has_receiver:
                send.meeting = (compute.direction, compute.microbatch, in_model)
                send.chunk_in_model = in_model

    def _recv(self, place: int, compute: Compute, done: list[int]) -> list[int]:
        """Issue the recv before a compute; return its number in a list, empty if nothing is recorded."""
        in_model, forward = self._chunk_in_model(compute), compute.direction == "forward"
        has_sender = in_model != (0 if forward else self.shape.last_chunk)
        habit = self.shape.noop_transfers
        is_noop_recorded = habit == "all" or (habit == "first_missing" and len(done) > 0)
        if self.shape.pp_size == 1 or not (has_sender or is_noop_recorded):
            return []
        waits = done[-1:]
        if not forward and not done and place >= 2:
            waits = [self.compute_ops[place - 2]]
        recv = self._add(f"{compute.direction}-recv", waits, f"{compute.direction}-recv")
        recv.moves_data = has_sender
        if self.shape.batched and self.shape.vpp_size > 1:
            recv.call = (self.pp_rank, compute.direction, len(done))
        elif self.shape.batched and place > 0 and self.order[place - 1].direction != compute.direction:
            recv.call = (self.pp_rank, place)
        if has_sender:
            sender = in_model - 1 if forward else in_model + 1
            recv.meeting, recv.chunk_in_model = (compute.direction, compute.microbatch, sender), in_model
        return [recv.number]

    def _add_noop(self, op_type: str, after: int) -> None:
        """Issue a transfer that moves no data and delays no compute; `after` : index in compute_ops."""
        self._add(op_type, [self.compute_ops[after]], op_type).moves_data = False

    def _tail(self) -> None:
        """Issue the ops after the last compute: gradient reductions, clipping, the optimizer."""
        edge = self.pp_rank in (0, self.shape.pp_size - 1)
        scatters: list[int] = []
        if self.has_data_parallelism and self.shape.overlapped:
            scatters = self._scatters(after_backward=True)
        now = self._add("gc", self.compute_ops[-1:]).number
        now = self._add("layernorm-grads-all-reduce", [now, *scatters[-1:]]).number
        if edge:
            embedding = self._add("embedding-grads-all-reduce", [now])
            embedding.meeting = ("embedding",)
            now = embedding.number
        if self.has_data_parallelism and self.shape.overlapped:
            now = self._add_collective("separate-grads-all-reduce", 0, -1, [now]).number
        elif self.has_data_parallelism:
            now = self._scatters(after_backward=False, first_waits=[now])[-1]
        clip = self._add("optimizer-clip-main-grad", [now])
        clip.meeting = ("clip",)
        self._add("optimizer", [clip.number])

    def _scatters(self, *, after_backward: bool, first_waits: Sequence[int] = ()) -> list[int]:
        """Issue the reduce-scatters, last chunks first; return their numbers.

        after_backward : each waits for the last backward of its chunk; otherwise all wait for first_waits
        """
        found: list[int] = []
        for chunk in reversed(range(self.shape.vpp_size)):
            of_chunk = [n for n in self.compute_ops if self.ops[n].model_chunk == chunk]
            for bucket in range(self.shape.buckets):
                waits = of_chunk[-1:] if after_backward else first_waits
                found.append(self._add_collective("grads-reduce-scatter", bucket, chunk, waits).number)
        return found
