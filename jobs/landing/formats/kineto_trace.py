"""Arrays of one torch.profiler file: kernels with their launches, collectives, steps, annotations."""

import re
from array import array
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np

from jobs.landing.formats.kineto_stream import DistributedInfo, Event, TraceStream
from jobs.landing.formats.rows import Flags, Floats, Ints
from jobs.landing.formats.strict_json import is_integer

_STEP: Final = re.compile(r"ProfilerStep#(\d+)")
_ACTION: Final = "PP:"
_OPTIMIZER: Final = "Optimizer.step#"
_BACKWARD: Final = "autograd::engine::evaluate_function"
_CPU: Final = ("user_annotation", "cpu_op")
_LAUNCHES: Final = ("cuda_runtime", "cuda_driver", "hip_runtime")
_NCCL: Final = ("nccl", "rccl", "msccl")

ALL_GATHER: Final = "all-gather"
REDUCE_SCATTER: Final = "reduce-scatter"
ALL_REDUCE: Final = "all-reduce"
SEND_RECV: Final = "send-recv"
_KINDS: Final = (
    ("alltoall", "all-to-all"),  # first: its kernel is called SendRecv
    ("reducescatter", REDUCE_SCATTER),
    ("allgather", ALL_GATHER),
    ("allreduce", ALL_REDUCE),
    ("sendrecv", SEND_RECV),
    ("broadcast", "broadcast"),
    ("reduce", "reduce"),
)


class Collective(NamedTuple):
    """Attributes of a NCCL kernel; None for an attribute that the kernel does not state.

    key : Seq within the group, else Comms Id: equal on all ranks that take part
    """

    kind: str
    group: str | None = None
    group_name: str | None = None
    group_size: int | None = None
    key: tuple[Any, ...] | None = None


class Kernels(NamedTuple):
    """Kernels in order of launch; arrays of shape (kernel,).

    start_us, duration_us, launch_us : from the file's own zero [us]
    is_backward : launched by a thread of autograd
    step : position of the step in which the kernel was launched; -1 outside of steps
    """

    start_us: Floats
    duration_us: Floats
    launch_us: Floats
    is_backward: Flags
    step: Ints

    def where(self, chosen: Flags | Ints | slice) -> "Kernels":
        """Return the kernels at these positions."""
        return Kernels._make(values[chosen] for values in self)

    @property
    def end_us(self) -> Floats:
        """Return the end of each kernel. [us]"""
        return self.start_us + self.duration_us


class Annotation(NamedTuple):
    """A named span on the CPU. [us]"""

    name: str
    start_us: float
    end_us: float


class RankTrace(NamedTuple):
    """Contents of one trace file.

    base_us : Unix time of the file's zero, whole microseconds
    steps : numbers of its steps, in the order of their starts
    computes : kernels of the stream that computes most
    communications, collectives : NCCL kernels, and the attributes of each
    lost : kernels whose launch the profiler did not record
    """

    distributed: DistributedInfo
    base_us: int
    gpu: int | None
    steps: list[int]
    computes: Kernels
    communications: Kernels
    collectives: list[Collective]
    actions: list[Annotation]
    optimizers: list[Annotation]
    lost: int


class _Scan:
    """Events collected while a file is read; each event takes 16 to 40 bytes."""

    def __init__(self) -> None:
        self.steps: dict[tuple[float, float], int] = {}
        self.actions: list[Annotation] = []
        self.optimizers: list[Annotation] = []
        self.main_threads: set[int | str] = set()
        self.autograd_threads: set[int | str] = set()
        self.threads: dict[int | str, int] = {}
        self.streams: dict[tuple[int | str, int | str], int] = {}
        self.launches = array("d")  # correlation, time, thread
        self.kernels = array("d")  # correlation, start, duration, stream
        self.communications = array("d")  # the same
        self.collectives: list[Collective] = []

    def add(self, events: list[Event]) -> None:
        for event in events:
            category, args = event.cat, event.args
            correlation = None if args is None else args.correlation
            if category == "kernel":
                stream = self.streams.setdefault((event.pid, event.tid), len(self.streams))
                kept = (-1 if correlation is None else correlation, event.ts, event.dur, stream)
                if event.name.startswith(_NCCL):
                    self.communications.extend(kept)
                    self.collectives.append(_collective(event))
                else:
                    self.kernels.extend(kept)
            elif category in _LAUNCHES:
                if "Launch" in event.name and correlation is not None:
                    thread = self.threads.setdefault(event.tid, len(self.threads))
                    self.launches.extend((correlation, event.ts, thread))
            elif category in _CPU:
                name, end_us = event.name, event.ts + event.dur
                if name.startswith(_BACKWARD):
                    self.autograd_threads.add(event.tid)
                elif name.startswith((_ACTION, _OPTIMIZER)):
                    same = self.actions if name.startswith(_ACTION) else self.optimizers
                    same.append(Annotation(name, event.ts, end_us))
                elif found := _STEP.fullmatch(name):
                    self.steps[event.ts, end_us] = int(found.group(1))
                    self.main_threads.add(event.tid)


def read_rank(file: BinaryIO) -> RankTrace:
    """Read one file to its end. Raises FileError if the file is truncated or not JSON."""
    stream, scan = TraceStream(file), _Scan()
    for events in stream.batches():
        scan.add(events)
    base_us, rest_ns = divmod(stream.fields.base_ns, 1000)
    launches = np.frombuffer(scan.launches).reshape(-1, 3)
    launches = launches[np.argsort(launches[:, 0], kind="stable")]
    spans = sorted(scan.steps)
    is_autograd = np.array([each in scan.autograd_threads - scan.main_threads for each in scan.threads], bool)
    shift_us = rest_ns / 1000

    (computes, _, streams), (communications, order, _) = (
        _launched(np.frombuffer(each).reshape(-1, 4), launches, is_autograd, spans, shift_us)
        for each in (scan.kernels, scan.communications)
    )
    busy_us = np.bincount(streams.astype(np.int64), computes.duration_us)
    chosen = int(busy_us.argmax()) if len(busy_us) else -1  # copies for collectives run on other streams
    is_chosen = streams == chosen
    lost = (len(scan.kernels) + len(scan.communications)) // 4 - len(streams) - len(order)
    device = next((pid for (pid, _), number in scan.streams.items() if number == chosen), None)
    return RankTrace(
        distributed=stream.fields.distributed or DistributedInfo(),
        base_us=base_us,
        gpu=device if isinstance(device, int) else None,
        steps=[scan.steps[span] for span in spans],
        computes=computes.where(is_chosen),
        communications=communications,
        collectives=[scan.collectives[place] for place in order],
        actions=sorted(scan.actions, key=lambda action: action.start_us),
        optimizers=scan.optimizers,
        lost=lost,
    )


def _launched(
    kernels: Floats, launches: Floats, is_autograd: Flags, spans: list[tuple[float, float]], shift_us: float
) -> tuple[Kernels, Ints, Floats]:
    """Return the kernels that have a launch, in order of launch, their positions in the file, and streams."""
    place = np.searchsorted(launches[:, 0], kernels[:, 0])
    is_known = place < len(launches)
    is_known[is_known] = launches[place[is_known], 0] == kernels[is_known, 0]
    kept, place = np.flatnonzero(is_known), place[is_known]
    order = np.lexsort((kernels[kept, 1], launches[place, 1]))  # a graph launches many kernels at once
    kept, place = kept[order], place[order]
    launch_us = launches[place, 1]
    starts, ends = (np.array([span[side] for span in spans]) for side in (0, 1))
    step = np.searchsorted(starts, launch_us, side="right") - 1
    if len(spans):
        step[launch_us >= ends[step]] = -1
    found = Kernels(
        kernels[kept, 1] + shift_us,
        kernels[kept, 2],
        launch_us,
        is_autograd[launches[place, 2].astype(np.int64)],
        step,
    )
    return found, kept, kernels[kept, 3]


def _collective(event: Event) -> Collective:
    args = event.args
    collective = (args.collective if args is not None else None) or ""
    spelled = f"{collective} {event.name}".lower().replace("_", "")
    kind = next((kind for word, kind in _KINDS if word in spelled), "other collective")
    if args is None:
        return Collective(kind)
    group, name = ((each if isinstance(each, str) else None) for each in (args.group, args.group_name))
    size = args.group_size if is_integer(args.group_size) else None
    key: tuple[Any, ...] | None = None
    if args.sequence is not None:
        key = (group or name, args.sequence)
    elif args.comms_id is not None:
        key = (args.comms_id,)
    return Collective(kind, group or name, name, size, key)
