"""Steps without a pipeline (DDP, FSDP), cut into pieces at their collectives.

Order is that of launches. A forward compute reaches from one all-gather to the next (DDP has none), a
backward compute from one collective of gradients to the next. Either is cut, too, where another collective is
launched, such as an all-to-all: what waits for that is not a compute. Each piece is a model chunk.
"""

from collections import Counter

import numpy as np

from jobs.landing.formats import kineto_ops as ops
from jobs.landing.formats.kineto_place import Place
from jobs.landing.formats.kineto_trace import (
    ALL_GATHER,
    ALL_REDUCE,
    REDUCE_SCATTER,
    Flags,
    Floats,
    Ints,
    Kernels,
)


def dp_ops(step: ops.Step, place: Place, left_out: Counter[str]) -> ops.StepOps | None:
    """Ops of one rank in one step without a pipeline; None if it holds no complete pass.

    left_out : counts what the model of a step has no place for
    Raises RefusalError for hybrid sharding.
    """
    computes, wires = step.computes, step.communications
    if not computes.is_backward.any() or computes.is_backward[0]:
        return None
    turns_us = computes.launch_us[np.diff(computes.is_backward.astype(np.int8), prepend=0) == 1]
    is_gather, is_gradient, cuts_us = _roles(step, ops.of_all_dp_ranks(step, place), turns_us)
    gathers, reduces = wires.where(is_gather), wires.where(is_gradient)
    # What is launched behind the last gradients waits for them, such as DDP's copies out of its buckets.
    last_us = (reduces if is_gradient.any() else computes.where(computes.is_backward)).launch_us[-1]
    is_tail = computes.launch_us > last_us
    pieces, microbatch, ordinal = _pieces(computes.where(~is_tail), cuts_us)
    chunks = int(ordinal.max()) + 1
    chunk = np.where(pieces.is_backward, chunks - 1 - ordinal, ordinal)
    forwards = np.flatnonzero(~pieces.is_backward & (microbatch == 0))
    backwards = np.flatnonzero(pieces.is_backward & (microbatch == microbatch[-1]))
    served = np.searchsorted(pieces.launch_us[forwards], gathers.launch_us)
    waited = np.searchsorted(pieces.launch_us[backwards], reduces.launch_us) - 1
    behind, is_clip = ops.tail(step, is_tail, last_us, left_out)
    parts = [
        ops.Ops.of(ops.ALL_GATHERED, gathers, chunk=chunk[forwards[served.clip(max=len(forwards) - 1)]]),
        ops.Ops.of(np.where(pieces.is_backward, ops.BACKWARD, ops.FORWARD), pieces, microbatch, chunk),
        *ops.gradients(reduces, chunk[backwards[waited.clip(0)]]),
        *behind,
    ]
    return ops.whole_step(step, parts, chunks, is_gather | is_gradient, is_clip, left_out)


def _roles(step: ops.Step, is_shared: Flags, turns_us: Floats) -> tuple[Flags, Flags, Floats]:
    """Masks of collectives that gather parameters and that reduce gradients, and where computes are cut.

    is_shared : collectives of all dp ranks
    turns_us : launches of computes that begin a backward pass
    Gathering again for the backward pass or for further microbatches, and reducing after each microbatch,
    have no place in the model of a step.
    """
    launch_us, is_backward = step.communications.launch_us, step.communications.is_backward
    is_gather = is_shared & step.are(ALL_GATHER) & ~is_backward & (launch_us < turns_us[0])
    is_reduce = step.are(REDUCE_SCATTER) | (step.are(ALL_REDUCE) & is_backward)
    is_gradient = is_shared & is_reduce & (launch_us > turns_us[-1])
    is_cut = is_gather | is_gradient | (is_shared & ~step.are(ALL_GATHER, REDUCE_SCATTER))
    return is_gather, is_gradient, launch_us[is_cut]


def _pieces(computes: Kernels, cuts_us: Floats) -> tuple[Kernels, Ints, Ints]:
    """Merge computes between two cuts; also returns each piece's microbatch and position in its pass."""
    is_backward = computes.is_backward.astype(np.int64)
    turns = np.diff(is_backward, prepend=0)
    pass_number = np.cumsum(turns != 0)
    pieces, (pass_number, microbatch, _) = ops.spans(
        computes, pass_number, np.cumsum(turns == -1), np.searchsorted(cuts_us, computes.launch_us)
    )
    first = np.searchsorted(pass_number, pass_number)
    return pieces, microbatch, np.arange(len(first)) - first
