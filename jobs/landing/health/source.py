"""Code shared by the converters of other tools' output: missing facts, times, and events of health/1."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, NamedTuple

from jobs.landing.formats.health import MOST_MESSAGE
from schemas.vocabulary import HEALTH_FORMAT, HEALTH_OK

Record = dict[str, Any]
Lines = Iterable[str]
_AT: Final = re.compile(r"#\s*at\s+(\S+)")


class SourceError(Exception):
    """Raised for output that is not in the stated format, or that lacks what its reader needs."""


@dataclass
class Given:
    """Facts that the output itself may lack, and counts of what was left out.

    host : host that the output is about; at : when it was taken; zone : time zone of times that state none
    columns, words : the settings for a CSV: column or =constant for each key, and replacements of words
    """

    host: str | None = None
    at: datetime | None = None
    zone: tzinfo = UTC
    columns: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)

    def taken_at(self) -> datetime:
        """Return when the output was taken. Raises SourceError if nothing states the time."""
        if self.at is None:
            raise SourceError("the output does not state its time: use --time, or a line '# at TIME'")
        return self.at

    def named_host(self) -> str:
        """Return the host of the output. Raises SourceError if nothing states the host."""
        if self.host is None:
            raise SourceError("the output does not name its host: state it by --host")
        return self.host

    def moves_on(self, line: str) -> bool:
        """Return whether a line states the time of the lines after it ("# at TIME"); if so, set `at`."""
        found = _AT.match(line)
        if found:
            self.at = self.time_of(found[1])
        return found is not None

    def time_of(self, text: str) -> datetime:
        """Return the time in an ISO 8601 text, in the text's zone or the given zone. Raises SourceError."""
        try:
            found = datetime.fromisoformat(text.replace(",", "."))
            found = found if found.tzinfo is not None else found.replace(tzinfo=self.zone)
            found.astimezone(UTC)
        except (ValueError, OverflowError):
            raise SourceError(f"no time: {text[:60]!r}") from None
        return found

    def known_time(self, text: str) -> datetime | None:
        """Return the time in an ISO 8601 text; None for text that is not a time."""
        try:
            return self.time_of(text)
        except SourceError:
            return None


def unix_time(seconds: float, nanos: float = 0) -> datetime | None:
    """Return a Unix time; None if it is beyond the calendar."""
    try:
        return datetime.fromtimestamp(seconds + nanos / 1e9, UTC)
    except (ValueError, OverflowError, OSError):
        return None


Convert = Callable[[Lines, Given], Iterator[Record]]


class Source(NamedTuple):
    """Converter of a tool's output, with a description of its input in one line."""

    convert: Convert
    meaning: str


def record(
    at: datetime, host: str, component: str, check: str, state: str, severity: str, **more: object
) -> Record:
    """Return the result of a check in the landing's format, without fields that are None.

    Raises SourceError for a time that is in no year of UTC.
    """
    known = {name: value for name, value in more.items() if value is not None}
    if isinstance(message := known.get("message"), str):
        known["message"] = message[:MOST_MESSAGE]  # one reason may be repeated for 100,000 nodes
    try:
        time = at.astimezone(UTC).isoformat()
    except OverflowError:
        raise SourceError(f"no time: {at}") from None
    return {
        "format": HEALTH_FORMAT,
        "time": time,
        "host": host,
        "component": component,
        "check": check,
        "state": state,
        "severity": severity,
        **known,
    }


class Grown:
    """Last values of counters, to decide whether a counter has grown or changed since its previous value."""

    def __init__(self) -> None:
        self._before: dict[tuple[object, ...], float] = {}

    def severity(self, key: tuple[object, ...], value: float, severity: str) -> str | None:
        """Return `severity` if a counter has grown, else HEALTH_OK; None for the counter's first value."""
        before, self._before[key] = self._before.get(key), value
        if before is None:
            return None
        return severity if value > before else HEALTH_OK

    def changed(self, key: tuple[object, ...], value: float, severity: str) -> str | None:
        """Return `severity` if a value has changed, but not to 0, else HEALTH_OK; None for a first value."""
        before, self._before[key] = self._before.get(key), value
        if before is None:
            return None
        return severity if value not in (0.0, before) else HEALTH_OK
