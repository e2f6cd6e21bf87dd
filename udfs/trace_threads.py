"""Which thread of a trace each op is drawn on, and between which whole nanoseconds."""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from schemas.vocabulary import OP_TYPES
from udfs.kernel import op_type as ot
from udfs.kernel.timeline import Place, Timeline
from udfs.op_facts import OpFacts

COMPUTE: Final = "compute"
COLLECTIVE: Final = "collective"
TRANSFER: Final = "transfer"
_STREAMS: Final = (COMPUTE, *(OP_TYPES[each] for each in ot.TRANSFERS), COLLECTIVE)


class Thread(NamedTuple):
    """The ops of one worker and stream; further ones of the same, from 1 on, take what overlaps."""

    dp_rank: int
    pp_rank: int
    stream: int
    further: int

    @property
    def name(self) -> str:
        """What a person reads beside it."""
        again = f" ({self.further + 1})" if self.further else ""
        return f"dp {self.dp_rank} pp {self.pp_rank} {_STREAMS[self.stream]}{again}"


class Span(NamedTuple):
    """When an op is called, from when on nobody misses in its rendezvous, and when it ends. [ns]"""

    start: int
    met: int
    end: int


@dataclass
class _Lanes:
    """Threads of one worker and stream: the end of the last slice of each."""

    ends_ns: list[int] = field(default_factory=list)

    def place(self, span: Span) -> int:
        """Take the first thread that is free."""
        for number, busy_until_ns in enumerate(self.ends_ns):
            if busy_until_ns <= span.start:
                self.ends_ns[number] = span.end
                return number
        self.ends_ns.append(span.end)
        return len(self.ends_ns) - 1


@dataclass
class Threads:
    """The threads of one timeline."""

    timeline: Timeline
    facts: OpFacts

    @cached_property
    def spans(self) -> dict[Place, Span]:
        """Times of all ops, by start; of those that start together the longer first.

        An end before the start, the clock noise of a transfer, becomes the start.
        """
        starts, mets, ends = ((times_s * 1e9).round().astype(int) for times_s in self.timeline)
        ends = ends.clip(min=starts)
        mets = mets.clip(min=starts, max=ends)
        found = {
            (op, lane): Span(*each)
            for op, rows in enumerate(zip(starts.tolist(), mets.tolist(), ends.tolist(), strict=True))
            for lane, each in enumerate(zip(*rows, strict=True))
        }
        order = sorted(found.items(), key=lambda item: (item[1].start, -item[1].end, item[0]))
        return dict(order)

    @cached_property
    def of_op(self) -> dict[Place, Thread]:
        """The thread of each op."""
        lanes: dict[tuple[int, int, int], _Lanes] = defaultdict(_Lanes)
        found = {}
        for place, span in self.spans.items():
            worker = int(self.facts.dp_rank[place]), int(self.facts.pp_rank[place])
            key = (*worker, _STREAMS.index(_stream(self.facts.op_type[place[0]])))
            found[place] = Thread(*key, lanes[key].place(span))
        return found

    @cached_property
    def numbers(self) -> dict[Thread, int]:
        """Threads as they are to stand under one another, numbered from 1 on."""
        return {thread: number for number, thread in enumerate(sorted(set(self.of_op.values())), start=1)}


def category(op_type: int) -> str:
    """Kind of an op: compute, transfer or collective."""
    return TRANSFER if op_type in ot.TRANSFERS else _stream(op_type)


def _stream(op_type: int) -> str:
    if op_type in ot.TRANSFERS:
        return OP_TYPES[op_type]
    return COMPUTE if op_type in ot.AVERAGED else COLLECTIVE
