"""Ops of one rank in one step: spans of kernels, gradients, and the tail."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from jobs.landing.formats.foreign import count
from jobs.landing.formats.kineto_place import Place
from jobs.landing.formats.kineto_trace import (
    ALL_REDUCE,
    SEND_RECV,
    Collective,
    Flags,
    Floats,
    Ints,
    Kernels,
    RankTrace,
)
from schemas.vocabulary import OP_CODES

FORWARD: Final = OP_CODES["forward-compute"]
BACKWARD: Final = OP_CODES["backward-compute"]
ALL_GATHERED: Final = OP_CODES["params-all-gather"]
REDUCED: Final = OP_CODES["grads-reduce-scatter"]
REDUCED_LAST: Final = OP_CODES["separate-grads-all-reduce"]
CLIPPED: Final = OP_CODES["optimizer-clip-main-grad"]
OPTIMIZED: Final = OP_CODES["optimizer"]

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
        """Concatenate ops, sorted by start; ties keep the order of the parts."""
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
        """Mask of collectives of these kinds."""
        return np.array([each.kind in kinds for each in self.collectives], bool)


class StepOps(NamedTuple):
    """Ops of a step, number of chunks, and keys of its shared collectives if all have one."""

    ops: Ops
    chunks: int
    keys: tuple[object, ...]


def step_of(trace: RankTrace, position: int) -> Step:
    """Everything launched in the step at this position; `optimizer_us` is infinite if none is named."""
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
    """Mask of collectives over all dp ranks. Raises RefusalError if that is unknown or impossible.

    Batched sends and recvs name no group; without a pipeline they are an exchange of all with all.
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
    """Merge consecutive kernels with equal labels into one from first start to last end."""
    if not len(kernels.start_us):
        return kernels, [each[:0] for each in labels]
    is_first = np.ones(len(kernels.start_us), bool)
    is_first[1:] = np.any([np.diff(each) != 0 for each in labels], axis=0)
    first = np.flatnonzero(is_first)
    start_us = np.minimum.reduceat(kernels.start_us, first)
    end_us = np.maximum.reduceat(kernels.end_us, first)
    joined = kernels.where(first)._replace(start_us=start_us, duration_us=end_us - start_us)
    return joined, [each[first] for each in labels]


def gradients(kernels: Kernels, chunk: Ints) -> list[Ops]:
    """Ops of the collectives that reduce gradients, in order of launch.

    The last one follows the last compute: it is the all-reduce that the model of a step has behind all
    others, and its presence says that the others overlap with computes.
    """
    before, last = kernels.where(slice(None, -1)), kernels.where(slice(-1, None))
    return [Ops.of(REDUCED, before, chunk=chunk[:-1]), Ops.of(REDUCED_LAST, last, chunk=chunk[-1:])]


def tail(step: Step, is_tail: Flags, from_us: float, left_out: Counter[str]) -> tuple[list[Ops], Flags]:
    """Ops of clipping and the optimizer: everything launched after the last gradients.

    is_tail : shape (compute,)
    from_us : launch of the last gradients, or of the last backward compute
    returns : also which collectives they are, shape (collective,)
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
    return [Ops.of(CLIPPED, clips), Ops.of(OPTIMIZED, optimizer)], is_clip


def whole_step(
    step: Step, parts: Sequence[Ops], chunks: int, shared: Flags, others: Flags, left_out: Counter[str]
) -> StepOps:
    """Assemble the ops of a step, and count collectives that fit nowhere.

    shared : collectives of all dp ranks that became ops, shape (collective,)
    others : collectives that became ops besides; those that are left are counted, by kind
    """
    left_out.update(
        f"{step.collectives[place].kind} without a place"
        for place in np.flatnonzero(~(shared | others)).tolist()
    )
    keys = tuple(step.collectives[place].key for place in np.flatnonzero(shared).tolist())
    return StepOps(Ops.joined(parts), chunks, () if None in keys else keys)
