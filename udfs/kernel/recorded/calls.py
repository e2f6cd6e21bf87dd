"""Transfers that a worker waited for as one call: which of them were done earlier is not recorded."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Mask
from udfs.kernel.graph.graph import OpGraph
from udfs.kernel.recorded.worker_order import SAME_S
from udfs.kernel.selection import median_of_all


class CallTimes(NamedTuple):
    """Durations of a block, and what of them is not known.

    duration_s : float64, shape (op, step, dp), transfers in a rendezvous. [s]
    unknown    : op -> bool, shape (step, dp): where another member of its call was ready later, so that the
                 op's own transfer took no longer than `duration_s` says.
    """

    graph: OpGraph
    duration_s: Floats
    unknown: Mapping[int, Mask]


def unknown_transfers(graph: OpGraph, end_s: Floats, duration_s: Floats) -> dict[int, Mask]:
    """Members of calls that were ready before another member was, as in CallTimes.

    end_s, duration_s : float64, shape (op, step, dp); recorded, and transfers in a rendezvous. [s]
    """
    unknown: dict[int, Mask] = {}
    for cell, base in zip(graph.cells, graph.first_op, strict=False):
        for call in cell.program.calls:
            members = [base + op for op in call]
            ready_s = end_s[members] - duration_s[members]
            is_early = ready_s < ready_s.max(axis=0) - SAME_S
            unknown |= {op: early for op, early in zip(members, is_early, strict=True) if early.any()}
    return unknown


def put_usual(blocks: Sequence[CallTimes]) -> None:
    """Let transfers of unknown length take the median of their type's known ones, or less; in place."""
    if not any(block.unknown for block in blocks):
        return
    for op_type in ot.TRANSFERS:
        known = []
        for block in blocks:
            for op in _with_peer(block.graph, op_type):
                own_s = block.duration_s[op]
                known.append(own_s[~block.unknown[op]] if op in block.unknown else own_s.reshape(-1))
        values = np.concatenate(known) if known else np.empty(0)
        usual_s = median_of_all(values) if len(values) else 0.0
        for block in blocks:
            for op, is_unknown in block.unknown.items():
                if block.graph.op_types[op] == op_type:
                    own_s = block.duration_s[op]
                    own_s[is_unknown] = np.minimum(own_s[is_unknown], usual_s)


def _with_peer(graph: OpGraph, op_type: int) -> list[int]:
    return [
        op
        for members, _ in graph.meetings
        for ops in members
        if graph.op_types[ops[0]] == op_type
        for op in ops
    ]
