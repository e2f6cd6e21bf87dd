"""Reader of rank logs (format rank-log/1), which checks simple lines in bulk and all others one by one.

A plain line (one flat object, five flat arrays) is parsed by simdjson, its numbers straight into buffers, and
checked together with the lines around it. All other lines are passed to rank_log_line, which alone decides
why a line is rejected. So plain lines take microseconds each, and the rules for them are as strict.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import compress
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import simdjson

from jobs.landing.formats.rank_log_line import REQUIRED, judged, read_line
from jobs.landing.formats.rows import (
    COORDINATES,
    LISTS,
    LONGEST_CHARACTER,
    LONGEST_US,
    MOST_TEXT,
    MOST_TYPE_TEXT,
    SCALARS,
    Bounds,
    Reject,
    Rows,
    joined,
)
from schemas.vocabulary import OP_CODES, RANK_LOG_FORMAT

_INT32: Final = 2**31
_INT64: Final = 2**63
_CODES: Final = {name.encode(): code for name, code in OP_CODES.items()}
_HOST: Final = SCALARS.index("host")
_NOWHERE: Final = np.empty(0, dtype=np.intp)
_MOST_KNOWN: Final = 4096
"""Most cached texts: the ops and keys of a rank's lines repeat, but a log in which they change must not fill
the memory."""
_ENOUGH_TYPES: Final = 2
"""Most types that are remembered of a host: two show that its lines contradict each other."""
_WIDTH: Final = 8
"""Bytes of a number in simdjson's buffers."""


@dataclass
class _Plain:
    """Columns of a block's lines that are checked in bulk; `places` are the lines' positions in the block.

    types : place -> host and type of GPU, of lines that state both
    """

    places: list[int] = field(default_factory=list)
    scalars: list[tuple[Any, ...]] = field(default_factory=list)
    lists: tuple[list[Any], ...] = field(default_factory=lambda: tuple([] for _ in LISTS))
    types: dict[int, tuple[str, str]] = field(default_factory=dict)


class RankLogReader:
    """Reader for the rank logs of one unit.

    unit : job_id and run_id as the folders name them; sizes and gpu_types of a valid manifest, else null
    gpu_types : host -> at most two types that valid lines state; once all have MOST_TYPE_TEXT characters, no
        more are added
    """

    def __init__(self, unit: Mapping[str, Any], bounds: Bounds) -> None:
        self._unit, self._bounds = unit, bounds
        self._parser = simdjson.Parser()
        self._stated: Mapping[str, str] = unit.get("gpu_types") or {}
        self.gpu_types: dict[str, set[str]] = {}
        self._new_types: list[tuple[str, str]] = []  # of the file that is read
        self._type_text = 0
        self._sizes = [unit[size] or _INT32 for size in COORDINATES.values()]
        self._needed = {*REQUIRED, *(["tp_rank"] if (unit["tp_size"] or 1) > 1 else [])}
        # Ranks repeat their ops every step, and lines of a file have the same keys.
        self._codes_of = lru_cache(_MOST_KNOWN)(_codes)
        self._has_keys = lru_cache(_MOST_KNOWN)(partial(_has_required, self._needed))

    def read(self, lines: Sequence[bytes], first: int) -> tuple[Rows, list[Reject]]:
        """Read lines numbered from `first` on; return rows and rejects, both in order of lines.

        Each non-blank line becomes a row or a reject.
        """
        plain = self._plain(lines)
        rows = _rows(plain)
        if plain.types:
            for place in rows.lines:
                self._note(*plain.types.get(place, (None, None)))
        taken = set(rows.lines)
        rows = rows._replace(lines=[first + place for place in rows.lines])
        if len(taken) == len(lines):
            return rows, []
        records, numbers, rejects = list[dict[str, Any]](), list[int](), list[Reject]()
        odd = ((first + place, line) for place, line in enumerate(lines) if place not in taken)
        for number, record in judged(odd, lambda line: read_line(line, self._unit, self._bounds), rejects):
            numbers.append(number)
            records.append(record)
            self._note(record["host"], record.get("gpu_type"))
        if not numbers:
            return rows, rejects
        both = joined([rows, Rows.of(records, numbers)])
        return both.take(np.argsort(both.lines)), rejects

    def end_file(self, *, is_taken: bool) -> None:
        """End a file; if its rows are not stored (`is_taken` is False), forget the GPU types in its lines."""
        for host, name in () if is_taken else self._new_types:
            self.gpu_types[host].remove(name)
            if not self.gpu_types[host]:
                del self.gpu_types[host]
            self._type_text -= len(host) + len(name)
        self._new_types = []

    def _plain(self, lines: Sequence[bytes]) -> _Plain:
        found = _Plain()
        longest = self._bounds.line_bytes
        for place, line in enumerate(lines):
            if len(line) > longest or not _is_flat(line):
                continue
            try:
                values = self._values(line, place, found.types)
            except (ValueError, TypeError, AttributeError, KeyError, RuntimeError):  # simdjson's errors
                continue
            if values is not None:
                found.places.append(place)
                found.scalars.append(values[0])
                for column, value in zip(found.lists, values[1:], strict=True):
                    column.append(value)
        return found

    def _values(self, line: bytes, place: int, types: dict[int, tuple[str, str]]) -> tuple[Any, ...] | None:
        """Return a line's scalars, op codes and number buffers; None if the strict reader must read it."""
        record: Any = self._parser.parse(line)
        has_keys, has_type = self._has_keys(tuple(record.keys()))
        scalars = self._scalars(record) if has_keys else None
        if scalars is None:
            return None
        if has_type:
            host, name = scalars[_HOST], record["gpu_type"]
            if not _is_name(name) or not name or self._stated.get(host, name) != name:
                return None
            if host is not None:
                types[place] = host, name
        return (
            scalars,
            self._codes_of(record["op"].mini),
            record["start_us"].as_buffer(of_type="d"),
            record["duration_us"].as_buffer(of_type="d"),
            record["microbatch"].as_buffer(of_type="i"),
            record["model_chunk"].as_buffer(of_type="i"),
        )

    def _note(self, host: str | None, name: str | None) -> None:
        """Remember the GPU type that a valid line states."""
        if host is None or name is None or self._type_text > MOST_TYPE_TEXT:
            return
        names = self.gpu_types.setdefault(host, set())
        if name not in names and len(names) < _ENOUGH_TYPES:
            names.add(name)
            self._new_types.append((host, name))
            self._type_text += len(host) + len(name)

    def _scalars(self, record: Any) -> tuple[Any, ...] | None:  # noqa: ANN401  # its values are of any type
        """Return the values of SCALARS in a line; None if any of them is invalid."""
        unit = self._unit
        if (
            record["format"] != RANK_LOG_FORMAT
            or record["job_id"] != unit["job_id"]
            or record["run_id"] != unit["run_id"]
        ):
            return None
        get = record.get
        step, t0_us, gpu, host = record["step"], record["t0_us"], get("gpu"), get("host")
        coordinates = [get(name) for name in COORDINATES]
        for name, value, size in zip(COORDINATES, coordinates, self._sizes, strict=True):
            if value is None and name not in self._needed:
                continue
            if type(value) is not int or not 0 <= value < size:
                return None
        is_good = (
            type(step) is int
            and -_INT64 <= step < _INT64
            and type(t0_us) is int
            and 0 <= t0_us < _INT64
            and (gpu is None or (type(gpu) is int and -_INT32 <= gpu < _INT32))
            and (host is None or _is_name(host))
        )
        return (step, *coordinates, gpu, t0_us, host) if is_good else None


def _is_name(value: object) -> bool:
    """Return whether a value is text so short that its UTF-8 cannot exceed MOST_TEXT bytes."""
    return type(value) is str and len(value) * LONGEST_CHARACTER <= MOST_TEXT


def _is_flat(line: bytes) -> bool:
    """Return whether a line looks like one flat object with five arrays."""
    if line[:1] != b"{" or line.rfind(b"{") != 0:
        return False
    at = -1
    for _ in LISTS:
        at = line.find(b"[", at + 1)
        if at < 0:
            return False
    return line.find(b"[", at + 1) < 0


def _has_required(needed: Set[str], keys: tuple[str, ...]) -> tuple[bool, bool]:
    """Return whether these keys contain each required key once, and whether they contain a GPU type."""
    return len(set(keys)) == len(keys) and needed <= set(keys), "gpu_type" in keys


def _codes(spelled: bytes) -> bytes:
    """Return the op codes, one byte each. Raises KeyError for any other name."""
    if not spelled.startswith(b'["'):
        raise KeyError
    return bytes(map(_CODES.__getitem__, spelled[2:-2].split(b'","')))


def _rows(plain: _Plain) -> Rows:
    """Return as rows, numbered by `places`, those lines that have valid values and arrays of equal length."""
    lengths = np.array([len(codes) for codes in plain.lists[0]], dtype=np.int64)
    is_good = np.ones(len(lengths), dtype=bool)
    for buffers in plain.lists[1:]:
        is_good &= np.array([memoryview(each).nbytes for each in buffers], dtype=np.int64) == lengths * _WIDTH
    scalars, places = list(compress(plain.scalars, is_good)), list(compress(plain.places, is_good))
    ops, *numbers = (b"".join(compress(column, is_good)) for column in plain.lists)
    starts, durations = (np.frombuffer(each, np.float64) for each in numbers[:2])
    microbatches, chunks = (np.frombuffer(each, np.int64) for each in numbers[2:])
    bad = [
        *(_outside(times, 0, LONGEST_US) for times in (starts, durations)),
        *(_outside(indexes, -_INT32, _INT32 - 1) for indexes in (microbatches, chunks)),
    ]
    codes = np.frombuffer(ops, np.int8)
    values = (codes, starts, durations, microbatches.astype(np.int32), chunks.astype(np.int32))
    rows = Rows(scalars, places, lengths[is_good], values)
    is_valid = np.ones(len(places), dtype=bool)
    is_valid[np.searchsorted(np.cumsum(rows.lengths), np.concatenate(bad), side="right")] = False
    return rows.where(is_valid)


def _outside(values: npt.NDArray[Any], least: float, most: float) -> npt.NDArray[np.intp]:
    """Return the positions of values outside [least, most]."""
    if not len(values) or (values.min() >= least and values.max() <= most):
        return _NOWHERE
    return np.flatnonzero((values < least) | (values > most))
