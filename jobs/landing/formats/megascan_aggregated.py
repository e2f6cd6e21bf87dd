"""MegaScan's aggregated form: the files of all ranks merged by MegaScan itself, in Chrome's trace format.

One version of MegaScan writes B and E events, with the stage in `args` and the dp rank in `pid`; another
writes X events with all coordinates in `args`. Iterations follow each other on one time line, in whole
microseconds.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from jobs.landing.formats.foreign import ForeignRun, Part, RefusalError, SourceFile, count, or_nan
from jobs.landing.formats.json_stream import items
from jobs.landing.formats.megascan import (
    LONGEST,
    OPS,
    WARM_UP_STEPS,
    Op,
    integer,
    leave_out,
    rank_of,
    row_of,
    run_of,
    sizes_of,
)
from jobs.landing.formats.rows import Bounds, Reject, Rows

_OWN: Final = re.compile(rb'"cname"\s*:\s*"')
_STEP: Final = re.compile(rb'"args"\s*:\s*\{\s*"iteration"\s*:\s*\d')
_NAMED: Final = re.compile(rb'"name"\s*:\s*"(?:iteration begin|%s)"' % "|".join(OPS).encode())
_COORDINATES: Final = {"rank": "g_rk", "dp_rank": "dp_rk", "pp_rank": "pp_rk", "tp_rank": "tp_rk"}
_NS: Final = 1e3  # of a microsecond

Lane = tuple[int, int]
"""pid and tid of a rank."""


class _Events:
    """Ops of one file by rank and iteration, and the start of each iteration. [us]"""

    def __init__(self, name: str, left_out: Counter[str]) -> None:
        self.name = name
        self.rejects: list[Reject] = []
        self.ops: dict[Lane, dict[int, list[Op]]] = {}
        self.facts: dict[Lane, dict[str, int]] = {}
        self.length = 0
        self._zeros_us: dict[int, float] = {}
        self._open: dict[tuple[Lane, str], list[Mapping[str, Any]]] = {}
        self._left_out = left_out

    def add(self, event: object) -> None:
        args = event.get("args") if isinstance(event, dict) else None
        if not isinstance(event, dict) or not isinstance(args, dict):
            leave_out(None, self._left_out)
            return
        step, at_us = integer(args, -1, "iteration"), or_nan(event.get("ts"), LONGEST)
        if step >= 0 and at_us < self._zeros_us.get(step, float("inf")):
            self._zeros_us[step] = at_us
        lane, name = (integer(event, -1, "pid"), integer(event, 0, "tid")), event.get("name")
        if name not in OPS or event.get("ph") not in {"B", "E", "X"} or min(*lane, step) < 0:
            leave_out(name if isinstance(name, str) else None, self._left_out)
        elif event["ph"] == "B":
            self._open.setdefault((lane, name), []).append(event)
        elif event["ph"] == "X":
            self._op(lane, step, Op.of(name, at_us, at_us + or_nan(event.get("dur"), LONGEST), args), args)
        elif begun := self._open.get((lane, name)):
            begin = begun.pop()
            facts = {**begin["args"], **args}
            self._op(lane, step, Op.of(name, or_nan(begin.get("ts"), LONGEST), at_us, facts), facts)
        else:
            self._left_out["ends of ops that did not begin"] += 1

    def end(self) -> None:
        """Count ops that began but did not end."""
        count(self._left_out, "beginnings of ops that did not end", sum(map(len, self._open.values())))

    def from_zero(self, step: int, ops: Sequence[Op]) -> list[Op]:
        """Return ops of an iteration, with times since the iteration's first event on any rank. [ns]"""
        zero_us = self._zeros_us[step]
        return [op._replace(begin=(op.begin - zero_us) * _NS, end=(op.end - zero_us) * _NS) for op in ops]

    def _op(self, lane: Lane, step: int, op: Op, args: Mapping[str, Any]) -> None:
        self.ops.setdefault(lane, {}).setdefault(step, []).append(op)
        self.length += 1
        if lane not in self.facts:
            known = {ours: integer(args, -1, theirs) for ours, theirs in _COORDINATES.items()}
            known["pp_rank"] = max(known["pp_rank"], integer(args, -1, "pp_rank"))
            self.facts[lane] = {name: value for name, value in known.items() if value >= 0}


def recognises(head: bytes) -> bool:
    """Return whether the head has events with MegaScan's colours (`cname`), iterations and names."""
    return all(each.search(head) is not None for each in (_OWN, _STEP, _NAMED))


def read(files: Sequence[SourceFile], manifest: Mapping[str, Any], bounds: Bounds) -> ForeignRun:  # noqa: ARG001  # as every format
    """Read the files of a run, usually one; further files hold other iterations of the same ranks."""
    left_out: Counter[str] = Counter()
    found = [_read_file(file, left_out, bounds) for file in files]
    stated = {lane: known for events in found for lane, known in events.facts.items()}
    if not stated or any("pp_rank" not in known for known in stated.values()):
        raise _refusal(
            "events do not say their stage" if stated else "no op of an iteration was found",
            "Give the files of the ranks instead, benchmark-data-D-pipeline-P-tensor-T.json",
        )
    stages = 1 + max(known["pp_rank"] for known in stated.values())
    facts = {  # without dp and tp ranks of its own, pid is dp rank x stages + stage, and tid is the tp rank
        (pid, tid): {"dp_rank": pid // stages, "tp_rank": tid, **known}
        for (pid, tid), known in stated.items()
    }
    of_ranks = [of_rank for events in found for of_rank in events.ops.values()]
    known = {
        **sizes_of(facts.values()),
        "vpp_size": 1 + max(op.model_chunk for of_rank in of_ranks for ops in of_rank.values() for op in ops),
        "warm_up_steps": max(WARM_UP_STEPS - min(map(min, of_ranks)), 0),
    }

    def parts() -> Iterator[Part]:
        for events in found:
            records = [
                row_of(step, events.from_zero(step, ops), rank_of(facts[lane], known), left_out)
                for lane, of_rank in events.ops.items()
                for step, ops in of_rank.items()
            ]
            yield Part(events.name, Rows.of(records, range(len(records))), events.rejects)

    return run_of(known, parts(), left_out)


def _read_file(file: SourceFile, left_out: Counter[str], bounds: Bounds) -> _Events:
    events = _Events(file.name, left_out)
    with file.opened() as content:
        for event in items(content, bounds.line_bytes, events.rejects):
            events.add(event)
            if events.length > bounds.trace_ops:
                reason = f"more than {bounds.trace_ops} ops in one file"
                raise _refusal(reason, "Aggregate fewer iterations")
    events.end()
    return events


def _refusal(reason: str, instead: str) -> RefusalError:
    return RefusalError("MegaScan's aggregate", reason, instead)
