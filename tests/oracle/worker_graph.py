"""Build the dependencies between ops of one worker in one step (model, section 2)."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from tests.oracle.records import Layout, Op

TRANSFERS = ("forward-send", "forward-recv", "backward-send", "backward-recv")
SAME_S = 1e-7
"""Ops of one call may start, or end, this far apart, because logs round times. [s]"""
NO_OP_TOLERANCE_S = 50e-6
"""An op may contradict the order of computes by this much before a transfer counts as having moved no data.
[s]"""


class WorkerGraph:
    """Dependencies between the ops of one worker in one step; an op is named by its index in the list.

    waits_for  : op -> the ops it waits for, for every op that is part of the graph
    in_order   : computes and blocking transfers, sorted by start; empty if no transfer blocks
    turns      : the ops of in_order in sets that run one after the other; ops of a set overlap
    calls      : sets of transfers that were issued in one call
    idle       : (op type, ordinal) of transfers that moved no data
    real_sends : direction -> sends that need a peer, in order; real_recvs likewise
    """

    def __init__(self, ops: Sequence[Op], mine: Sequence[int], layout: Layout) -> None:
        """Build the graph of one worker's ops in one step; `mine` are their indices in `ops`."""
        self.ops = ops
        self.layout = layout
        self.pp_rank = ops[mine[0]].pp_rank
        self.in_start_order = sorted(mine, key=lambda op: ops[op].start_s)
        self.waits_for: dict[int, list[int]] = defaultdict(list)
        self.real_sends: dict[str, list[int]] = {}
        self.real_recvs: dict[str, list[int]] = {}
        self.idle: set[tuple[str, int]] = set()
        self.computes = self._of("forward-compute", "backward-compute")
        self._chain(self.computes)
        for direction in ("forward", "backward"):
            self._match_sends(direction)
            self._match_recvs(direction)
        self._hold_first_backward_transfers()
        if layout.has_data_parallelism:
            self._chain(self._of("params-all-gather", "grads-reduce-scatter"))
            self._gather_before_forward()
        self.in_order = self._in_order() if layout.blocking else []
        self.calls = self._calls()
        self.turns = self._turns()
        for before, after in pairwise(self.turns):
            for op in after:
                self.waits_for[op] += before
        self._load_before_forward()
        self._add_tail()

    def _of(self, *op_types: str) -> list[int]:
        return [op for op in self.in_start_order if self.ops[op].op_type in op_types]

    def _edge(self, before: int, after: int) -> None:
        self.waits_for[after].append(before)

    def _chain(self, ops: Sequence[int]) -> None:
        for op in ops:
            self.waits_for[op]  # reading it adds the op to the graph, even if it never waits
        for before, after in pairwise(ops):
            self._edge(before, after)

    def _in_order(self) -> list[int]:
        """Return computes, and transfers that block or share a call with a blocking one, sorted by start.

        An op without duration comes before others with the same start.
        """
        chosen, ops = [*self.computes], self.ops
        for op_type, ordinal, op in self._transfers():
            if op_type in self.layout.blocking or (self.pp_rank, op_type, ordinal) in self.layout.held:
                chosen.append(op)
        return sorted(chosen, key=lambda op: (ops[op].start_s, ops[op].end_s, op))

    def _transfers(self) -> list[tuple[str, int, int]]:
        """Return op type, ordinal and op of all transfers that moved data."""
        return [
            (op_type, ordinal, op)
            for op_type in TRANSFERS
            for ordinal, op in enumerate(self._of(op_type))
            if (self.pp_rank, op_type, ordinal) not in self.layout.idle
        ]

    def held(self) -> set[tuple[str, int]]:
        """Return op type and ordinal of each transfer that is in one call with a blocking transfer."""
        transfers = self._transfers()
        blocking = [op for op_type, _, op in transfers if op_type in self.layout.blocking]
        return {
            (op_type, ordinal)
            for op_type, ordinal, op in transfers
            if any(self.is_one_call(other, op) for other in blocking)
        }

    def is_one_call(self, last: int, op: int) -> bool:
        """Return whether two transfers started together and ended together."""
        one, other = self.ops[last], self.ops[op]
        is_together = max(abs(one.start_s - other.start_s), abs(one.end_s - other.end_s)) <= SAME_S
        return is_together and not {last, op} & set(self.computes)

    def overlaps(self, last: int, op: int) -> bool:
        """Return whether the transfer `op` began before the transfer `last` ended."""
        is_early = self.ops[last].end_s - self.ops[op].start_s > NO_OP_TOLERANCE_S
        return is_early and not {last, op} & set(self.computes)

    def _calls(self) -> list[list[int]]:
        found = [[op] for op in self.in_order[:1]]
        for last, op in pairwise(self.in_order):
            if self.is_one_call(last, op):
                found[-1].append(op)
            else:
                found.append([op])
        return [call for call in found if len(call) > 1]

    def _turns(self) -> list[list[int]]:
        found = [[op] for op in self.in_order[:1]]
        for place, op in enumerate(self.in_order[1:], 1):
            is_beside = (self.pp_rank, place) in self.layout.beside
            if is_beside or self.is_one_call(self.in_order[place - 1], op):
                found[-1].append(op)
            else:
                found.append([op])
        return found

    def _chunk_in_model(self, compute: int | None) -> int | None:
        """Return a compute's chunk number over all stages; None if a transfer matches no compute."""
        return None if compute is None else self.ops[compute].model_chunk * self.layout.pp_size + self.pp_rank

    def _match_sends(self, direction: str) -> None:
        """Make the k-th send wait for the k-th compute; sends from the model's last chunk have no peer."""
        sends, computes = self._of(f"{direction}-send"), self._of(f"{direction}-compute")
        self._chain(sends)
        if computes:
            earliest_end_s = self.ops[computes[0]].end_s - NO_OP_TOLERANCE_S
            self.idle |= {
                (f"{direction}-send", ordinal)
                for ordinal, send in enumerate(sends)
                if self.ops[send].end_s < earliest_end_s
            }
            sends = [send for send in sends if self.ops[send].end_s >= earliest_end_s]
        last = self.layout.last_chunk if direction == "forward" else 0
        matched = dict(zip(sends, self._those_that_move(computes, last, len(sends)), strict=False))
        for send, compute in matched.items():
            self._edge(compute, send)
        self.real_sends[direction] = [s for s in sends if self._chunk_in_model(matched.get(s)) != last]

    def _match_recvs(self, direction: str) -> None:
        """Make the k-th compute wait for the k-th recv, and that recv for the previous compute."""
        recvs, computes = self._of(f"{direction}-recv"), self._of(f"{direction}-compute")
        self._chain(recvs)
        if computes:
            latest_start_s = self.ops[computes[-1]].start_s + NO_OP_TOLERANCE_S
            self.idle |= {
                (f"{direction}-recv", ordinal)
                for ordinal, recv in enumerate(recvs)
                if self.ops[recv].start_s > latest_start_s
            }
            recvs = [recv for recv in recvs if self.ops[recv].start_s <= latest_start_s]
        first_had_nothing_to_receive = len(recvs) == len(computes) - 1
        first = 0 if direction == "forward" else self.layout.last_chunk
        wanting = self._those_that_move(computes, first, len(recvs))
        matched = dict(zip(recvs, computes[1:] if first_had_nothing_to_receive else wanting, strict=False))
        before = dict(zip(computes[1:], computes, strict=False))
        for recv, compute in matched.items():
            self._edge(recv, compute)
            if compute in before:
                self._edge(before[compute], recv)
        self.real_recvs[direction] = [r for r in recvs if self._chunk_in_model(matched.get(r)) != first]

    def _those_that_move(self, computes: list[int], end: int, transfers: int) -> list[int]:
        """Drop the computes of the model's outermost chunk if the others are as many as the transfers."""
        inner = [compute for compute in computes if self._chunk_in_model(compute) != end]
        return inner if inner and len(inner) == transfers else computes

    def _hold_first_backward_transfers(self) -> None:
        """Make the first backward transfers wait for the compute two positions before the first backward."""
        backwards = self._of("backward-compute")
        place = self.computes.index(backwards[0]) - 2 if backwards else -1
        if place >= 0:
            for transfers in (self._of("backward-recv"), self._of("backward-send")):
                if transfers:
                    self._edge(self.computes[place], transfers[0])

    def _load_before_forward(self) -> None:
        """Chain loads, and make the first forward of a microbatch wait for its loads."""
        loads, forwards = self._of("data-load"), self._of("forward-compute")
        first_forward = {self.ops[forward].microbatch: forward for forward in reversed(forwards)}
        own_forward = {(self.ops[each].microbatch, self.ops[each].model_chunk): each for each in forwards}
        forward_of = [
            own_forward.get(
                (self.ops[load].microbatch, self.ops[load].model_chunk),
                first_forward.get(self.ops[load].microbatch),
            )
            for load in loads
        ]
        in_turn = [self._is_in_turn(place, loads, forward) for place, forward in enumerate(forward_of)]
        if len(loads) > 1 and forward_of[0] == self.computes[0]:
            in_turn[0] = in_turn[1]
        waited_for = {forward: list(self.waits_for[forward]) for forward in forwards}
        self._chain(loads)
        for load, forward, waits_too in zip(loads, forward_of, in_turn, strict=True):
            if forward is not None:
                for before in waited_for[forward] if waits_too else ():
                    self._edge(before, load)
                self._edge(load, forward)

    def _is_in_turn(self, place: int, loads: Sequence[int], forward: int | None) -> bool:
        """Return whether the load of a forward began only after the compute before this forward had ended."""
        if forward is None or forward == self.computes[0]:
            return False
        before_s = self.ops[self.computes[self.computes.index(forward) - 1]].end_s
        is_late = self.ops[loads[place]].start_s >= before_s - NO_OP_TOLERANCE_S
        return is_late and (place == 0 or self.ops[loads[place - 1]].end_s <= before_s)

    def _gather_before_forward(self) -> None:
        """Make the first forward of a chunk wait for the last all-gather of that chunk."""
        gathers, forwards = self._of("params-all-gather"), self._of("forward-compute")
        first_forward = {self.ops[forward].model_chunk: forward for forward in reversed(forwards)}
        last_gather = {self.ops[gather].model_chunk: gather for gather in gathers}
        for chunk, gather in last_gather.items():
            if chunk in first_forward:
                self._edge(gather, first_forward[chunk])

    def _add_tail(self) -> None:
        """Chain the ops after the last compute, in an order that depends on how gradients are reduced."""
        before_reduce = self._of("layernorm-grads-all-reduce")
        if self.pp_rank in (0, self.layout.pp_size - 1):
            before_reduce += self._of("embedding-grads-all-reduce")
        update = [*self._of("optimizer-clip-main-grad"), *self._of("optimizer")]
        until_gc = [*self.computes[-1:], *self._of("gc")]
        held = [op for op in self.turns[-1] if op != self.computes[-1]] if self.turns else []
        scatters, separate = self._of("grads-reduce-scatter"), self._of("separate-grads-all-reduce")
        if not self.layout.has_data_parallelism:
            self._chain([*until_gc, *before_reduce, *update])
        elif not separate:
            self._chain([*until_gc, *before_reduce, *scatters, *update])
        else:
            self._scatter_after_backward(scatters)
            after_scatters = [*before_reduce, *separate, *update]
            self._chain([*until_gc, *after_scatters])
            if scatters:
                self._edge(scatters[-1], after_scatters[0])
            scatters = []
        tail = [*until_gc[1:], *before_reduce, *scatters, *separate, *update]
        for op in held if tail else []:
            self._edge(op, tail[0])

    def _scatter_after_backward(self, scatters: Sequence[int]) -> None:
        """Make the first reduce-scatter of a chunk wait for the last backward of that chunk."""
        first_scatter = {self.ops[scatter].model_chunk: scatter for scatter in reversed(scatters)}
        last_backward = {self.ops[op].model_chunk: op for op in self._of("backward-compute")}
        for chunk, scatter in first_scatter.items():
            if chunk in last_backward:
                self._edge(last_backward[chunk], scatter)
