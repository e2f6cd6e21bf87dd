"""Time in which all workers of a stage wait in a reduce-scatter although none of them entered it late.

A replay explains the time of a worker by its own ops. A worker that is slow inside a reduce-scatter, in which
all other workers then wait, looks like a slow network, because a transfer counts from the last worker's
start. The time is therefore compared with the usual time of similar collectives of the same job.
"""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Mask, latest
from udfs.kernel.graph.edges import as_range
from udfs.kernel.graph.graph import Index, OpGraph, as_index, meeting_indices, once_per_graph
from udfs.kernel.selection import medians_along

LEAST_SHARE: Final = 0.05
"""A step is marked if a stage's time exceeds the normal limit by more than this share of T_actual."""

MOST_TIMES: Final = 4.0
"""Normal limit, as a multiple of the usual time: gradients may have four bytes where parameters have one."""

MOST_WAITING: Final = 0.4
"""Normal limit, as a share of T_actual, if the job has no collectives with which to compare."""


def waits(graph: OpGraph, start_s: Floats, end_s: Floats, stages: int) -> Floats:
    """Return how long each stage as a whole waits in reduce-scatters after its computes, and in all-gathers.

    start_s, end_s : float64, shape (op, step, dp_rank). [s]
    returns        : float64, shape (2, stage, step): scattering, gathering. [s]
    """
    found = np.zeros((2, stages, start_s.shape[1]))
    for stream in _streams(graph):
        from_s, to_s = (latest(times_s, stream.members).max(axis=2) for times_s in (start_s, end_s))
        if stream.computes is not None:
            from_s = np.maximum(from_s, end_s[stream.computes].max(axis=0).max(axis=-1))
        from_s[1:] = np.maximum(from_s[1:], np.maximum.accumulate(to_s, axis=0)[:-1])
        found[stream.row, stream.stage] += np.maximum(to_s - from_s, 0.0).sum(axis=0)
    return found


class _Stream(NamedTuple):
    """Data-parallel collectives of one stage, in their order.

    row      : 0 where gradients are scattered, 1 where parameters are gathered.
    members  : index of the ops of each member of a rendezvous.
    computes : the stage's computes, for which a scattering waits; None where parameters are gathered.
    """

    row: int
    stage: int
    members: list[Index]
    computes: Index | None


@once_per_graph
def _streams(graph: OpGraph) -> list[_Stream]:
    is_compute, stages = np.isin(graph.op_types, ot.COMPUTE), np.array(graph.stages)
    found = []
    # All members of a rendezvous of these types are of one stage.
    for (members, _), indices in zip(graph.meetings, meeting_indices(graph), strict=True):
        kind, stage = graph.op_types[members[0][0]], graph.stages[members[0][0]]
        if kind in ot.DP_STREAM:
            computes = np.flatnonzero(is_compute & (stages == stage)).tolist()
            is_held = kind == ot.GRADS_REDUCE_SCATTER and len(computes) > 0
            held_by = as_index(as_range(computes)) if is_held else None
            found.append(_Stream(int(kind == ot.PARAMS_ALL_GATHER), stage, indices, held_by))
    return found


def nobody_late(waits_s: Floats, actual_s: Floats) -> Mask:
    """Mark steps in which a stage as a whole scatters gradients for far longer than usual; bool, (step,).

    waits_s  : as `waits` returns them, of all steps. [s]
    actual_s : recorded step times, shape (step,). [s]
    """
    scattering_s = waits_s[0]
    usual_of = medians_along(waits_s, 2)
    usual_of[usual_of <= 0.0] = np.inf
    others_s = usual_of[0].min() if len(scattering_s) > 1 else np.inf
    usual_s = MOST_TIMES * np.minimum(usual_of[1], others_s)[:, None]
    usual_s = np.where(np.isfinite(usual_s), usual_s, MOST_WAITING * actual_s)
    late: Mask = ((scattering_s - usual_s) > LEAST_SHARE * actual_s).any(axis=0)
    return late
