"""Make the ops of torch.distributed.pipelining, which annotates each action as `PP:<stage><ACTION><mb>`."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from jobs.landing.formats import kineto_ops as ops
from jobs.landing.formats.foreign import count
from jobs.landing.formats.kineto_ops import BACKWARD, FORWARD, Ops
from jobs.landing.formats.kineto_place import Place, refusal
from jobs.landing.formats.kineto_trace import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, Annotation, Kernels
from jobs.landing.formats.rows import Flags, Floats, Ints
from schemas.vocabulary import OP_CODES

_ACTION: Final = re.compile(r"PP:(\d+)(F|B|I|W|SEND_F|RECV_F|SEND_B|RECV_B|UNSHARD|RESHARD|REDUCE_GRAD)(\d*)")
_TRANSFERS: Final = {
    "SEND_F": OP_CODES["forward-send"],
    "RECV_F": OP_CODES["forward-recv"],
    "SEND_B": OP_CODES["backward-send"],
    "RECV_B": OP_CODES["backward-recv"],
}
_OPS: Final = {"F": FORWARD, "B": BACKWARD, **_TRANSFERS}
_NO_OP: Final = -1
_INSTEAD: Final = "Record a job with Schedule1F1B's or ScheduleInterleaved1F1B's order"


class Actions(NamedTuple):
    """Actions of a rank's pipeline schedule in order of start; arrays of shape (action,).

    op : op code of each action; -1 for an action that only moves parameters or gradients
    """

    start_us: Floats
    end_us: Floats
    op: Ints
    microbatch: Ints
    chunk: Ints

    def of(self, kernels: Kernels) -> Ints:
        """Return the index of the action in which each kernel was launched; -1 outside of actions."""
        place = np.searchsorted(self.start_us, kernels.launch_us, side="right") - 1
        return np.where(kernels.launch_us < self.end_us[place], place, -1)


def actions_of(annotations: Sequence[Annotation], place: Place) -> Actions:
    """Parse a rank's schedule. Raises RefusalError for schedules that the model cannot represent."""
    pp_size, pp_rank = place.sizes["pp"], place.coordinates["pp"]
    rows = []
    for each in annotations:
        found = _ACTION.fullmatch(each.name)
        if found is None:
            raise refusal(f"{each.name}: an action of a schedule that overlaps passes", _INSTEAD)
        stage, action, microbatch = int(found[1]), found[2], int(found[3] or ops.NO_MICROBATCH)
        if action in ("I", "W"):
            raise refusal(f"{each.name}: a zero-bubble schedule, which splits the backward pass", _INSTEAD)
        if stage % pp_size != pp_rank:
            reason = f"{each.name} ran on pp_rank {pp_rank} of {pp_size}: stages lie in a V"
            raise refusal(reason, _INSTEAD)
        op = _OPS.get(action, _NO_OP)
        rows.append((each.start_us, each.end_us, op, microbatch, stage // pp_size))
    start_us, end_us, *labels = np.array(rows, np.float64).reshape(-1, 5).T
    return Actions(start_us, end_us, *(each.astype(np.int64) for each in labels))


def pp_ops(
    step: ops.Step, place: Place, actions: Actions, vpp_size: int, left_out: Counter[str]
) -> ops.StepOps | None:
    """Return the ops of one rank in one pipeline step; None if the step has no backward pass.

    left_out : receives counts of kernels and collectives that become no op
    Raises RefusalError for hybrid sharding.
    """
    computes, wires = step.computes, step.communications
    doer = actions.of(computes)
    op = np.where(doer >= 0, actions.op[doer], _NO_OP)
    is_compute = (op == FORWARD) | (op == BACKWARD)
    if not (op == BACKWARD).any():
        return None
    pieces, (ran,) = ops.spans(computes.where(is_compute), doer[is_compute])
    moved = actions.of(wires)
    moves = np.where(moved >= 0, actions.op[moved], _NO_OP)
    is_transfer = np.isin(moves, list(_TRANSFERS.values()))
    transfers, (sent,) = ops.spans(wires.where(is_transfer), moved[is_transfer])
    is_gather, is_gradient = _roles(step, place, actions, moved, ran)
    is_tail = computes.launch_us > actions.end_us[ran[-1]]
    last_us = max([computes.launch_us[is_compute][-1], *wires.launch_us[is_gradient][-1:]])
    behind, is_clip = ops.tail(step, is_tail & (doer < 0), last_us, left_out)
    passes = _labelled(pieces, actions, ran)
    parts = [
        passes,
        *_in_order(passes, _labelled(transfers, actions, sent), place, vpp_size, left_out),
        Ops.of(ops.ALL_GATHERED, wires.where(is_gather), chunk=actions.chunk[moved[is_gather]]),
        ops.gradients(wires.where(is_gradient), actions.chunk[moved[is_gradient]]),
        *behind,
    ]
    count(left_out, "kernels outside of actions", int((~is_compute & ~is_tail).sum()))
    return ops.whole_step(step, parts, vpp_size, is_gather | is_gradient, is_transfer | is_clip, left_out)


def _labelled(kernels: Kernels, actions: Actions, doer: Ints) -> Ops:
    return Ops.of(actions.op[doer], kernels, actions.microbatch[doer], actions.chunk[doer])


def _roles(step: ops.Step, place: Place, actions: Actions, moved: Ints, ran: Ints) -> tuple[Flags, Flags]:
    """Return the masks of collectives that gather a chunk's parameters, and that reduce its gradients."""
    is_shared = ops.of_all_dp_ranks(step, place) & (moved >= 0) & (place.sizes["dp"] * place.sizes["cp"] > 1)
    first_us, last_us = np.full(len(moved), -np.inf), np.full(len(moved), np.inf)
    for chunk in np.unique(actions.chunk[ran]):
        own = ran[actions.chunk[ran] == chunk]
        forwards, backwards = own[actions.op[own] == FORWARD], own[actions.op[own] == BACKWARD]
        is_own = actions.chunk[moved] == chunk
        first_us[is_own] = actions.start_us[forwards[0]] if len(forwards) else -np.inf
        last_us[is_own] = actions.start_us[backwards[-1]] if len(backwards) else np.inf
    launch_us = step.communications.launch_us
    is_gather = is_shared & step.are(ALL_GATHER) & (launch_us < first_us)
    return is_gather, is_shared & step.are(REDUCE_SCATTER, ALL_REDUCE) & (launch_us > last_us)


def _in_order(passes: Ops, transfers: Ops, place: Place, vpp_size: int, left_out: Counter[str]) -> list[Ops]:
    """Return the transfers of each kind, in the order of the computes to which the transfers belong.

    The simulation pairs the k-th transfer of a type with the k-th compute, both in order of start. If a
    schedule posts recvs in another order, a recv that is posted after the next compute's recv gets the start
    of that recv; its end stays. In a virtual pipeline every compute needs transfers, so that transfers of
    length zero are added at the ends of the model.
    """
    parts = []
    for name, op in _TRANSFERS.items():
        is_forward, is_send = name.endswith("F"), name.startswith("SEND")
        own = _chosen(transfers, transfers.op == op)
        computes = _chosen(passes, passes.op == (FORWARD if is_forward else BACKWARD))
        is_last = is_forward == is_send
        if vpp_size > 1 and place.coordinates["pp"] == (place.sizes["pp"] - 1 if is_last else 0):
            ends = _chosen(computes, computes.model_chunk == (vpp_size - 1 if is_last else 0))
            start_us = ends.start_us + (ends.duration_us if is_send else 0.0)
            no_us = np.zeros_like(start_us)
            added = ends._replace(op=np.full_like(ends.op, op), start_us=start_us, duration_us=no_us)
            own = Ops.joined([own, added])
        if not len(own.op):
            continue
        ordinal = {label: number for number, label in enumerate(_labels(computes))}
        number = np.array([ordinal.get(label, len(ordinal)) for label in _labels(own)])
        own = _chosen(own, np.argsort(number, kind="stable"))
        is_added = own.duration_us == 0.0
        start_us = np.where(is_added, np.maximum.accumulate(own.start_us), own.start_us)
        end_us = start_us + own.duration_us
        moved_us = np.minimum.accumulate(start_us[::-1])[::-1]
        count(left_out, f"{name} posted out of order", int((moved_us < start_us)[~is_added].sum()))
        parts.append(own._replace(start_us=moved_us, duration_us=end_us - moved_us))
    return parts


def _chosen(ops: Ops, chosen: Flags | Ints) -> Ops:
    return Ops._make(values[chosen] for values in ops)


def _labels(ops: Ops) -> list[tuple[int, int]]:
    return list(zip(ops.microbatch.tolist(), ops.model_chunk.tolist(), strict=True))
