"""Reader of a Megatron job's console output: times of iterations, from which nothing can be replayed.

Megatron's last rank prints a line every few iterations, with the mean time of these iterations; some forks
begin the line with the time of day. The tables of timers between these lines are not read, because they
combine ranks.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final

from jobs.landing.formats.foreign import ForeignRun, Part, RefusalError, SourceFile, count
from jobs.landing.formats.rows import NO_ROWS, Bounds
from schemas.vocabulary import Transfers

SOURCE_FORMAT: Final = "megatron-console"
MOST_LINES: Final = 100_000

_ITERATION: Final = re.compile(
    rb"(?:\[(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)[^\]]{0,99}\]\s{0,99})?"
    rb"iteration\s+(\d{1,18})/\s*(?:\d+|infinity)\s*\|"
)
_ELAPSED: Final = re.compile(rb"elapsed time per iteration \(ms\):\s*(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)")
"""Two patterns that do not begin with blanks, because a single one took hours for a megabyte of blanks."""
_LAYOUT: Final = re.compile(rb"using world size:\s*\d+,\s*data-parallel[- ]size:")
_SIZES: Final = {
    "world_size": re.compile(rb"using world size:\s*(\d{1,9})\b"),
    "dp_size": re.compile(rb"(?<!expert-)data-parallel[- ]size:\s*(\d{1,9})\b"),
    "pp_size": re.compile(rb"(?<!encoder-)pipeline-model-parallel[- ]size:\s*(\d{1,9})\b"),
    "tp_size": re.compile(rb"(?<!encoder-)(?<!expert-)tensor-model-parallel[- ]size:\s*(\d{1,9})\b"),
    "cp_size": re.compile(rb"context-parallel[- ]size:\s*(\d{1,9})\b"),
}
_TIMERS: Final = re.compile(rb"time(?: across ranks)? \(ms\)")
_LONGEST_MS: Final = 1e12
_Lines = dict[tuple[str | None, int, float], None]
"""Time of day, step and seconds of each line of an iteration; equal lines, as in copies, count once."""
_PIECE: Final = 1 << 16


def recognises(head: bytes) -> bool:
    """Return whether the text has lines of iterations, or Megatron's line with the layout before them."""
    return _LAYOUT.search(head) is not None or any(map(_iteration, head.splitlines()))


def _iteration(line: bytes) -> tuple[bytes | None, bytes, bytes] | None:
    """Return time of day, number and duration in a line of an iteration; None for other lines."""
    found = _ITERATION.search(line)
    elapsed = _ELAPSED.search(line, found.end()) if found else None
    return (found[1], found[2], elapsed[1]) if found and elapsed else None


def read(files: Sequence[SourceFile], manifest: Mapping[str, Any], bounds: Bounds) -> ForeignRun:  # noqa: ARG001  # as every format
    """Read the files of a run, sorted by name: outputs of its attempts, or of several nodes.

    Raises FileError for a truncated file; the caller then reads the other files again without it.
    """
    left_out: Counter[str] = Counter()
    sizes: dict[str, int] = {}
    lines: _Lines = {}
    for file in files:
        with file.opened() as content:
            _read(content, lines, sizes, left_out)
    if not lines:
        raise RefusalError(
            "Megatron's console",
            "no line has the time of an iteration",
            "Keep what the last rank prints, with --log-interval 1",
        )
    if sizes:
        sizes = {"cp_size": 1, "vpp_size": 1, **sizes}
    step_times = [
        {"step": step, "step_s": step_s, "logged_at": logged_at} for logged_at, step, step_s in lines
    ]
    parts = (Part(file.name, NO_ROWS) for file in files)
    return ForeignRun(SOURCE_FORMAT, sizes, parts, Transfers.ABSENT, left_out, step_times=step_times)


def _read(content: BinaryIO, lines: _Lines, sizes: dict[str, int], left_out: Counter[str]) -> None:
    """Add the times of iterations in a file to `lines`, and the sizes that the file states to `sizes`."""
    for line in _lines(content):
        found = _iteration(line)
        if found is None:
            count(
                left_out, "tables of timers: sums, least and greatest over ranks", bool(_TIMERS.search(line))
            )
            if _LAYOUT.search(line):
                sizes |= {name: int(size[1]) for name, sign in _SIZES.items() if (size := sign.search(line))}
            continue
        moment, step, elapsed_ms = found
        known = (moment.decode() if moment else None, int(step), float(elapsed_ms) / 1e3)
        if not 0 < float(elapsed_ms) < _LONGEST_MS:
            left_out["lines of iterations that took no time, or forever"] += 1
        elif known in lines:
            left_out["lines of iterations that repeat another"] += 1
        elif len(lines) >= MOST_LINES:
            left_out[f"lines of iterations beyond the first {MOST_LINES}"] += 1
        else:
            lines[known] = None


def _lines(content: BinaryIO) -> Iterator[bytes]:
    """Yield lines, which may end in carriage returns; overlong lines are cut after blanks."""
    rest = b""
    while piece := content.read(_PIECE):
        *lines, rest = (rest + piece).splitlines(keepends=True)
        yield from lines
        if len(rest) > _PIECE:
            end = rest.rfind(b" ") + 1 or len(rest)
            yield rest[:end]
            rest = rest[end:]
    yield rest
