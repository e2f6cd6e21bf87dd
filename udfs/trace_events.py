"""Timelines as events of the Trace Event Format, which Perfetto and chrome://tracing open.

One process per timeline, one thread per worker and stream. Both viewers want the slices of a thread to nest:
ops that overlap, as on clocks that differ, get a further thread of the same name. Times are whole nanoseconds
before they are written, so that slices that touch never overlap by rounding.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

from schemas.vocabulary import OP_TYPES
from udfs.kernel import op_type as ot
from udfs.kernel.timeline import CriticalOp, Place, Timeline
from udfs.timelines import KINDS, UNKNOWN, StepTimelines

Event: TypeAlias = dict[str, Any]
Worker: TypeAlias = tuple[int, int]
"""(dp_rank, pp_rank)."""

TITLES: Final = {
    "recorded": "1 as recorded",
    "replayed": "2 replayed, T",
    "ideal": "3 replayed with every duration ideal, T_ideal",
}
CRITICAL: Final = "critical"
"""Category of ops on the critical path, beside their own."""
LAUNCH_DELAY: Final = "launch delay"
"""What lies between two ops of a recorded critical path: the host came late."""

_COMPUTE, _COLLECTIVE, _TRANSFER = "compute", "collective", "transfer"
_TAIL: Final = (ot.OPTIMIZER, ot.GC)
_STREAMS: Final = (_COMPUTE, *(OP_TYPES[each] for each in ot.TRANSFERS), _COLLECTIVE)
_COLOUR: Final = "terrible"
"""chrome://tracing's name for red; Perfetto chooses its own colours, by name."""
_PIDS: Final = {kind: number * 1_000_000 for number, kind in enumerate(KINDS, start=1)}
"""Threads are numbered on from their process: some readers keep one list of threads for all processes."""


def trace_events(step: StepTimelines) -> Iterator[Event]:
    """All events of a step: names, slices, and behind them the arrows from sends to recvs."""
    for kind in KINDS:
        yield from _Drawing(step, kind).events()


def arrows_left_out(step: StepTimelines) -> int:
    """Count pairs without an arrow: by the hosts' clocks the recv had ended before its send began."""
    return sum(len(step.peers) - len(_Drawing(step, kind).arrows) for kind in KINDS)


@dataclass
class _Lanes:
    """Threads of one worker and stream, each with the end of its last slice."""

    ends_ns: list[int] = field(default_factory=list)

    def place(self, start_ns: int, end_ns: int) -> int:
        """Take the first thread that is free."""
        for number, busy_until_ns in enumerate(self.ends_ns):
            if busy_until_ns <= start_ns:
                self.ends_ns[number] = end_ns
                return number
        self.ends_ns.append(end_ns)
        return len(self.ends_ns) - 1


@dataclass
class _Drawing:
    """One of the timelines of a step."""

    step: StepTimelines
    kind: str

    def events(self) -> Iterator[Event]:
        yield from self._names()
        yield from self._path_slices()
        for place in self.order:
            yield self._slice(place)
        for number, (send, recv) in enumerate(self.arrows):
            yield from self._arrow(number, send, recv)

    @property
    def pid(self) -> int:
        return _PIDS[self.kind]

    @property
    def timeline(self) -> Timeline:
        return self.step.timelines[self.kind]

    @cached_property
    def path(self) -> dict[Place, CriticalOp]:
        return {each.place: each for each in self.step.critical[self.kind]}

    @cached_property
    def times_ns(self) -> tuple[list[list[int]], list[list[int]]]:
        """Start and end of each op; an end before the start, clock noise of a transfer, becomes the start."""
        starts, ends = ((times_s * 1e9).round().astype(int) for times_s in self.timeline)
        return starts.tolist(), ends.clip(min=starts).tolist()

    @cached_property
    def order(self) -> list[Place]:
        """All ops by start; of those that start together the longer first."""
        starts, ends = self.times_ns
        places = [(op, lane) for op in range(len(starts)) for lane in range(len(starts[0]))]
        return sorted(places, key=lambda at: (starts[at[0]][at[1]], -ends[at[0]][at[1]], at))

    @cached_property
    def threads(self) -> dict[tuple[Worker, int, int], int]:
        """Number of each thread, by worker, stream and place among the threads of both; from 1 on."""
        found = sorted(set(self.thread_of.values()))
        return {key: number for number, key in enumerate(found, start=1)}

    @cached_property
    def thread_of(self) -> dict[Place, tuple[Worker, int, int]]:
        starts, ends = self.times_ns
        lanes: dict[tuple[Worker, int], _Lanes] = defaultdict(_Lanes)
        facts, found = self.step.facts, {}
        for op, lane in self.order:
            worker = int(facts.dp_rank[op, lane]), int(facts.pp_rank[op, lane])
            stream = _STREAMS.index(_stream(facts.op_type[op]))
            number = lanes[worker, stream].place(starts[op][lane], ends[op][lane])
            found[op, lane] = worker, stream, number
        return found

    @cached_property
    def arrows(self) -> list[tuple[Place, Place]]:
        starts, ends = self.times_ns
        return [
            (send, recv)
            for send, recv in self.step.peers
            if starts[send[0]][send[1]] <= ends[recv[0]][recv[1]]
        ]

    def _names(self) -> Iterator[Event]:
        pid = self.pid
        yield _meta(
            pid, pid, "process_name", name=f"{TITLES[self.kind]}: {self.step.step_s(self.kind):.6f} s"
        )
        yield _meta(pid, pid, "process_sort_index", sort_index=pid)
        yield _meta(pid, pid, "thread_name", name="critical path")
        yield _meta(pid, pid, "thread_sort_index", sort_index=0)
        for ((dp_rank, pp_rank), stream, further), number in self.threads.items():
            again = f" ({further + 1})" if further else ""
            name = f"dp {dp_rank} pp {pp_rank} {_STREAMS[stream]}{again}"
            yield _meta(pid, pid + number, "thread_name", name=name)
            yield _meta(pid, pid + number, "thread_sort_index", sort_index=number)

    def _path_slices(self) -> Iterator[Event]:
        """The critical path in a thread of its own, one op behind the other, with the gaps between them."""
        at_ns = 0
        for each in self.step.critical[self.kind]:
            (op, lane), from_ns = each.place, round(each.from_s * 1e9)
            end_ns = self.times_ns[1][op][lane]
            if from_ns > at_ns:
                yield self._complete(LAUNCH_DELAY, CRITICAL, self.pid, at_ns, from_ns, {})
                at_ns = from_ns
            if end_ns >= at_ns:
                (dp_rank, pp_rank), _, _ = self.thread_of[each.place]
                name = f"{self._name(op, lane)} dp {dp_rank} pp {pp_rank}"
                yield self._complete(name, CRITICAL, self.pid, at_ns, end_ns, self._arguments(each.place))
                at_ns = end_ns

    def _slice(self, place: Place) -> Event:
        op, lane = place
        starts, ends = self.times_ns
        is_critical = place in self.path
        category = _category(self.step.facts.op_type[op])
        event = self._complete(
            self._name(op, lane),
            f"{category},{CRITICAL}" if is_critical else category,
            self.pid + self.threads[self.thread_of[place]],
            starts[op][lane],
            ends[op][lane],
            self._arguments(place),
        )
        return event | {"cname": _COLOUR} if is_critical else event

    def _name(self, op: int, lane: int) -> str:
        """Op type and microbatch, and the model chunk where a stage has several."""
        facts = self.step.facts
        name = OP_TYPES[facts.op_type[op]]
        microbatch, chunk = int(facts.microbatch[op, lane]), int(facts.model_chunk[op, lane])
        if microbatch != UNKNOWN:
            name += f" {microbatch}"
        if chunk != UNKNOWN and self.step.layout.vpp_size > 1:
            name += f" chunk {chunk}"
        return name

    def _arguments(self, place: Place) -> Event:
        facts = self.step.facts
        host = int(facts.host[place])
        numbers = {
            name: int(values[place])
            for name, values in (
                ("rank", facts.rank),
                ("dp_rank", facts.dp_rank),
                ("pp_rank", facts.pp_rank),
                ("microbatch", facts.microbatch),
                ("model_chunk", facts.model_chunk),
            )
            if values[place] != UNKNOWN
        }
        lengths = {f"{kind}_us": round(float(self.step.duration_s[kind][place]) * 1e6, 3) for kind in KINDS}
        return {
            "op_type": OP_TYPES[facts.op_type[place[0]]],
            **({"host": facts.hosts[host]} if host != UNKNOWN else {}),
            **numbers,
            **lengths,
            "is_critical": place in self.path,
        }

    def _complete(self, name: str, category: str, tid: int, start_ns: int, end_ns: int, args: Event) -> Event:
        times = {"ts": _us(start_ns), "dur": _us(end_ns - start_ns)}
        return {"ph": "X", "name": name, "cat": category, "pid": self.pid, "tid": tid, **times, "args": args}

    def _arrow(self, number: int, send: Place, recv: Place) -> Iterator[Event]:
        """From within the send to within the recv, never back in time."""
        starts, ends = self.times_ns
        sent_ns = starts[send[0]][send[1]]
        taken_ns = min(max(sent_ns, starts[recv[0]][recv[1]]), ends[recv[0]][recv[1]])
        name, flow = "transfer", self.pid + number
        for phase, place, time_ns in (("s", send, sent_ns), ("f", recv, taken_ns)):
            event = {"ph": phase, "id": flow, "name": name, "cat": _TRANSFER, "pid": self.pid}
            event |= {"tid": self.pid + self.threads[self.thread_of[place]], "ts": _us(time_ns)}
            yield event | ({"bp": "e"} if phase == "f" else {})


def _meta(pid: int, tid: int, what: str, **args: object) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


def _us(time_ns: int) -> float:
    return time_ns / 1000


def _stream(op_type: int) -> str:
    if op_type in ot.TRANSFERS:
        return OP_TYPES[op_type]
    return _COMPUTE if op_type in (*ot.COMPUTE, *_TAIL) else _COLLECTIVE


def _category(op_type: int) -> str:
    return _TRANSFER if op_type in ot.TRANSFERS else _stream(op_type)
