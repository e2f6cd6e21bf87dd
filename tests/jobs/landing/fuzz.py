"""Fuzz the readers of the landing with damaged bytes: a reader may raise only its own errors.

`python -m tests.jobs.landing.fuzz --inputs 100000` damages good inputs: lines, manifests, gzip and Parquet
files, events of health, output of health tools, and whole units of every format. Bytes are changed, removed,
repeated or inserted, or a number is replaced by an extreme one. At the end, the command prints the inputs
that took the most time and those that took the most memory.
"""

import argparse
import gzip
import io
import json
import random
import re
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from jobs.landing.content import Content
from jobs.landing.formats.manifest import manifest_fields, manifest_row, parse_published_meta
from jobs.landing.formats.published_trace import read_trace
from jobs.landing.formats.rank_log import RankLogReader
from jobs.landing.formats.rank_log_line import LineError, read_line
from jobs.landing.formats.rows import LIMITS, Bounds, FileError, table_of
from jobs.landing.formats.run_events import EVENT_ROWS, read_events
from jobs.runtime.arguments import positive
from tests.jobs.landing.formats.test_manifest import MANIFEST, META
from tests.jobs.landing.formats.test_published_trace import ops, parquet
from tests.jobs.landing.fuzz_health import TOOLS, read_changed_day, read_converted
from tests.jobs.landing.fuzz_units import UNITS, Memory, read_changed
from tests.support.line_cases import BAD_LINES, JOB, ODD_LINES, PLAIN_LINES, RUN, SIZES

_LINES: Final = [text for text, *_ in (BAD_LINES | PLAIN_LINES | ODD_LINES).values() if len(text) < 3000]
_UNIT: Final[dict[str, Any]] = {"job_id": JOB, "run_id": RUN, **SIZES}
_BOUNDS: Final = Bounds(line_bytes=5000, file_bytes=1_000_000, trace_ops=1000)
_TOKENS: Final = (*rb"[ ] { } \ , : - 1e999 null \ud800".split(), b'"', b"\xff", b"\0", b"\n")
_NUMBER: Final = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_EXTREMES: Final = (
    *b"0 -1 -0.0 1e-320 1.7e308 1.8e308 -1e308 400000000 2147483647 9223372036854775807 1e18 NaN".split(),
    b'"' + b"x" * 3000 + b'"',
    b"9" * 500,
)
_TRACE: Final = parquet(ops({}, {"step": 17}, {"rank": 1}, {"optype": "optimizer", "start_ts": 2.0}))


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Return a copy of the input with one to four random changes."""
    found = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(found) + 1)
        to = min(len(found), at + chance.randint(0, 12))
        change = chance.randrange(6)
        if change == 0:
            found[at:to] = chance.randbytes(to - at)
        elif change == 1:
            found[at:at] = chance.choice(_TOKENS)
        elif change == 2:
            del found[at:to]
        elif change == 3:
            found[at:at] = found[at:to] * chance.randint(1, 3)
        elif change == 4:
            numbers = list(_NUMBER.finditer(found))
            if numbers:
                number = chance.choice(numbers)
                found[number.start() : number.end()] = chance.choice(_EXTREMES)
        else:
            del found[chance.randrange(len(found) + 1) :]
    return bytes(found)


def read_lines(chance: random.Random) -> None:
    """Fail unless damaged lines give the same rows together as alone, and each gives a row or a reject."""
    lines = [mutated(chance.choice(_LINES), chance).replace(b"\n", b"") for _ in range(8)]
    lines.append(chance.choice(_LINES))
    rows, rejects = RankLogReader(_UNIT, _BOUNDS).read(lines, 1)
    wanted = {}
    for number, line in enumerate(lines, start=1):
        try:
            if line.strip() and len(line) <= _BOUNDS.line_bytes:
                wanted[number] = read_line(line, _UNIT, _BOUNDS)
        except LineError:
            continue
    found = dict(zip(rows.lines, table_of(rows).to_pylist(), strict=True))
    assert repr({key: sorted(each.items()) for key, each in found.items()}) == repr(
        {key: sorted(each.items()) for key, each in wanted.items()}
    ), lines
    assert len(rows.lines) + len(rejects) == sum(bool(line.strip()) for line in lines), lines


_EVENT: Final = {
    "format": "run-events/1",
    "job_id": JOB,
    "run_id": RUN,
    "event": "step",
    "at_us": 5,
    "step": 3,
}


def read_some_events(content: bytes) -> None:
    """Fail unless every line of events that is not blank becomes a valid row or a reject."""
    lines = content.split(b"\n")
    found = read_events([lines], _UNIT, _BOUNDS)
    pa.Table.from_pylist(found.rows, EVENT_ROWS)
    assert len(found.rows) + len(found.rejects) == sum(bool(line.strip()) for line in lines)


_MANIFEST: Final = MANIFEST | {"labels": {"a": 1}, "started_at": "2026-01-05T08:30:00+02:00"}
FILES: Final[dict[str, tuple[bytes, Callable[[bytes], object]]]] = {
    "job.json": (
        json.dumps(_MANIFEST).encode(),
        lambda content: manifest_row(manifest_fields(content, _BOUNDS.nesting), "gpt", "r3"),
    ),
    "meta.yaml": (
        META.encode() + b'a: &x ["\\u00e4"]\nb: *x\n',
        lambda content: parse_published_meta(content, _BOUNDS.nesting),
    ),
    "trace.parquet": (
        _TRACE,
        lambda content: read_trace(io.BytesIO(content), dict.fromkeys(LIMITS), _BOUNDS),
    ),
    "events.jsonl": (
        b"\n".join(json.dumps(_EVENT | each).encode() for each in ({}, {"duration_us": 1.5})),
        read_some_events,
    ),
    "rank-0.jsonl.gz": (
        gzip.compress(b"\n".join(_LINES[:3])),
        lambda content: list(Content(io.BytesIO(content), _BOUNDS).lines(is_packed=True)),
    ),
}
"""A good file of each kind, and its reader, which either reads a damaged copy or raises FileError."""


def read_file(name: str, chance: random.Random) -> None:
    content, read = FILES[name]
    with suppress(FileError):
        read(mutated(content, chance))


READERS: Final[dict[str, Callable[[random.Random], None]]] = {
    "lines": read_lines,
    **{name: partial(read_file, name) for name in FILES},
    "health": partial(read_changed_day, mutated, Memory),
    **{f"health of {tool}": partial(read_converted, tool, mutated) for tool in TOOLS},
    **{f"unit: {name}": partial(read_changed, name, mutated) for name in UNITS},
}


class Cost(NamedTuple):
    """Duration of reading an input, and the memory that the process used beyond what it used before."""

    input: str
    seconds: float
    bytes: int


def read_one(name: str, number: int, seed: int) -> Cost:
    """Read one damaged input, and return what the reading cost.

    number, seed : determine the damage
    """
    started, before = time.perf_counter(), _resident_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the process's peak memory (VmHWM)
    READERS[name](random.Random(f"{seed}/{number}"))  # noqa: S311  # no secrets
    grown = _resident_bytes("VmHWM") - before
    return Cost(f"{name} {number}", time.perf_counter() - started, grown)


def _resident_bytes(name: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) * 1024


def main() -> None:
    """Read damaged inputs, and print those that took the most time and the most memory."""
    parser = argparse.ArgumentParser(prog="tests.jobs.landing.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=positive, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    args = parser.parse_args()
    names = list(READERS)
    costs = [
        read_one(names[number % len(names)], number, args.seed)
        for number in range(args.first, args.first + args.inputs)
    ]
    print(
        f"{args.inputs} inputs of seed {args.seed} read, none ended in an error that is not the reader's own"
    )
    for what in ("seconds", "bytes"):
        most = sorted(costs, key=attrgetter(what), reverse=True)[:5]
        print(f"most {what}:", ", ".join(f"{each.input} ({getattr(each, what):.3g})" for each in most))


if __name__ == "__main__":
    main()
