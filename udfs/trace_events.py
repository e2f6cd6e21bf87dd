"""Timelines as events of the Trace Event Format, which Perfetto and chrome://tracing open.

One process per timeline, one thread per worker and stream. Both viewers want the slices of a thread to nest,
so ops that overlap, as on clocks that differ, get a further thread. An op that waits for others is a slice
from its call on, and within it another one from when all are there; arrows go from that of a send to that of
its recv. Times are whole nanoseconds before they are written: slices that touch never overlap by rounding.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

from schemas.vocabulary import OP_TYPES
from udfs.kernel.timeline import Place
from udfs.op_facts import UNKNOWN
from udfs.timelines import IDEAL, KINDS, RECORDED, REPLAYED, StepTimelines
from udfs.trace_threads import TRANSFER, Span, Threads, category

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
        for place, span in self.threads.spans.items():
            yield from self._slices(place, span)
        for number, (send, recv) in enumerate(self.arrows):
            yield from self._arrow(number, send, recv)

    @property
    def pid(self) -> int:
        return _PIDS[self.kind]

    @cached_property
    def threads(self) -> Threads:
        return Threads(self.step.timelines[self.kind], self.step.facts)

    @cached_property
    def on_path(self) -> set[Place]:
        return {each.place for each in self.step.critical[self.kind]}

    @cached_property
    def arrows(self) -> list[tuple[Place, Place]]:
        spans = self.threads.spans
        return [
            (send, recv)
            for send, recv in self.step.peers
            if max(spans[send].start, spans[recv].start) <= min(spans[send].end, spans[recv].end)
        ]

    def _tid(self, number: int) -> int:
        return self.pid * _MILLION + number

    def _names(self) -> Iterator[Event]:
        pid = self.pid
        yield _meta(
            pid, pid, "process_name", name=f"{TITLES[self.kind]}: {self.step.step_s(self.kind):.5g} s"
        )
        yield _meta(pid, pid, "process_sort_index", sort_index=pid)
        yield _meta(pid, pid, "thread_name", name=CRITICAL_PATH)
        yield _meta(pid, pid, "thread_sort_index", sort_index=0)
        for thread, number in self.threads.numbers.items():
            yield _meta(pid, self._tid(number), "thread_name", name=thread.name)
            yield _meta(pid, self._tid(number), "thread_sort_index", sort_index=number)

    def _path(self) -> Iterator[Event]:
        """The critical path in a thread of its own, one op behind the other, with the gaps between them."""
        at_ns = 0
        for each in self.step.critical[self.kind]:
            from_ns, end_ns = round(each.from_s * 1e9), self.threads.spans[each.place].end
            if from_ns > at_ns:
                yield self._slice(LAUNCH_DELAY, CRITICAL, self.pid, (at_ns, from_ns), {})
                at_ns = from_ns
            if end_ns >= at_ns:
                worker = self.threads.of_op[each.place]
                name = f"{self._name(each.place)} dp {worker.dp_rank} pp {worker.pp_rank}"
                yield self._slice(name, CRITICAL, self.pid, (at_ns, end_ns), self._arguments(each.place))
                at_ns = end_ns

    def _slices(self, place: Place, span: Span) -> Iterator[Event]:
        """An op, and within it the part in which all are there, where it had to wait for them."""
        tid = self._tid(self.threads.numbers[self.threads.of_op[place]])
        kind = category(self.step.facts.op_type[place[0]])
        marked = {}
        if place in self.on_path:
            kind, marked = f"{kind},{CRITICAL}", {"cname": _COLOUR}
        times = span.start, span.end
        yield self._slice(self._name(place), kind, tid, times, self._arguments(place)) | marked
        if span.start < span.met < span.end:
            yield self._slice(ALL_THERE, kind, tid, (span.met, span.end), {}) | marked

    def _name(self, place: Place) -> str:
        """Op type and microbatch, and the model chunk where a stage has several."""
        facts = self.step.facts
        name = OP_TYPES[facts.op_type[place[0]]]
        microbatch, chunk = int(facts.microbatch[place]), int(facts.model_chunk[place])
        if microbatch != UNKNOWN:
            name += f" {microbatch}"
        if chunk != UNKNOWN and self.step.layout.vpp_size > 1:
            name += f" chunk {chunk}"
        return name

    def _arguments(self, place: Place) -> Event:
        """What a click on the op tells; what the log does not say is left out."""
        facts, host = self.step.facts, int(self.step.facts.host[place])
        named = {
            "rank": facts.rank,
            "dp_rank": facts.dp_rank,
            "pp_rank": facts.pp_rank,
            "microbatch": facts.microbatch,
            "model_chunk": facts.model_chunk,
        }
        return {
            "op_type": OP_TYPES[facts.op_type[place[0]]],
            **({"host": facts.hosts[host]} if host != UNKNOWN else {}),
            **{name: int(values[place]) for name, values in named.items() if values[place] != UNKNOWN},
            **{f"{kind}_us": round(float(self.step.duration_s[kind][place]) * 1e6, 3) for kind in KINDS},
            "is_critical": place in self.on_path,
        }

    def _slice(self, name: str, kind: str, tid: int, times_ns: tuple[int, int], args: Event) -> Event:
        start_ns, end_ns = times_ns
        times = {"ts": start_ns / 1000, "dur": (end_ns - start_ns) / 1000}
        return {"ph": "X", "name": name, "cat": kind, "pid": self.pid, "tid": tid, **times, "args": args}

    def _arrow(self, number: int, send: Place, recv: Place) -> Iterator[Event]:
        """From within the send to within the recv, from when both are there."""
        met_ns = max(self.threads.spans[send].start, self.threads.spans[recv].start)
        for phase, place in (("s", send), ("f", recv)):
            tid = self._tid(self.threads.numbers[self.threads.of_op[place]])
            event = {"ph": phase, "id": self.pid * _MILLION + number, "name": TRANSFER, "cat": TRANSFER}
            event |= {"pid": self.pid, "tid": tid, "ts": met_ns / 1000}
            yield event | ({"bp": "e"} if phase == "f" else {})


def _meta(pid: int, tid: int, what: str, **args: object) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}
