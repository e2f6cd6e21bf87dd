"""Health of a day's hosts, read once: every line is judged, the events of a check are folded into spans."""

from collections.abc import Collection, Iterator, Mapping
from datetime import date
from typing import Any, Final

import pyarrow as pa

from jobs.landing.files import LandedFile
from jobs.landing.formats.health import Check, Event, read_event
from jobs.landing.formats.rank_log_line import LineError
from jobs.landing.formats.rows import FileError, Reject, text_of
from jobs.landing.health.spans import spans_of
from jobs.landing.unit_rows import UnitRows
from schemas.tables import TABLES
from schemas.vocabulary import HOST_HEALTH, Reason

MOST_LINES: Final = 1_000_000
MOST_BYTES: Final = 256 << 20
"""Most lines of a day's files together, and their bytes: they are in memory until they are folded."""
MOST_CHECKS: Final = 100_000
"""Most checks of a day: eight on each GPU of ten thousand."""
_SPANS_TOGETHER: Final = 10_000
"""Most rows that are Python objects at once: each takes ten times its size in a table."""


def read_health(rows: UnitRows) -> None:
    """Read the files of a unit of the day; their spans are the health of its account."""
    events: dict[Check, list[Event]] = {}
    names: dict[Check, str] = {}
    lines_left, bytes_left = MOST_LINES, MOST_BYTES
    for file in rows.part.logs:
        try:
            found, rejects, size = _read(rows, file, lines_left, bytes_left, events)
        except FileError as error:
            rows.refuse(file, error.reject)
            continue
        for check, more in found.items():
            events.setdefault(check, []).extend(more)
            names.setdefault(check, file.source_file)
        valid = sum(map(len, found.values()))
        lines_left, bytes_left = lines_left - valid - len(rejects), bytes_left - size
        rows.add_file(file, valid, rejects)
    for file in rows.part.surplus:
        detail = f"the day has more than {rows.bounds.unit_files} files of health"
        rows.refuse(file, Reject(Reason.TOO_MANY_FILES, detail))
    if events:
        rows.account.health = pa.concat_tables(_tables(rows.part.unit.log_date, events, names))


def _tables(
    log_date: date, events: dict[Check, list[Event]], names: Mapping[Check, str]
) -> Iterator[pa.Table]:
    """Rows of host_health, some at a time; consumes the events.

    names : of the file that each check was first in
    """
    schema = TABLES[HOST_HEALTH].arrow_schema
    spans: list[dict[str, Any]] = []
    for check in list(events):
        spans += ({"log_date": log_date, **span} for span in spans_of(check, events.pop(check), names[check]))
        if len(spans) >= _SPANS_TOGETHER or not events:
            yield pa.Table.from_pylist(spans, schema)
            spans = []


def _read(
    rows: UnitRows, file: LandedFile, most_lines: int, most_bytes: int, known: Collection[Check]
) -> tuple[dict[Check, list[Event]], list[Reject], int]:
    """Judge every line of a file: its events, rejects and bytes.

    known : checks of the files before it
    Raises FileError if it has too many lines, or hardly any that are valid.
    """
    events: dict[Check, list[Event]] = {}
    rejects: list[Reject] = []
    number = lines = size = 0
    with rows.files.content(file) as content:
        for block in content.lines(is_packed=file.name.endswith(".gz")):
            size += sum(map(len, block))
            for line in block:
                number += 1
                if not line.strip():
                    continue
                lines += 1
                try:
                    check, event = read_event(line, file.log_date, rows.bounds)
                    events.setdefault(check, []).append(event)
                except LineError as error:
                    rejects.append(Reject(error.reason, error.detail, number, text_of(line)))
            new = len(events) if len(known) + len(events) <= MOST_CHECKS else len(events.keys() - set(known))
            if lines > most_lines or size > most_bytes or len(known) + new > MOST_CHECKS:
                most = f"{MOST_LINES} lines of health on a day, {MOST_BYTES} bytes, or {MOST_CHECKS} checks"
                raise FileError(Reason.FILE_TOO_LARGE, f"more than {most}")
            if len(rejects) > rows.bounds.rejects and 2 * len(rejects) > lines:
                detail = f"{len(rejects)} rejects in {lines} lines"
                raise FileError(Reason.TOO_MANY_REJECTS, detail)
    return events, rejects, size
