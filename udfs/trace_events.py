"""Timelines as events of the Trace Event Format, which Perfetto and chrome://tracing open.

One process per timeline, one thread per worker and stream. Both viewers want the slices of a thread to nest,
so ops that overlap, as on clocks that differ, get a further thread. An op that waits for others is a slice
from its call on, and within it another one from when all are there; arrows go from that of a send to that of
its recv. Times are whole nanoseconds before they are written: slices that touch never overlap by rounding.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

from schemas.vocabulary import OP_TYPES
from udfs.kernel import op_type as ot
from udfs.kernel.timeline import Place
from udfs.timelines import FACTS, IDEAL, KINDS, RECORDED, REPLAYED, UNKNOWN, StepTimelines

Event: TypeAlias = dict[str, Any]

TITLES: Final = {RECORDED: "recorded", REPLAYED: "replayed (T)", IDEAL: "ideal (T_ideal)"}
CRITICAL: Final = "critical"
"""Category of ops on the critical path, beside their own."""
CRITICAL_PATH: Final = "critical path"
LAUNCH_DELAY: Final = "launch delay"
"""What lies between two ops of a recorded critical path: the host came late."""
ALL_THERE: Final = "all there"
"""The part of an op in which it no longer waits for the others of its rendezvous."""

_COLOUR: Final = "terrible"
"""chrome://tracing's name for red; Perfetto chooses its own colours, by name."""
_PIDS: Final = {kind: number for number, kind in enumerate(KINDS, start=1)}
_MILLION: Final = 1_000_000
"""Threads of the first process are numbered from it on: some readers keep one list of threads for all."""


_COMPUTE, _COLLECTIVE, _TRANSFER = "compute", "collective", "transfer"
_STREAMS: Final = (_COMPUTE, *(OP_TYPES[each] for each in ot.TRANSFERS), _COLLECTIVE)


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


def trace_events(step: StepTimelines) -> Iterator[Event]:
    """All events of a step: names, slices, and behind them the arrows from sends to recvs."""
    for kind in KINDS:
        yield from _Drawing(step, kind).events()


def arrows_left_out(step: StepTimelines) -> int:
    """Count pairs without an arrow: by the hosts' clocks one had ended before the other began."""
    return sum(len(step.peers) - len(_Drawing(step, kind).arrows) for kind in KINDS)


@dataclass
class _Drawing:
    """One of the timelines of a step."""

    step: StepTimelines
    kind: str

    def events(self) -> Iterator[Event]:
        yield from self._names()
        yield from self._path()
        for place, span in self.spans.items():
            yield from self._slices(place, span)
        for number, (send, recv) in enumerate(self.arrows):
            yield from self._arrow(number, send, recv)

    @property
    def pid(self) -> int:
        return _PIDS[self.kind]

    @cached_property
    def spans(self) -> dict[Place, Span]:
        """Times of all ops, by start; of those that start together the longer first.

        An end before the start, the clock noise of a transfer, becomes the start.
        """
        starts, mets, ends = (
            (times_s * 1e9).round().astype(int) for times_s in self.step.timelines[self.kind]
        )
        ends = ends.clip(min=starts)
        mets = mets.clip(min=starts, max=ends)
        found = {
            (op, lane): Span(*each)
            for op, rows in enumerate(zip(starts.tolist(), mets.tolist(), ends.tolist(), strict=True))
            for lane, each in enumerate(zip(*rows, strict=True))
        }
        return dict(sorted(found.items(), key=lambda item: (item[1].start, -item[1].end, item[0])))

    @cached_property
    def of_op(self) -> dict[Place, Thread]:
        """The thread of each op: the first of its worker and stream that is free."""
        busy_until_ns: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        found = {}
        dp_rank, pp_rank = (self.step.facts[name] for name in ("dp_rank", "pp_rank"))
        for place, span in self.spans.items():
            key = int(dp_rank[place]), int(pp_rank[place]), _STREAMS.index(_stream(self._type(place)))
            ends = busy_until_ns[key]
            free = next((number for number, end in enumerate(ends) if end <= span.start), len(ends))
            ends[free : free + 1] = [span.end]
            found[place] = Thread(*key, free)
        return found

    @cached_property
    def threads(self) -> dict[Thread, int]:
        """Threads as they are to stand under one another, with their ids."""
        first = self.pid * _MILLION + 1
        return {thread: number for number, thread in enumerate(sorted(set(self.of_op.values())), first)}

    @cached_property
    def on_path(self) -> set[Place]:
        return {each.place for each in self.step.critical[self.kind]}

    @cached_property
    def arrows(self) -> list[tuple[Place, Place]]:
        spans = self.spans
        return [
            (send, recv)
            for send, recv in self.step.peers
            if max(spans[send].start, spans[recv].start) <= min(spans[send].end, spans[recv].end)
        ]

    def _type(self, place: Place) -> int:
        return int(self.step.op_type[place[0]])

    def _names(self) -> Iterator[Event]:
        pid = self.pid
        yield _meta(
            pid, pid, "process_name", name=f"{TITLES[self.kind]}: {self.step.step_s(self.kind):.5g} s"
        )
        yield _meta(pid, pid, "process_sort_index", sort_index=pid)
        yield _meta(pid, pid, "thread_name", name=CRITICAL_PATH)
        yield _meta(pid, pid, "thread_sort_index", sort_index=0)
        for number, (thread, tid) in enumerate(self.threads.items(), start=1):
            yield _meta(pid, tid, "thread_name", name=thread.name)
            yield _meta(pid, tid, "thread_sort_index", sort_index=number)

    def _path(self) -> Iterator[Event]:
        """The critical path in a thread of its own, one op behind the other, with the gaps between them."""
        at_ns = 0
        for each in self.step.critical[self.kind]:
            from_ns, end_ns = round(each.from_s * 1e9), self.spans[each.place].end
            if from_ns > at_ns:
                yield self._slice(LAUNCH_DELAY, CRITICAL, self.pid, (at_ns, from_ns), {})
                at_ns = from_ns
            if end_ns >= at_ns:
                worker = self.of_op[each.place]
                name = f"{self._name(each.place)} dp {worker.dp_rank} pp {worker.pp_rank}"
                yield self._slice(name, CRITICAL, self.pid, (at_ns, end_ns), self._arguments(each.place))
                at_ns = end_ns

    def _slices(self, place: Place, span: Span) -> Iterator[Event]:
        """An op, and within it the part in which all are there, where it had to wait for them."""
        tid = self.threads[self.of_op[place]]
        kind = _TRANSFER if self._type(place) in ot.TRANSFERS else _stream(self._type(place))
        marked = {}
        if place in self.on_path:
            kind, marked = f"{kind},{CRITICAL}", {"cname": _COLOUR}
        times = span.start, span.end
        yield self._slice(self._name(place), kind, tid, times, self._arguments(place)) | marked
        if span.start < span.met < span.end:
            yield self._slice(ALL_THERE, kind, tid, (span.met, span.end), {}) | marked

    def _name(self, place: Place) -> str:
        """Op type and microbatch, and the model chunk where a stage has several."""
        name = OP_TYPES[self._type(place)]
        microbatch, chunk = (int(self.step.facts[each][place]) for each in ("microbatch", "model_chunk"))
        if microbatch != UNKNOWN:
            name += f" {microbatch}"
        if chunk != UNKNOWN and self.step.layout.vpp_size > 1:
            name += f" chunk {chunk}"
        return name

    def _arguments(self, place: Place) -> Event:
        """What a click on the op tells; what the log does not say is left out."""
        known = {name: int(self.step.facts[name][place]) for name in FACTS}
        known = {name: value for name, value in known.items() if value != UNKNOWN}
        return {
            "op_type": OP_TYPES[self._type(place)],
            **({"host": self.step.hosts[known.pop("host")]} if "host" in known else {}),
            **known,
            **{f"{kind}_us": round(float(self.step.duration_s[kind][place]) * 1e6, 3) for kind in KINDS},
            "is_critical": place in self.on_path,
        }

    def _slice(self, name: str, kind: str, tid: int, times_ns: tuple[int, int], args: Event) -> Event:
        start_ns, end_ns = times_ns
        times = {"ts": start_ns / 1000, "dur": (end_ns - start_ns) / 1000}
        return {"ph": "X", "name": name, "cat": kind, "pid": self.pid, "tid": tid, **times, "args": args}

    def _arrow(self, number: int, send: Place, recv: Place) -> Iterator[Event]:
        """From within the send to within the recv, from when both are there."""
        met_ns = max(self.spans[send].start, self.spans[recv].start)
        for phase, place in (("s", send), ("f", recv)):
            tid = self.threads[self.of_op[place]]
            event = {"ph": phase, "id": self.pid * _MILLION + number, "name": _TRANSFER, "cat": _TRANSFER}
            event |= {"pid": self.pid, "tid": tid, "ts": met_ns / 1000}
            yield event | ({"bp": "e"} if phase == "f" else {})


def _meta(pid: int, tid: int, what: str, **args: object) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


def _stream(op_type: int) -> str:
    if op_type in ot.TRANSFERS:
        return OP_TYPES[op_type]
    return _COMPUTE if op_type in ot.AVERAGED else _COLLECTIVE
