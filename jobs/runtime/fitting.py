"""Fit rows to the screen width, important columns first, or print each row as a list, like `psql -x`."""

import json
import math
import shutil
import sys
from collections.abc import Sequence
from itertools import zip_longest
from textwrap import wrap
from typing import Any, Final, TextIO

from jobs.runtime.terminal import complain, printable, say

WITHOUT_SCREEN: Final = 100
"""Width of output that goes to no terminal. [characters]"""
_FIRST: Final = 2
"""Number of columns on the left that name a row; they are chosen before all others."""
_MATTER: Final = (
    "of", "before", "after", "change",
    "lost_gpu_hours", "lost_fraction", "recoverable_gpu_hours", "host", "job_id", "job_ids", "cause",
    "verdict", "jobs", "jobs_slow", "jobs_measured", "pattern", "first_slow", "last_slow", "status",
    "slowdown", "units", "gpu_hours", "effect", "time_saved_fraction", "gpu_hours_saved", "time_saved_s",
    "waste_fraction", "ettr", "productive_gpu_hours", "low", "high", "team", "run_id", "log_date",
)  # fmt: skip
"""Columns of most interest, the most important first; other columns follow in table order."""
_LONGEST: Final = 3
"""Most elements of a list that are shown."""
_WIDEST: Final = 60
"""Most characters of a list or a struct that are shown."""
_NARROWEST: Final = 12
"""Least width for the values of a row written as a list, however long the names are. [characters]"""
_LONGEST_WORD: Final = 28
"""Longest word of a text that is not broken. [characters]"""
_GAP: Final = "  "
"""Text between columns."""
_DIGITS: Final = 5
"""Digits that are shown of a number that is not whole."""


def screen_width(out: TextIO) -> int:
    """Return the width of the terminal in characters, or a default if output is not a terminal."""
    return shutil.get_terminal_size((WITHOUT_SCREEN, 0)).columns if out.isatty() else WITHOUT_SCREEN


def say_fitting(*lines: str) -> None:
    """Print sentences; break them between words at a terminal, except JSON, which users copy."""
    say(*(part for line in lines for part in _broken(line, sys.stdout)))


def complain_fitting(line: str) -> None:
    """Print a sentence on standard error; break it between words at a terminal."""
    for part in _broken(line, sys.stderr):
        complain(part)


def _broken(line: str, out: TextIO) -> list[str]:
    if not out.isatty() or line.lstrip().startswith("{"):
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    parts = wrap(
        line, screen_width(out), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return parts or [""]


def write_fitting(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], is_number: Sequence[bool], out: TextIO
) -> list[str]:
    """Write rows fitted to the screen width; return the columns left out."""
    width = screen_width(out)
    cells = [[brief(value) for value in row] for row in rows]
    least, most = [], []  # widths of columns: at the minimum only long words break
    for place, name in enumerate(columns):
        values = [row[place] for row in cells]
        longest = max(map(len, values), default=1)
        word = max((len(word) for value in values for word in value.split()), default=1)
        head = max(map(len, _split(name, 1)))
        least.append(max(head, longest if is_number[place] else min(word, _LONGEST_WORD)))
        most.append(max(least[-1], longest, len(name)))
    kept = _chosen(columns, least, width)
    wide = _shared(
        width - len(_GAP) * (len(kept) - 1), [least[place] for place in kept], [most[place] for place in kept]
    )
    numbers = [is_number[place] for place in kept]
    heads = [_split(columns[place], room) for place, room in zip(kept, wide, strict=True)]
    highest = max(map(len, heads))
    _write_lines([[""] * (highest - len(head)) + head for head in heads], wide, numbers, out)
    out.write(_GAP.join("─" * room for room in wide) + "\n")
    for row in cells:
        lines = [
            [row[place]] if is_right else wrap(row[place], room, break_on_hyphens=False)
            for place, room, is_right in zip(kept, wide, numbers, strict=True)
        ]
        _write_lines(lines, wide, numbers, out)
    return [name for place, name in enumerate(columns) if place not in kept]


def _write_lines(
    cells: Sequence[Sequence[str]], wide: Sequence[int], is_number: Sequence[bool], out: TextIO
) -> None:
    """Write table cells side by side, each with several lines."""
    for texts in zip_longest(*cells, fillvalue=""):
        line = [
            text.rjust(room) if is_right else text.ljust(room)
            for text, room, is_right in zip(texts, wide, is_number, strict=True)
        ]
        out.write(f"{_GAP.join(line).rstrip()}\n")


def write_rows_as_lists(
    columns: Sequence[str], rows: Sequence[Sequence[str]], out: TextIO, before: int = 0
) -> None:
    """Write each row as a list of columns, with long values wrapped.

    before : number of rows that were written before these
    """
    names = max((len(name) for name in columns), default=0)
    width = max(screen_width(out) - names - 3, _NARROWEST)
    for number, row in enumerate(rows, start=before + 1):
        out.write(f"-[ {number} ]".ljust(names + 1, "-") + f"+{'-' * min(width, 20)}\n")
        for name, value in zip(columns, row, strict=True):
            lines = wrap(value, width, break_on_hyphens=False) or [""]
            out.writelines(f"{'' if place else name:<{names}} | {each}\n" for place, each in enumerate(lines))


def brief(value: object) -> str:
    """Return a value in short form: few digits, first list items, nested values truncated."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and math.isfinite(value):
        whole = len(str(int(abs(value)))) if abs(value) >= 1 else 0
        return f"{value:.3g}" if abs(value) < 1e-3 else f"{value:.{max(_DIGITS - whole, 1)}f}"
    if isinstance(value, list | tuple):
        more = [f"{len(value) - _LONGEST} more"] if len(value) > _LONGEST else []
        return _cut(", ".join([*(brief(each) for each in value[:_LONGEST]), *more]))
    if isinstance(value, dict):
        return _cut(json.dumps(value, ensure_ascii=False, default=str))
    return printable(str(value))


def _cut(text: str) -> str:
    text = printable(text)
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _chosen(columns: Sequence[str], least: Sequence[int], width: int) -> list[int]:
    """Return positions of the columns that fit: the leftmost, then the most important, in table order."""

    def rank(place: int) -> tuple[int, int]:
        if place < _FIRST:
            return (-1, place)
        name = columns[place]
        return (_MATTER.index(name) if name in _MATTER else len(_MATTER), place)

    kept: list[int] = []
    room = width + len(_GAP)
    for place in sorted(range(len(columns)), key=rank):
        if least[place] + len(_GAP) <= room or not kept:
            kept.append(place)
            room -= least[place] + len(_GAP)
    return sorted(kept)


def _shared(width: int, least: Sequence[int], most: Sequence[int]) -> list[int]:
    """Give each column its least width, and the rest of `width` first to columns nearest to their `most`."""
    wide = list(least)
    room = width - sum(least)
    wanting = sorted(range(len(least)), key=lambda place: most[place] - least[place])
    for number, place in enumerate(wanting):
        more = max(min(most[place] - least[place], room // (len(wanting) - number)), 0)
        wide[place] += more
        room -= more
    return wide


def _split(name: str, width: int) -> list[str]:
    """Split a column's name after underscores into lines of the given width."""
    lines = [""]
    for part in name.replace("_", "_\0").split("\0"):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return lines
