"""Reader of a day's health of hosts: every line is checked, and the events of a check become spans.

A check that fails and passes ten times a second becomes one span with a count.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final

import pyarrow as pa

from jobs.landing.files import LandedFile
from jobs.landing.formats.health import EPOCH, Check, Event, read_event
from jobs.landing.formats.rank_log_line import judged
from jobs.landing.formats.rows import FileError, Reject
from jobs.landing.unit_rows import UnitRows
from schemas.tables import TABLES
from schemas.vocabulary import (
    HEALTH_ENDS,
    HEALTH_INFO,
    HEALTH_OK,
    HEALTH_SAMPLE,
    HEALTH_SEVERITIES,
    HEALTH_STARTS,
    HOST_HEALTH,
    Reason,
)

MOST_LINES: Final = 1_000_000
MOST_BYTES: Final = 256 << 20
"""Most lines and bytes of a day's files together: all events are in memory until they become spans."""
MOST_CHECKS: Final = 100_000
"""Most checks of a day: 10,000 GPUs with 8 checks each have 80,000."""
_SPANS_TOGETHER: Final = 10_000
"""Most rows that are Python objects at once, because a row takes ten times as much memory as in a table."""

FOLD_US: Final = 60_000_000
"""Failures of a check at most this far apart belong to one span, even if the check passed between. [us]"""
SAMPLE_US: Final = 600_000_000
"""Failed samples at most this far apart, with no passed one between them, belong to one span; most tools
sample every minute. [us]"""
MOST_SPANS: Final = 100
"""Most spans of one check on one day; if there are more, spans with longer and longer pauses are merged."""

_PASSED: Final = HEALTH_SEVERITIES.index(HEALTH_OK)
_LEAST: Final = HEALTH_SEVERITIES.index(HEALTH_INFO)
_SAME: Final = ("began_before", "is_open", "events", "value_min", "value_max", "unit", "message")


def read_health(rows: UnitRows) -> None:
    """Read the files of a day's health, and store the spans of its checks in the account of the unit."""
    events: dict[Check, list[Event]] = {}
    names: dict[Check, str] = {}  # source_file in which each check occurs first
    lines_left, bytes_left = MOST_LINES, MOST_BYTES
    for file in rows.part.logs:
        try:
            read, rejects, size = _read(rows, file, lines_left, bytes_left, events)
        except FileError as error:
            rows.refuse(file, error.reject)
            continue
        for check, more in read.items():
            events.setdefault(check, []).extend(more)
            names.setdefault(check, file.source_file)
        valid = sum(map(len, read.values()))
        lines_left, bytes_left = lines_left - valid - len(rejects), bytes_left - size
        rows.add_file(file, valid, rejects)
    for file in rows.part.surplus:
        detail = f"the day has more than {rows.bounds.unit_files} files of health"
        rows.refuse(file, Reject(Reason.TOO_MANY_FILES, detail))
    tables: list[pa.Table] = []
    spans: list[dict[str, Any]] = []
    for check in list(events):
        found = spans_of(check, events.pop(check), names[check])
        spans += ({"log_date": rows.part.unit.log_date, **span} for span in found)
        if len(spans) >= _SPANS_TOGETHER or not events:
            tables.append(pa.Table.from_pylist(spans, TABLES[HOST_HEALTH].arrow_schema))
            spans = []
    if tables:
        rows.account.health = pa.concat_tables(tables)


def _read(
    rows: UnitRows, file: LandedFile, most_lines: int, most_bytes: int, known: Collection[Check]
) -> tuple[dict[Check, list[Event]], list[Reject], int]:
    """Check every line of a file; return its events, its rejects and its number of bytes.

    known : checks of earlier files
    Raises FileError if the day has too many lines, bytes or checks, or if most lines are rejected.
    """
    events: dict[Check, list[Event]] = {}
    rejects: list[Reject] = []
    first, valid, size = 1, 0, 0
    judge = partial(read_event, log_date=file.log_date, bounds=rows.bounds)
    with rows.files.content(file) as content:
        for block in content.lines(is_packed=file.name.endswith(".gz")):
            size += sum(map(len, block))
            for _, (check, event) in judged(enumerate(block, first), judge, rejects):
                events.setdefault(check, []).append(event)
                valid += 1
            first, lines = first + len(block), valid + len(rejects)
            new = len(events) if len(known) + len(events) <= MOST_CHECKS else len(events.keys() - set(known))
            if lines > most_lines or size > most_bytes or len(known) + new > MOST_CHECKS:
                most = f"{MOST_LINES} lines of health on a day, {MOST_BYTES} bytes, or {MOST_CHECKS} checks"
                raise FileError(Reason.FILE_TOO_LARGE, f"more than {most}")
            if len(rejects) > rows.bounds.rejects and 2 * len(rejects) > lines:
                detail = f"{len(rejects)} rejects in {lines} lines"
                raise FileError(Reason.TOO_MANY_REJECTS, detail)
    return events, rejects, size


@dataclass
class _Span:
    """Span of time in which a check did not pass, or in which samples of a check passed."""

    first_us: int
    last_us: int
    severity: int
    began_before: bool = False
    is_open: bool = False
    events: int = 0
    value_min: float | None = None
    value_max: float | None = None
    unit: str | None = None
    message: str | None = None

    def add(self, event: Event) -> None:
        self.events += 1
        self.last_us = max(self.last_us, event.at_us)
        self.severity = max(self.severity, event.severity)
        self.unit = self.unit or event.unit
        self.message = self.message or event.message
        self._widen(event.value, event.value)

    def take(self, later: "_Span") -> None:
        self.last_us, self.is_open = max(self.last_us, later.last_us), later.is_open
        self.severity = max(self.severity, later.severity)
        self.events += later.events
        self.unit, self.message = self.unit or later.unit, self.message or later.message
        self._widen(later.value_min, later.value_max)

    def _widen(self, least: float | None, most: float | None) -> None:
        if least is not None and most is not None:
            self.value_min = least if self.value_min is None else min(self.value_min, least)
            self.value_max = most if self.value_max is None else max(self.value_max, most)


def spans_of(check: Check, events: Iterable[Event], source_file: str) -> list[dict[str, Any]]:
    """Return the rows of host_health, without log_date, for the events of one check in any order."""
    failed, passed = _spans(sorted(events, key=lambda event: event.at_us))
    pause_us = FOLD_US
    while len(failed) > MOST_SPANS:
        pause_us *= 2
        spans, failed = failed, []
        for span in spans:
            if failed and span.first_us - failed[-1].last_us <= pause_us:
                failed[-1].take(span)
            else:
                failed.append(span)
    found = [*failed, passed] if passed is not None else failed
    return [
        {
            **check._asdict(),
            "severity": HEALTH_SEVERITIES[span.severity],
            "first_at": EPOCH + timedelta(microseconds=span.first_us),
            "last_at": EPOCH + timedelta(microseconds=span.last_us),
            **{name: getattr(span, name) for name in _SAME},
            "source_file": source_file,
        }
        for span in found
    ]


def _spans(events: Sequence[Event]) -> tuple[list[_Span], _Span | None]:
    """Return the spans in which the check did not pass, in order, and one span of all samples that passed.

    A passed sample also ends an open span, because a tool that reports when a failure starts may never report
    when it ends.
    """
    found: list[_Span] = []
    passed: _Span | None = None
    was_passed = False
    for event in events:
        is_sample = event.state == HEALTH_SAMPLE
        if is_sample and event.severity == _PASSED:
            passed = passed or _Span(event.at_us, event.at_us, _PASSED)
            passed.add(event)
            if found and found[-1].is_open:
                found[-1].is_open, found[-1].last_us = False, event.at_us
            was_passed = True
            continue
        last = found[-1] if found else None
        pause_us = SAMPLE_US if is_sample and not was_passed else FOLD_US
        goes_on = last is not None and (last.is_open or event.at_us - last.last_us <= pause_us)
        if last is None or not goes_on:
            last = _Span(event.at_us, event.at_us, max(event.severity, _LEAST))
            last.began_before = not found and passed is None and event.state == HEALTH_ENDS
            found.append(last)
        last.add(event)
        last.is_open = event.state == HEALTH_STARTS or (is_sample and last.is_open)
        was_passed = False
    return found, passed
