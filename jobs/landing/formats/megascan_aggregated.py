"""MegaScan's aggregated form: the files of all ranks merged by its own tool, in Chrome's trace format.

One version writes B and E events, with the stage in `args` and the dp rank in `pid`; another X events with
all coordinates in `args`. Iterations follow each other on one time line, in whole microseconds.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import nan
from typing import Any, Final, NamedTuple

from jobs.landing.formats.foreign import ForeignRun, Part, RefusalError, SourceFile, count
from jobs.landing.formats.json_stream import items
from jobs.landing.formats.megascan import (
    OPS,
    WARM_UP_STEPS,
    Iteration,
    integer,
    leave_out,
    rank_of,
    row_of,
    run_of,
)
from jobs.landing.formats.rows import Bounds, Reject, Rows

_OWN: Final = re.compile(rb'"cname"\s*:\s*"')
_STEP: Final = re.compile(rb'"args"\s*:\s*\{\s*"iteration"\s*:\s*\d')
_NAMED: Final = re.compile(rb'"name"\s*:\s*"(?:iteration begin|%s)"' % "|".join(OPS).encode())
_COORDINATES: Final = {"rank": "g_rk", "dp_rank": "dp_rk", "pp_rank": "pp_rk", "tp_rank": "tp_rk"}
_NS: Final = 1e3  # of a microsecond

Lane = tuple[int, int]
"""pid and tid of a rank."""


class _Op(NamedTuple):
    """One op of a rank. [us]"""

    name: str
    start_us: float
    end_us: float
    microbatch: int
    model_chunk: int


class _Events:
    """Ops of one file by rank and iteration, and the start of each iteration. [us]"""

    def __init__(self, left_out: Counter[str]) -> None:
        self.ops: dict[Lane, dict[int, list[_Op]]] = {}
        self.facts: dict[Lane, dict[str, int]] = {}
        self.zeros_us: dict[int, float] = {}
        self.length = 0
        self._open: dict[tuple[Lane, str], list[Mapping[str, Any]]] = {}
        self._left_out = left_out

    def add(self, event: object) -> None:
        """Add an event if it belongs to an op."""
        args = event.get("args") if isinstance(event, dict) else None
        if not isinstance(event, dict) or not isinstance(args, dict):
            leave_out(None, self._left_out)
            return
        step, at_us = integer(args, -1, "iteration"), _number(event, "ts")
        if step >= 0 and at_us < self.zeros_us.get(step, float("inf")):
            self.zeros_us[step] = at_us
        lane, name = (integer(event, -1, "pid"), integer(event, 0, "tid")), event.get("name")
        if name not in OPS or event.get("ph") not in {"B", "E", "X"} or lane[0] < 0 or step < 0:
            leave_out(name if isinstance(name, str) else None, self._left_out)
        elif event["ph"] == "B":
            self._open.setdefault((lane, name), []).append(event)
        elif event["ph"] == "X":
            self._op(lane, step, event, at_us + _number(event, "dur"), args)
        elif begun := self._open.get((lane, name)):
            begin = begun.pop()
            self._op(lane, step, begin, at_us, {**begin["args"], **args})
        else:
            self._left_out["ends of ops that did not begin"] += 1

    def end(self) -> None:
        """Count ops that began but did not end."""
        count(self._left_out, "beginnings of ops that did not end", sum(map(len, self._open.values())))

    def _op(
        self, lane: Lane, step: int, begin: Mapping[str, Any], end_us: float, args: Mapping[str, Any]
    ) -> None:
        found = _Op(
            begin["name"],
            _number(begin, "ts"),
            end_us,
            integer(args, -1, "microbatch", "micro_batch_index"),
            integer(args, 0, "model_chunk"),
        )
        self.ops.setdefault(lane, {}).setdefault(step, []).append(found)
        self.length += 1
        if lane not in self.facts:
            known = {ours: integer(args, -1, theirs) for ours, theirs in _COORDINATES.items()}
            known["pp_rank"] = max(known["pp_rank"], integer(args, -1, "pp_rank"))
            self.facts[lane] = {name: value for name, value in known.items() if value >= 0}


def recognises(head: bytes) -> bool:
    """Whether events have MegaScan's colours, iterations and names."""
    return all(each.search(head) is not None for each in (_OWN, _STEP, _NAMED))


def read(files: Sequence[SourceFile], manifest: Mapping[str, Any], bounds: Bounds) -> ForeignRun:  # noqa: ARG001  # as every format
    """Read the only file of a run; further files would be other windows of the same ranks."""
    left_out: Counter[str] = Counter()
    found: list[tuple[SourceFile, _Events, list[Reject]]] = []
    for file in files:
        events, rejects = _Events(left_out), list[Reject]()
        with file.opened() as content:
            for event in items(content, bounds.line_bytes, rejects):
                events.add(event)
                if events.length > bounds.trace_ops:
                    raise _refusal(
                        f"more than {bounds.trace_ops} ops in one file", "Aggregate fewer iterations"
                    )
        events.end()
        found.append((file, events, rejects))
    facts = _places([events for _, events, _ in found])
    sizes = {
        f"{axis}_size": 1 + max(place[f"{axis}_rank"] for place in facts.values())
        for axis in ("dp", "pp", "tp")
    }
    if len(facts) == sizes["dp_size"] * sizes["pp_size"] * sizes["tp_size"]:
        sizes["cp_size"] = 1
    steps = [step for _, events, _ in found for of_rank in events.ops.values() for step in of_rank]
    chunks = [op.model_chunk for _, events, _ in found for op in _all_ops(events)]
    known = {
        **sizes,
        "vpp_size": 1 + max(chunks),
        "warm_up_steps": max(WARM_UP_STEPS - min(steps), 0),
    }

    def parts() -> Iterator[Part]:
        for file, events, rejects in found:
            records = [
                row_of(_iteration(step, ops, events), rank_of(facts[lane], known), left_out)
                for lane, of_rank in events.ops.items()
                for step, ops in of_rank.items()
            ]
            yield Part(file.name, Rows.of(records, range(len(records))), rejects)

    return run_of(known, parts(), left_out)


def _places(found: Sequence[_Events]) -> dict[Lane, dict[str, int]]:
    """Coordinates of each rank from its events, else from pid and tid: dp rank x stages + stage."""
    facts = {lane: known for events in found for lane, known in events.facts.items()}
    if not facts or any("pp_rank" not in known for known in facts.values()):
        raise _refusal(
            "events do not say their stage" if facts else "no op of an iteration was found",
            "Give the files of the ranks instead, benchmark-data-D-pipeline-P-tensor-T.json",
        )
    stages = 1 + max(known["pp_rank"] for known in facts.values())
    return {
        (pid, tid): {"dp_rank": pid // stages, "tp_rank": tid, **known} for (pid, tid), known in facts.items()
    }


def _iteration(step: int, ops: Sequence[_Op], events: _Events) -> Iteration:
    """Make an iteration with times from its zero, the first event of any rank."""
    zero_us = events.zeros_us[step]
    return Iteration(
        step,
        [
            {
                "name": each.name,
                "begin_ns": (each.start_us - zero_us) * _NS,
                "end_ns": (each.end_us - zero_us) * _NS,
                "microbatch": each.microbatch,
                "model_chunk": each.model_chunk,
            }
            for each in ops
        ],
    )


def _all_ops(events: _Events) -> Iterator[_Op]:
    return (op for of_rank in events.ops.values() for ops in of_rank.values() for op in ops)


def _number(event: Mapping[str, Any], name: str) -> float:
    """Timestamp of an event; an invalid one is nan and discards the iteration of its rank. [us]"""
    value = event.get(name)
    return float(value) if isinstance(value, int | float) else nan


def _refusal(reason: str, instead: str) -> RefusalError:
    return RefusalError("MegaScan's aggregate", reason, instead)
