"""Rank logs, format rank-log/1: lines in; rows of rank_steps and rejects out.

A plain line (one flat object, five flat arrays) is parsed by simdjson, its numbers straight into buffers, and
checked together with the lines around it. What is not plain in any respect is left to rank_log_line, which
alone knows the reasons. So plain lines cost microseconds, and nothing is judged leniently.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import simdjson

from jobs.landing.formats.rank_log_line import COORDINATES, OPTIONAL, REQUIRED, LineError, read_line
from jobs.landing.formats.rows import LINE, ROWS_SCHEMA, Bounds, Reject, text_of
from schemas.vocabulary import OP_CODES, RANK_LOG_FORMAT, REASON_LINE_TOO_LONG

_INT32: Final = 2**31
_INT64: Final = 2**63
_SCALARS: Final = ("step", *COORDINATES, "gpu", "t0_us", "host")
_LISTS: Final = ("op", "start_us", "duration_us", "microbatch", "model_chunk")
_MOST_KNOWN: Final = 4096
"""Lines of a rank repeat from step to step; whoever makes each another one shall not fill the memory."""
_WIDTH: Final = 8
"""Bytes of a number in simdjson's buffers."""


@dataclass
class _Plain:
    """Plain lines of a block, column by column; `places` are their positions in the block."""

    places: list[int] = field(default_factory=list)
    scalars: list[tuple[Any, ...]] = field(default_factory=list)
    lists: tuple[list[Any], ...] = field(default_factory=lambda: tuple([] for _ in _LISTS))


class RankLogReader:
    """Reads the rank logs of one unit.

    unit : job_id and run_id as the folders name them, and the sizes of a good manifest, or nulls
    """

    def __init__(self, unit: Mapping[str, Any], bounds: Bounds) -> None:
        self._unit, self._bounds = unit, bounds
        self._parser = simdjson.Parser()
        self._codes: dict[bytes, bytes] = {}
        self._keys: dict[tuple[str, ...], bool] = {}
        self._sizes = [unit[size] or _INT32 for size in COORDINATES.values()]
        needed = {*REQUIRED, *(["tp_rank"] if (unit["tp_size"] or 1) > 1 else [])}
        self._needed = frozenset(needed)

    def read(self, lines: Sequence[bytes], first: int) -> tuple[pa.Table, list[Reject]]:
        """Read the lines of a file from number `first` on; every one that is not blank is a row or a reject.

        returns : rows as ROWS_SCHEMA, by line, and the rejects
        """
        plain = self._plain(lines)
        rows, is_good = _rows(plain, first)
        taken = np.zeros(len(lines), dtype=bool)
        taken[np.asarray(plain.places, dtype=np.intp)[is_good]] = True
        if taken.all():
            return rows, []
        odd, rejects = self._odd(lines, np.flatnonzero(~taken), first)
        if odd.num_rows:
            rows = pa.concat_tables([rows, odd]).sort_by(LINE)
        return rows, rejects

    def _plain(self, lines: Sequence[bytes]) -> _Plain:
        found = _Plain()
        places, scalars = found.places, found.scalars
        ops, starts, durations, microbatches, chunks = found.lists
        parse, longest = self._parser.parse, self._bounds.line_bytes
        for place, line in enumerate(lines):
            if len(line) > longest or not _is_flat(line):
                continue
            record = None  # simdjson parses nothing while it has an earlier line in use
            try:
                record = parse(line)
                if not self._has_keys(record):
                    continue
                values = self._scalars(record)
                if values is None:
                    continue
                ops_of_line = record["op"]
                spelled = ops_of_line.mini
                codes = self._codes.get(spelled)
                if codes is None:
                    if len(self._codes) >= _MOST_KNOWN:
                        self._codes.clear()
                    codes = self._codes[spelled] = _codes_of(ops_of_line)
                ops_of_line = None
                numbers = (
                    record["start_us"].as_buffer(of_type="d"),
                    record["duration_us"].as_buffer(of_type="d"),
                    record["microbatch"].as_buffer(of_type="i"),
                    record["model_chunk"].as_buffer(of_type="i"),
                )
            except (ValueError, TypeError, AttributeError, KeyError):  # simdjson's, and of other types
                continue
            finally:
                record = ops_of_line = None
            places.append(place)
            scalars.append(values)
            ops.append(codes)
            starts.append(numbers[0])
            durations.append(numbers[1])
            microbatches.append(numbers[2])
            chunks.append(numbers[3])
        return found

    def _has_keys(self, record: Any) -> bool:  # noqa: ANN401  # simdjson ships no types
        """Whether every key that is needed is there, and none twice; lines of a file have the same keys."""
        keys = tuple(record.keys())
        known = self._keys.get(keys)
        if known is None:
            if len(self._keys) >= _MOST_KNOWN:
                self._keys.clear()
            known = self._keys[keys] = len(set(keys)) == len(keys) and self._needed.issubset(keys)
        return known

    def _scalars(self, record: Any) -> tuple[Any, ...] | None:  # noqa: ANN401  # simdjson ships no types
        """Values of _SCALARS; None where one is not as it must be."""
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
            and (host is None or type(host) is str)
        )
        return (step, *coordinates, gpu, t0_us, host) if is_good else None

    def _odd(
        self, lines: Sequence[bytes], places: npt.NDArray[np.intp], first: int
    ) -> tuple[pa.Table, list[Reject]]:
        rows, rejects = [], []
        for place in places:
            line = lines[place]
            if not line.strip():
                continue
            try:
                if len(line) > self._bounds.line_bytes:
                    detail = f"the line is longer than {self._bounds.line_bytes} bytes"
                    raise LineError(REASON_LINE_TOO_LONG, detail)
                rows.append(read_line(line, self._unit, self._bounds.nesting) | {LINE: first + int(place)})
            except LineError as error:
                rejects.append(Reject(error.reason, error.detail, first + int(place), text_of(line)))
        return pa.Table.from_pylist(rows, schema=ROWS_SCHEMA), rejects


def _is_flat(line: bytes) -> bool:
    """Whether a line begins like an object and holds five arrays and no other object, text or not."""
    if line[:1] != b"{" or line.rfind(b"{") != 0:
        return False
    at = -1
    for _ in _LISTS:
        at = line.find(b"[", at + 1)
        if at < 0:
            return False
    return line.find(b"[", at + 1) < 0


def _codes_of(ops: Any) -> bytes:  # noqa: ANN401  # simdjson ships no types
    """Codes of op names, a byte each; raises KeyError for one that is not in the vocabulary."""
    return bytes(OP_CODES[name] for name in ops.as_list())


def _rows(plain: _Plain, first: int) -> tuple[pa.Table, npt.NDArray[np.bool_]]:
    """Return those plain lines as rows whose arrays fit, and which they are."""
    ops, *numbers = plain.lists
    lengths = np.array(list(map(len, ops)), dtype=np.int64)
    views = [list(map(memoryview, buffers)) for buffers in numbers]
    is_good = np.ones(len(ops), dtype=bool)
    for buffers in views:
        is_good &= np.array([each.nbytes for each in buffers], dtype=np.int64) == lengths * _WIDTH
    if not is_good.all():
        return _some_rows(plain, is_good, first)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    starts, durations = (np.frombuffer(b"".join(each), np.float64) for each in views[:2])
    microbatches, chunks = (np.frombuffer(b"".join(each), np.int64) for each in views[2:])
    bad = np.zeros(len(starts), dtype=bool)
    for times in (starts, durations):
        if len(times) and not (times.min() >= 0 and times.max() < np.inf):
            bad |= ~((times >= 0) & (times < np.inf))
    for indexes in (microbatches, chunks):
        if len(indexes) and not (indexes.min() >= -_INT32 and indexes.max() < _INT32):
            bad |= (indexes < -_INT32) | (indexes >= _INT32)
    if bad.any():
        is_good[np.searchsorted(offsets, np.flatnonzero(bad), side="right") - 1] = False
        return _some_rows(plain, is_good, first)
    codes = np.frombuffer(b"".join(ops), np.int8)
    values = (codes, starts, durations, microbatches.astype(np.int32), chunks.astype(np.int32))
    return _table(plain, first, offsets, values), is_good


def _some_rows(
    plain: _Plain, is_good: npt.NDArray[np.bool_], first: int
) -> tuple[pa.Table, npt.NDArray[np.bool_]]:
    """Return the rows of those lines that are good."""
    places = np.flatnonzero(is_good).tolist()
    lists = tuple([column[place] for place in places] for column in plain.lists)
    chosen = [plain.places[place] for place in places]
    rows, _ = _rows(_Plain(chosen, [plain.scalars[place] for place in places], lists), first)
    return rows, is_good


def _table(
    plain: _Plain, first: int, offsets: npt.NDArray[np.int64], values: Sequence[npt.NDArray[Any]]
) -> pa.Table:
    at = pa.array(offsets.astype(np.int32))
    columns = dict(zip(_SCALARS, zip(*plain.scalars, strict=True), strict=True)) if plain.scalars else {}
    arrays = {name: pa.array(columns.get(name, ()), ROWS_SCHEMA.field(name).type) for name in _SCALARS}
    arrays |= {
        name: pa.ListArray.from_arrays(at, pa.array(each)) for name, each in zip(_LISTS, values, strict=True)
    }
    arrays[LINE] = pa.array(np.asarray(plain.places, dtype=np.int64) + first)
    return pa.table([arrays[name] for name in ROWS_SCHEMA.names], schema=ROWS_SCHEMA)
