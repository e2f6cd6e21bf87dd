"""Reader of MegaScan and MegaLens: one JSON file per rank, with times in ns from the start of an iteration.

One branch of the tool records only computes, so that transfers are absent. Another also records transfers,
named after phases of the 1F1B schedule. All ranks pass a barrier before each iteration: they have the same
zero, and a late start of a rank cannot be seen.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from math import nan, prod
from typing import Any, Final, NamedTuple

import numpy as np

from jobs.landing.formats.foreign import ForeignRun, Part, RefusalError, SourceFile, count, or_nan
from jobs.landing.formats.json_stream import items
from jobs.landing.formats.rows import LONGEST_US, NO_ROWS, SCALARS, Bounds, FileError, Reject, Rows
from schemas.vocabulary import OP_CODES, Transfers

SOURCE_FORMAT: Final = "megascan"
WARM_UP_STEPS: Final = 2
"""First iterations, which allocate memory and compile kernels: the very first takes five times the usual
time."""

OPS: Final = {
    "forward": ("forward-compute",),
    "forward-warmup": ("forward-compute",),
    "backward": ("backward-compute",),
    "backward-cooldown": ("backward-compute",),
    "recv-warmup": ("forward-recv",),
    "recv-extra": ("forward-recv",),
    "recv-forward": ("forward-recv",),
    "recv-cooldown": ("backward-recv",),
    "recv-backward": ("backward-recv",),
    "send-warmup": ("forward-send",),
    "send-forward": ("forward-send",),
    "send-extra": ("backward-send",),
    "send-cooldown": ("backward-send",),
    "send-backward": ("backward-send",),
    "exchange-next": ("forward-send", "backward-recv"),
    "exchange-prev": ("backward-send", "forward-recv"),
    "allreduce": ("grads-reduce-scatter",),
    "optimizer": ("optimizer",),
}
_ENDS: Final = {
    "forward-recv": "first",
    "backward-send": "first",
    "forward-send": "last",
    "backward-recv": "last",
}
"""Transfers that the first or last stage records, although they move nothing there."""
_TRANSFERS: Final = [OP_CODES[op] for op in _ENDS]

_FILE: Final = re.compile(
    r"benchmark-(?:global-(?P<rank>\d{1,9})-)?data-(?P<dp_rank>\d{1,9})-pipeline-(?P<pp_rank>\d{1,9})"
    r"-tensor-(?P<tp_rank>\d{1,9})\b"
)
_SPLIT_BACKWARD: Final = re.compile(r"w-?grad|d-?grad|backward[-_](?:weight|input)|zero[-_]?bubble")
_US: Final = 1e-3  # of a nanosecond
LONGEST: Final = LONGEST_US / _US
"""Longest valid time [ns], also used for times in microseconds; larger integers may not fit into a float."""
_ROWS_TOGETHER: Final = 200
NO_INTEGER: Final = -(2**31)
"""Stands for a value that is not an integer of 32 bits, so that it is not taken for a missing value."""


class Op(NamedTuple):
    """An op as in its file, with times by the file's clock."""

    name: str
    begin: float
    end: float
    microbatch: int
    model_chunk: int

    @staticmethod
    def of(name: str, begin: float, end: float, facts: Mapping[str, Any]) -> "Op":
        """Make an op; facts : fields of its events, and of their args."""
        which = integer(facts, -1, "microbatch", "micro_batch_index"), integer(facts, 0, "model_chunk")
        if NO_INTEGER in which:
            begin, which = nan, (-1, 0)  # an invalid time discards the iteration of the rank
        return Op(name, begin, end, *which)


class PlacedRank(NamedTuple):
    """Columns of rank_steps for one rank, and the types of its transfers that move no data."""

    row: dict[str, Any]
    idle: set[str]


def recognises(head: bytes) -> bool:
    """Return whether the file has iterations with relative times in nanoseconds."""
    return re.search(rb'"name"\s*:\s*"iteration"', head) is not None and b'"rel_ts"' in head


def read(files: Sequence[SourceFile], manifest: Mapping[str, Any], bounds: Bounds) -> ForeignRun:
    """Read the files of a run: the layout from their names, vpp_size from the very first iteration."""
    places = {}
    for file in files:
        place = _FILE.search(file.name)
        if place is None:
            raise RefusalError(
                "MegaScan",
                f"the name {file.name} does not give the layout",
                "Keep the names benchmark-data-D-pipeline-P-tensor-T.json that it writes",
            )
        places[file.name] = {
            axis: int(value) for axis, value in place.groupdict().items() if value is not None
        }
    left_out: Counter[str] = Counter()
    first = next(_iterations(files[0], bounds, Counter(), []), None)
    if first is None or not first.ops:
        raise RefusalError(
            "MegaScan",
            f"no iteration of {files[0].name} holds an op",
            "Trace with granularity base or full, and for more iterations than it skips",
        )
    facts = {**sizes_of(places.values()), "vpp_size": 1 + max(op.model_chunk for op in first.ops)}
    given = {name: value for name, value in manifest.items() if name in facts and type(value) is int}
    ranks = {name: rank_of(place, {**facts, **given}) for name, place in places.items()}
    parts = chain.from_iterable(_parts(file, ranks[file.name], bounds, left_out) for file in files)
    return run_of({**facts, "warm_up_steps": WARM_UP_STEPS}, parts, left_out)


def sizes_of(places: Collection[Mapping[str, int]]) -> dict[str, int]:
    """Return the sizes of these ranks' layout; cp_size is 1 if every place has a rank, otherwise unknown."""
    axes = ("dp", "pp", "tp")
    sizes = {f"{axis}_size": 1 + max(place[f"{axis}_rank"] for place in places) for axis in axes}
    filled = {tuple(place[f"{axis}_rank"] for axis in axes) for place in places}
    return sizes | ({"cp_size": 1} if len(filled) == prod(sizes.values()) else {})


def run_of(manifest: Mapping[str, Any], parts: Iterable[Part], left_out: Counter[str]) -> ForeignRun:
    """Return a run made of these parts; transfers count as measured if every replayed step has transfers."""

    def noted() -> Iterator[Part]:
        having, lacking = set[int](), set[int]()
        for part in parts:
            row = np.repeat(np.arange(len(part.rows.lengths)), part.rows.lengths)
            sent = set(row[np.isin(part.rows.lists[0], _TRANSFERS)].tolist())
            for number, (step, *_) in enumerate(part.rows.scalars):
                (having if number in sent else lacking).add(step)
            yield part
        replayed = set(sorted(having | lacking)[manifest["warm_up_steps"] :])
        if having and not lacking & replayed:
            run.transfers = Transfers.MEASURED
        elif having:
            count(left_out, "steps without transfers, where others have them", len(lacking & replayed))

    run = ForeignRun(SOURCE_FORMAT, manifest, noted(), Transfers.ABSENT, left_out)
    return run


def rank_of(place: Mapping[str, int], sizes: Mapping[str, Any]) -> PlacedRank:
    """Return the rank of a file from its name, or else in Megatron's order: tensor, data, pipeline ranks."""
    dp_rank, pp_rank, tp_rank = (place[f"{axis}_rank"] for axis in ("dp", "pp", "tp"))
    derived = (pp_rank * sizes["dp_size"] + dp_rank) * sizes["tp_size"] + tp_rank
    ends = {"first": 0, "last": sizes["pp_size"] - 1}
    idle = {op for op, end in _ENDS.items() if pp_rank == ends[end]}
    return PlacedRank(dict.fromkeys(SCALARS) | {"rank": derived, **place}, idle)


class _Iteration(NamedTuple):
    """One iteration: its number, its ops, and its end. [ns]"""

    step: int
    ops: list[Op]
    end_ns: float


_UNENDED: Final = "iterations that did not end"
_UNENDED_OPS: Final = "beginnings of ops that did not end"


def _iterations(
    file: SourceFile, bounds: Bounds, left_out: Counter[str], rejects: list[Reject]
) -> Iterator[_Iteration]:
    step, given, begun = -1, -1, dict[str, dict[str, Any]]()
    ops: list[Op] | None = None  # of the present iteration
    with file.opened() as content:
        for event in items(content, bounds.line_bytes, rejects):
            name, phase = (event.get("name"), event.get("ph")) if isinstance(event, dict) else (None, None)
            name = name if isinstance(name, str) else None
            if name == "iteration" and phase == "B":
                count(left_out, _UNENDED, ops is not None)
                given = integer(event, step + 1, "iteration")
                step, ops, begun = step + 1 if given == NO_INTEGER else given, [], {}
            elif name == "iteration" and phase == "E" and ops is not None:
                count(left_out, _UNENDED_OPS, len(begun))
                count(left_out, "iterations whose number is not an integer", given == NO_INTEGER)
                if given != NO_INTEGER:
                    yield _Iteration(step, ops, or_nan(event.get("rel_ts"), LONGEST))
                ops = None
            elif name not in OPS or phase not in {"B", "E"}:
                leave_out(name, left_out)
            elif ops is None:
                left_out["events of ops outside of iterations"] += 1
            elif phase == "B":
                count(left_out, _UNENDED_OPS, name in begun)
                begun[name] = event
            elif name in begun:
                begin = begun.pop(name)
                args = [each["args"] for each in (begin, event) if isinstance(each.get("args"), dict)]
                facts = {field: value for each in (begin, event, *args) for field, value in each.items()}
                begin_ns, end_ns = (or_nan(each.get("rel_ts"), LONGEST) for each in (begin, event))
                ops.append(Op.of(name, begin_ns, end_ns, facts))
            else:
                left_out["ends of ops that did not begin"] += 1
    count(left_out, _UNENDED, ops is not None)


def leave_out(name: str | None, left_out: Counter[str]) -> None:
    """Count an event that is not an op. Raises RefusalError for an event of half a backward pass."""
    if name is not None and _SPLIT_BACKWARD.search(name):
        raise RefusalError(
            "MegaScan",
            f"{name}: a backward in two parts (zero-bubble schedules) cannot be represented in the graph",
            "Trace the same job with the 1F1B or the interleaved schedule",
        )
    left_out["values that are not events" if name is None else f"events named {name[:40]}"] += 1


def integer(event: Mapping[str, Any], default: int, *names: str) -> int:
    """Return the first field that is present, or the default; NO_INTEGER if it is not a 32-bit integer."""
    found = next((event[name] for name in names if event.get(name) is not None), default)
    return found if type(found) is int and abs(found) < 2**31 else NO_INTEGER


def _parts(file: SourceFile, rank: PlacedRank, bounds: Bounds, left_out: Counter[str]) -> Iterator[Part]:
    """Yield rows of a file, several iterations at a time; a truncated file does not affect other files."""
    rejects: list[Reject] = []
    own: Counter[str] = Counter()
    iterations = _iterations(file, bounds, own, rejects)
    try:
        while some := list(islice(iterations, _ROWS_TOGETHER)):
            records = [row_of(each.step, each.ops, rank, own) for each in some]
            for each in some:
                unnamed_ms = (each.end_ns - max((op.end for op in each.ops), default=nan)) * 1e-6
                what = "ms without a name between the last op of an iteration and its end"
                count(own, what, round(unnamed_ms) if unnamed_ms >= 0 else 0)
            yield Part(file.name, Rows.of(records, range(len(records))))
        left_out.update(own)
        yield Part(file.name, NO_ROWS, rejects)
    except FileError as error:
        yield Part(file.name, NO_ROWS, [error.reject])


def row_of(step: int, ops: Iterable[Op], rank: PlacedRank, left_out: Counter[str]) -> dict[str, Any]:
    """Return columns of rank_steps for one iteration of a rank; times of `ops` are from its start. [ns]"""
    recorded = [(name, op) for op in ops for name in OPS[op.name]]
    kept = [(name, op) for name, op in recorded if name not in rank.idle]
    count(left_out, "transfers at an end of the pipeline, which move nothing", len(recorded) - len(kept))
    return {
        **rank.row,
        "step": step,
        "op": [OP_CODES[name] for name, _ in kept],
        "start_us": [op.begin * _US for _, op in kept],
        "duration_us": [(op.end - op.begin) * _US for _, op in kept],
        "microbatch": [op.microbatch for _, op in kept],
        "model_chunk": [op.model_chunk for _, op in kept],
    }
