"""Reader of timelines in the Trace Event Format, as in ndtimeline's files and beside published traces.

An X event is an op. Its name is the op type, ts and dur are microseconds, pid is the dp rank, and the name of
its thread has the stage. Ops that wait for each other, such as a send and its recv, have the same start; an
op that ends before this start has a negative duration. Names of threads may follow their events, so that a
run is in memory until all its files are read, as columns of numbers of about 40 bytes per op.
"""

import re
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from math import nan, prod
from typing import Any, Final, NamedTuple

import numpy as np

from jobs.landing.formats.foreign import ForeignRun, Part, RefusalError, SourceFile, or_nan
from jobs.landing.formats.json_stream import items
from jobs.landing.formats.published_trace import Columns, rows_of
from jobs.landing.formats.rows import LIMITS, LONGEST_US, Bounds, FileError, Reject
from schemas.vocabulary import OP_CODES, Reason, Transfers

SOURCE_FORMAT: Final = "ndtimeline"

_OP: Final = re.compile(rb'"name"\s*:\s*"(?:%s)"' % "|".join(OP_CODES).encode())
_THREAD: Final = re.compile(rb'"PP rank \d+, TP rank \d+, ')
_STAGE: Final = re.compile(r"PP rank (\d{1,9}), TP rank (\d{1,9}), ")
_LANES: Final = 5
"""Threads of a rank: compute, pp, tp, dp, misc. Numbers of these threads are rank x 5 + lane."""

_INT32: Final = range(-(2**31), 2**31)
_INT64: Final = range(-(2**63), 2**63)
_COMPUTES: Final = [OP_CODES["forward-compute"], OP_CODES["backward-compute"]]
_COLUMNS: Final = {
    "op": "b",
    "thread": "i",
    "step": "q",
    "start_us": "d",
    "duration_us": "d",
    "microbatch": "i",
    "model_chunk": "i",
}
Thread = tuple[int, int]
"""pid and tid of a thread."""


class _Place(NamedTuple):
    dp_rank: int
    pp_rank: int
    tp_rank: int


class _Threads:
    """Threads of a run: their numbers, and the coordinates in their names."""

    def __init__(self) -> None:
        self.numbers: dict[Thread, int] = {}
        self.places: dict[Thread, _Place] = {}

    def name(self, event: Mapping[str, Any]) -> None:
        """Read a thread's coordinates from an M event, if the event names the thread."""
        args, thread = event.get("args"), _thread(event)
        name = args.get("name") if isinstance(args, dict) and event.get("name") == "thread_name" else None
        found = _STAGE.match(name) if isinstance(name, str) else None
        if found and thread is not None:
            self.places[thread] = _Place(thread[0], *map(int, found.groups()))

    def ranks(self) -> dict[_Place, int]:
        """Return each place's rank by thread number; if numbers clash, by order of stage, dp and tp rank."""
        numbered: dict[_Place, set[int]] = {}
        for (_, tid), place in self.places.items():
            numbered.setdefault(place, set()).add(tid // _LANES)
        found = {place: min(ranks) for place, ranks in numbered.items()}
        if len(set(found.values())) == len(found) and all(len(ranks) == 1 for ranks in numbered.values()):
            return found
        in_order = sorted(found, key=lambda place: (place.pp_rank, place.dp_rank, place.tp_rank))
        return {place: rank for rank, place in enumerate(in_order)}


class _Ops:
    """Columns of the ops in one file."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rejects: list[Reject] = []
        self.columns = {name: array(kind) for name, kind in _COLUMNS.items()}

    def __len__(self) -> int:
        return len(self.columns["op"])

    def add(self, event: Mapping[str, Any], threads: dict[Thread, int]) -> bool:
        """Add an op; return False if the event lacks thread or step."""
        args, thread = event.get("args"), _thread(event)
        args = args if isinstance(args, dict) else {}
        step, times = args.get("step"), [event.get("ts"), event.get("dur")]
        if thread is None or type(step) is not int or step not in _INT64:
            return False
        which = [_present(args, "mb_id", -1), _present(args, "model_chunk", 0)]
        if not all(type(each) is int and each in _INT32 for each in which):
            times, which = [nan, nan], [-1, 0]  # an invalid time discards the rank's step
        times = [or_nan(each, LONGEST_US) for each in times]
        place = threads.setdefault(thread, len(threads))
        values = (OP_CODES[event["name"]], place, step, *times, *which)
        for column, value in zip(self.columns.values(), values, strict=True):
            column.append(value)
        return True

    @property
    def last_chunk(self) -> int:
        """Return the highest model chunk that has a compute."""
        op, chunk = (np.array(self.columns[name]) for name in ("op", "model_chunk"))
        return int(chunk[np.isin(op, _COMPUTES)].max(initial=0))


def _present(args: Mapping[str, Any], name: str, absent: int) -> Any:  # noqa: ANN401  # any JSON value
    """Return an arg's value, or `absent`; null, as in published timelines of ideal runs, counts as absent."""
    value = args.get(name)
    return absent if value is None else value


def _thread(event: Mapping[str, Any]) -> Thread | None:
    pid, tid = event.get("pid"), event.get("tid")
    is_good = all(type(each) is int and 0 <= each < _INT32.stop for each in (pid, tid))
    return (pid, tid) if is_good else None  # type: ignore[return-value]  # both are integers


def recognises(head: bytes) -> bool:
    """Return whether threads are named after stages, or events have op names and a microbatch."""
    return _THREAD.search(head) is not None or (b'"mb_id"' in head and _OP.search(head) is not None)


def read(
    files: Sequence[SourceFile],
    manifest: Mapping[str, Any],  # noqa: ARG001  # as every format
    bounds: Bounds,
) -> ForeignRun:
    """Read all files of a run together, because a thread's name may stand in another file."""
    left_out: Counter[str] = Counter()
    threads = _Threads()
    found: list[_Ops] = []
    for file in files:
        found.append(_read_file(file, threads, left_out, bounds))
        if sum(map(len, found)) > bounds.trace_ops:
            raise RefusalError(
                "ndtimeline",
                f"more than {bounds.trace_ops} ops in one run, all of which must fit into memory",
                "Record fewer steps, or raise trace_ops under [landing] in the settings",
            )
    ranks = threads.ranks()
    if not ranks:
        raise RefusalError(
            "ndtimeline",
            "no thread is named after its stage, so the layout is unknown",
            "Keep the thread_name events, such as 'PP rank 0, TP rank 0, compute'",
        )
    dp_size, pp_size, tp_size = (1 + max(values) for values in zip(*ranks, strict=True))
    sizes = {"dp_size": dp_size, "pp_size": pp_size, "tp_size": tp_size}
    if 1 + max(ranks.values()) == prod(sizes.values()):
        sizes["cp_size"] = 1
    sizes["vpp_size"] = 1 + max(ops.last_chunk for ops in found)
    # The earliest start of each step in any file; a file's times count from its first step. [us]
    zeros: dict[int, float] = {}
    for ops in found:
        steps, of_step = np.unique(np.array(ops.columns["step"]), return_inverse=True)
        first_us = np.full(len(steps), np.inf)
        np.fmin.at(first_us, of_step, np.array(ops.columns["start_us"]))
        for step, start_us in zip(steps.tolist(), first_us.tolist(), strict=True):
            zeros[step] = min(start_us, zeros.get(step, start_us))
    parts = (_part(ops, threads, ranks, zeros, left_out) for ops in found)
    return ForeignRun(SOURCE_FORMAT, sizes, parts, Transfers.MEASURED, left_out)


def _read_file(file: SourceFile, threads: _Threads, left_out: Counter[str], bounds: Bounds) -> _Ops:
    ops = _Ops(file.name)
    with file.opened() as content:
        for event in items(content, bounds.line_bytes, ops.rejects):
            if not isinstance(event, dict):
                left_out["values that are not events"] += 1
            elif event.get("ph") == "M":
                threads.name(event)
            elif event.get("ph") != "X" or str(event.get("name")) not in OP_CODES:
                left_out["events that are not ops of the vocabulary"] += 1
            elif not ops.add(event, threads.numbers):
                left_out["ops without a thread or step"] += 1
            if len(ops) > bounds.trace_ops:
                raise FileError(Reason.FILE_TOO_LARGE, f"more than {bounds.trace_ops} ops")
    return ops


def _part(
    ops: _Ops,
    threads: _Threads,
    ranks: Mapping[_Place, int],
    zeros: Mapping[int, float],
    left_out: Counter[str],
) -> Part:
    nowhere = _Place(-1, -1, -1)
    places = [threads.places.get(thread, nowhere) for thread in threads.numbers]
    of_thread = np.array([(*place[:2], ranks.get(place, -1)) for place in places]).reshape(-1, 3)
    columns: Columns = {name: np.array(values) for name, values in ops.columns.items()}
    columns["dp_rank"], columns["pp_rank"], columns["rank"] = of_thread[columns.pop("thread")].T
    steps, of_step = np.unique(columns["step"], return_inverse=True)
    columns["start_us"] -= np.array([zeros[step] for step in steps.tolist()])[of_step]
    # An op of negative duration becomes one of length zero at its end.
    columns["start_us"] += np.minimum(columns["duration_us"], 0)
    columns["duration_us"] = np.maximum(columns["duration_us"], 0)
    is_known = columns["rank"] >= 0
    if not is_known.all():
        left_out["ops of threads that are not named after a stage"] += int((~is_known).sum())
        columns = {name: values[is_known] for name, values in columns.items()}
    columns["is_null"] = np.zeros(int(is_known.sum()), dtype=bool)
    rows, rejects = rows_of(columns, dict.fromkeys(LIMITS))
    return Part(ops.name, rows, [*rejects, *ops.rejects])
