"""Reader of a run's events (format run-events/1): starts, first steps, checkpoints, failures, restarts.

The file has one JSON object per line. A bad line becomes a reject, and does not affect other lines.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from jobs.landing.formats.rank_log_line import (
    NAME,
    LineError,
    bad_type,
    check_choice,
    check_format,
    check_ids,
    check_required,
    judged,
    read_record,
)
from jobs.landing.formats.rows import MOST_TEXT, Bounds, FileError, Reject
from jobs.landing.formats.strict_json import NotANumber, is_integer, is_name, shown
from schemas.ingested_tables import RUN_EVENTS
from schemas.vocabulary import EVENTS, RUN_EVENTS_FORMAT, Reason

MOST_EVENTS: Final = 20_000
"""Most lines of a file, one for every four seconds of a day: a unit's events are in memory together."""
MOST_BYTES: Final = 16 << 20

_REQUIRED: Final = ("format", "job_id", "run_id", "event", "at_us")
_KNOWN: Final = {*_REQUIRED, "step", "duration_us"}
_INT64: Final = 2**63
_LARGEST: Final = float(_INT64)
"""Longest valid duration [us]: sums of longer ones might not be finite."""

EVENT_ROWS: Final = RUN_EVENTS.value_schema.remove(RUN_EVENTS.value_schema.get_field_index("source_file"))


class Events(NamedTuple):
    """Rows and rejects of a file of events; each non-blank line becomes a row or a reject."""

    rows: Sequence[Mapping[str, Any]]
    rejects: Sequence[Reject]


def read_events(blocks: Iterable[Sequence[bytes]], unit: Mapping[str, Any], bounds: Bounds) -> Events:
    """Read lines of events; each non-blank line becomes a row of run_events or a reject.

    unit : job_id and run_id as the folders name them
    Raises FileError for a file of more than MOST_EVENTS lines, or MOST_BYTES.
    """
    lines: list[bytes] = []
    size = 0
    for block in blocks:
        lines += block
        size += sum(map(len, block))
        if len(lines) > MOST_EVENTS or size > MOST_BYTES:
            most = f"{MOST_EVENTS} lines of events, or {MOST_BYTES} bytes"
            raise FileError(Reason.FILE_TOO_LARGE, f"more than {most}")
    rejects: list[Reject] = []
    found = judged(enumerate(lines, start=1), lambda line: _row(line, unit, bounds), rejects)
    return Events([{"line": number} | row for number, row in found], rejects)


def _row(line: bytes, unit: Mapping[str, Any], bounds: Bounds) -> dict[str, Any]:
    record = read_record(line, bounds, _KNOWN)
    check_format(record, RUN_EVENTS_FORMAT)
    check_required(record, _REQUIRED)
    for name in ("job_id", "run_id"):
        if not is_name(record[name], MOST_TEXT):
            raise bad_type(name, record[name], NAME)
    check_choice(record, "event", EVENTS)
    for name in ("at_us", "step"):
        value = record.get(name)
        if value is not None and not is_integer(value, -_INT64, _INT64 - 1):
            raise bad_type(name, value, "an integer of 64 bits")
    duration_us = record.get("duration_us")
    if duration_us is not None and type(duration_us) not in (int, float, NotANumber):
        raise bad_type("duration_us", duration_us, "a number")
    for name in ("at_us", "duration_us"):
        if (record.get(name) or 0) < 0:
            raise LineError(Reason.NEGATIVE_TIME, f"{name} is {shown(record[name])}")
    if duration_us is not None and not duration_us <= _LARGEST:
        raise LineError(Reason.NOT_FINITE, f"duration_us is {shown(duration_us)}")
    check_ids(record, unit)
    row = {name: record.get(name) for name in EVENT_ROWS.names if name != "line"}
    return row | {"duration_us": None if duration_us is None else float(duration_us)}
