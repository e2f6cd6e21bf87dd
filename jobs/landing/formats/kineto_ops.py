"""Make the ops of one rank in one step from its kernels, for steps without a pipeline: those of DDP and FSDP.

Kernels are taken in order of launch and cut into computes. Forward computes are cut at all-gathers (DDP has
none), backward computes at reductions of gradients. Both are also cut at other collectives, such as an
all-to-all, so that no compute includes a wait for one. Each compute is a model chunk. kineto_pp shares parts.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from jobs.landing.formats.foreign import count
from jobs.landing.formats.kineto_place import Place
from jobs.landing.formats.kineto_trace import (
    ALL_GATHER,
    ALL_REDUCE,
    REDUCE_SCATTER,
    SEND_RECV,
    Collective,
    Kernels,
    RankTrace,
)
from jobs.landing.formats.rows import Flags, Floats, Ints
from schemas.vocabulary import OP_CODES

FORWARD: Final = OP_CODES["forward-compute"]
BACKWARD: Final = OP_CODES["backward-compute"]
ALL_GATHERED: Final = OP_CODES["params-all-gather"]
NO_MICROBATCH: Final = -1


class Ops(NamedTuple):
    """Columns of ops, shape (op,); times relative to the file's zero. [us]"""

    op: Ints
    start_us: Floats
    duration_us: Floats
    microbatch: Ints
    model_chunk: Ints

    @staticmethod
    def of(
        op: int | Ints, kernels: Kernels, microbatch: int | Ints = NO_MICROBATCH, chunk: int | Ints = 0
    ) -> "Ops":
        """Make one op per kernel."""
        alike = [np.broadcast_to(each, kernels.start_us.shape) for each in (op, microbatch, chunk)]
        return Ops(alike[0], kernels.start_us, kernels.duration_us, alike[1], alike[2])

    @staticmethod
    def joined(parts: Sequence["Ops"]) -> "Ops":
        """Concatenate ops, sorted by start; ops with equal starts keep the order of the parts."""
        columns = [np.concatenate(values) for values in zip(*parts, strict=True)]
        order = np.argsort(columns[1], kind="stable")
        return Ops(*(values[order] for values in columns))


class Step(NamedTuple):
    """Everything that one rank launched in one step, in order of launch."""

    computes: Kernels
    communications: Kernels
    collectives: Sequence[Collective]
    optimizer_us: float

    def are(self, *kinds: str) -> Flags:
        """Return a mask of collectives of these kinds."""
        return np.array([each.kind in kinds for each in self.collectives], bool)


class StepOps(NamedTuple):
    """Ops of a step, its number of chunks, and the keys of its collectives, () if any key is unknown."""

    ops: Ops
    chunks: int
    keys: tuple[object, ...]


def step_of(trace: RankTrace, position: int) -> Step:
    """Return everything launched in a step; `optimizer_us` is infinite if the trace names no optimizer."""
    is_here = trace.communications.step == position
    computes = trace.computes.where(trace.computes.step == position)
    first_us = computes.launch_us[0] if len(computes.launch_us) else np.inf
    last_us = computes.launch_us[-1] if len(computes.launch_us) else -np.inf
    named = [each.start_us for each in trace.optimizers if first_us <= each.start_us <= last_us]
    return Step(
        computes,
        trace.communications.where(is_here),
        [trace.collectives[place] for place in np.flatnonzero(is_here)],
        min(named, default=np.inf),
    )


def of_all_dp_ranks(step: Step, place: Place) -> Flags:
    """Return a mask of collectives over all dp ranks. Raises RefusalError for unnamed or hybrid groups.

    Batched sends and recvs name no group; in a job without a pipeline they are an all-to-all of all dp ranks.
    """
    return np.array(
        [
            (each.kind == SEND_RECV and each.group is None)
            or place.shares_gradients(each.group, each.group_size)
            for each in step.collectives
        ],
        bool,
    )


def spans(kernels: Kernels, *labels: Ints) -> tuple[Kernels, list[Ints]]:
    """Merge consecutive kernels with equal labels into one op, from the first start to the last end."""
    if not len(kernels.start_us):
        return kernels, [each[:0] for each in labels]
    is_first = np.ones(len(kernels.start_us), bool)
    is_first[1:] = np.any([np.diff(each) != 0 for each in labels], axis=0)
    first = np.flatnonzero(is_first)
    start_us = np.minimum.reduceat(kernels.start_us, first)
    end_us = np.maximum.reduceat(kernels.end_us, first)
    joined = kernels.where(first)._replace(start_us=start_us, duration_us=end_us - start_us)
    return joined, [each[first] for each in labels]


def gradients(kernels: Kernels, chunk: Ints) -> Ops:
    """Return the ops of the collectives that reduce gradients, in order of launch.

    The last reduction follows the last compute, and becomes `separate-grads-all-reduce`. This op tells the
    simulation that the other reductions overlap with computes.
    """
    op = np.full(len(chunk), OP_CODES["grads-reduce-scatter"])
    op[-1:] = OP_CODES["separate-grads-all-reduce"]
    return Ops.of(op, kernels, chunk=chunk)


def tail(step: Step, is_tail: Flags, from_us: float, left_out: Counter[str]) -> tuple[list[Ops], Flags]:
    """Return the ops of clipping and the optimizer: everything launched after the last gradients.

    is_tail : shape (compute,)
    from_us : launch of the last gradients, or of the last backward compute
    returns : the ops, and a mask of the collectives that clip, shape (collective,)
    """
    computes, launch_us = step.computes.where(is_tail), step.communications.launch_us
    last_us = computes.launch_us[-1] if len(computes.launch_us) else -np.inf
    is_clip = step.are(ALL_REDUCE) & ~step.communications.is_backward & (launch_us > from_us)
    is_clip &= launch_us < min(step.optimizer_us, last_us)
    clips = step.communications.where(is_clip)
    since_us = clips.launch_us[-1] if is_clip.any() else -np.inf
    updates = computes.where(computes.launch_us > since_us)
    count(left_out, "kernels between gradients and clipping", len(computes.step) - len(updates.step))
    optimizer, _ = spans(updates, np.zeros(len(updates.launch_us), np.int64))
    return [
        Ops.of(OP_CODES["optimizer-clip-main-grad"], clips),
        Ops.of(OP_CODES["optimizer"], optimizer),
    ], is_clip


def whole_step(
    step: Step, parts: Sequence[Ops], chunks: int, shared: Flags, others: Flags, left_out: Counter[str]
) -> StepOps:
    """Assemble the ops of a step, and count collectives that belong to no op.

    shared : mask of the collectives over all dp ranks that became ops, shape (collective,)
    others : mask of the other collectives that became ops; the remaining ones are counted by kind
    """
    left_out.update(
        f"{step.collectives[place].kind} without a place"
        for place in np.flatnonzero(~(shared | others)).tolist()
    )
    keys = tuple(step.collectives[place].key for place in np.flatnonzero(shared).tolist())
    return StepOps(Ops.joined(parts), chunks, () if None in keys else keys)


def dp_ops(step: Step, place: Place, left_out: Counter[str]) -> StepOps | None:
    """Return the ops of one rank in one step without a pipeline; None if the step has no complete pass.

    left_out : receives counts of kernels and collectives that become no op
    Raises RefusalError for hybrid sharding.
    """
    computes, wires = step.computes, step.communications
    if not computes.is_backward.any() or computes.is_backward[0]:
        return None
    turns_us = computes.launch_us[np.diff(computes.is_backward.astype(np.int8), prepend=0) == 1]
    # A gather for the backward pass or for a further microbatch, and a reduction after each microbatch but
    # the last, are in neither mask, because the model of a step has no place for them.
    is_shared = of_all_dp_ranks(step, place)
    is_gather = is_shared & step.are(ALL_GATHER) & ~wires.is_backward & (wires.launch_us < turns_us[0])
    is_reduce = step.are(REDUCE_SCATTER) | (step.are(ALL_REDUCE) & wires.is_backward)
    is_gradient = is_shared & is_reduce & (wires.launch_us > turns_us[-1])
    is_cut = is_gather | is_gradient | (is_shared & ~step.are(ALL_GATHER, REDUCE_SCATTER))
    gathers, reduces = wires.where(is_gather), wires.where(is_gradient)
    # Computes launched after the last reduction wait for it, such as DDP's copies out of its buckets.
    last_us = (reduces if is_gradient.any() else computes.where(computes.is_backward)).launch_us[-1]
    is_tail = computes.launch_us > last_us
    pieces, microbatch, ordinal = _pieces(computes.where(~is_tail), wires.launch_us[is_cut])
    chunks = int(ordinal.max()) + 1
    chunk = np.where(pieces.is_backward, chunks - 1 - ordinal, ordinal)
    forwards = np.flatnonzero(~pieces.is_backward & (microbatch == 0))
    backwards = np.flatnonzero(pieces.is_backward & (microbatch == microbatch[-1]))
    served = np.searchsorted(pieces.launch_us[forwards], gathers.launch_us)
    waited = np.searchsorted(pieces.launch_us[backwards], reduces.launch_us) - 1
    behind, is_clip = tail(step, is_tail, last_us, left_out)
    parts = [
        Ops.of(ALL_GATHERED, gathers, chunk=chunk[forwards[served.clip(max=len(forwards) - 1)]]),
        Ops.of(np.where(pieces.is_backward, BACKWARD, FORWARD), pieces, microbatch, chunk),
        gradients(reduces, chunk[backwards[waited.clip(0)]]),
        *behind,
    ]
    return whole_step(step, parts, chunks, is_gather | is_gradient, is_clip, left_out)


def _pieces(computes: Kernels, cuts_us: Floats) -> tuple[Kernels, Ints, Ints]:
    """Merge the computes between two cuts into one; return these, and each one's microbatch and position.

    The position is that in the forward or backward pass of the microbatch, from 0.
    """
    is_backward = computes.is_backward.astype(np.int64)
    turns = np.diff(is_backward, prepend=0)
    pass_number = np.cumsum(turns != 0)
    pieces, (pass_number, microbatch, _) = spans(
        computes, pass_number, np.cumsum(turns == -1), np.searchsorted(cuts_us, computes.launch_us)
    )
    first = np.searchsorted(pass_number, pass_number)
    return pieces, microbatch, np.arange(len(first)) - first
