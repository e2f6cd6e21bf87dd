"""Export timelines in the Trace Event Format, which Perfetto and chrome://tracing read.

All threads are in one process, because Perfetto sorts threads by id, but processes by their slices. The first
threads hold the critical paths. Each shown worker has a thread for each stream as recorded, followed by one
as ideal. Slices of a thread must nest, so that ops that overlap get a further thread. An op that waits for
others is a slice from its call to its end, with an inner slice that begins when all its partners have been
called. Arrows go from sends to recvs. Times are first rounded to nanoseconds, so that adjacent slices never
overlap.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

from schemas.vocabulary import OP_TYPES
from udfs.kernel import op_type as ot
from udfs.kernel.replay.timeline import Place
from udfs.timeline.timelines import (
    FACTS,
    IDEAL,
    KINDS,
    RECORDED,
    REPLAYED,
    UNKNOWN,
    StepTimelines,
    Worker,
    host_of,
)

Event: TypeAlias = dict[str, Any]

TITLES: Final = {RECORDED: "recorded", REPLAYED: "replayed (T)", IDEAL: "ideal (T_ideal)"}
CRITICAL: Final = "critical"
"""Category of ops on the critical path, beside their own."""
LAUNCH_DELAY: Final = "launch delay"
"""Gap between two ops of a recorded critical path, in which the host was late."""
ALL_THERE: Final = "all there"
"""Name of the part of an op in which it no longer waits for other ops of its rendezvous."""

_COLOUR: Final = "terrible"
"""chrome://tracing's name for red; Perfetto chooses its colours, by name."""
SHOWN: Final = (RECORDED, IDEAL)
"""Timelines shown per worker; the replay is left out, as it differs from the recording by launch delays
only."""
PROCESS: Final = 1
_PATHS: Final = len(KINDS)
"""The first threads, which hold the critical paths; those of workers follow."""
_MILLION: Final = 1_000_000
"""Arrows of each timeline are numbered from a multiple of this number on."""
_COMPUTE, _COLLECTIVE, _TRANSFER, _LOAD = "compute", "collective", "transfer", "data"
_STREAMS: Final = (_COMPUTE, _TRANSFER, _COLLECTIVE, _LOAD)


class Thread(NamedTuple):
    """Thread of a worker's stream in one timeline; `further` counts threads added for overlapping ops."""

    stream: int
    kind: int
    further: int

    @property
    def name(self) -> str:
        """Label of the thread in the trace viewer."""
        again = f" ({self.further + 1})" if self.further else ""
        return f"{_STREAMS[self.stream]}, {KINDS[self.kind]}{again}"


class Span(NamedTuple):
    """Times of one op: when it was called, when all its partners had been called, and when it ended. [ns]"""

    start: int
    met: int
    end: int


def trace_events(step: StepTimelines, workers: Sequence[Worker]) -> Iterator[Event]:
    """Yield the trace events of these workers: names, slices, then arrows."""
    yield from _named(PROCESS, "process", f"step {step.step}")
    drawings = {kind: _Drawing(step, kind, workers) for kind in KINDS}
    for tid, drawing in enumerate(drawings.values(), start=1):
        yield from drawing.path(tid)
    tid = _PATHS
    for worker in workers:
        host = host_of(step, worker) or "host not stated"
        short = f"{host} {worker[0]},{worker[1]}"  # Perfetto cuts long names in their middle
        for thread in sorted({thread for kind in SHOWN for thread in drawings[kind].threads[worker]}):
            tid += 1
            drawing = drawings[KINDS[thread.kind]]
            drawing.tracks[worker, thread] = tid
            yield from _named(tid, "thread", f"{short} {thread.name}")
            yield from drawing.slices(worker, thread)
    for kind in SHOWN:
        yield from drawings[kind].arrow_events()


def lanes(step: StepTimelines, workers: Sequence[Worker]) -> int:
    """Return the number of threads that trace_events draws for the given workers."""
    drawings = [_Drawing(step, kind, workers) for kind in SHOWN]
    return sum(len(threads) for drawing in drawings for threads in drawing.threads.values())


def arrows_left_out(step: StepTimelines, workers: Sequence[Worker]) -> int:
    """Count pairs of a send and a recv that get no arrow, because one op had ended before the other began."""
    drawings = [_Drawing(step, kind, workers) for kind in SHOWN]
    return sum(len(drawing.pairs) - len(drawing.arrows) for drawing in drawings)


@dataclass
class _Drawing:
    """One timeline of a step as it is drawn, for some workers."""

    step: StepTimelines
    kind: str
    workers: Sequence[Worker]
    tracks: dict[tuple[Worker, Thread], int] = field(default_factory=dict)

    @cached_property
    def spans(self) -> dict[Place, Span]:
        """Times of all ops by start; of ops with equal starts, the longest comes first. [ns]

        If a transfer ends before it starts, by clock noise, its end becomes the start.
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
    def of_op(self) -> dict[Place, tuple[Worker, Thread]]:
        """Worker and thread of each op that is shown; the thread is the first free one of the op's stream."""
        busy_until_ns: dict[tuple[Worker, int], list[int]] = defaultdict(list)
        shown, found = set(self.workers), {}
        for place, span in self.spans.items():
            worker = self._worker(place)
            if worker not in shown:
                continue
            stream = _STREAMS.index(_stream(self._type(place)))
            ends = busy_until_ns[worker, stream]
            free = next((number for number, end in enumerate(ends) if end <= span.start), len(ends))
            ends[free : free + 1] = [span.end]
            found[place] = worker, Thread(stream, KINDS.index(self.kind), free)
        return found

    @cached_property
    def threads(self) -> dict[Worker, dict[Thread, list[Place]]]:
        """Ops of each thread of each worker."""
        found: dict[Worker, dict[Thread, list[Place]]] = {
            worker: defaultdict(list) for worker in self.workers
        }
        for place, (worker, thread) in self.of_op.items():
            found[worker][thread].append(place)
        return found

    @cached_property
    def on_path(self) -> set[Place]:
        return {each.place for each in self.step.critical[self.kind]}

    @cached_property
    def pairs(self) -> list[tuple[Place, Place]]:
        """Pairs of a send and its recv that are both shown."""
        return [pair for pair in self.step.peers if all(place in self.of_op for place in pair)]

    @cached_property
    def arrows(self) -> list[tuple[Place, Place]]:
        spans = self.spans
        return [
            (send, recv)
            for send, recv in self.pairs
            if max(spans[send].start, spans[recv].start) <= min(spans[send].end, spans[recv].end)
        ]

    def path(self, tid: int) -> Iterator[Event]:
        """Yield the critical path as a separate thread, with a slice for each op and each gap."""
        yield from _named(
            tid, "thread", f"critical path, {TITLES[self.kind]}: {self.step.step_s(self.kind):.5g} s"
        )
        at_ns = 0
        for each in self.step.critical[self.kind]:
            from_ns, end_ns = round(each.from_s * 1e9), self.spans[each.place].end
            if from_ns > at_ns:
                yield self._slice(LAUNCH_DELAY, CRITICAL, tid, (at_ns, from_ns), {})
                at_ns = from_ns
            if end_ns >= at_ns:
                dp_rank, pp_rank = self._worker(each.place)
                name = f"{self._name(each.place)} dp {dp_rank} pp {pp_rank}"
                yield self._slice(name, CRITICAL, tid, (at_ns, end_ns), self._arguments(each.place))
                at_ns = end_ns

    def slices(self, worker: Worker, thread: Thread) -> Iterator[Event]:
        """Yield a slice for each op of a thread, with an inner slice from when all partners were called."""
        tid = self.tracks[worker, thread]
        for place in self.threads[worker][thread]:
            span, kind = self.spans[place], _STREAMS[thread.stream]
            marked = {}
            if place in self.on_path:
                kind, marked = f"{kind},{CRITICAL}", {"cname": _COLOUR}
            times = span.start, span.end
            yield self._slice(self._name(place), kind, tid, times, self._arguments(place)) | marked
            if span.start < span.met < span.end:
                yield self._slice(ALL_THERE, kind, tid, (span.met, span.end), {}) | marked

    def arrow_events(self) -> Iterator[Event]:
        """Yield an arrow from each send to its recv, at the time when both have been called."""
        for number, (send, recv) in enumerate(self.arrows, KINDS.index(self.kind) * _MILLION):
            met_ns = max(self.spans[send].start, self.spans[recv].start)
            for phase, place in (("s", send), ("f", recv)):
                tid = self.tracks[self.of_op[place]]
                event = {"ph": phase, "id": number, "name": _TRANSFER, "cat": _TRANSFER}
                event |= {"pid": PROCESS, "tid": tid, "ts": met_ns / 1000}
                yield event | ({"bp": "e"} if phase == "f" else {})

    def _type(self, place: Place) -> int:
        return int(self.step.op_type[place[0]])

    def _worker(self, place: Place) -> Worker:
        return int(self.step.facts["dp_rank"][place]), int(self.step.facts["pp_rank"][place])

    def _name(self, place: Place) -> str:
        """Return the label of an op: op type, microbatch, and model chunk if a stage has several."""
        name = OP_TYPES[self._type(place)]
        microbatch, chunk = (int(self.step.facts[each][place]) for each in ("microbatch", "model_chunk"))
        if microbatch != UNKNOWN:
            name += f" {microbatch}"
        if chunk != UNKNOWN and self.step.layout.vpp_size > 1:
            name += f" chunk {chunk}"
        return name

    def _arguments(self, place: Place) -> Event:
        """Return the values that are shown when an op is clicked; values that the log lacks are left out."""
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
        return {"ph": "X", "name": name, "cat": kind, "pid": PROCESS, "tid": tid, **times, "args": args}


def _named(tid: int, what: str, name: str) -> Iterator[Event]:
    """Yield events that name a process or thread and set its sort position."""
    about = {"ph": "M", "pid": PROCESS, "tid": tid}
    yield about | {"name": f"{what}_name", "args": {"name": name}}
    yield about | {"name": f"{what}_sort_index", "args": {"sort_index": tid}}


def _stream(op_type: int) -> str:
    if op_type in ot.TRANSFERS:
        return _TRANSFER
    if op_type == ot.DATA_LOAD:
        return _LOAD
    return _COMPUTE if op_type in ot.AVERAGED else _COLLECTIVE
